#!/usr/bin/env python3
"""Measures the speed-up by a second worker and the overhead of a coordinator, with real processes on this machine.

    bench_cluster.py SPIREA [--mib 256] [--seconds 10] [--clients 8] [--snapshot DIR]

Each worker has one thread and its own processor. The script prints, as JSON:

- queries_per_second: throughput of one worker with the whole database, and of two workers with a half each. Both are asked
  through a coordinator by --clients connections, each of which sends its next query when it has its answer;
- processor_ms: processor time of a query in these runs, for the busiest worker and for the coordinator. If other programs run
  too, it is more reliable than the clock;
- overhead_ms: the time of the median query through a coordinator and one worker, minus its time at `spirea serve` of the same
  database on the same processor. Queries are sent one after another.

Queries are random bytes of the right length, which under `simple` take as long as real ones. The script encodes the messages
itself, so that Python and openssl are enough. Answers through the coordinator are compared with the server's, byte for byte.
"""

import argparse
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROW_BYTES = 1000


def varint(number):
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def envelope(version, query):
    """Encodes a request to the base of a version (docs/wire.md): format 1, the version, a query."""
    return varint(1 << 3) + varint(1) + field(2, version) + field(3, query)


def answers(message):
    """Returns the answers in a response, which are its fields 3."""
    found, at = [], 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 0:
            number()
        elif key & 7 == 1:
            at += 8
        elif key & 7 == 2:
            length = number()
            if key >> 3 == 3:
                found.append(message[at : at + length])
            at += length
        else:
            sys.exit(f"a response has a field of wire type {key & 7}")
    return found


def certificates(folder):
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=bench")
    openssl("req", *curve, "-keyout", "own.key", "-out", "own.csr", "-subj", "/CN=own")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
    openssl("x509", "-req", "-in", "own.csr", "-out", "own.pem", *signed)


class Bench:
    def __init__(self, spirea, folder, snapshot, seconds, clients):
        self.spirea, self.folder, self.snapshot = spirea, folder, snapshot
        self.seconds, self.clients = seconds, clients
        self.processes = []
        manifest = json.loads((snapshot / "manifest.json").read_text())
        self.name = manifest["snapshot"]["name"]
        self.version = bytes.fromhex(manifest["blake3"])
        protocol = manifest["snapshot"]["protocol"]
        if protocol["protocol"] != "simple":
            sys.exit(f"{snapshot}: it is of {protocol['protocol']}, and queries are made for simple alone")
        self.query_bytes = 4 * protocol["columns"]

    def start(self, processor, *arguments):
        pinned = ["taskset", "--cpu-list", str(processor)] if processor is not None else []
        process = subprocess.Popen(
            [*pinned, self.spirea, *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=(self.folder / "log").open("a"),
            text=True,
        )
        self.processes.append(process)
        return process.stdout.readline().strip()

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()
        self.processes = []

    def workers(self, count):
        """Starts `count` workers and a coordinator. Returns the coordinator's address."""
        shares = []
        for index in range(count):
            known = ["--tls-cert", "own.pem", "--tls-key", "own.key", "--client-ca", "ca.pem"]
            share = ["--snapshot", str(self.snapshot), "--share", f"{index}/{count}"]
            said = self.start(index, "worker", *share, "--listen", "127.0.0.1:0", "--threads", "1", *known)
            shares.append([json.loads(said)["address"]])
        placed = {"path": str(self.snapshot), "shares": shares}
        document = {"databases": [{"name": self.name, "snapshots": [placed]}]}
        (self.folder / "placement.json").write_text(json.dumps(document))
        known = ["--worker-ca", "ca.pem", "--tls-client-cert", "own.pem", "--tls-client-key", "own.key"]
        placed = ["--placement", "placement.json", "--threads", "1"]
        said = self.start(None, "coordinator", "--listen", "127.0.0.1:0", *placed, *known)
        return self.ready(said)

    def server(self):
        listen = ["--listen", "127.0.0.1:0", "--threads", "1", "--backend", "cpu"]
        return self.ready(self.start(0, "serve", str(self.snapshot), *listen))

    def ready(self, said):
        address = said.removeprefix("listening on http://")
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            connection = http.client.HTTPConnection(address)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                # Until the table is copied to memory, queries are answered from its file.
                time.sleep(2)
                return address
            time.sleep(0.1)
        sys.exit(f"{address} does not become ready: see {self.folder / 'log'}")

    def ask(self, connection, query):
        body = envelope(self.version, query)
        headers = {"Content-Type": "application/x-protobuf"}
        connection.request("POST", f"/v1/databases/{self.name}/query", body, headers)
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            sys.exit(f"status {response.status}: {content!r}")
        given = answers(content)
        if len(given) != 1:
            sys.exit(f"{len(given)} answers to a query")
        return given[0]

    def query(self, seed):
        return random.Random(seed).randbytes(self.query_bytes)

    def processor_seconds(self):
        """Returns each process's processor time: fields 14 and 15 of proc_pid_stat(5), after the name in parentheses."""
        fields = [Path(f"/proc/{it.pid}/stat").read_text().rpartition(")")[2].split() for it in self.processes]
        return [(int(of[11]) + int(of[12])) / os.sysconf("SC_CLK_TCK") for of in fields]

    def throughput(self, address):
        """Measures queries per second with connections that are never idle, and processor milliseconds per query."""
        before, asked = self.processor_seconds(), [0] * self.clients
        counts = [0] * self.clients
        begins = time.monotonic() + 1
        ends = begins + self.seconds

        def client(index):
            connection, query = http.client.HTTPConnection(address), self.query(index)
            while time.monotonic() < ends:
                self.ask(connection, query)
                asked[index] += 1
                counts[index] += begins < time.monotonic() < ends

        threads = [threading.Thread(target=client, args=(index,)) for index in range(self.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        each = [(now - then) * 1000 / sum(asked) for then, now in zip(before, self.processor_seconds())]
        # The coordinator was started last.
        costs = {"busiest_worker": round(max(each[:-1]), 2), "coordinator": round(each[-1], 2)}
        return sum(counts) / self.seconds, costs

    def median(self, address):
        """Measures the milliseconds of the median query of one connection. Also returns the answers to the first queries."""
        connection = http.client.HTTPConnection(address)
        given = [self.ask(connection, self.query(seed)) for seed in range(5)]
        times, ends, query = [], time.monotonic() + self.seconds, self.query(0)
        while time.monotonic() < ends or len(times) < 20:
            began = time.monotonic()
            self.ask(connection, query)
            times.append(time.monotonic() - began)
        return statistics.median(times) * 1000, given


def build(spirea, folder, mib):
    rows, letters = mib * (1 << 20) // (ROW_BYTES + 24), "abcdefghijklmnopqrstuvwxyz"
    table = folder / "table.csv"
    with table.open("w") as out:
        out.write("value\n")
        value = random.Random(1).choices(letters, k=ROW_BYTES)
        for row in range(rows):
            out.write(f"{row:020}{''.join(value)}\n")
    snapshot = folder / "words"
    options = ["--value", "value", "--protocol", "simple", "--name", "words", "--out", str(snapshot)]
    subprocess.run([spirea, "build", "--quiet", "--input", str(table), *options], check=True)
    table.unlink()
    return snapshot


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spirea", type=Path)
    parser.add_argument("--mib", type=int, default=256, help="size of the table")
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--clients", type=int, default=8, help="connections that ask without a rest")
    parser.add_argument("--snapshot", type=Path, help="one that was built before, of simple, by position")
    options = parser.parse_args()
    spirea = options.spirea.resolve()
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("two workers of a processor each need two processors")
    with tempfile.TemporaryDirectory(prefix="spirea-bench-cluster-") as folder:
        folder = Path(folder)
        certificates(folder)
        snapshot = options.snapshot.resolve() if options.snapshot else build(spirea, folder, options.mib)
        size = (snapshot / "matrix.bin").stat().st_size
        bench = Bench(spirea, folder, snapshot, options.seconds, options.clients)
        try:
            alone, expected = bench.median(bench.server())
            bench.stop()
            address = bench.workers(1)
            through, given = bench.median(address)
            one, costs_of_one = bench.throughput(address)
            bench.stop()
            address = bench.workers(2)
            halves, given_by_halves = bench.median(address)
            two, costs_of_two = bench.throughput(address)
        finally:
            bench.stop()
        if not given == given_by_halves == expected:
            sys.exit("the answers are not those of the server")
    print(
        json.dumps(
            {
                "matrix_bytes": size,
                "queries_per_second": {"one_worker": round(one, 2), "two_workers": round(two, 2)},
                "speed_up": round(two / one, 3),
                "processor_ms": {"one_worker": costs_of_one, "two_workers": costs_of_two},
                "median_ms": {
                    "server": round(alone, 2),
                    "one_worker": round(through, 2),
                    "two_workers": round(halves, 2),
                },
                "overhead_ms": round(through - alone, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
