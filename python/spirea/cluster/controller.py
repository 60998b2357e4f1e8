"""The controller: an actor that Ray starts again when it dies, with what it had written down."""

from __future__ import annotations

import json
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayTaskError

from ..errors import ClusterError
from . import actors, authority, scrape, state, status
from . import config as configs
from .authority import Authority
from .config import Config
from .files import Folder, Manifest, masked
from .pages import Pages
from .state import State

_PATIENCE = 5.0
_MEMORY = (1.1, 512 << 20)
"""What a worker's memory is reckoned to be: its share's bytes times so much, and so many bytes for what queries take."""


class Controller:
    """Keeps a cluster as its configuration says. Its folder `state` has all that it must remember."""

    def __init__(self, config: Config) -> None:
        self._folder = Path(config.state)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._authorities = {role: Authority(self._folder / "authorities", role) for role in authority.ROLES}
        self._kept = self._folder / "state.json"
        self._text = self._kept.read_text(encoding="utf-8") if self._kept.exists() else ""
        self._state = State.from_json(self._text) if self._text else State()
        if self._state.stopping and not any(self._state.replicas()):
            # Of a cluster that was ended; this is another one, which goes on counting workers.
            self._state = State(next_number=self._state.next_number)
        # A controller that Ray starts again is given the configuration that the first one was.
        latest = self._folder / "config.json"
        self._config = config
        self._lock = threading.RLock()
        self._hands = actors.Hands(config)
        self._latest = latest
        if latest.exists() and self._state.databases:
            self.configure(configs.from_json(latest.read_text(encoding="utf-8")))
        self._gateway = actors.gateway(self._config)
        self._standing: dict[str, Any] = {}
        self._coordinator: dict[str, Any] = {}
        self._placed: dict[str, Any] | None = None
        self._trouble = ""
        self._ended = threading.Event()
        operations = self._config.operations
        self._pages = Pages(operations.listen, self.status, self.metrics, operations.hosts)
        self._thread = threading.Thread(target=self._run, name="controller", daemon=True)
        self._thread.start()

    def configure(self, config: Config) -> None:
        """Takes a configuration in place of the one before."""
        with self._lock:
            self._config = self._hands.config = config
            authority.write_secret(self._latest, configs.to_json(config).encode())

    def publish(self, name: str, url: str, version: str, *, may_shrink: bool = False) -> None:
        """Has a version, whose snapshot is in a folder that all nodes reach, take the place of what is served. `may_shrink`
        takes one that has less than half of the values, too.

        Raises `ClusterError`.
        """
        database = self._config.database(name)
        if database is None:
            raise ClusterError(f"there is no database {name}; add it to the configuration, and give `cluster up` again")
        manifest = Folder(url).published(version)
        memory = self._memory(manifest, database.shards)
        with self._lock:
            if not may_shrink:
                state.check_shrinking(self._state, database, manifest.entries)
            if state.publish(self._state, database, version, url, memory, manifest.entries, time.time()):
                self._keep()

    def _memory(self, manifest: Manifest, shards: int) -> list[int]:
        """Bytes that the worker of each share is given."""
        given = self._config.workers.memory
        factor, more = _MEMORY
        shares = [manifest.share(share, shards) for share in range(shards)]
        return [given or int(sum(file.bytes() for file in files) * factor) + more for files in shares]

    def down(self) -> None:
        """Has all workers finish and end; `status` says when none is left."""
        with self._lock:
            self._state.stopping = True
            self._keep()

    def status(self) -> dict[str, Any]:
        """How everything is."""
        with self._lock:
            reports = {replica.number: self._hands.report(replica.number) for _, _, replica in self._state.replicas()}
            return status.document(self._config, self._state, reports, self._standing, self._coordinator, self._trouble)

    def metrics(self) -> str:
        """The metrics of all programs, and of the cluster, as one page."""
        with self._lock:
            labelled = {
                replica.number: {
                    "database": served.name,
                    "share": str(replica.share),
                    "replica": str(replica.number),
                    "node": replica.node or "",
                }
                for served, _, replica in self._state.replicas()
                if replica.phase == "ready"
            }
            document = self.status()
        pages: list[tuple[dict[str, str], str]] = [({}, page) for page in status.gauges(document)]
        pages += [(labelled[number], page) for number, page in self._hands.metrics(list(labelled)).items()]
        said = actors.ask(self._gateway.asked.remote("/metrics"), _PATIENCE)
        if said is not None:
            pages.append(({"component": "coordinator"}, said.decode()))
        return scrape.merged(pages)

    def _run(self) -> None:
        while not self._ended.is_set():
            started = time.monotonic()
            try:
                self._tick()
                self._trouble = ""
            except Exception as error:
                # Whatever it was, the next round may find it gone; who looks at the status is told.
                said = str(error) if isinstance(error, ClusterError) else traceback.format_exc(limit=4)
                self._trouble = masked(said)
            self._ended.wait(max(0.0, self._config.timing.tick - (time.monotonic() - started)))

    def _tick(self) -> None:
        with self._lock:
            numbers = [replica.number for _, _, replica in self._state.replicas()]
        seen = self._hands.look(numbers)
        self._stand()
        with self._lock:
            told = status.told(self._coordinator, self._state)
            # Wall-clock time, since a controller that starts again goes on with it.
            actions = state.advance(self._state, self._config, seen, told, time.time())
            self._keep()
            placement = state.placement(self._state, self._standing.get("folders", {}))
        if placement != self._placed:
            ray.get(self._gateway.place.remote(placement), timeout=_PATIENCE)
            self._placed = placement
        for action in actions:
            match action:
                case state.Start():
                    self._hands.start(action)
                case state.Stop():
                    self._hands.stop(action.number, forget=action.forget)
        self._sign(numbers)

    def _stand(self) -> None:
        """What stands beside the coordinator, what the coordinator says, and the versions whose files it needs."""
        standing = actors.ask(self._gateway.report.remote(), _PATIENCE)
        if standing is None:
            return
        # One that was started again has no certificate yet, and what it was told is in its file.
        self._standing = standing
        with self._lock:
            versions = {v.version: v.url for served in self._state.databases.values() for v in served.versions}
        for version in set(standing["folders"]) - set(versions):
            self._gateway.forget.remote(version)
        for version, url in versions.items():
            if version not in standing["folders"]:
                self._gateway.prepare.remote(version, url)
        if standing["request"] is not None:
            signed = self._signed(authority.COORDINATORS, standing["request"], authority.COORDINATOR)
            self._gateway.certify.remote(*signed)
        try:
            said = ray.get(self._gateway.asked.remote("/v1/placement"), timeout=_PATIENCE)
            self._coordinator = json.loads(said)
        except (RayTaskError, ValueError) as error:
            cause = getattr(error, "cause", error)
            self._coordinator = {"error": str(cause)}

    def _sign(self, numbers: list[int]) -> None:
        """Signs what workers want signed, each for the address where Ray placed it.

        Raises `ClusterError` for requests that were refused, when all others are signed.
        """
        refused = []
        for number in numbers:
            request, host = self._hands.report(number).get("request"), self._hands.host(number)
            if request is None or host is None:
                continue
            try:
                certificate, trusted = self._signed(authority.WORKERS, request, host)
            except ClusterError as error:
                refused.append(f"worker {number}: {error}")
                continue
            self._hands.certify(number, certificate, trusted)
        if refused:
            raise ClusterError("; ".join(refused))

    def _signed(self, role: str, request: bytes, host: str) -> tuple[bytes, bytes]:
        other = authority.WORKERS if role == authority.COORDINATORS else authority.COORDINATORS
        certificate = self._authorities[role].sign(request, self._config.timing.certificates, host)
        return certificate, self._authorities[other].certificate

    def _keep(self) -> None:
        text = self._state.to_json()
        if text == self._text:
            return
        # It holds the URLs of snapshots, which may hold keys of a store.
        authority.write_secret(self._kept, text.encode())
        self._text = text
