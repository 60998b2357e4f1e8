"""Tables, and servers of them: processes of the command."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

ROWS = 1000
FIELDS = ["value", "note"]
PROTOCOLS = ["simple", "double", "exppack-simple", "exppack-double", "double-pack", "hybrid", "onion"]
# The least work to build, of each kind: a hint, keys, keys of another shape.
COMMON = ["simple", "hybrid", "onion"]
PER_QUERY = ["exppack-simple", "exppack-double", "hybrid"]
PAIRS = ["dpf-xor", "dpf-sum"]


def value(row: int) -> list[str]:
    return [f"value {row}", f"note of {row}"]


def write_table(path: Path, rows: int = ROWS) -> None:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["key", *FIELDS])
        table.writerows([f"key-{row}", *value(row)] for row in range(rows))


class Spirea:
    """The command, in a folder of its own."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.folder = program, folder
        write_table(folder / "table.csv")

    def run(self, *arguments: object) -> str:
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")}
        done = subprocess.run(
            [self.program, *map(str, arguments)], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def build(
        self, name: str, protocol: str, *options: object, table: str = "table.csv", fields: Sequence[str] = FIELDS
    ) -> Path:
        path = self.folder / name
        self.run("build", "--input", table, "--key", "key", "--value", *fields, "--protocol", protocol, "--out", path, *options)
        return path


class Server:
    """A server that is ready."""

    def __init__(self, spirea: Spirea, *arguments: object) -> None:
        command = [spirea.program, "serve", *arguments, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
        self.log = (spirea.folder / "server.log").open("a")
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=self.log, text=True)
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline() for _ in range(2)]
        found = [re.search(r"http://(127\.0\.0\.1:\d+)", line) for line in lines]
        assert all(found), (lines, (spirea.folder / "server.log").read_text())
        self.url, self.admin = (match.group() for match in found if match)
        self.wait_ready()

    def wait_ready(self) -> None:
        for _ in range(6000):
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=60):
                    return
            except urllib.error.HTTPError as error:
                assert error.code == 503, error
            time.sleep(0.01)
        self.process.kill()
        raise AssertionError("the server is not ready")

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(timeout=60) == 0
        self.log.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
