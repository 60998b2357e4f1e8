"""The coordinator on its node, without Ray: its folders, its certificates, and the program itself."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import _spirea
from ..errors import ClusterError
from . import authority, direct, leash, local
from .config import Config
from .files import MANIFEST, NOTES, SIGNATURE, Folder, Manifest, fetch, masked
from .program import Program

_PATIENCE = 40.0
"""Seconds that the coordinator may take to end; it finishes requests for half a minute."""
_TIMEOUT = 2.0
_PAUSE = (1.0, 60.0)
"""Pause in seconds after the first failure to fetch a version, and the longest pause after many."""


class Gateway:
    """Runs the coordinator and fetches its files. It goes on when the controller dies."""

    def __init__(self, config: Config, command: Callable[..., list[str]] = leash.command) -> None:
        self._config, self._command = config, command
        self._work = Path(config.work) / config.name / "coordinator"
        self._work.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._placement = self._work / "placement.json"
        self._identity = authority.Identity(self._work / "identity", authority.COORDINATOR)
        self._program: Program | None = None
        # Ray runs calls of the controller at the same time.
        self._lock = threading.Lock()
        if not self._placement.exists():
            self.place({"databases": []})
        # Folders of a former gateway that died; its placement named complete versions only.
        self._folders = {version: path for version, path in self._placed() if Folder(path).exists(MANIFEST)}
        self._fetching: dict[str, threading.Thread] = {}
        self._pauses: dict[str, float] = {}
        self._trouble = ""

    def report(self) -> dict[str, Any]:
        """Returns the folders of the fetched versions, the signing request, the program's process, and any trouble."""
        program = self._program
        return {
            "folders": dict(self._folders),
            "request": self._identity.request(),
            "pid": None if program is None else program.pid,
            "restarts": 0 if program is None else program.restarts,
            "trouble": self._trouble
            or self._identity.trouble
            or ("" if program is None or program.pid is not None else masked(program.trouble)),
        }

    def certify(self, certificate: bytes, trusted: bytes) -> None:
        """Installs the requested certificate. The first one starts the coordinator."""
        self._identity.install(certificate, trusted)
        with self._lock:
            if self._program is None and self._identity.request() is None:
                self._program = Program(self._arguments, self._work / "log")

    def prepare(self, version: str, url: str) -> None:
        """Fetches the coordinator's files of a version, in a thread."""
        with self._lock:
            if version in self._folders or version in self._fetching:
                return
            thread = threading.Thread(target=self._bring, args=(version, url), daemon=True)
            self._fetching[version] = thread
            thread.start()

    def _bring(self, version: str, url: str) -> None:
        try:
            folder, source = self._work / local.component(version), Folder(url)
            self._fetch(source, source.published(version), folder)
            self._folders[version], self._trouble = str(folder), ""
            self._pauses.pop(version, None)
        except (ClusterError, OSError) as error:
            self._trouble = masked(str(error))
            pause = self._pauses.get(version, _PAUSE[0])
            self._pauses[version] = min(2 * pause, _PAUSE[1])
            time.sleep(pause)
        finally:
            del self._fetching[version]

    def _fetch(self, source: Folder, manifest: Manifest, folder: Path) -> None:
        """Fetches and verifies the coordinator's files of a version.

        Raises `ClusterError`. The next attempt fetches damaged files again.
        """
        fetch(source, manifest.beside_matrix(), folder)
        if source.exists(SIGNATURE):
            local.write(folder, SIGNATURE, source.read(SIGNATURE))
        local.write(folder, MANIFEST, manifest.content)
        try:
            _spirea.verify_beside_matrix(str(folder))
        except ClusterError:
            (folder / NOTES).unlink(missing_ok=True)
            (folder / MANIFEST).unlink()
            raise

    def forget(self, version: str) -> None:
        """Removes the files of a version that is no longer served."""
        if (folder := self._folders.pop(version, None)) is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def place(self, placement: Mapping[str, Any]) -> None:
        """Writes the placement of workers to the file that the coordinator watches."""
        with self._lock:
            partial = self._placement.with_suffix(".partial")
            partial.write_text(json.dumps(placement, indent=1), encoding="utf-8")
            os.replace(partial, self._placement)

    def _placed(self) -> Iterator[tuple[str, str]]:
        """Yields the versions and folders in the coordinator's placement."""
        for database in json.loads(self._placement.read_bytes())["databases"]:
            for snapshot in database["snapshots"]:
                # Placements of former releases have no version.
                if (version := snapshot.get("version")) is not None:
                    yield version, snapshot["path"]

    def asked(self, path: str) -> bytes:
        """Returns the coordinator's response on its administration port.

        Raises `ClusterError` while it does not answer.
        """
        coordinator = self._config.coordinator
        headers = {}
        if coordinator.admin_token_file is not None:
            token = Path(coordinator.admin_token_file).read_text(encoding="ascii").strip()
            headers["Authorization"] = f"Bearer {token}"
        scheme = "http" if coordinator.certificate is None else "https"
        request = urllib.request.Request(f"{scheme}://{coordinator.admin}{path}", headers=headers)
        try:
            return direct.read(request, _TIMEOUT, self._context())
        except (OSError, urllib.error.URLError) as error:
            raise ClusterError(f"the coordinator does not answer at {coordinator.admin}: {error}") from error

    def _context(self) -> ssl.SSLContext | None:
        certificate = self._config.coordinator.certificate
        if certificate is None:
            return None
        # Trusts exactly the coordinator's own certificate, for any name: the request stays on this machine.
        context = ssl.create_default_context(cafile=certificate)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.check_hostname = False
        return context

    def stop(self) -> None:
        """Finishes accepted requests, ends, and removes the files."""
        if self._program is not None:
            self._program.stop(_PATIENCE)
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._work)

    def _arguments(self, _: Mapping[str, Any] | None) -> list[str]:
        coordinator, identity = self._config.coordinator, self._identity
        further = list(coordinator.options)
        if coordinator.certificate is not None and coordinator.key is not None:
            further += ["--tls-certificate", coordinator.certificate, "--tls-key", coordinator.key]
        if coordinator.tokens is not None:
            further += ["--tokens", coordinator.tokens]
        return self._command(
            "coordinator", "--listen", coordinator.listen, "--admin", coordinator.admin,
            "--placement", str(self._placement), "--worker-ca", str(identity.trusted),
            "--tls-client-cert", str(identity.certificate), "--tls-client-key", str(identity.key), *further,
        )  # fmt: skip
