"""A watched program: it is restarted whenever it ends, until it is told to stop."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_LEAST_PAUSE, _MOST_PAUSE = 0.2, 30.0
_LOG_BYTES = 4 << 20
_LOOKS = 10.0
"""Seconds between two checks of the log's length."""
_TAIL_BYTES = 2000


class Program:
    """Runs one program at a time, from a thread that lives until `stop`.

    The program announces that it is ready by a JSON line with `"ready": true` on its standard output. `command` returns the
    arguments of each start, given the program's last announcement, so that it can come back under its former address. `failed`
    is called with the end of the log if the program ends before it is ready.
    """

    def __init__(
        self,
        command: Callable[[Mapping[str, Any] | None], list[str]],
        log: Path,
        failed: Callable[[str], None] = lambda said: None,
    ) -> None:
        self._command, self._log, self._failed = command, log, failed
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._said: Mapping[str, Any] | None = None
        self._former: Mapping[str, Any] | None = None
        self._restarts = 0
        self._trouble = ""
        self._thread = threading.Thread(target=self._watch, name="watch", daemon=True)
        self._thread.start()
        threading.Thread(target=self._keep_short, name="log", daemon=True).start()

    @property
    def said(self) -> Mapping[str, Any] | None:
        """Announcement of the running program; `None` before it is ready."""
        return self._said

    @property
    def restarts(self) -> int:
        """Number of restarts."""
        return self._restarts

    @property
    def pid(self) -> int | None:
        """Process id of the running program; `None` if it does not run."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    @property
    def trouble(self) -> str:
        """Known reason why the program does not run: the error of its start, or the last lines of its log."""
        return self._trouble or self._tail(0)

    def _tail(self, since: int) -> str:
        """Returns the last lines of the log, at most those from byte `since` on."""
        try:
            with self._log.open("rb") as log:
                log.seek(max(since, log.seek(0, 2) - _TAIL_BYTES))
                return log.read().decode(errors="replace").strip()
        except OSError:
            return ""

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the running program."""
        with self._lock:
            if self._process is not None:
                self._process.send_signal(number)

    def stop(self, patience: float) -> None:
        """Lets the program finish its work for at most `patience` seconds, then kills it."""
        self._stopping.set()
        self.signal(signal.SIGTERM)
        self._thread.join(patience)
        if self._thread.is_alive():
            self.signal(signal.SIGKILL)
            self._thread.join()

    def _watch(self) -> None:
        pause = _LEAST_PAUSE
        while not self._stopping.is_set():
            was_ready = False
            try:
                was_ready = self._run()
                self._trouble = ""
            except Exception as error:
                # Any cause, such as a full disk, may pass, and nothing else would restart the program.
                self._trouble = f"it cannot be started: {error}"
            if self._stopping.is_set():
                return
            pause = _LEAST_PAUSE if was_ready else min(2 * pause, _MOST_PAUSE)
            self._stopping.wait(pause)
            self._restarts += 1

    def _run(self) -> bool:
        """Runs the program once. Returns True if it became ready."""
        command = self._command(self._former)
        with self._log.open("a") as log, self._lock:
            if self._stopping.is_set():
                return False
            began = log.tell()
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, errors="replace"
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
        if not was_ready:
            self._failed(self._tail(began))
        with self._log.open("a") as log:
            log.write(f"{time.strftime('%FT%TZ', time.gmtime())} the program ended with exit code {ended}\n")
        return was_ready

    def _keep_short(self) -> None:
        """Truncates the log when it is long. The program appends, so it continues at the new end."""
        while not self._stopping.wait(_LOOKS):
            with contextlib.suppress(OSError):
                if self._log.stat().st_size > _LOG_BYTES:
                    try:
                        shutil.copyfile(self._log, self._log.with_suffix(".old"))
                    finally:
                        os.truncate(self._log, 0)
