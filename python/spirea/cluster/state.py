"""State and decisions of the controller, without Ray, without I/O and without a clock.

`State` survives the controller's death. `advance` takes the latest observations of the workers and returns actions. The caller
must save the state before it acts, so that a restarted controller knows of every action.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ..errors import ClusterError
from .config import Config, Database, RollOver, Timing
from .scaling import Scaler

Phase: TypeAlias = Literal["placing", "starting", "ready", "silent", "draining"]
"""`placing`: Ray looks for a node. `starting`: the worker fetches its share, or its program opens the share. `silent`: it does
not report. `draining`: the coordinator sends it no more requests."""

LIVE: tuple[Phase, ...] = ("placing", "starting", "ready")
"""Phases of replicas that count towards the wanted number. Others are ending, or may be."""

_BACKOFF = (1.0, 60.0)
"""Pause in seconds after the second failure of a share, and the longest pause after many."""
_PROVEN = 30.0
"""Seconds of readiness after which a replica clears the failures of its share."""
_AVOIDED = 600.0
"""Seconds for which a version's workers avoid a node where one of them did not become ready."""


@dataclass
class Replica:
    """A worker of a share."""

    number: int
    share: int
    since: float
    phase: Phase = "placing"
    node: str | None = None
    address: str | None = None
    stopping: bool = False
    fetched: int = 0
    moved_at: float | None = None
    """Time of the last observed progress; `None` while the replica is ready or has no place."""
    chosen_until: float | None = None
    """Time at which the list of avoided nodes, given to Ray for this replica, expires."""


@dataclass
class Failure:
    """Successive failures of a share's workers: their number, and time and cause of the last one."""

    count: int
    at: float
    why: str
    not_before: float
    """Earliest start of the next worker."""


@dataclass
class Version:
    """A snapshot that is served, or going to be."""

    version: str
    url: str
    shards: int
    memory: list[int]
    replicas: int
    created: float
    workers: list[Replica] = field(default_factory=list)
    served: bool = False
    """True once every share has had a ready replica; from then on the coordinator knows the version."""
    leaves_at: float | None = None
    leaving: bool = False
    failures: dict[int, Failure] = field(default_factory=dict)
    entries: int = 0
    """Number of values of the table; 0 for a version that an earlier release published."""
    avoided: dict[str, float] = field(default_factory=dict)
    """Nodes where a worker did not become ready, and the time until which they are avoided."""

    def of(self, share: int, *phases: Phase) -> list[Replica]:
        """Returns the replicas of a share in these phases."""
        return [replica for replica in self.workers if replica.share == share and replica.phase in phases]

    def complete(self) -> bool:
        """True if every share has a ready replica."""
        return all(self.of(share, "ready") for share in range(self.shards))


@dataclass
class Served:
    """A database and its versions, the newest last."""

    name: str
    scaler: Scaler
    versions: list[Version] = field(default_factory=list)
    trouble: str | None = None


@dataclass
class State:
    """Everything that must survive a restart of the controller."""

    databases: dict[str, Served] = field(default_factory=dict)
    next_number: int = 0
    stopping: bool = False

    def replicas(self) -> Iterator[tuple[Served, Version, Replica]]:
        """Yields every replica with its database and its version."""
        for database in self.databases.values():
            for version in database.versions:
                for replica in version.workers:
                    yield database, version, replica

    def to_json(self) -> str:
        """Returns the state as text for `from_json`."""
        return json.dumps(self, default=vars)

    @classmethod
    def from_json(cls, text: str) -> State:
        """Parses the output of `to_json`."""
        said: dict[str, Any] = json.loads(text)
        databases = {}
        for name, database in said["databases"].items():
            versions = []
            for version in database["versions"]:
                version["failures"] = {int(share): Failure(**said) for share, said in version["failures"].items()}
                version["workers"] = [Replica(**replica) for replica in version["workers"]]
                versions.append(Version(**version))
            scaler = Scaler(**database["scaler"])
            databases[name] = Served(name, scaler, versions, database["trouble"])
        return cls(databases, said["next_number"], said["stopping"])


@dataclass(frozen=True)
class Seen:
    """Observed state of a worker: the phase that it reports, or `silent` without a report, or `dead`."""

    phase: Literal["placing", "starting", "ready", "silent", "dead"]
    node: str | None = None
    address: str | None = None
    why: str | None = None
    """Cause of trouble, if any."""
    fetched: int = 0
    """Bytes of its share that the worker has fetched."""


@dataclass(frozen=True)
class Start:
    """Action: ask Ray to place a worker, avoiding the nodes in `avoid`."""

    number: int
    database: str
    version: str
    url: str
    share: int
    shards: int
    memory: int
    avoid: frozenset[str]


@dataclass(frozen=True)
class Stop:
    """Action: let a worker finish its requests, and end it. With `forget` it removes the share's files, which nobody needs."""

    number: int
    forget: bool


Action: TypeAlias = Start | Stop


def publish(state: State, database: Database, version: str, url: str, memory: list[int], entries: int, now: float) -> bool:
    """Records that a version with `entries` values is to be served. Returns False if it is the newest version already.

    A former version that still has workers becomes the newest again, and keeps its workers.

    Raises `ClusterError` if the version is served in another number of shards.
    """
    served = state.databases.setdefault(database.name, Served(database.name, Scaler(database.replicas.least)))
    known = next((each for each in served.versions if each.version == version and not each.leaving), None)
    if known is not None and known.shards != len(memory):
        # The coordinator identifies a version by its folder, and answers with one division of a version at a time.
        raise ClusterError(
            f"{database.name}: {version[:16]} is served in {known.shards} shards, not {len(memory)}: publish a version of "
            "another build in so many, or end the cluster with spirea cluster down before"
        )
    if known is not None and known is served.versions[-1]:
        return False
    # Versions that were never served leave at once.
    for former in served.versions:
        former.leaving = former.leaving or not former.served
    if known is None:
        known = Version(version, url, len(memory), memory, served.scaler.wanted, now, entries=entries)
    else:
        served.versions.remove(known)
        known.replicas, known.leaves_at = served.scaler.wanted, None
    served.versions.append(known)
    return True


def check_shrinking(state: State, database: Database, entries: int) -> None:
    """Refuses a version that has less than half of the values of the one before: its input may have been cut off.

    Raises `ClusterError`.
    """
    served = state.databases.get(database.name)
    former = served.versions[-1].entries if served is not None and served.versions else 0
    if entries < (former + 1) // 2:
        raise ClusterError(
            f"{database.name}: the new version has {entries} values, less than half of the {former} of the one before: its "
            "input may have been cut off; if it is right, publish it with --allow-shrinking"
        )


@dataclass(frozen=True)
class Told:
    """The coordinator's report on a database: the version that it answers with, the requests waiting for each replica, and the
    unanswered requests of each version. The fields are `None` without a report."""

    current: str | None
    queue: float | None
    in_flight: Mapping[str, int] | None = None

    def finished(self, version: str) -> bool:
        """True if no client is known to wait for answers of a version. A version that the report omits has been dropped."""
        return self.in_flight is not None and self.in_flight.get(version, 0) == 0


def advance(state: State, config: Config, seen: Mapping[int, Seen], told: Mapping[str, Told], now: float) -> list[Action]:
    """Updates the state by observations of workers and by the coordinator's reports on databases. Returns the actions."""
    for _, version, replica in list(state.replicas()):
        _take_in(version, replica, seen.get(replica.number), config.timing, now)
    actions: list[Action] = []
    for served in state.databases.values():
        wanted, said = config.database(served.name), told.get(served.name, Told(None, None))
        if state.stopping or wanted is None:
            for version in served.versions:
                version.leaving = True
        elif served.versions:
            _roll_over(served, config.roll_over, said, now)
            _scale(served, wanted, said.queue, now)
        actions += _settle(state, served, config, said, now)
        served.versions = [version for version in served.versions if version.workers or not version.leaving]
    state.databases = {
        name: served for name, served in state.databases.items() if served.versions or config.database(name) is not None
    }
    return actions


def _take_in(version: Version, replica: Replica, seen: Seen | None, timing: Timing, now: float) -> None:
    """Updates a replica by the observation of its worker."""
    if seen is None:
        return
    if seen.phase == "dead":
        version.workers.remove(replica)
        if replica.phase != "draining":
            _failed(version, replica, seen.why or "its actor ended", now)
        return
    replica.node = seen.node or replica.node
    if seen.address is not None:
        replica.address = seen.address
    if replica.phase == "draining":
        return
    if seen.phase == "starting" and (replica.moved_at is None or seen.fetched != replica.fetched):
        replica.fetched, replica.moved_at = seen.fetched, now
    elif seen.phase == "ready":
        replica.moved_at = None
    if seen.phase == "silent" and replica.phase == "silent" and now - replica.since >= timing.give_up:
        _give_up(version, replica, f"it said nothing for {timing.give_up:g} s", now)
    elif seen.phase == "starting" and replica.moved_at is not None and now - replica.moved_at >= timing.opening:
        _give_up(version, replica, f"it did not get on for {timing.opening:g} s: {seen.why or 'it does not say why'}", now)
        if replica.node is not None:
            version.avoided[replica.node] = now + _AVOIDED
    elif seen.phase == "placing" and replica.chosen_until is not None and now >= replica.chosen_until:
        # The replica's avoided nodes have expired, so a new request may give Ray more choice.
        _change(replica, "draining", now)
    elif seen.phase != replica.phase:
        _change(replica, seen.phase, now)
    elif replica.phase == "ready" and now - replica.since >= _PROVEN:
        failure = version.failures.get(replica.share)
        # A replica that was ready before the failure says nothing about the one that failed.
        if failure is not None and failure.at <= replica.since:
            del version.failures[replica.share]


def _give_up(version: Version, replica: Replica, why: str, now: float) -> None:
    _change(replica, "draining", now)
    _failed(version, replica, why, now)


def _failed(version: Version, replica: Replica, why: str, now: float) -> None:
    """Records a failure, with an exponential back-off: a snapshot that no worker can open must not load the nodes."""
    before = version.failures.get(replica.share)
    count = 0 if before is None else before.count
    least, most = _BACKOFF
    # The first replacement starts at once: the share is rarely the cause of a death.
    pause = 0.0 if count == 0 else min(least * 2.0 ** (count - 1), most)
    version.failures[replica.share] = Failure(count + 1, now, f"worker {replica.number}: {why}", now + pause)


def _change(replica: Replica, phase: Phase, now: float) -> None:
    replica.phase, replica.since = phase, now


def _roll_over(served: Served, rules: RollOver, said: Told, now: float) -> None:
    """Lets former versions leave, some time after the coordinator's switch to a newer one, when no request waits for them."""
    newest = served.versions[-1]
    if newest.complete():
        newest.served = True
    answers = (version.served and not version.leaving and version.version == said.current for version in served.versions)
    place = next((place for place, answering in enumerate(answers) if answering), 0)
    for version in served.versions[place:]:
        version.leaves_at = None
    for former in served.versions[:place]:
        if former.leaving:
            continue
        if former.leaves_at is None:
            former.leaves_at = now + rules.keep
        # While the answering version is incomplete, a former one may have to take over.
        elif now >= former.leaves_at and served.versions[place].complete():
            former.leaving = said.finished(former.version) or now >= former.leaves_at + rules.finish
    _make_room(served, rules, now)


def _make_room(served: Served, rules: RollOver, now: float) -> None:
    """Removes spare replicas of former versions if Ray finds no place for the newest."""
    newest = served.versions[-1]
    waiting = [replica for replica in newest.workers if replica.phase == "placing"]
    served.trouble = None
    if not waiting or now - min(replica.since for replica in waiting) < rules.room_after:
        return
    share = waiting[0].share
    served.trouble = f"no node has room for share {share} of {newest.version[:16]}: add nodes, or ask for less memory"
    # A served version that is no longer complete gets room too, like one that is still starting.
    if newest.complete():
        return
    for former in served.versions[:-1]:
        if former.served and former.replicas > 1:
            former.replicas -= 1
            for replica in waiting:
                replica.since = now
            return


def _scale(served: Served, database: Database, queue: float | None, now: float) -> None:
    newest = served.versions[-1]
    if newest.served and queue is not None:
        newest.replicas = served.scaler.decide(database.replicas, queue, now)
    bounds = database.replicas
    newest.replicas = min(max(newest.replicas, bounds.least), bounds.most)


def _settle(state: State, served: Served, config: Config, said: Told, now: float) -> list[Action]:
    """Starts and stops replicas until each share has the wanted number."""
    actions: list[Action] = []
    for version in served.versions:
        for replica in version.workers:
            if version.leaving and replica.phase != "draining":
                _change(replica, "draining", now)
        if not version.leaving:
            # Starts the first replica of each share, then the second, so that the version is complete as soon as possible.
            for count in range(1, version.replicas + 1):
                for share in range(version.shards):
                    actions += _start(state, served, version, share, count, config, now)
            for share in range(version.shards):
                _let_go(version, share, now)
        # The coordinator accepts no new requests for a leaving version; requests sent or queued must still be answered.
        busy = version.leaving and version.served and not said.finished(version.version)
        most = config.timing.drain + (config.roll_over.finish if busy else 0.0)
        for replica in version.workers:
            placed = replica.address is not None
            gone = replica.phase == "draining" and (now - replica.since >= most or not placed)
            if gone and not replica.stopping:
                replica.stopping = True
                actions.append(Stop(replica.number, _unneeded(served, version)))
    return actions


def _unneeded(served: Served, version: Version) -> bool:
    """True if the files of a version can be removed. A later publication of the same version needs the same files."""
    return version.leaving and not any(other.version == version.version and not other.leaving for other in served.versions)


def _start(state: State, served: Served, version: Version, share: int, count: int, config: Config, now: float) -> list[Action]:
    failure = version.failures.get(share)
    if len(version.of(share, *LIVE)) >= count or (failure is not None and now < failure.not_before):
        return []
    # Starts one replica after another, because each must know the nodes of the others.
    if any(replica.node is None for replica in version.of(share, "placing", "starting", "silent")):
        return []
    beginning = sum(replica.phase in ("placing", "starting") for replica in version.workers)
    answering = any(other.served and not other.leaving for other in served.versions[:-1])
    if answering and not version.served and beginning >= config.roll_over.surge:
        return []
    version.avoided = {node: until for node, until in version.avoided.items() if now < until}
    replica = Replica(state.next_number, share, now, chosen_until=min(version.avoided.values(), default=None))
    state.next_number += 1
    others = frozenset(other.node for other in version.workers if other.share == share and other.node is not None)
    version.workers.append(replica)
    memory, avoid = version.memory[share], others.union(version.avoided)
    return [Start(replica.number, served.name, version.version, version.url, share, version.shards, memory, avoid)]


def _let_go(version: Version, share: int, now: float) -> None:
    """Drains the youngest spare replica if a share has more than wanted, as long as enough are ready."""
    ready, beginning = version.of(share, "ready"), version.of(share, "placing", "starting")
    if len(ready) > version.replicas:
        _change(ready[-1], "draining", now)
    elif (len(ready) == version.replicas and beginning) or (len(ready) + len(beginning) > version.replicas and beginning):
        _change(beginning[-1], "draining", now)


def placement(state: State, folders: Mapping[str, str]) -> dict[str, Any]:
    """Returns the coordinator's placement. `folders` has the folder of the coordinator's files, by version. Versions that have
    never been complete are omitted, and so are leaving ones."""
    databases = []
    for served in state.databases.values():
        snapshots = []
        for version in served.versions:
            if not version.served or version.leaving or version.version not in folders:
                continue
            shares = [
                [replica.address for replica in version.of(share, "ready", "starting", "silent") if replica.address]
                for share in range(version.shards)
            ]
            snapshots.append({"path": folders[version.version], "version": version.version, "shares": shares})
        if snapshots:
            databases.append({"name": served.name, "snapshots": snapshots})
    return {"databases": databases}
