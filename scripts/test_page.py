#!/usr/bin/env python3
"""The operator's page in a browser without a window: what it shows is what the server did.

usage: test_page.py SPIREA

Needs Chromium; where there is none and this may install packages, it installs Debian's.
"""

import os
import re
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import debian

LOOK_UPS = 7


class Page(HTMLParser):
    """The text of elements by id, and how many elements have a class."""

    def __init__(self, dom):
        super().__init__()
        self.open, self.texts, self.hidden, self.classes = [], {}, set(), []
        self.feed(dom)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.classes += (attributes.get("class") or "").split()
        if "hidden" in attributes:
            self.hidden.add(attributes.get("id"))
        if tag not in ("meta", "link", "input", "br"):
            self.open.append((tag, attributes.get("id")))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for _, name in self.open:
            if name:
                self.texts[name] = self.texts.get(name, "") + data + " "

    def text(self, name):
        return " ".join(self.texts.get(name, "").split())


class Browser:
    def __init__(self, folder):
        browser = debian.program(["chromium", "chromium-browser", "google-chrome"], ["chromium"])
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        self.command = [browser, *flags, f"--user-data-dir={folder}/profile", "--window-size=1100,1000"]

    def dump(self, url, picture=None):
        """The page after a few of its seconds, and a picture of it."""
        if picture:
            picture_flags = [f"--screenshot={picture}", "--virtual-time-budget=5000"]
            subprocess.run([*self.command, *picture_flags, url], check=True, capture_output=True, timeout=120)
        done = subprocess.run(
            [*self.command, "--virtual-time-budget=5000", "--dump-dom", url],
            check=True, capture_output=True, text=True, timeout=120,
        )
        return Page(done.stdout)


class Server:
    def __init__(self, spirea, *arguments):
        command = [spirea, "serve", *arguments, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        lines = [self.process.stdout.readline() for _ in range(2)]
        self.data, self.admin = (re.search(r"http://\S+", line).group() for line in lines)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)


def expect(page, name, *parts):
    text = page.text(name)
    for part in parts:
        assert part in text, f"{name} shows {text!r}, without {part!r}"


def main():
    spirea = str(Path(sys.argv[1]).resolve())
    picture = sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory() as folder:
        def run(*arguments):
            environment = {**os.environ, "XDG_CACHE_HOME": f"{folder}/cache"}
            done = subprocess.run([spirea, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return done

        rows = "".join(f"key-{i},value {i}\n" for i in range(200))
        Path(folder, "table.csv").write_text("key,value\n" + rows)
        run("build", "--input", "table.csv", "--key", "key", "--value", "value", "--protocol", "simple",
            "--out", "numbers")
        run("publish", "--repository", "repository", "--base", "numbers")
        Path(folder, "changes").write_text('{"key": "key-1", "value": "changed"}\n{"key": "key-2", "deleted": true}\n')
        browser = Browser(folder)
        with Server(spirea, f"{folder}/repository") as server:
            run("get", server.data, "numbers", "key-1", "--wait", "60")
            published = run("publish", "--server", server.admin, "--database", "numbers", "--changes", "changes").stdout
            version = re.search(r"version ([0-9a-f]{64})", published).group(1)
            for _ in range(LOOK_UPS - 1):
                run("get", server.data, "numbers", "key-1")
            page = browser.dump(server.admin + "/", picture)
            expect(page, "summary", "1 of 1 databases answer")
            expect(page, "databases", "numbers", "ready", "simple", "200", "2", version[:12])
            expect(page, "load", "waiting 0", "connections", "keys in memory 0", "up")
            expect(page, "latency-quantiles", "half within", "99% within")
            expect(page, "batches", f"up to 1 {LOOK_UPS}")
            expect(page, "batches-mean", "1.0 on average")
            expect(page, "rate-now", "now", "a second")
            assert "access" in page.hidden and "content" not in page.hidden
            assert page.classes.count("bar") >= 2
        shown = page.text("latency")
        counted = sum(int(count) for count in re.findall(r"[µm]?s ([0-9]+)", shown))
        assert counted == LOOK_UPS, f"{counted} of {LOOK_UPS} look-ups in {shown!r}"

        lines = run("token", "new", "--name", "operator", "--scope", "admin").stderr
        Path(folder, "tokens.toml").write_text(lines[lines.index("[["):])
        with Server(spirea, f"{folder}/repository", "--tokens", f"{folder}/tokens.toml") as server:
            page = browser.dump(server.admin + "/")
            expect(page, "summary", "the server asks for a token")
            assert "access" not in page.hidden and "content" in page.hidden
    print("the operator's page shows what the server did")


if __name__ == "__main__":
    main()
