"""The command line of `spirea cluster`."""

from __future__ import annotations

import argparse
import io
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from ..errors import ClusterError, SpireaError
from . import config as configs
from . import status as statuses
from .config import Config, Database
from .files import Folder, masked, shown, upload
from .reader import size_of

_ROUND = 0.5
_PATIENCE = 30.0
_CONNECTS = 5.0
_QUIET = 10.0
"""Seconds of waiting without a word. Afterwards the user sees what is missing."""
_REFUSED = "InvalidAuthToken"
"""Part of Ray's error if its token is missing or wrong."""
_VERSION = re.compile("[0-9a-f]{64}")


def main(arguments: Sequence[str]) -> int:
    """Runs a command, and returns its exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        code: int = parsed.run(parsed)
        return code
    except SpireaError as error:
        print(f"spirea: {masked(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="spirea cluster", description="Databases larger than one machine, on Ray.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], int], help: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=help, description=help)
        added.add_argument("config", type=Path, help="the cluster's configuration, YAML")
        added.set_defaults(run=run)
        return added

    up = command("up", _up, "Start a cluster, or bring one to what the configuration says now.")
    up.add_argument("--wait", type=float, default=600.0, metavar="SECONDS", help="for all databases to answer (600)")
    command("check", _check, "Say whether a configuration is right, and start nothing.")
    publish = command("publish", _publish, "Have a snapshot take the place of what is served, with no gap.")
    publish.add_argument("database", help="its name in the configuration")
    publish.add_argument(
        "snapshot",
        help="the snapshot's folder, its URL in the configuration's store, or the version that spirea cluster build printed",
    )
    publish.add_argument("--wait", type=float, default=600.0, metavar="SECONDS", help="until it answers (600)")
    publish.add_argument(
        "--allow-shrinking", action="store_true", help="also if it has less than half of the values served now"
    )
    status = command("status", _status, "Say how a cluster is.")
    form = status.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--page", type=Path, metavar="FILE", help="as a page, into a file")
    form.add_argument("--metrics", action="store_true", help="the metrics of all its programs")
    status.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="for all replicas to be ready first")
    down = command("down", _down, "End a cluster: accepted requests are finished, files in the store stay.")
    down.add_argument("--wait", type=float, default=120.0, metavar="SECONDS", help="for workers to end (120)")
    build = command("build", _build, "Build a snapshot of Parquet files into the store, and print its version.")
    build.add_argument("name", help="what the database is called")
    build.add_argument(
        "--input", required=True, metavar="URL", help="a folder, a file, or a pattern such as s3://bucket/rows/*.parquet"
    )
    build.add_argument("--key", help="the column of keys; without one the table is by position")
    build.add_argument("--value", action="append", required=True, metavar="COLUMN", help="a column of values; may be repeated")
    build.add_argument("--protocol", default="simple", help="as spirea build has it (simple)")
    build.add_argument("--proofs", choices=("include", "omit"), help="inclusion proofs, as spirea build has them")
    plans = commands.add_parser("plan", help="Say what a database takes: machines, memory, network, latency, cost.")
    plans.add_argument("--records", type=int, help="without it, the workloads of 288 GB, 384 GB and 1.25 TB")
    plans.add_argument("--record-bytes", type=int)
    plans.add_argument("--shards", type=int, help="without it, as many as the machines' memory asks for")
    plans.add_argument("--replicas", type=int, default=2, help="of each shard (2)")
    plans.add_argument("--servers", type=int, choices=(1, 2), default=1)
    plans.add_argument("--memory", type=_size, default="64GiB", metavar="SIZE", help="of a machine (64GiB)")
    plans.add_argument("--network", type=float, default=10.0, metavar="GBIT", help="of a machine, Gbit/s (10)")
    plans.add_argument("--round-trip", type=float, default=0.2, metavar="MS", help="in the cluster (0.2)")
    plans.add_argument("--price", type=float, default=0.5, help="of a machine, an hour (0.5)")
    plans.add_argument("--threads", type=int, default=0, help="of a worker (all of this machine)")
    plans.add_argument("--simulate", action="store_true", help="16 to 1,000 shards with stragglers besides")
    plans.add_argument("--json", action="store_true", help="a line for each plan and each simulation")
    plans.set_defaults(run=_plan)
    return parser


def _size(text: str) -> int:
    try:
        return size_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


class Results(io.TextIOBase):
    """Standard output for the main thread only. Output of Ray's threads, events of the cluster, goes to standard error."""

    def __init__(self, results: TextIO, events: TextIO) -> None:
        self._results, self._events = results, events

    def _stream(self) -> TextIO:
        return self._results if threading.current_thread() is threading.main_thread() else self._events

    def write(self, text: str) -> int:
        """Writes text."""
        return self._stream().write(text)

    def flush(self) -> None:
        """Flushes the stream."""
        self._stream().flush()


def _connected(config: Config) -> Any:
    """Returns the module `ray`, connected to the cluster."""
    import logging

    import ray

    # A caller in this process may have initialised Ray already.
    if not ray.is_initialized():
        _reached(config.ray.address)
        sys.stdout = Results(sys.stdout, sys.stderr)
        try:
            ray.init(config.ray.address, namespace=config.namespace, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, ValueError) as error:
            if _REFUSED in str(error.__cause__):
                raise ClusterError(
                    f"Ray at {config.ray.address} refuses us: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to its token"
                ) from error
            raise ClusterError(
                f"there is no Ray at {config.ray.address!r}: {error}; start one with ray start --head, or set ray.address"
            ) from error
    return ray


def _reached(address: str) -> None:
    """Checks that a server listens at an address. Ray itself would wait for minutes.

    Raises `ClusterError`.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECTS).close()
    except OSError as error:
        raise ClusterError(
            f"there is no Ray at {address}: {error}; start one with ray start --head, or set ray.address"
        ) from error


def _controller(config: Config) -> Any:
    """Returns the cluster's controller.

    Raises `ClusterError` if there is none.
    """
    ray = _connected(config)
    from .actors import CONTROLLER

    try:
        return ray.get_actor(CONTROLLER, namespace=config.namespace)
    except ValueError as error:
        raise ClusterError(f"no cluster {config.name} runs here; start it with spirea cluster up") from error


def _ask(method: Any, *given: Any, patience: float = 0.0, **named: Any) -> Any:
    """Calls a method of the controller and returns the answer. If the controller dies, Ray restarts it, and the call is
    repeated: no method of the controller does more when it is called twice.

    Raises `ClusterError` if the controller refuses, cannot start, or does not answer within `patience` seconds. The least is
    half a minute.
    """
    import ray
    from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

    deadline = time.monotonic() + max(patience, _PATIENCE)
    while True:
        try:
            return ray.get(method.remote(*given, **named), timeout=max(0.0, deadline - time.monotonic()))
        except RayTaskError as error:
            cause = getattr(error, "cause", None)
            raise cause if isinstance(cause, SpireaError) else ClusterError(str(error)) from error
        except (GetTimeoutError, RayActorError) as error:
            # Ray starts no actor again whose start raised an exception.
            if getattr(error, "actor_init_failed", False):
                from .actors import last_line

                reason = last_line(error).removeprefix("spirea.errors.ClusterError: ")
                raise ClusterError(f"the controller cannot start: {reason}") from error
            if time.monotonic() + _ROUND >= deadline:
                raise ClusterError("the controller does not answer; Ray starts it again, try again in a moment") from error
            time.sleep(_ROUND)


def _stored(config: Config, name: str, snapshot: str) -> tuple[str, str]:
    """Copies a snapshot into the store unless it is there. Returns its URL, which all nodes can reach, and its version."""
    source, store = Folder(snapshot), Folder(config.store)
    version = source.version()
    if source.url.startswith(store.url + "/"):
        return source.url, version
    target = store.inner(f"{name}/{version}")
    if "://" in snapshot:
        raise ClusterError(f"{source}: it is not in the store, {store}; copy it there, or give a folder of this machine")
    copied = upload(Path(snapshot), target, _telling(f"{name}: copy to the store"))
    if copied:
        print(f"{name}: copied {statuses.size(copied)} to {target}")
    return target.url, version


def _named(config: Config, name: str, snapshot: str) -> str:
    """Returns the folder or URL of a snapshot. A version names the snapshot that `build` put into the store."""
    if _VERSION.fullmatch(snapshot):
        return Folder(config.store).inner(f"{name}/{snapshot}").url
    return snapshot if "://" in snapshot else str(Path(snapshot).resolve())


def _telling(what: str) -> Callable[[int, int], None]:
    """Returns a callback that prints progress if standard error is a terminal."""

    def tell(done: int, of: int) -> None:
        if sys.stderr.isatty():
            end = "\n" if done == of else ""
            print(f"\r{what}: {statuses.size(done)} of {statuses.size(of)}", end=end, file=sys.stderr, flush=True)

    return tell


def _await(config: Config, seconds: float, done: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
    """Returns the cluster's status as soon as `done` is true of it. After some seconds, prints to standard error what is
    missing, each line once.

    Raises `ClusterError` after `seconds`.
    """
    started, printed = time.monotonic(), set[str]()
    while True:
        try:
            status: dict[str, Any] = _ask(_controller(config).status)
            last, lines = statuses.text(status), [*statuses.progress(status)]
            if done(status):
                return status
        except ClusterError as error:
            last, lines = str(error), [str(error)]
        waited = time.monotonic() - started
        if waited >= seconds:
            raise ClusterError(f"{what} has not come to be within {seconds:g} s:\n{last}")
        if waited >= _QUIET:
            for line in lines:
                if line not in printed:
                    print(f"waiting for {what}, {waited:.0f} s: {masked(line)}", file=sys.stderr, flush=True)
            printed.update(lines)
        time.sleep(_ROUND)


def _check(parsed: argparse.Namespace) -> int:
    configs.load(parsed.config)
    print("the configuration is right")
    return 0


def _up(parsed: argparse.Namespace) -> int:
    config = configs.load(parsed.config)
    ray = _connected(config)
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from .actors import CONTROLLER
    from .controller import Controller

    stored = {database.name: _stored(config, database.name, database.snapshot) for database in config.databases}
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options = {
        "name": CONTROLLER,
        "namespace": config.namespace,
        "lifetime": "detached",
        "get_if_exists": True,
        "max_restarts": -1,
        "max_concurrency": 16,
        "num_cpus": 0,
        "scheduling_strategy": here,
    }
    controller = ray.remote(Controller).options(**options).remote(config)
    # Ray starts the controller, which takes longer than half a minute on a busy machine.
    _ask(controller.configure, config, patience=parsed.wait)
    for name, (url, version) in stored.items():
        _ask(controller.publish, name, url, version, patience=parsed.wait)
    status = _await(
        config,
        parsed.wait,
        lambda status: all(statuses.serving(status, name, version) for name, (_, version) in stored.items()),
        "the cluster",
    )
    for name, (_, version) in stored.items():
        print(f"{name}: version {version} answers at {status['listen']}")
    return 0


def _build(parsed: argparse.Namespace) -> int:
    config = configs.load(parsed.config)
    _connected(config)
    from .rows import build_from_store

    last: dict[str, int] = {}

    def tell(phase: str, done: int, of: int) -> None:
        percent = 100 * done // of if of else 0
        if last.get(phase, -1) != percent and (percent % 10 == 0 or sys.stderr.isatty()):
            last[phase] = percent
            print(f"{parsed.name}: {phase}: {percent} %", file=sys.stderr, flush=True)

    version, url = build_from_store(
        parsed.input, Folder(config.store), Path(config.work) / config.name / "build", name=parsed.name, key=parsed.key,
        values=parsed.value, telling=tell, protocol=parsed.protocol, proofs=parsed.proofs,
    )  # fmt: skip
    # The URL may hold a secret, so standard output gets the version only. `publish` knows the store and needs no more.
    print(f"{parsed.name}: the snapshot is at {shown(url)}", file=sys.stderr)
    print(version)
    return 0


def _plan(parsed: argparse.Namespace) -> int:
    from .. import measure_rates
    from .. import plan as planned
    from . import costs

    if (parsed.records is None) != (parsed.record_bytes is None):
        raise ClusterError("--records and --record-bytes belong together; give both, or neither for the workloads")
    machine = costs.Machine(parsed.memory, parsed.network * 1e9 / 8, parsed.round_trip / 1e3, parsed.price)
    own = costs.Workload("table", parsed.records or 0, parsed.record_bytes or 0)
    rates = measure_rates(parsed.threads)
    for workload in costs.WORKLOADS if parsed.records is None else (own,):
        rows = planned(
            records=workload.records, record_bytes=workload.record_bytes, servers=parsed.servers, rates=rates, frame="dicts"
        )
        found = costs.plans(rows, machine, shards=parsed.shards, replicas=parsed.replicas, servers=parsed.servers)
        if not parsed.json:
            print(f"{workload.name}: {workload.records} records of {workload.record_bytes} bytes")
            print(_PLAN_HEAD)
        for each in found:
            print(json.dumps({"workload": workload.name} | vars(each)) if parsed.json else _plan_line(each))
        if parsed.simulate and found:
            outcomes = costs.stragglers(
                found[0], machine, (16, 64, 256, 1000), replicas=parsed.replicas, load=0.3, queries=600
            )
            for count, outcome in outcomes.items():
                said = {"shards": count, "p50": outcome.quantile(0.5), "p99": outcome.quantile(0.99), "hedged": outcome.hedged}
                if parsed.json:
                    print(json.dumps({"workload": workload.name, "simulated": found[0].protocol} | said))
                else:
                    print(
                        f"simulated {found[0].protocol}: {count} shards, load 30 %, 1 % of parts 10 times as slow: "
                        f"p50 {said['p50']:.2f} s, p99 {said['p99']:.2f} s, {outcome.hedged} second requests"
                    )
    return 0


_PLAN_HEAD = (
    f"{'protocol':<24}{'shards':>7}{'machines':>9}{'memory':>11}{'scan':>9}{'rest':>9}{'in cluster':>12}"
    f"{'latency':>10}{'queries/s':>10}{'1,000 queries':>14}"
)


def _plan_line(plan: Any) -> str:
    return (
        f"{plan.protocol:<24}{plan.shards:>7}{plan.machines:>9}{statuses.size(plan.memory):>11}{plan.scan:>7.2f} s"
        f"{plan.rest:>7.2f} s{statuses.size(plan.wire):>12}{plan.latency:>8.2f} s{plan.queries_per_second:>10.2f}"
        f"{1000 * plan.cost:>14.2f}"
    )


def _publish(parsed: argparse.Namespace) -> int:
    config = configs.load(parsed.config)
    controller = _controller(config)
    database: Database | None = config.database(parsed.database)
    if database is None:
        raise ClusterError(f"{parsed.config} has no database {parsed.database}; name one of its databases")
    url, version = _stored(config, database.name, _named(config, database.name, parsed.snapshot))
    shrinking = parsed.allow_shrinking
    _ask(controller.publish, database.name, url, version, patience=parsed.wait, may_shrink=shrinking)
    _await(config, parsed.wait, lambda status: statuses.serving(status, database.name, version), f"version {version}")
    print(f"{database.name}: version {version} answers")
    return 0


def _status(parsed: argparse.Namespace) -> int:
    config = configs.load(parsed.config)
    controller = _controller(config)
    if parsed.wait > 0:
        _await(config, parsed.wait, statuses.settled, "the cluster")
    if parsed.metrics:
        print(_ask(controller.metrics), end="")
        return 0
    status = _ask(controller.status)
    if parsed.json:
        print(json.dumps(status))
    elif parsed.page is not None:
        parsed.page.write_text(statuses.page(status), encoding="utf-8")
    else:
        print(statuses.text(status), end="")
    return 0


def _down(parsed: argparse.Namespace) -> int:
    config = configs.load(parsed.config)
    controller = _controller(config)
    import ray
    from ray.exceptions import RayError

    from .actors import GATEWAY

    _ask(controller.down, patience=parsed.wait)
    ended = "the end of all workers"
    _await(config, parsed.wait, lambda status: not any(each["versions"] for each in status["databases"]), ended)
    gateway = ray.get_actor(GATEWAY, namespace=config.namespace)
    try:
        ray.get(gateway.stop.remote(), timeout=parsed.wait)
    except RayError as error:
        raise ClusterError(f"the coordinator did not end: {error}") from error
    finally:
        ray.kill(controller)
        ray.kill(gateway)
    print(f"cluster {config.name} has ended")
    return 0
