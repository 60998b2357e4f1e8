#!/usr/bin/env python3
"""Spirea's demo: serve the Unicode character database and look characters up privately.

Usage: demo.py PATH_TO_SPIREA

The table is real data that comes with Python: each named character of Unicode, with its code point as the key, and its name
and category as the value. A recorder between client and server shows the bytes that the server can see of a look-up. If Node
is installed, the demo then compiles a page for look-ups in a browser, and serves it with two more lists of examples: bad
domains and leaked passwords.
"""

import contextlib
import csv
import http.client
import http.server
import json
import os
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import unicodedata
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRESENT = ["U+0041", "U+03C0", "U+1F338", "U+4E2D"]
ABSENT = ["U+0000", "U+D800", "not a code point"]


def write_table(path):
    """Writes the table as CSV; returns the number of rows."""
    rows = 0
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["codepoint", "name", "category"])
        for code in range(sys.maxunicode + 1):
            name = unicodedata.name(chr(code), None)
            if name is not None:
                table.writerow([f"U+{code:04X}", name, unicodedata.category(chr(code))])
                rows += 1
    return rows


def domains():
    """Returns domains that RFC 2606 reserves, each with a verdict."""
    kinds = {"ads": "advertising", "tracker": "tracking", "phish": "phishing", "miner": "mining"}
    return [(f"{kind}-{number}.example", verdict) for kind, verdict in kinds.items() for number in range(500)]


def passwords():
    """Returns typical passwords, each with a made-up number of leaks."""
    words = ["password", "qwerty", "iloveyou", "dragon", "monkey", "letmein", "sunshine", "football", "welcome", "shadow"]
    made = [f"{word}{number}" for word in words for number in ["", *range(200)]]
    return [(password, 1 + 1_000_000 // (place + 1)) for place, password in enumerate([*made, "123456", "hunter2"])]


# The lists for the page: protocol, name of the value, function for the entries, and an example key.
LISTS = {
    "bad-domains": ("simple", "verdict", domains, "ads-7.example"),
    "leaked-passwords": ("hybrid", "times", passwords, "hunter2"),
}


def build_list(spirea, folder, name):
    """Builds a list for the page; every value is marked as an example. Returns its snapshot."""
    protocol, field, entries, _ = LISTS[name]
    path, snapshot = folder / f"{name}.csv", folder / name
    rows = entries()
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("key", field, "source"), *((key, value, "an example") for key, value in rows)])
    command = [spirea, "build", "--input", path, "--key", "key", "--value", field, "source", "--protocol", protocol]
    timed(f"{name}, {len(rows):,} examples under {protocol}", [*command, "--out", snapshot])
    return snapshot


class Recorder(http.server.BaseHTTPRequestHandler):
    """Forwards requests to the server, and records each of them."""

    protocol_version = "HTTP/1.1"
    upstream = None
    seen = []

    def relay(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
        upstream = http.client.HTTPConnection(*self.upstream)
        upstream.request(self.command, self.path, body or None, headers)
        answer = upstream.getresponse()
        content = answer.read()
        self.seen.append((self.command, self.path, body, len(content)))
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        upstream.close()

    do_GET = do_POST = relay

    def log_message(self, *_):
        """Logs nothing: the demo prints the records itself."""


class ThreadingServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


def timed(title, command, statuses=(0,)):
    """Runs a command; prints its time and its standard error. Returns its standard output."""
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in statuses:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}exit status {done.returncode}")
    print(f"  {title}: {time.perf_counter() - started:.2f} s")
    for line in done.stderr.splitlines():
        print(f"    {line}")
    return done.stdout


def start_server(spirea, log, *arguments):
    """Starts the server on a free loopback port; returns the process and its address."""
    command = [spirea, "serve", *arguments, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    line = process.stdout.readline().strip()
    if not line.startswith("listening on http://"):
        process.kill()
        sys.exit(f"the server did not start: {line!r}\n{Path(log.name).read_text(encoding='utf-8')}")
    host, port = line.removeprefix("listening on http://").rsplit(":", 1)
    return process, (host, int(port))


def check_page(spirea, page, folder):
    """Checks that the server has the page and its lists, and prints their addresses."""
    with urllib.request.urlopen(page, timeout=60) as response:
        if b"Look up privately" not in response.read():
            sys.exit(f"{page} is not the demo page")
    print(f"  look-ups in a browser: {page}")
    for name, (_, field, entries, key) in LISTS.items():
        command = [spirea, "get", page.removesuffix("/demo/"), name, key, "--cache", folder / "cache", "--json"]
        value = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["value"]
        if value != {field: str(dict(entries())[key]), "source": "an example"}:
            sys.exit(f"wrong answer: {key} in {name}: {value}")
        print(f"    {page}?list={name} has {key}")


def wait_for_visitors(page):
    """Keeps the server running until the visitor has done with the page."""
    if sys.stdin.isatty():
        print(f"Look up in a browser: {page}")
        with contextlib.suppress(KeyboardInterrupt, EOFError):
            input("  Enter stops the server. ")


def wait_ready(address):
    """Waits until the server has loaded its data. Returns the seconds."""
    started = time.perf_counter()
    while time.perf_counter() - started < 60:
        probe = http.client.HTTPConnection(*address)
        probe.request("GET", "/readyz")
        if probe.getresponse().status == 200:
            return time.perf_counter() - started
        time.sleep(0.02)
    sys.exit("the server was not ready within a minute")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    spirea = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="spirea-demo-") as folder:
        folder = Path(folder)
        table, snapshot = folder / "unicode.csv", folder / "unicode"

        print("1. A table with keys")
        rows = write_table(table)
        print(f"  {rows:,} characters of Unicode {unicodedata.unidata_version}, {table.stat().st_size:,} bytes of CSV")

        print("2. Build a snapshot")
        columns = ["--key", "codepoint", "--value", "name", "category"]
        timed("build", [spirea, "build", "--input", table, *columns, "--protocol", "simple", "--out", snapshot])
        print("    " + timed("inspect", [spirea, "inspect", snapshot]).strip().replace("\n", "\n    "))

        print("3. Serve it")
        with serving(spirea, folder, snapshot) as (address, _):
            Recorder.upstream = address
            recorder = ThreadingServer(("127.0.0.1", 0), Recorder)
            threading.Thread(target=recorder.serve_forever, daemon=True).start()
            look_up(spirea, f"http://127.0.0.1:{recorder.server_address[1]}", folder)
            recorder.shutdown()

        print("6. The same in a browser", flush=True)
        if subprocess.run([sys.executable, ROOT / "scripts" / "web.py", "--page"], check=False).returncode != 0:
            print("  no page: see above for what it needs")
            return
        lists = [build_list(spirea, folder, name) for name in LISTS]
        with serving(spirea, folder, snapshot, *lists, "--demo") as (_, server):
            page = server.stdout.readline().strip().removeprefix("demo on ")
            check_page(spirea, page, folder)
            wait_for_visitors(page)


@contextlib.contextmanager
def serving(spirea, folder, *arguments):
    """Runs a server; yields its address and its process when it is ready. The server must end with status 0."""
    with open(folder / "server.log", "w", encoding="utf-8") as log:
        server, address = start_server(spirea, log, *arguments)
        try:
            print(f"  ready after {wait_ready(address):.2f} s at http://{address[0]}:{address[1]}")
            yield address, server
        finally:
            server.send_signal(signal.SIGTERM)
            status = server.wait(timeout=30)
    print(f"  the server stopped with status {status}", flush=True)
    if status != 0:
        sys.exit(Path(folder / "server.log").read_text(encoding="utf-8"))


def look_up(spirea, url, folder):
    """Looks up the demo's keys, checks the values, and shows the bytes that the server saw."""
    print("4. Look characters up, privately")
    command = [spirea, "get", url, "unicode", "--cache", folder / "cache", "--json", "--timings"]
    timed("first look-up, with the download of the hint", [*command, PRESENT[0]])
    lines = timed(f"{len(PRESENT) + len(ABSENT)} look-ups in one request", [*command, *PRESENT, *ABSENT], (1,))
    lines = lines.splitlines()
    for line in lines:
        answer = json.loads(line)
        if answer["found"]:
            code = int(answer["key"].removeprefix("U+"), 16)
            expected = {"name": unicodedata.name(chr(code)), "category": unicodedata.category(chr(code))}
            if answer["value"] != expected:
                sys.exit(f"wrong answer: {answer}")
            print(f"    {answer['key']:18} {answer['value']['name']} ({answer['value']['category']})")
        else:
            print(f"    {answer['key']:18} not found")
    found = [json.loads(line)["found"] for line in lines]
    if found != [True] * len(PRESENT) + [False] * len(ABSENT):
        sys.exit(f"expected {len(PRESENT)} characters and {len(ABSENT)} absences, got {found}")

    print("5. What the server can see: a key that is there, then one that is not")
    Recorder.seen.clear()
    timed("present", [*command, PRESENT[0]])
    timed("absent", [*command, ABSENT[0]], (1,))
    queries = [(body, answered) for method, _, body, answered in Recorder.seen if method == "POST"]
    for method, path, body, answered in Recorder.seen:
        if method == "POST":
            start = body[len(body) // 2 :][:12].hex(" ")
            print(f"    {method} {path}: {len(body):,} bytes in, from the middle {start} ..., {answered:,} bytes out")
        else:
            print(f"    {method} {path}: {answered:,} bytes out")
    if len({(len(body), answered) for body, answered in queries}) != 1 or len(queries) != 2:
        sys.exit("the two queries differ in length")
    print("    A query is pseudorandom bytes, and as many for every key.")


if __name__ == "__main__":
    main()
