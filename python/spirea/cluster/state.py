"""What the controller knows and decides, without Ray, without I/O and without a clock.

`State` is what is kept over the controller's death. `advance` takes what was seen of the workers since and gives what is to
be done; whoever does it keeps the state first, so that nothing is done that a controller which starts again has not heard of.
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
"""`placing`: Ray looks for a node. `starting`: it fetches its share, or its program opens it. `silent`: it says nothing.
`draining`: the coordinator sends it nothing more."""

LIVE: tuple[Phase, ...] = ("placing", "starting", "ready")
"""Phases of replicas that count: others are on their way out, or may be."""

_BACKOFF = (1.0, 60.0)
"""Seconds after the first failure of a share, and the most after many."""
_PROVEN = 30.0
"""Seconds after which a replica that is ready has made up for the failures before it."""
_AVOIDED = 600.0
"""Seconds in which no worker of a version is placed where one of it did not get ready."""


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
    """When it was last seen to get on with its share; nothing while it is ready, or has no place."""
    chosen_until: float | None = None
    """Until when the nodes that it was not to be placed on are to be avoided."""


@dataclass
class Failure:
    """What became of a share's workers, one after another: how many failed, when the last one did, and why."""

    count: int
    at: float
    why: str
    not_before: float
    """When the next one may start."""


@dataclass
class Version:
    """A snapshot that is served, or shall be."""

    version: str
    url: str
    shards: int
    memory: list[int]
    replicas: int
    created: float
    workers: list[Replica] = field(default_factory=list)
    served: bool = False
    """Whether every share has had a replica that is ready: from then on the coordinator knows it."""
    leaves_at: float | None = None
    leaving: bool = False
    failures: dict[int, Failure] = field(default_factory=dict)
    entries: int = 0
    """Values of the table; none are known of a version that an earlier release published."""
    avoided: dict[str, float] = field(default_factory=dict)
    """Nodes where a worker did not get ready, and until when."""

    def of(self, share: int, *phases: Phase) -> list[Replica]:
        """The replicas of a share in these phases."""
        return [replica for replica in self.workers if replica.share == share and replica.phase in phases]

    def complete(self) -> bool:
        """Whether every share has a replica that is ready."""
        return all(self.of(share, "ready") for share in range(self.shards))


@dataclass
class Served:
    """A database: its versions, the newest last."""

    name: str
    scaler: Scaler
    versions: list[Version] = field(default_factory=list)
    trouble: str | None = None


@dataclass
class State:
    """All that a controller must not forget."""

    databases: dict[str, Served] = field(default_factory=dict)
    next_number: int = 0
    stopping: bool = False

    def replicas(self) -> Iterator[tuple[Served, Version, Replica]]:
        """Every replica, with what it belongs to."""
        for database in self.databases.values():
            for version in database.versions:
                for replica in version.workers:
                    yield database, version, replica

    def to_json(self) -> str:
        """The state as text."""
        return json.dumps(self, default=vars)

    @classmethod
    def from_json(cls, text: str) -> State:
        """The state of a text that `to_json` made."""
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
    """What a worker is found to be: as it says, or `dead`, or `silent` if it does not say anything."""

    phase: Literal["placing", "starting", "ready", "silent", "dead"]
    node: str | None = None
    address: str | None = None
    why: str | None = None
    """What is wrong, if anything is."""
    fetched: int = 0
    """Bytes of its share that it has."""


@dataclass(frozen=True)
class Start:
    """Have Ray place a worker, on none of these nodes."""

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
    """Let a worker finish what it has, and end it; `forget` has it remove the share's files, which nobody needs."""

    number: int
    forget: bool


Action: TypeAlias = Start | Stop


def publish(state: State, database: Database, version: str, url: str, memory: list[int], entries: int, now: float) -> bool:
    """Takes note that this version, of so many values, is to be served. False if it is what is served, or on its way, already.
    A former one that has not left yet becomes the newest again, with the workers that it has.

    Raises `ClusterError` if it is served in another number of shards.
    """
    served = state.databases.setdefault(database.name, Served(database.name, Scaler(database.replicas.least)))
    known = next((each for each in served.versions if each.version == version and not each.leaving), None)
    if known is not None and known.shards != len(memory):
        # The coordinator knows a version by its folder, and answers with one division of it at a time.
        raise ClusterError(
            f"{database.name}: {version[:16]} is served in {known.shards} shards, not {len(memory)}: publish a version of "
            "another build in so many, or end the cluster with spirea cluster down before"
        )
    if known is not None and known is served.versions[-1]:
        return False
    # What had not come into service gives way to what is wanted now.
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
    """Refuses a version that has less than half of the values of the one before, as one of an input that was cut off has.

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
    """What the coordinator says of a database: the version that it answers with, how many requests wait for each replica,
    and how many of each version it has not answered yet; nothing is known of these if it says nothing."""

    current: str | None
    queue: float | None
    in_flight: Mapping[str, int] | None = None

    def finished(self, version: str) -> bool:
        """Whether it is known that nobody waits for answers of a version. One that it does not name it has let go."""
        return self.in_flight is not None and self.in_flight.get(version, 0) == 0


def advance(state: State, config: Config, seen: Mapping[int, Seen], told: Mapping[str, Told], now: float) -> list[Action]:
    """Takes in what was seen of workers and what the coordinator says of databases, and says what to do."""
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
    """What was seen of one worker."""
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
        # Ray was told which nodes not to take; by now it may take them again.
        _change(replica, "draining", now)
    elif seen.phase != replica.phase:
        _change(replica, seen.phase, now)
    elif replica.phase == "ready" and now - replica.since >= _PROVEN:
        failure = version.failures.get(replica.share)
        # One that was ready all the time says nothing of the one that failed beside it.
        if failure is not None and failure.at <= replica.since:
            del version.failures[replica.share]


def _give_up(version: Version, replica: Replica, why: str, now: float) -> None:
    _change(replica, "draining", now)
    _failed(version, replica, why, now)


def _failed(version: Version, replica: Replica, why: str, now: float) -> None:
    """The longer a share fails, the longer it is left alone: a snapshot that no worker can open shall not load nodes."""
    before = version.failures.get(replica.share)
    count = 0 if before is None else before.count
    least, most = _BACKOFF
    # The first replacement comes at once: most deaths are no fault of the share.
    pause = 0.0 if count == 0 else min(least * 2.0 ** (count - 1), most)
    version.failures[replica.share] = Failure(count + 1, now, f"worker {replica.number}: {why}", now + pause)


def _change(replica: Replica, phase: Phase, now: float) -> None:
    replica.phase, replica.since = phase, now


def _roll_over(served: Served, rules: RollOver, said: Told, now: float) -> None:
    """Former versions leave a while after the coordinator has begun to answer with a newer one, when nobody waits for them."""
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
        # As long as the one that answers is not complete again, a former one may have to.
        elif now >= former.leaves_at and served.versions[place].complete():
            former.leaving = said.finished(former.version) or now >= former.leaves_at + rules.finish
    _make_room(served, rules, now)


def _make_room(served: Served, rules: RollOver, now: float) -> None:
    """Where Ray finds no place for the newest version, former ones give up replicas that their shares can do without."""
    newest = served.versions[-1]
    waiting = [replica for replica in newest.workers if replica.phase == "placing"]
    served.trouble = None
    if not waiting or now - min(replica.since for replica in waiting) < rules.room_after:
        return
    share = waiting[0].share
    served.trouble = f"no node has room for share {share} of {newest.version[:16]}: add nodes, or ask for less memory"
    # One that was served and lacks a replica of every share as much as one that is on its way.
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
    """Brings the replicas of each share to their number."""
    actions: list[Action] = []
    for version in served.versions:
        for replica in version.workers:
            if version.leaving and replica.phase != "draining":
                _change(replica, "draining", now)
        if not version.leaving:
            # The first replica of each share, then the second: what is complete answers soonest.
            for count in range(1, version.replicas + 1):
                for share in range(version.shards):
                    actions += _start(state, served, version, share, count, config, now)
            for share in range(version.shards):
                _let_go(version, share, now)
        # The coordinator sends nothing more to a version that leaves, and what it has sent or queued is still to be answered.
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
    """Whether the files of a version can go. A later publication of it has the same ones."""
    return version.leaving and not any(other.version == version.version and not other.leaving for other in served.versions)


def _start(state: State, served: Served, version: Version, share: int, count: int, config: Config, now: float) -> list[Action]:
    failure = version.failures.get(share)
    if len(version.of(share, *LIVE)) >= count or (failure is not None and now < failure.not_before):
        return []
    # One after another, since each must know which nodes the others have.
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
    """More replicas than wanted: the youngest that is not needed goes, as long as enough are ready."""
    ready, beginning = version.of(share, "ready"), version.of(share, "placing", "starting")
    if len(ready) > version.replicas:
        _change(ready[-1], "draining", now)
    elif (len(ready) == version.replicas and beginning) or (len(ready) + len(beginning) > version.replicas and beginning):
        _change(beginning[-1], "draining", now)


def placement(state: State, folders: Mapping[str, str]) -> dict[str, Any]:
    """What the coordinator is told: `folders` has what it needs of each version, by the version's name. A version that has
    never been complete is not among it, nor is one that leaves."""
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
