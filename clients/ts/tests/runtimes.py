"""Where the package runs: a page in Chromium, and Node. Both have the calls of page/harness.mjs."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Error, Page, Playwright

TESTS = Path(__file__).resolve().parent
PAGES = TESTS / "page"
# No traffic of its own, and pictures without bars.
FLAGS = ["--disable-background-networking", "--disable-component-update", "--no-first-run", "--hide-scrollbars"]

# Before a worker's scripts: a machine that says of every module with vectors that it is none.
WITHOUT_VECTORS = "WebAssembly.validate = () => false;"


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
    """A page of an origin of its own that has the package as npm installed it, perhaps with a policy for all its files."""

    def __init__(self, folder: Path, policy: str | None = None) -> None:
        # What is served in place of a file of the package, by its path in `dist`.
        self.changes: dict[str, Callable[[str], str]] = {}
        site = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            extensions_map = {".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript",
                              ".wasm": "application/wasm", "": "application/octet-stream"}

            def do_GET(self) -> None:
                change = site.changes.get(self.path.rpartition("/dist/")[2])
                if change is None:
                    super().do_GET()
                    return
                content = change(Path(self.translate_path(self.path)).read_text()).encode()
                self.send_response(200)
                self.send_header("Content-Type", self.guess_type(self.path))
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def end_headers(self) -> None:
                self.send_header("Cache-Control", "no-store")
                if policy is not None:
                    self.send_header("Content-Security-Policy", policy)
                super().end_headers()

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

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class InBrowser:
    """A page with the package."""

    name = "browser"

    def __init__(self, context: BrowserContext, site: Site) -> None:
        self.context, self.site, self.url = context, site, site.url
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

    def before_worker(self, script: str) -> None:
        """Runs a script in the workers of the next clients before anything of theirs is called."""
        self.site.changes["worker/web.js"] = lambda text: script + text

    def in_worker(self, script: str) -> Any:
        """Runs a script in the worker of the client that came last."""
        return self.page.workers[-1].evaluate(script)

    def close(self) -> None:
        self.context.close()
        self.site.changes.clear()
        assert not self.errors, self.errors


def printed_by(program: str, folder: Path) -> str:
    """What a program prints that ends by itself, without a complaint."""
    command = ["node", "--input-type=module", "-e", program]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, ""), ended
    return ended.stdout.strip()


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


def until(holds: Callable[[], bool]) -> None:
    """Waits until something holds; whoever cannot be asked yet says no."""
    for _ in range(600):
        with contextlib.suppress(Error):
            if holds():
                return
        time.sleep(0.05)
    raise AssertionError("it never held")


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
