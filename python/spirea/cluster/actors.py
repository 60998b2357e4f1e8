"""The actors on Ray, and the controller's access to workers. All actors are detached, so that they outlive their creator."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError, RayError
from ray.util import get_node_ip_address, get_placement_group, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from .config import Config
from .gateway import Gateway
from .state import Seen, Start
from .work import ENDS, Task, Work

CONTROLLER, GATEWAY = "controller", "gateway"
_NODE = "ray.io/node-id"
_ANSWERS = 2.0
"""Timeout for the metrics of workers, in seconds."""
_ENDS = ENDS + 10.0
"""Seconds after which a worker's actor that was told to stop is killed, with its program."""


def worker_name(number: int) -> str:
    """Returns the name of a worker's actor and of its placement group."""
    return f"worker-{number}"


class Worker(Work):
    """Actor of a worker, on the node that Ray chose."""

    def __init__(self, task: Task) -> None:
        node = ray.get_runtime_context().get_node_id()
        super().__init__(task, _address(node) or get_node_ip_address())

    def report(self) -> dict[str, Any]:
        return super().report() | {"node": ray.get_runtime_context().get_node_id()}


def _address(node: str) -> str | None:
    """Returns the address of a node of the Ray cluster; `None` if there is no such node."""
    return next((each["NodeManagerAddress"] for each in ray.nodes() if each["NodeID"] == node), None)


@dataclass
class Hand:
    """The controller's record of one worker's actor."""

    actor: Any
    place: Any
    asked: Any = None
    asked_at: float = 0.0
    unreached: bool = False
    """True if Ray could not reach the actor at the last attempt, even if Ray noticed at once. The report is then out of
    date."""
    report: dict[str, Any] = field(default_factory=dict)
    stopping: Any = None
    stopping_since: float = 0.0


class Hands:
    """The workers of a cluster, as actors. The controller's loop and requests for metrics may call it at the same time."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._hands: dict[int, Hand] = {}
        self._lock = threading.RLock()

    def report(self, number: int) -> dict[str, Any]:
        """Returns the latest report of a worker; an empty one if there is none."""
        hand = self._hands.get(number)
        return {} if hand is None else hand.report

    def host(self, number: int) -> str | None:
        """Returns the address of the node where Ray placed a worker, `None` before that. Ignores the worker's own report."""
        hand = self._hands.get(number)
        if hand is None:
            return None
        node = placement_group_table(hand.place).get("bundles_to_node_id", {}).get(0)
        return _address(node) if node else None

    def start(self, action: Start) -> None:
        """Asks Ray for a place on a node without another replica of the share, and for a worker there."""
        workers, config = self.config.workers, self.config
        name, namespace = worker_name(action.number), config.namespace
        resources = {"CPU": workers.cpus, "memory": float(action.memory)}
        resources |= {"GPU": workers.gpus} if workers.gpus > 0 else {}
        avoid = action.avoid if workers.spread == "strict" or self._elsewhere(action.avoid, resources) else frozenset()
        selector = [{_NODE: f"!in({','.join(sorted(avoid))})"}] if avoid else None
        place = placement_group([resources], name=name, lifetime="detached", bundle_label_selector=selector)
        task = Task(
            action.number, config.name, action.database, action.version, action.url, action.share, action.shards,
            action.memory, workers.threads or max(1, int(workers.cpus)), workers.options, config.work, workers.gpus > 0,
        )  # fmt: skip
        options = {
            "name": name,
            "namespace": namespace,
            "lifetime": "detached",
            "max_restarts": 0,
            "max_concurrency": 8,
            "num_cpus": workers.cpus,
            "num_gpus": workers.gpus,
            "memory": action.memory,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(place, 0),
        }
        actor = ray.remote(Worker).options(**options).remote(task)
        with self._lock:
            self._hands[action.number] = Hand(actor, place)

    def _elsewhere(self, avoid: frozenset[str], resources: dict[str, float]) -> bool:
        """True if a node that is not in `avoid` is large enough."""
        return any(
            node["Alive"]
            and node["NodeID"] not in avoid
            and all(node["Resources"].get(name, 0.0) >= amount for name, amount in resources.items())
            for node in ray.nodes()
        )

    def stop(self, number: int, *, forget: bool) -> None:
        """Lets a worker finish its requests, and ends it."""
        hand = self._hand(number)
        if hand is None or hand.stopping is not None:
            return
        hand.stopping, hand.stopping_since = hand.actor.stop.remote(forget), time.time()
        if not hand.report:
            # A worker without a place or without a report has nothing to finish.
            self._end(hand)

    def certify(self, number: int, certificate: bytes, trusted: bytes) -> None:
        """Gives a worker the certificate that it requested."""
        hand = self._hands[number]
        hand.report["request"] = None
        hand.actor.certify.remote(certificate, trusted)

    def metrics(self, numbers: list[int]) -> dict[int, str]:
        """Returns the metrics of workers, without the workers that do not answer in time."""
        asked = {number: hand.actor.metrics.remote() for number in numbers if (hand := self._hand(number)) is not None}
        if not asked:
            return {}
        done, _ = ray.wait(list(asked.values()), num_returns=len(asked), timeout=_ANSWERS)
        pages = {}
        for number, reference in asked.items():
            if reference in done:
                with contextlib.suppress(RayError, OSError):
                    pages[number] = ray.get(reference)
        return pages

    def look(self, numbers: list[int]) -> dict[int, Seen]:
        """Returns the state of workers without waiting for them: a worker whose answer is late is silent."""
        with self._lock:
            return self._look(numbers, time.time())

    def _look(self, numbers: list[int], now: float) -> dict[int, Seen]:
        seen: dict[int, Seen] = {}
        for number in set(self._hands) - set(numbers):
            del self._hands[number]
        for number in numbers:
            hand = self._hand(number)
            if hand is None:
                seen[number] = Seen("dead", why="its actor is gone")
            elif hand.asked is None:
                hand.asked, hand.asked_at = hand.actor.report.remote(), now
        waiting = [hand.asked for hand in self._hands.values() if hand.asked is not None]
        done = set(ray.wait(waiting, num_returns=len(waiting), timeout=0.1)[0]) if waiting else set()
        for number in numbers:
            if number not in seen:
                hand = self._hands[number]
                seen[number] = self._seen(hand, hand.asked in done, now)
                if seen[number].phase == "dead":
                    self._end(hand)
        return seen

    def _seen(self, hand: Hand, answered: bool, now: float) -> Seen:
        if hand.stopping is not None:
            ended = bool(ray.wait([hand.stopping], timeout=0)[0])
            if ended or now - hand.stopping_since >= _ENDS:
                return Seen("dead", why="it was told to stop")
        node = hand.report.get("node")
        if answered:
            reference, hand.asked = hand.asked, None
            try:
                hand.report, hand.unreached = ray.get(reference), False
            except ActorUnavailableError:
                hand.unreached = True
            except RayActorError as error:
                return Seen("dead", node, why=last_line(error))
            except RayError as error:
                hand.unreached = True
                return Seen("silent", node, why=last_line(error))
        said = hand.report
        if not said:
            return self._unheard(hand)
        late = hand.unreached or (hand.asked is not None and now - hand.asked_at >= self.config.timing.silent)
        phase: Any = "silent" if late else said["phase"]
        return Seen(phase, said["node"], said["address"], said["trouble"] or None, said["fetched"])

    def _unheard(self, hand: Hand) -> Seen:
        """Returns the state of a worker that has not reported yet, from Ray's placement."""
        table = placement_group_table(hand.place)
        if table.get("state") != "CREATED":
            return Seen("placing")
        node = table["bundles_to_node_id"].get(0)
        return Seen("starting", node) if node else Seen("placing")

    def _hand(self, number: int) -> Hand | None:
        """Returns a worker's actor, including one that an earlier controller created; `None` if it is gone."""
        with self._lock:
            return self._known(number)

    def _known(self, number: int) -> Hand | None:
        if (hand := self._hands.get(number)) is None:
            name = worker_name(number)
            try:
                actor = ray.get_actor(name, namespace=self.config.namespace)
                hand = self._hands[number] = Hand(actor, get_placement_group(name))
            except ValueError:
                with contextlib.suppress(ValueError):
                    remove_placement_group(get_placement_group(name))
                return None
        return hand

    def _end(self, hand: Hand) -> None:
        with contextlib.suppress(RayError, ValueError):
            ray.kill(hand.actor)
        with contextlib.suppress(RayError, ValueError):
            remove_placement_group(hand.place)


def last_line(error: RayError) -> str:
    """Returns the last line of an error, which names its cause."""
    return str(error).strip().rpartition("\n")[2]


def gateway(config: Config) -> Any:
    """Returns the coordinator's actor on this node, and creates it if necessary."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options = {
        "name": GATEWAY,
        "namespace": config.namespace,
        "lifetime": "detached",
        "get_if_exists": True,
        "max_restarts": -1,
        "max_concurrency": 8,
        "num_cpus": 0,
        "scheduling_strategy": here,
    }
    return ray.remote(Gateway).options(**options).remote(config)


def ask(reference: Any, seconds: float) -> Any:
    """Returns an actor's answer; `None` if the actor is late or unreachable."""
    try:
        return ray.get(reference, timeout=seconds)
    except (GetTimeoutError, RayActorError):
        return None
