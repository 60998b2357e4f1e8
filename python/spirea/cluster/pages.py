"""The port for operations: `/` for people, `/status.json`, `/metrics`, `/healthz`. It changes nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import status as statuses

_SECONDS = 5.0


class Pages:
    """A server of its own on a thread, for as long as the process lives."""

    def __init__(self, listen: str, status: Callable[[], Mapping[str, Any]], metrics: Callable[[], str]) -> None:
        host, _, port = listen.rpartition(":")

        class Handler(BaseHTTPRequestHandler):
            timeout = _SECONDS

            def do_GET(self) -> None:
                answers: dict[str, Callable[[], tuple[str, str]]] = {
                    "/": lambda: ("text/html; charset=utf-8", statuses.page(status())),
                    "/status.json": lambda: ("application/json", json.dumps(status())),
                    "/metrics": lambda: ("text/plain; version=0.0.4", metrics()),
                    "/healthz": lambda: ("text/plain", "ok\n"),
                }
                answer = answers.get(self.path)
                kind, body = ("text/plain", "not found\n") if answer is None else answer()
                content = body.encode()
                self.send_response(404 if answer is None else 200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *arguments: Any) -> None:
                """Nothing is said of who looks."""

        self._server = ThreadingHTTPServer((host, int(port)), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="pages", daemon=True).start()
