"""The controller's decisions in a random world: nodes come and go, workers die, become silent, or find no room."""

import dataclasses
import itertools
import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import spirea
from spirea.cluster import config, state
from spirea.cluster.scaling import Scaler

DATABASE = config.Database("words", "/words", 3)
CONFIG = config.Config(
    "library", "/store", "/state", "/work", (DATABASE,), roll_over=config.RollOver(surge=2, keep=20.0, room_after=10.0)
)


FOLDERS = {f"v{i}": f"v{i}" for i in range(150)}


def with_replicas(count, most=None):
    database = dataclasses.replace(DATABASE, replicas=config.Scale(least=count, most=most or count))
    return dataclasses.replace(CONFIG, databases=(database,))


class World:
    """A simulated world: nodes with room for some workers each, and the workers on them. Time advances in seconds."""

    def __init__(self, conf, nodes=6, room=4, opening=3.0):
        self.config, self.now, self.opening, self.room = conf, 0.0, opening, room
        self.state, self.nodes = state.State(), {f"node-{i}" for i in range(nodes)}
        self.workers = {}
        self.silent, self.dead = set(), set()
        self.broken, self.files = set(), set()
        self.queue, self.in_flight = 0.0, {}
        self.coordinator_is_slow = False

    def publish(self, version, shards=None, entries=100):
        [database] = self.config.databases
        memory = [1] * (shards or database.shards)
        return state.publish(self.state, database, version, f"/store/{version}", memory, entries, self.now)

    def place(self, start):
        """Returns the node that Ray chooses for a worker; None if there is no room."""
        taken = [worker["node"] for worker in self.workers.values()]
        free = [node for node in sorted(self.nodes - start.avoid) if taken.count(node) < self.room]
        return min(free, key=taken.count, default=None)

    def see(self):
        seen = {}
        for number, worker in list(self.workers.items()):
            if worker["node"] is None:
                worker["node"], worker["since"] = self.place(worker["start"]), self.now
            if (
                number in self.dead
                or (worker["node"] is not None and worker["node"] not in self.nodes)
                or (worker["stopped"] is not None and self.now - worker["stopped"] >= 1)
            ):
                seen[number] = state.Seen("dead")
                del self.workers[number]
            elif number in self.silent:
                seen[number] = state.Seen("silent")
            elif worker["node"] is None:
                seen[number] = state.Seen("placing")
            elif worker["node"] in self.broken:
                seen[number] = state.Seen("starting", worker["node"], why="the disk is full")
            else:
                took, node, start = self.now - worker["since"], worker["node"], worker["start"]
                ready, fetched = took >= self.opening, int(100 * min(took, self.opening))
                self.files |= {(node, start.version, start.share)} if ready else set()
                address = f"https://{node}:{number}" if ready else None
                seen[number] = state.Seen("ready" if ready else "starting", node, address, fetched=fetched)
        self.dead.clear()
        return seen

    def tick(self, seconds=1.0):
        self.now += seconds
        # Saves and restores the state, as if the controller restarted.
        self.state = state.State.from_json(self.state.to_json())
        answering = None if self.coordinator_is_slow else self.answering()
        told = {"words": state.Told(answering, self.queue, dict(self.in_flight))}
        for action in state.advance(self.state, self.config, self.see(), told, self.now):
            match action:
                case state.Start():
                    assert action.number not in self.workers
                    self.workers[action.number] = {"node": None, "since": self.now, "start": action, "stopped": None}
                case state.Stop():
                    if (worker := self.workers.get(action.number)) is not None:
                        worker["stopped"] = self.now
                        if action.forget:
                            self.files.discard((worker["node"], worker["start"].version, worker["start"].share))

    def run(self, seconds):
        for _ in range(seconds):
            self.tick()
            self.check()

    def answering(self):
        """Returns the newest version that the coordinator can answer with now."""
        told = state.placement(self.state, FOLDERS)
        for database in told["databases"]:
            for snapshot in reversed(database["snapshots"]):
                if all(any(self.is_up(address) for address in share) for share in snapshot["shares"]):
                    return snapshot["path"]
        return None

    def is_up(self, address):
        node, _, number = address.removeprefix("https://").rpartition(":")
        worker = self.workers.get(int(number))
        return worker is not None and worker["node"] == node and node in self.nodes and int(number) not in self.silent

    def check(self):
        """Checks the invariants that hold at every moment."""
        for served in self.state.databases.values():
            for version in served.versions:
                for share in range(version.shards):
                    nodes = [replica.node for replica in version.of(share, *state.LIVE) if replica.node is not None]
                    assert len(set(nodes)) == len(nodes), "two replicas of a share on one node"
            live = [version.version for version in served.versions if not version.leaving]
            assert len(set(live)) == len(live), "a version twice"
            for version in served.versions:
                for replica in version.workers if not version.leaving else []:
                    files = (replica.node, version.version, replica.share)
                    assert replica.phase != "ready" or files in self.files, "files that are needed were removed"
        for database in state.placement(self.state, FOLDERS)["databases"]:
            paths = [snapshot["path"] for snapshot in database["snapshots"]]
            assert len(set(paths)) == len(paths), "the coordinator refuses a path that stands twice"
        numbers = [replica.number for _, _, replica in self.state.replicas()]
        assert len(set(numbers)) == len(numbers) and all(number < self.state.next_number for number in numbers)

    def shape(self):
        """Returns the number of ready replicas of each share, by version."""
        return {
            version.version: [len(version.of(share, "ready")) for share in range(version.shards)]
            for served in self.state.databases.values()
            for version in served.versions
        }


def test_a_version_comes_up_and_what_dies_comes_back_elsewhere():
    world = World(with_replicas(2))
    assert world.publish("v1") and not world.publish("v1")
    world.run(10)
    assert world.shape() == {"v1": [2, 2, 2]} and world.answering() == "v1"
    lost = world.workers[0]["node"]
    world.nodes.remove(lost)
    world.run(1)
    assert world.answering() == "v1"
    world.run(10)
    assert world.shape() == {"v1": [2, 2, 2]}
    assert lost not in {worker["node"] for worker in world.workers.values()}


def test_a_version_takes_the_place_of_another_without_a_gap_and_few_at_a_time():
    world = World(with_replicas(1))
    world.publish("v1")
    world.run(10)
    world.publish("v2")
    for _ in range(60):
        world.tick()
        world.check()
        assert world.answering() in ("v1", "v2")
        newest = world.state.databases["words"].versions[-1]
        if not newest.served:
            assert sum(replica.phase in ("placing", "starting") for replica in newest.workers) <= 2
    assert world.shape() == {"v2": [1, 1, 1]} and len(world.workers) == 3


def test_former_versions_stay_as_long_as_clients_may_name_them():
    world = World(with_replicas(1))
    world.publish("v1")
    world.run(10)
    world.publish("v2")
    while world.answering() != "v2":
        world.tick()
    world.run(15)
    assert set(world.shape()) == {"v1", "v2"}
    world.run(15)
    assert set(world.shape()) == {"v2"}


def test_a_former_version_stays_until_the_coordinator_answers_with_the_newest():
    world = World(with_replicas(1))
    world.publish("v1")
    world.run(10)
    world.publish("v2")
    world.coordinator_is_slow = True
    world.run(100)
    assert set(world.shape()) == {"v1", "v2"}
    world.coordinator_is_slow = False
    world.run(30)
    assert set(world.shape()) == {"v2"}


def test_a_version_that_comes_back_before_it_has_left_has_the_workers_that_it_had():
    world = World(with_replicas(2))
    world.publish("v1")
    world.run(10)
    first = set(world.workers)
    world.publish("v2")
    while world.answering() != "v2":
        world.tick()
    assert world.publish("v1") and not world.publish("v1")
    world.run(2)
    assert world.answering() == "v1" and first <= set(world.workers)
    world.run(60)
    assert world.shape() == {"v1": [2, 2, 2]} and set(world.workers) == first


def test_a_version_that_comes_back_while_it_leaves_keeps_its_files():
    world = World(with_replicas(1), nodes=1, room=9)
    world.publish("v1")
    world.run(10)
    world.publish("v2")
    while any(not version.leaving for version in world.state.databases["words"].versions[:-1]):
        world.tick()
    world.publish("v1")
    world.run(60)
    assert world.shape() == {"v1": [1, 1, 1]} and len(world.files & {("node-0", "v1", share) for share in range(3)}) == 3


def test_another_number_of_shards_takes_another_version():
    world = World(with_replicas(1))
    world.publish("v1")
    world.run(10)
    with pytest.raises(spirea.ClusterError, match=r"words: v1 is served in 3 shards, not 4: publish a version of another"):
        world.publish("v1", shards=4)
    assert world.publish("v2", shards=4)
    world.run(60)
    assert world.shape() == {"v2": [1, 1, 1, 1]}


def test_a_version_of_less_than_half_the_values_is_refused():
    world = World(with_replicas(1))
    [database] = world.config.databases
    state.check_shrinking(world.state, database, 1)
    world.publish("v1", entries=13)
    state.check_shrinking(world.state, database, 7)
    with pytest.raises(spirea.ClusterError, match="has 6 values, less than half of the 13 .* --allow-shrinking"):
        state.check_shrinking(world.state, database, 6)
    assert state.State.from_json(world.state.to_json()).databases["words"].versions[0].entries == 13


def test_a_former_version_stays_while_requests_wait_for_it_but_not_for_ever():
    world = World(with_replicas(1))
    rules = world.config.roll_over
    world.publish("v1")
    world.run(10)
    world.publish("v2")
    world.in_flight = {"v1": 2}
    while world.answering() != "v2":
        world.tick()
    world.run(int(rules.keep + rules.finish / 2))
    assert set(world.shape()) == {"v1", "v2"}
    world.in_flight = {"v1": 0}
    world.run(10)
    assert set(world.shape()) == {"v2"}
    world.publish("v3")
    world.in_flight = {"v2": 1}
    world.run(int(rules.keep + 2 * rules.finish) + 30)
    assert set(world.shape()) == {"v3"}


def test_what_the_coordinator_still_waits_for_is_finished_after_a_version_has_left():
    world = World(with_replicas(1))
    world.publish("v1")
    world.run(10)
    world.publish("v2")
    [former, _] = world.state.databases["words"].versions
    while not former.leaving:
        world.tick()
        former = world.state.databases["words"].versions[0]
    world.in_flight = {"v1": 1}
    world.run(30)
    assert set(world.shape()) == {"v1", "v2"} and len(world.workers) == 6
    world.in_flight = {}
    world.run(10)
    assert set(world.shape()) == {"v2"} and len(world.workers) == 3


def test_a_worker_that_does_not_get_on_is_replaced_elsewhere_and_the_node_is_tried_again_later():
    world = World(with_replicas(1), nodes=2, room=6)
    timing = world.config.timing
    world.broken.add("node-0")
    world.publish("v1")
    world.run(int(timing.opening) - 10)
    assert world.answering() is None and world.state.next_number == 3
    world.run(30)
    assert world.answering() == "v1" and {worker["node"] for worker in world.workers.values()} == {"node-1"}
    why = {failure.why for failure in world.state.databases["words"].versions[0].failures.values()}
    assert why and all("it did not get on for 1200 s: the disk is full" in each for each in why)
    # No other node has room, so the avoided node is used again as soon as allowed.
    world.nodes.remove("node-1")
    world.broken.clear()
    world.run(30)
    assert world.answering() is None
    world.run(int(state._AVOIDED))
    assert world.answering() == "v1"


def test_one_that_fetches_slowly_is_left_alone():
    world = World(with_replicas(1), opening=4000.0)
    world.publish("v1")
    world.run(4010)
    assert world.answering() == "v1" and world.state.next_number == 3


def test_a_replica_beside_a_good_one_fails_ever_more_seldom_too():
    world = World(with_replicas(2))
    world.publish("v1")
    world.run(60)
    began = world.state.next_number
    for _ in range(600):
        world.tick()
        youngest = max(world.workers)
        world.dead = {youngest} if youngest >= 5 else set()
    assert world.state.next_number - began < 30


def test_a_version_that_was_on_its_way_gives_way_to_the_next():
    world = World(with_replicas(1), opening=20.0)
    world.publish("v1")
    world.run(30)
    world.publish("v2")
    world.run(5)
    world.publish("v3")
    world.run(10)
    assert set(world.shape()) == {"v1", "v3"} and world.answering() == "v1"
    world.run(120)
    assert world.shape() == {"v3": [1, 1, 1]}


def test_replicas_make_room_for_a_version_where_there_is_none_and_the_last_ones_stay():
    # Two replicas of three shards fill all six places.
    world = World(with_replicas(2), nodes=2, room=3)
    world.publish("v1")
    world.run(10)
    assert world.shape() == {"v1": [2, 2, 2]}
    world.publish("v2")
    for _ in range(200):
        world.tick()
        world.check()
        assert world.answering() in ("v1", "v2")
    assert world.shape() == {"v2": [2, 2, 2]}


def test_where_nothing_can_give_way_the_former_version_answers_and_it_is_said():
    world = World(with_replicas(1), nodes=1, room=3)
    world.publish("v1")
    world.run(10)
    world.publish("v2")
    world.run(60)
    assert world.answering() == "v1"
    assert "no node has room for share 0 of v2" in world.state.databases["words"].trouble


def test_a_silent_worker_is_replaced_and_goes_when_it_comes_back():
    world = World(with_replicas(1))
    world.publish("v1")
    world.run(10)
    world.silent.add(0)
    world.run(6)
    assert world.answering() == "v1" and 0 in world.workers
    world.silent.clear()
    world.run(10)
    assert world.shape() == {"v1": [1, 1, 1]} and len(world.workers) == 3


def test_one_that_stays_silent_is_given_up():
    world = World(with_replicas(1))
    world.publish("v1")
    world.run(10)
    world.silent.add(0)
    world.run(70)
    assert 0 not in world.workers and world.shape() == {"v1": [1, 1, 1]}


def test_a_share_that_always_fails_is_tried_ever_more_seldom():
    world = World(with_replicas(1), opening=1e9)
    world.publish("v1")
    started = []
    for _ in range(300):
        world.tick()
        world.dead = {number for number, worker in world.workers.items() if worker["start"].share == 0}
        started.append(world.state.next_number)
    assert started[-1] - 3 < 15
    assert started[10] > 3


def test_the_end_stops_all():
    world = World(with_replicas(2))
    world.publish("v1")
    world.run(10)
    world.state.stopping = True
    world.run(10)
    assert world.workers == {} and world.shape() == {}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32), replicas=st.integers(1, 3))
# In this example ten versions came into service, each before the former one had left, and no node had room for the last one.
@example(seed=13167, replicas=1)
def test_whatever_happens_all_comes_right_when_it_stops(seed, replicas):
    draw = random.Random(seed)
    world = World(with_replicas(replicas), nodes=6, room=6)
    published = newest = 0
    for _ in range(120):
        match draw.randrange(12):
            case 0:
                # Publishes mostly a new version, otherwise an earlier one, which may be former, leaving or removed.
                newest = draw.choice([published + 1, published + 1, draw.randrange(published + 1) + 1])
                published = max(published, newest)
                world.publish(f"v{newest}")
            case 1 if len(world.nodes) > 4:
                world.nodes.remove(draw.choice(sorted(world.nodes)))
            case 2:
                world.nodes.add(f"node-{draw.randrange(6)}")
            case 3 if world.workers:
                world.dead.add(draw.choice(sorted(world.workers)))
            case 4 if world.workers:
                world.silent.add(draw.choice(sorted(world.workers)))
            case 5:
                world.silent.clear()
        world.tick(draw.choice([0.5, 1.0, 3.0]))
        world.check()
    world.silent.clear()
    if published == 0:
        return
    world.run(200)
    assert world.shape() == {f"v{newest}": [replicas] * 3}
    assert world.answering() == f"v{newest}" and len(world.workers) == 3 * replicas


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_no_roll_over_and_no_scaling_takes_an_answering_version_away(seed):
    """Without faults there is always an answering version, for any publications and any load."""
    draw = random.Random(seed)
    world = World(with_replicas(1, most=3), nodes=8, room=12)
    world.publish("v0")
    world.run(10)
    for i in range(1, 150):
        if draw.randrange(20) == 0:
            world.publish(f"v{draw.choice([i, draw.randrange(i)])}")
        world.in_flight = {f"v{n}": draw.choice([0, 0, 3]) for n in range(i)}
        world.queue = draw.choice([0.0, 0.5, 4.0, 30.0])
        world.tick(draw.choice([0.5, 1.0, 5.0]))
        world.check()
        assert world.answering() is not None


RULES = config.Scale(least=1, most=5, high=8.0, low=1.0, up_after=10.0, down_after=60.0, pause=30.0)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 20), st.floats(0, 50)), max_size=200))
def test_the_scaler_stays_within_bounds_and_pauses_between_changes(load):
    scaler, now, changes, before = Scaler(2), 0.0, [], 2
    for step, queue in load:
        now += step
        wanted = scaler.decide(RULES, queue, now)
        assert RULES.least <= wanted <= RULES.most and abs(wanted - before) <= 1
        if wanted != before:
            changes.append(now)
        before = wanted
    assert all(b - a >= RULES.pause for a, b in itertools.pairwise(changes))


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 100), st.integers(1, 5))
def test_the_same_load_is_never_answered_back_and_forth(load, at_first):
    scaler, directions, before = Scaler(at_first), [], at_first
    for second in range(0, 3600, 5):
        wanted = scaler.decide(RULES, load / before, float(second))
        if wanted != before:
            directions.append(wanted - before)
        before = wanted
    assert len(set(directions)) <= 1


def test_a_peak_shorter_than_up_after_changes_nothing():
    scaler = Scaler(2)
    assert {scaler.decide(RULES, 50.0 if second % 10 < 9 else 0.0, float(second)) for second in range(300)} == {2}


def test_what_the_coordinator_is_told_names_folders_that_it_has():
    world = World(with_replicas(1))
    world.publish("v1")
    assert state.placement(world.state, {"v1": "/here"}) == {"databases": []}
    world.run(10)
    assert state.placement(world.state, {}) == {"databases": []}
    told = state.placement(world.state, {"v1": str(Path("/here"))})
    [words] = told["databases"]
    [snapshot] = words["snapshots"]
    assert words["name"] == "words" and snapshot["path"] == "/here"
    assert all(len(share) == 1 and share[0].startswith("https://node-") for share in snapshot["shares"])
