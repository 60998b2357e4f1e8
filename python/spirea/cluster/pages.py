"""The port for operations: `/` for people, `/status.json`, `/metrics`, `/healthz`. It changes nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from . import status as statuses

_SECONDS = 5.0
_AT_ONCE = 16
"""Requests that are answered at a time: more are cut off, so that nobody has the controller start thread upon thread."""


class _Bounded(ThreadingHTTPServer):
    daemon_threads = True
    # Backlog of the listening socket. With the default of 5 the kernel drops a burst's connections, and they wait a second.
    request_queue_size = 2 * _AT_ONCE

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._free = threading.BoundedSemaphore(_AT_ONCE)
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()


class Pages:
    """A server of its own on a thread, for as long as the process lives."""

    def __init__(self, listen: str, status: Callable[[], Mapping[str, Any]], metrics: Callable[[], str]) -> None:
        host, _, port = listen.rpartition(":")

        class Handler(BaseHTTPRequestHandler):
            timeout = _SECONDS

            def do_GET(self) -> None:
                answers: dict[str, Callable[[], tuple[str, str]]] = {
                    "/": lambda: ("text/html; charset=utf-8", statuses.page(statuses.without_logs(status()))),
                    "/status.json": lambda: ("application/json", json.dumps(statuses.without_logs(status()))),
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

        self._server = _Bounded((host, int(port)), Handler)
        self.port = self._server.server_port
        """Where it listens."""
        threading.Thread(target=self._server.serve_forever, name="pages", daemon=True).start()
