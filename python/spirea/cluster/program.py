"""A program that is watched: it is started again whenever it ends, until it is told to stop."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_LEAST_PAUSE, _MOST_PAUSE = 0.2, 30.0
_LOG_BYTES = 4 << 20
_TAIL_BYTES = 2000


class Program:
    """One program at a time, started by a thread of its own that lives as long as it may run.

    `command` gives the arguments of each start, from what the program said when it was last ready: so it can come back under
    the address that it had. A line of JSON on its standard output that says `"ready": true` is what it says.
    """

    def __init__(self, command: Callable[[Mapping[str, Any] | None], list[str]], log: Path) -> None:
        self._command, self._log = command, log
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._said: Mapping[str, Any] | None = None
        self._former: Mapping[str, Any] | None = None
        self._restarts = 0
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)
        self._thread.start()

    @property
    def said(self) -> Mapping[str, Any] | None:
        """What the program that runs now said when it was ready; nothing if it is not."""
        return self._said

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return self._restarts

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def tail(self) -> str:
        """The last lines of its log."""
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, log.seek(0, 2) - _TAIL_BYTES))
                return log.read().decode(errors="replace").strip()
        except FileNotFoundError:
            return ""

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to what runs now."""
        with self._lock:
            if self._process is not None:
                self._process.send_signal(number)

    def stop(self, patience: float) -> None:
        """Lets it finish what it has, for so many seconds, and ends it."""
        self._stopping.set()
        self.signal(signal.SIGTERM)
        self._thread.join(patience)
        if self._thread.is_alive():
            self.signal(signal.SIGKILL)
            self._thread.join()

    def _watch(self) -> None:
        pause = _LEAST_PAUSE
        while not self._stopping.is_set():
            was_ready = self._run()
            if self._stopping.is_set():
                return
            pause = _LEAST_PAUSE if was_ready else min(2 * pause, _MOST_PAUSE)
            self._stopping.wait(pause)
            self._restarts += 1

    def _run(self) -> bool:
        """One life of the program; whether it was ready in it."""
        if self._log.exists() and self._log.stat().st_size > _LOG_BYTES:
            self._log.replace(self._log.with_suffix(".old"))
        with self._log.open("a") as log, self._lock:
            if self._stopping.is_set():
                return False
            process = subprocess.Popen(
                self._command(self._former), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )
            self._process = process
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                with contextlib.suppress(ValueError):
                    said = json.loads(line)
                    if isinstance(said, dict) and said.get("ready") is True:
                        self._said = self._former = said
        ended = process.wait()
        was_ready, self._said = self._said is not None, None
        with self._log.open("a") as log:
            log.write(f"{time.strftime('%FT%TZ', time.gmtime())} the program ended with exit code {ended}\n")
        return was_ready
