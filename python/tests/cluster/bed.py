"""The test bed: Ray with several nodes on this machine, clusters on it, and clients that ask without pause."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import yaml

import spirea
from spirea_ports import free_ports

LONG = os.environ.get("SPIREA_CLUSTER") == "long"
ROWS = 2000
NODES = 3
MEMORY = 100 << 20
"""Size of a node's object store, which stays empty."""


def value(key, edition):
    return f"the value of {key}, edition {edition}".encode()


def snapshot(folder, name, edition, protocol):
    """Builds a snapshot of a table whose values contain the edition."""
    keys = [f"key-{i}" for i in range(ROWS)]
    table = {"key": keys, "value": [value(key, edition).decode() for key in keys]}
    return spirea.build(table, folder / f"{name}-{edition}", key="key", value="value", name=name, protocol=protocol)


class Bed:
    """A cluster's configuration in a folder, and the command `spirea cluster` for it."""

    def __init__(self, folder, address, databases, **sections):
        self.folder = folder
        clients, admin, operations = free_ports(3)
        self.url, self.admin = f"http://127.0.0.1:{clients}", f"http://127.0.0.1:{admin}"
        self.operations = f"http://127.0.0.1:{operations}"
        self.config = {
            "name": f"test-{clients}",
            "store": "store",
            "state": "state",
            "work": "work",
            "ray": {"address": address},
            "databases": databases,
            "coordinator": {"listen": f"127.0.0.1:{clients}", "admin": f"127.0.0.1:{admin}"},
            "operations": {"listen": f"127.0.0.1:{operations}"},
            "workers": {"cpus": 0.25, "memory": "200MiB", "threads": 1},
            "roll_over": {"keep": "3s"},
            "timing": {"tick": "200ms", "silent": "3s", "drain": "1s"},
        }
        for name, section in sections.items():
            self.config[name] = self.config.get(name, {}) | section if isinstance(section, dict) else section
        self.namespace = f"spirea-{self.config['name']}"
        self.path = folder / "cluster.yaml"
        self.write()

    def write(self):
        self.path.write_text(yaml.safe_dump(self.config), encoding="utf-8")

    def run(self, command, *arguments, seconds=600):
        """Runs `spirea cluster COMMAND`, which must succeed. Returns its output."""
        done = subprocess.run(
            [sys.executable, "-m", "spirea", "cluster", command, self.path, *map(str, arguments)],
            capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr + self.logs()
        return done.stdout

    def status(self):
        return json.loads(self.run("status", "--json"))

    def settle(self, seconds=300):
        """Waits until all replicas are ready, and returns the status."""
        self.run("status", "--wait", seconds, seconds=seconds + 30)
        return self.status()

    def notice(self, noticed, seconds=300):
        """Waits until `noticed(status)` holds, because the controller notices a fault with a delay."""
        deadline = time.monotonic() + seconds
        while not noticed(self.status()):
            assert time.monotonic() < deadline, "the controller has not noticed the fault"
            time.sleep(0.1)

    def replicas(self, status=None):
        return [
            (share["share"], replica)
            for database in (status or self.status())["databases"]
            for version in database["versions"]
            for share in version["shares"]
            for replica in share["replicas"]
        ]

    def processes(self):
        """Returns the processes that serve shares, by the worker's number."""
        found = {}
        for folder in Path("/proc").iterdir():
            try:
                said = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"worker" in said and b"--tls-key" in said:
                key = said[said.index(b"--tls-key") + 1].decode()
                if key.startswith(str(self.folder)):
                    found[int(Path(key).parent.parent.name.removeprefix("worker-"))] = int(folder.name)
        return found

    def logs(self):
        """Returns the last lines of all programs' logs."""
        logs = sorted(self.folder.glob("work/**/log"))
        return "".join(f"\n--- {log}\n" + "\n".join(log.read_text().splitlines()[-15:]) for log in logs)


class Load:
    """Clients in threads of this process. They check each value and record each failure."""

    def __init__(self, url, database, clients=2, editions=(1,), rest=0.0):
        self.editions, self.rest = set(editions), rest
        """Accepted editions, and the mean pause of a client between queries in seconds."""
        self.patient = False
        """True if a client retries when no server is reachable, which is necessary if the coordinator itself is lost."""
        self.url, self.database = url, database
        self.failures, self.wrong, self.times = [], [], []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(i,)) for i in range(clients)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, seed):
        draw = random.Random(seed)
        with spirea.Client(self.url, self.database, timeout=180.0, wait=120.0) as client:
            while not self._stop.is_set():
                if self.rest > 0:
                    self._stop.wait(draw.expovariate(1 / self.rest))
                key, began = f"key-{draw.randrange(ROWS + 20)}", time.monotonic()
                try:
                    found = self._found(client, key)
                except spirea.SpireaError as error:
                    self.failures.append(f"{type(error).__name__}: {error}")
                    continue
                self.times.append((began, time.monotonic() - began))
                expected = {value(key, edition) for edition in self.editions} if int(key[4:]) < ROWS else {None}
                if (None if found is None else bytes(found)) not in expected:
                    self.wrong.append(key)

    def _found(self, client, key):
        while True:
            try:
                return client.get(key)
            except (spirea.UnreachableError, spirea.RefusedError) as error:
                # The server is unreachable, or still loads its database.
                away = isinstance(error, spirea.UnreachableError) or "is being loaded" in str(error)
                if not (self.patient and away) or self._stop.is_set():
                    raise
                time.sleep(0.05)

    def await_answers(self, count, seconds=300):
        """Waits for `count` more answers."""
        target, deadline = len(self.times) + count, time.monotonic() + seconds
        while len(self.times) < target:
            assert time.monotonic() < deadline, f"no answers: {self.failures[-3:]}"
            time.sleep(0.02)

    def check(self):
        """Fails if a client saw a wrong answer or an error, and names the first ones."""
        assert not self.wrong, f"{len(self.wrong)} wrong answers: {self.wrong[:3]}"
        assert not self.failures, f"{len(self.failures)} failures: {self.failures[:3]}"

    def p99(self, begin, end):
        """Returns the 99th percentile of the latency of queries asked in a time span; None without queries."""
        times = sorted(took for asked, took in self.times if begin <= asked < end)
        return times[min(len(times) - 1, int(0.99 * len(times)))] if times else None

    def recovered(self, fault, normal, slack):
        """Returns the number of seconds after a fault until the latency is normal; None if it is not normal yet.

        A second is normal if its p99 is at most three times the normal one plus `slack`. A second without queries is not
        normal.
        """
        seconds = int(time.monotonic() - fault)
        found = [self.p99(fault + second, fault + second + 1) for second in range(seconds)]
        abnormal = [second for second, p99 in enumerate(found) if p99 is None or p99 > 3 * normal + slack]
        if LONG and abnormal:
            print("seconds above:", ", ".join(f"{s}: {found[s] or -1:.2f} s" for s in abnormal))
        last = max(abnormal, default=-1)
        return None if last == seconds - 1 else last + 1
