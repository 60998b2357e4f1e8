"""The worker on its node, without Ray: it fetches its share, and watches the program that serves the share."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ..errors import ClusterError
from . import authority, direct, leash, local
from .files import MANIFEST, NOTES, Folder, fetch, masked
from .memory import limits
from .program import Program

ENDS = 40.0
"""Seconds that a program may take to stop: it goes on for a second, then finishes batches for half a minute."""
_TIMEOUT = 2.0
_PAUSE = (1.0, 30.0)
_DAMAGED = "copy the snapshot again"
"""Part of the program's message on a file that differs from the manifest."""


@dataclass(frozen=True)
class Task:
    """Task of a worker: its share, and its resources. `memory` is what Ray reserved, in bytes."""

    number: int
    cluster: str
    database: str
    version: str
    url: str
    share: int
    shards: int
    memory: int
    threads: int
    options: tuple[str, ...]
    work: str
    gpus: bool = False


def _mark(folder: Path) -> IO[str]:
    """Opens the lock file of a share's folder. All workers of the machine that use the folder hold a shared lock on it."""
    return (folder.parent / f".{folder.name}.use").open("w")


def _remove_unused(folder: Path, mark: IO[str]) -> None:
    """Removes a share's files unless another worker, with a mark of its own, uses them."""
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)


class Work:
    """Fetches and serves a share, in a thread; `report` has the progress."""

    def __init__(self, task: Task, host: str, command: Callable[..., list[str]] = leash.command) -> None:
        self._task, self._host, self._command = task, host, command
        # The path does not contain Ray's node id, so files survive a restart of Ray, which assigns a new id.
        within = Path(task.work) / task.cluster
        self._database = within / "shares" / task.database
        self.folder = self._database / local.component(task.version) / f"{task.share}-of-{task.shards}"
        self._own = within / f"worker-{task.number}"
        self._own.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._in_use: IO[str] | None = None
        self._identity = authority.Identity(self._own / "identity", host)
        self._certified = threading.Event()
        self._stopping = threading.Event()
        self._program: Program | None = None
        self._fetched, self._of, self._trouble = 0, 0, ""
        self._complete, self._again = False, False
        self._limits: tuple[str, ...] = ()
        self._thread = threading.Thread(target=self._serve, name="work", daemon=True)
        self._thread.start()

    def report(self) -> dict[str, Any]:
        """Returns the phase (`starting` or `ready`), the address, the bytes fetched, the signing request, and any trouble."""
        program = self._program
        said = None if program is None else program.said
        return {
            "phase": "starting" if said is None else "ready",
            "address": None if said is None else said["address"],
            "bytes": None if said is None else said["bytes"],
            "fetched": self._fetched,
            "of": self._of,
            "restarts": 0 if program is None else program.restarts,
            "pid": None if program is None else program.pid,
            "request": self._identity.request(),
            "trouble": self._trouble
            or self._identity.trouble
            or (masked(program.trouble) if program is not None and said is None else ""),
        }

    def certify(self, certificate: bytes, trusted: bytes) -> None:
        """Installs the requested certificate and the trusted authority. The program reads them within a second."""
        self._identity.install(certificate, trusted)
        if self._identity.request() is None:
            self._certified.set()

    def metrics(self) -> str:
        """Returns the program's current metrics; empty while it does not serve."""
        program = self._program
        said = None if program is None else program.said
        if said is None:
            return ""
        return direct.read(said["metrics"], _TIMEOUT).decode()

    def stop(self, forget: bool = False) -> None:
        """Finishes accepted requests, ends, and removes the worker's own files. With `forget`, also removes the share's files,
        unless another worker of this node uses them."""
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
        """Fetches the files of the share, once for all workers of the node that serve it."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        if self._in_use is None:
            mark = _mark(self.folder)
            # The lock prevents removal of the files, and waits for a removal in progress.
            fcntl.flock(mark, fcntl.LOCK_SH)
            self._in_use = mark
            self._clean()
        self.folder.mkdir(exist_ok=True)
        source = Folder(self._task.url)
        with (self.folder.parent / f".{self.folder.name}.fetch").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            manifest = source.published(self._task.version)
            files = manifest.share(self._task.share, self._task.shards)
            fetch(source, files, self.folder, self._progress)
            local.write(self.folder, MANIFEST, manifest.content)
        self._limits = limits(self._task.memory, files, self._task.options)
        self._trouble, self._complete = "", True

    def _clean(self) -> None:
        """Removes files of other versions whose workers did not end properly."""
        for folder in self._database.glob("*/*-of-*"):
            if folder.parent != self.folder.parent and folder.is_dir():
                with _mark(folder) as mark:
                    _remove_unused(folder, mark)

    def _progress(self, done: int, of: int) -> None:
        self._fetched, self._of = done, of

    def _failed(self, said: str) -> None:
        """Handles a program that ended before it served; `said` is the end of its log. Damaged files are fetched again once:
        if they are still damaged, they are damaged in the store."""
        if _DAMAGED in said and not self._again:
            (self.folder / NOTES).unlink(missing_ok=True)
            self._complete, self._again = False, True

    def _arguments(self, former: Mapping[str, Any] | None) -> list[str]:
        if not self._complete:
            self._bring()
        task, identity = self._task, self._identity
        # Reuses the former address, so that the coordinator's placement stays valid.
        listen = f"{self._host}:0" if former is None else former["address"].removeprefix("https://")
        return self._command(
            "worker", "--snapshot", str(self.folder), "--snapshot-version", task.version, "--share",
            f"{task.share}/{task.shards}", "--listen", listen,
            "--tls-cert", str(identity.certificate), "--tls-key", str(identity.key), "--client-ca", str(identity.trusted),
            "--threads", str(task.threads), "--metrics", "127.0.0.1:0", *(("--backend", "auto") if task.gpus else ()),
            *self._limits, *task.options,
        )  # fmt: skip
