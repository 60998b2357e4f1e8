"""The controller: an actor that Ray restarts when it dies. It continues from its saved state."""

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
from .files import Folder, masked
from .memory import planned
from .pages import Pages
from .state import State

_PATIENCE = 5.0


class Controller:
    """Keeps a cluster in the state that its configuration demands. The folder `state` has everything that must survive a
    restart."""

    def __init__(self, config: Config) -> None:
        self._folder = Path(config.state)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._authorities = {role: Authority(self._folder / "authorities", role) for role in authority.ROLES}
        self._kept = self._folder / "state.json"
        self._text = self._kept.read_text(encoding="utf-8") if self._kept.exists() else ""
        self._state = State.from_json(self._text) if self._text else State()
        if self._state.stopping and not any(self._state.replicas()):
            # The state is that of a cluster that was ended. The new cluster continues its worker numbers.
            self._state = State(next_number=self._state.next_number)
        # Ray restarts a controller with the first configuration; the file has the latest.
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
        """Replaces the configuration."""
        with self._lock:
            self._config = self._hands.config = config
            authority.write_secret(self._latest, configs.to_json(config).encode())

    def publish(self, name: str, url: str, version: str, *, may_shrink: bool = False) -> None:
        """Replaces the served version of a database by another, whose snapshot is in a folder that all nodes can reach.

        `may_shrink` also accepts a version with less than half of the values.

        Raises `ClusterError`.
        """
        database = self._config.database(name)
        if database is None:
            raise ClusterError(f"there is no database {name}; add it to the configuration, and give `cluster up` again")
        manifest = Folder(url).published(version)
        shares, workers = range(database.shards), self._config.workers
        memory = [planned(manifest.share(share, database.shards), workers.memory, workers.options) for share in shares]
        with self._lock:
            if not may_shrink:
                state.check_shrinking(self._state, database, manifest.entries)
            if state.publish(self._state, database, version, url, memory, manifest.entries, time.time()):
                self._keep()

    def down(self) -> None:
        """Tells all workers to finish and end. `status` shows when none is left."""
        with self._lock:
            self._state.stopping = True
            self._keep()

    def status(self) -> dict[str, Any]:
        """Returns the status of the whole cluster."""
        with self._lock:
            reports = {replica.number: self._hands.report(replica.number) for _, _, replica in self._state.replicas()}
            return status.document(self._config, self._state, reports, self._standing, self._coordinator, self._trouble)

    def metrics(self) -> str:
        """Returns the metrics of all programs and of the cluster, as one page."""
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
                # The loop goes on after any error, because the next round may succeed. The status shows the error.
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
            # Wall-clock time, which is still valid after a restart of the controller.
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
        """Reads the reports of gateway and coordinator. Has the gateway fetch and remove the files of versions."""
        standing = actors.ask(self._gateway.report.remote(), _PATIENCE)
        if standing is None:
            return
        # A restarted gateway has no certificate yet; its placement is in its file.
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
        """Signs the requests of workers, each for the address where Ray placed the worker.

        Raises `ClusterError` for refused requests, after signing all others.
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
        # The state holds URLs of snapshots, which may contain keys of a store.
        authority.write_secret(self._kept, text.encode())
        self._text = text
