"""What a worker does on its node, without Ray: it fetches its share, and watches the program that serves it."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ..errors import ClusterError
from . import authority, direct, leash, local
from .files import MANIFEST, NOTES, Folder, fetch, masked
from .program import Program

ENDS = 40.0
"""Seconds in which a program that was told to stop does: one that goes on for a second finishes batches for half a minute."""
_TIMEOUT = 2.0
_PAUSE = (1.0, 30.0)
_DAMAGED = "copy the snapshot again"
"""What the program says of a file that is not what the manifest says."""


@dataclass(frozen=True)
class Task:
    """What a worker is to serve, and with what."""

    number: int
    cluster: str
    database: str
    version: str
    url: str
    share: int
    shards: int
    threads: int
    options: tuple[str, ...]
    work: str
    gpus: bool = False


def _mark(folder: Path) -> IO[str]:
    """A file that each worker of the machine has locked, together with the others, that uses a share's folder."""
    return (folder.parent / f".{folder.name}.use").open("w")


def _remove_unused(folder: Path, mark: IO[str]) -> None:
    """Removes a share's files unless another worker than the one with this mark uses them."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)


class Work:
    """A share that is fetched and served, in a thread of its own; `report` says how far it is."""

    def __init__(self, task: Task, host: str, command: Callable[..., list[str]] = leash.command) -> None:
        self._task, self._host, self._command = task, host, command
        # What a machine has stays when Ray starts there again, and calls it another node.
        within = Path(task.work) / task.cluster
        self._database = within / "shares" / task.database
        self.folder = self._database / local.component(task.version) / f"{task.share}-of-{task.shards}"
        self._own = within / f"worker-{task.number}"
        self._own.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._in_use: IO[str] | None = None
        self._identity = authority.Identity.within(self._own / "identity")
        self._request = authority.request(host)
        self._certified = threading.Event()
        self._renewing = True
        self._stopping = threading.Event()
        self._program: Program | None = None
        self._fetched, self._of, self._trouble = 0, 0, ""
        self._complete, self._again = False, False
        self._thread = threading.Thread(target=self._serve, name="work", daemon=True)
        self._thread.start()

    def report(self) -> dict[str, Any]:
        """Where it is: `starting` or `ready`, its address, what it has fetched, and a request that wants to be signed."""
        program = self._program
        said = None if program is None else program.said
        if not self._renewing and time.time() >= self._identity.renew_at():
            self._request, self._renewing = authority.request(self._host), True
        return {
            "phase": "starting" if said is None else "ready",
            "address": None if said is None else said["address"],
            "bytes": None if said is None else said["bytes"],
            "fetched": self._fetched,
            "of": self._of,
            "restarts": 0 if program is None else program.restarts,
            "pid": None if program is None else program.pid,
            "request": self._request.request if self._renewing else None,
            "trouble": self._trouble or (masked(program.trouble) if program is not None and said is None else ""),
        }

    def certify(self, certificate: bytes, trusted: bytes) -> None:
        """Takes the certificate that was asked for, and whom to trust. The program reads it within a second."""
        self._identity.install(self._request.key, certificate, trusted)
        self._renewing = False
        self._certified.set()

    def metrics(self) -> str:
        """What the program's metrics are now; nothing while it does not serve."""
        program = self._program
        said = None if program is None else program.said
        if said is None:
            return ""
        return direct.read(said["metrics"], _TIMEOUT).decode()

    def stop(self, forget: bool = False) -> None:
        """Finishes what was accepted, ends, and removes what it kept; with `forget` the share's files too, unless another
        worker of this node has them."""
        self._stopping.set()
        self._certified.set()
        self._thread.join()
        if self._program is not None:
            self._program.stop(ENDS)
        shutil.rmtree(self._own, ignore_errors=True)
        mark, self._in_use = self._in_use, None
        if mark is not None:
            with mark:
                if forget:
                    _remove_unused(self.folder, mark)

    def _serve(self) -> None:
        pause = _PAUSE[0]
        while not self._stopping.is_set():
            try:
                self._bring()
                break
            except (ClusterError, OSError) as error:
                self._trouble = masked(str(error))
            except Exception:
                self._trouble = masked(traceback.format_exc(limit=3))
            self._stopping.wait(pause)
            pause = min(2 * pause, _PAUSE[1])
        self._certified.wait()
        if not self._stopping.is_set():
            self._program = Program(self._arguments, self._own / "log", self._failed)

    def _bring(self) -> None:
        """What the share needs, once for all workers of the node that have it."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        if self._in_use is None:
            mark = _mark(self.folder)
            # As long as it is held nobody removes the files; it waits for one who does.
            fcntl.flock(mark, fcntl.LOCK_SH)
            self._in_use = mark
            self._clean()
        self.folder.mkdir(exist_ok=True)
        source = Folder(self._task.url)
        with (self.folder.parent / f".{self.folder.name}.fetch").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            manifest = source.published(self._task.version)
            fetch(source, manifest.share(self._task.share, self._task.shards), self.folder, self._progress)
            local.write(self.folder, MANIFEST, manifest.content)
        self._trouble, self._complete = "", True

    def _clean(self) -> None:
        """Removes what workers of other versions have left that could not end as they should."""
        for folder in self._database.glob("*/*-of-*"):
            if folder.parent != self.folder.parent and folder.is_dir():
                with _mark(folder) as mark:
                    _remove_unused(folder, mark)

    def _progress(self, done: int, of: int) -> None:
        self._fetched, self._of = done, of

    def _failed(self, said: str) -> None:
        """What the program said that ended before it served. Bytes that were damaged on their way or here are fetched again,
        once: what is damaged then is so in the store."""
        if _DAMAGED in said and not self._again:
            (self.folder / NOTES).unlink(missing_ok=True)
            self._complete, self._again = False, True

    def _arguments(self, former: Mapping[str, Any] | None) -> list[str]:
        if not self._complete:
            self._bring()
        task, identity = self._task, self._identity
        # Under the address that it had, so that the coordinator need not be told.
        listen = f"{self._host}:0" if former is None else former["address"].removeprefix("https://")
        return self._command(
            "worker", "--snapshot", str(self.folder), "--snapshot-version", task.version, "--share",
            f"{task.share}/{task.shards}", "--listen", listen,
            "--tls-cert", str(identity.certificate), "--tls-key", str(identity.key), "--client-ca", str(identity.trusted),
            "--threads", str(task.threads), "--metrics", "127.0.0.1:0", *(("--backend", "auto") if task.gpus else ()),
            *task.options,
        )  # fmt: skip
