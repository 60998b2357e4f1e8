#!/usr/bin/env python3
"""Spirea's demo of two servers: neither learns what is looked up, and the client detects that they serve different versions.

Usage: demo_two_server.py PATH_TO_SPIREA

The table has the status codes of HTTP with their phrases, from Python. Both servers run on this machine. In production they
belong to two operators who do not work together.
"""

import csv
import http
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

from demo import start_server, timed, wait_ready

NAME = "statuses"
PRESENT = ["200", "404", "418"]
ABSENT = ["299", "600", "teapot"]
CHANGED = ("418", "I'm a Coffee Pot")


def write_table(path, phrases):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("code", "phrase"), *phrases.items()])


def build(spirea, folder, version, phrases):
    """Builds a snapshot of the phrases. Returns its folder and its version."""
    table, snapshot = folder / f"{version}.csv", folder / version
    write_table(table, phrases)
    command = [spirea, "build", "--input", table, "--key", "code", "--value", "phrase", "--protocol", "dpf-xor"]
    lines = timed(f"{version}, {len(phrases)} rows", [*command, "--name", NAME, "--out", snapshot]).splitlines()
    said = dict(line.strip().split("  ", 1) for line in lines if "  " in line.strip())
    print(f"    version {said['version'][:8]}; a look-up: {said['a look-up']}")
    return snapshot, said["version"]


@contextmanager
def party(spirea, folder, number, snapshot):
    """Runs a server for the duration of the block and yields its address. Checks that it stops with status 0."""
    with open(folder / f"party-{number}.log", "w", encoding="utf-8") as log:
        server, address = start_server(spirea, snapshot, log, "--party", str(number))
        try:
            wait_ready(address)
            yield f"http://{address[0]}:{address[1]}"
        finally:
            server.send_signal(signal.SIGTERM)
            status = server.wait(timeout=30)
    assert status == 0, f"party {number} stopped with status {status}"


def look_up(spirea, folder, urls, phrases):
    """Looks up the demo's keys at both servers, and checks the values."""
    command = [spirea, "get", urls[0], NAME, "--other", urls[1], "--cache", folder / "cache", "--json"]
    lines = timed("look-up", [*command, *PRESENT, *ABSENT], (1,)).splitlines()
    answers = {answer["key"]: answer.get("value") for answer in map(json.loads, lines)}
    assert answers == {key: {"phrase": phrases[key]} for key in PRESENT} | dict.fromkeys(ABSENT), answers
    for key, value in answers.items():
        print(f"    {key:8} {value['phrase'] if value else 'not found'}")


def expect_refusal(spirea, folder, urls, versions):
    """Looks up a key at servers of different versions. Checks that the client reports the versions and prints no value."""
    command = [spirea, "get", urls[0], NAME, CHANGED[0], "--other", urls[1], "--cache", folder / "cache"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and not done.stdout, done
    for number, version in enumerate(versions):
        assert f"party {number} serves" in done.stderr and version[:8] in done.stderr, done.stderr
    print(f"  exit status {done.returncode}: {done.stderr.strip()}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    spirea = os.path.abspath(sys.argv[1])
    phrases = {str(status.value): status.phrase for status in http.HTTPStatus}
    assert all(key in phrases for key in PRESENT) and not any(key in phrases for key in ABSENT)
    changed = phrases | dict([CHANGED])
    with tempfile.TemporaryDirectory(prefix="spirea-demo-") as folder:
        folder = Path(folder)

        print("1. Build two snapshots: today's table, and tomorrow's with another value")
        today, version = build(spirea, folder, "today", phrases)
        tomorrow, next_version = build(spirea, folder, "tomorrow", changed)
        assert version != next_version

        with ExitStack() as zeros, ExitStack() as ones:
            print("2. Serve today's as party 0 and party 1, and look codes up in both")
            zero = zeros.enter_context(party(spirea, folder, 0, today))
            one = ones.enter_context(party(spirea, folder, 1, today))
            look_up(spirea, folder, [zero, one], phrases)

            print("3. Restart party 1 with tomorrow's: the client notices before it asks")
            ones.close()
            one = ones.enter_context(party(spirea, folder, 1, tomorrow))
            expect_refusal(spirea, folder, [zero, one], [version, next_version])

            print("4. Restart party 0 with tomorrow's too: the new value; the addresses in the other order")
            zeros.close()
            zero = zeros.enter_context(party(spirea, folder, 0, tomorrow))
            look_up(spirea, folder, [one, zero], changed)
    print("5. Every server stopped with status 0")


if __name__ == "__main__":
    main()
