"""Where the package runs: a page in Chromium, and Node. Both have the calls of page/harness.mjs."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, Playwright

TESTS = Path(__file__).resolve().parent
PAGES = TESTS / "page"
# No traffic of its own, and pictures without bars.
FLAGS = ["--disable-background-networking", "--disable-component-update", "--no-first-run", "--hide-scrollbars"]


def launched(playwright: Playwright, chromium: str) -> Browser:
    """The system's Chromium, without a window."""
    return playwright.chromium.launch(executable_path=chromium, args=FLAGS, chromium_sandbox=False)


def install_package(packed: Path, folder: Path) -> Path:
    """The folder, with the package as `npm install` of what `npm pack` makes leaves it, and with the tests' pages."""
    pack = ["npm", "pack", "--json", "--loglevel=error", "--pack-destination", packed]
    made = subprocess.run(pack, cwd=TESTS.parent, check=True, capture_output=True, text=True)
    (about,) = json.loads(made.stdout)
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    install = ["npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error", packed / about["filename"]]
    subprocess.run(install, cwd=folder, check=True, capture_output=True)
    shutil.copytree(PAGES, folder, dirs_exist_ok=True)
    return folder


class Site:
    """A page of an origin of its own that has the package as npm installed it."""

    def __init__(self, folder: Path) -> None:
        class Handler(http.server.SimpleHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            extensions_map = {".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript",
                              ".wasm": "application/wasm", "": "application/octet-stream"}

            def log_message(self, *_: object) -> None:
                """Silent."""

        handler = functools.partial(Handler, directory=str(folder))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class InBrowser:
    """A page with the package."""

    name = "browser"

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context, self.url = context, url
        self.errors: list[str] = []
        self.said: list[str] = []
        self.page = self.visit()

    def visit(self) -> Page:
        """Another page of the same origin."""
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.said.append(message.text))
        page.goto(self.url)
        page.wait_for_function("globalThis.harness !== undefined")
        return page

    def reload(self) -> None:
        self.page.reload()
        self.page.wait_for_function("globalThis.harness !== undefined")

    def call(self, name: str, *args: object, page: Page | None = None) -> Any:
        return (page or self.page).evaluate("([name, args]) => harness[name](...args)", [name, list(args)])

    def stored(self, name: str, *args: object) -> Any:
        """A call of page/storage.mjs."""
        script = "async ([name, args]) => (await import('/storage.mjs'))[name](...args)"
        return self.page.evaluate(script, [name, list(args)])

    def close(self) -> None:
        self.context.close()
        assert not self.errors, self.errors


class InNode:
    """A program with the package."""

    name = "node"

    def __init__(self, folder: Path) -> None:
        node = shutil.which("node")
        assert node
        self.process = subprocess.Popen([node, "node.mjs"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def call(self, name: str, *args: object) -> Any:
        assert self.process.stdin and self.process.stdout
        # What is not given is undefined in a page too.
        self.process.stdin.write(json.dumps([name, list(args)]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        # A program whose input has ended ends, though clients are open.
        assert self.process.wait(timeout=60) == 0


Runtime = InBrowser | InNode


def done(result: Any) -> Any:
    """What a call gave."""
    assert "done" in result, result
    return result["done"]


def failed(result: Any, *codes: str) -> Any:
    """How a call failed: with an error of the package, of one of these codes."""
    assert "failed" in result, result
    error = result["failed"]
    assert error["typed"] and error["name"] == "SpireaError" and error["code"] in codes, error
    assert len(error["message"]) > 10, error
    return error
