"""The port for operations: `/`, `/status.json`, `/metrics`, `/healthz`. It changes nothing.

A page of another site in an operator's browser reads nothing here: requests of another origin are refused, and so are those
that name a host that is not one of this port's, as after DNS rebinding.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import queue
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from . import status as statuses

_SECONDS = 5.0
"""The most that a request may take to arrive, and each write of a response."""
_HEALTH_SECONDS = 1.0
"""The same of requests that the thread for health reads, one after another."""
_AT_ONCE = 16
"""Requests that are answered at a time: of more, a thread of its own answers those for health, and the rest are cut off."""
_HEALTH = "/healthz"


class _Bounded(ThreadingHTTPServer):
    daemon_threads = True
    # Backlog of the listening socket. With the default of 5 the kernel drops a burst's connections, and they wait a second.
    request_queue_size = 2 * _AT_ONCE

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._free = threading.BoundedSemaphore(_AT_ONCE)
        self._further: queue.Queue[tuple[Any, Any]] = queue.Queue(_AT_ONCE)
        super().__init__(address, handler)
        self._health = threading.Thread(target=self._answer_health, name="health", daemon=True)
        self._health.start()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        try:
            self._further.put_nowait((request, client_address))
        except queue.Full:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Reports a defect. A client that has gone is none."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def is_health_thread(self) -> bool:
        """Tests that the caller is the thread for health."""
        return threading.current_thread() is self._health

    def _answer_health(self) -> None:
        while True:
            super().process_request_thread(*self._further.get())


def _is_own(host: str, hosts: Sequence[str]) -> bool:
    """Tests that a Host header names this port: by an address, by localhost, or by a name of the configuration."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost" or name in hosts:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Pages:
    """A server of its own on a thread, for as long as the process lives."""

    def __init__(
        self, listen: str, status: Callable[[], Mapping[str, Any]], metrics: Callable[[], str], hosts: Sequence[str] = ()
    ) -> None:
        host, _, port = listen.rpartition(":")

        class Handler(BaseHTTPRequestHandler):
            server: _Bounded

            def setup(self) -> None:
                super().setup()
                seconds = _HEALTH_SECONDS if self.server.is_health_thread() else _SECONDS
                self.connection.settimeout(seconds)
                # The timeout of the socket begins anew with each byte.
                self._deadline = threading.Timer(seconds, self._cut)
                self._deadline.daemon = True
                self._deadline.start()

            def _cut(self) -> None:
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)

            def finish(self) -> None:
                self._deadline.cancel()
                super().finish()

            def do_GET(self) -> None:
                self._deadline.cancel()
                if self.server.is_health_thread() and self.path != _HEALTH:
                    return
                answers: dict[str, Callable[[], tuple[str, str]]] = {
                    "/": lambda: ("text/html; charset=utf-8", statuses.page(statuses.without_logs(status()))),
                    "/status.json": lambda: ("application/json", json.dumps(statuses.without_logs(status()))),
                    "/metrics": lambda: ("text/plain; version=0.0.4", metrics()),
                    _HEALTH: lambda: ("text/plain", "ok\n"),
                }
                if not self._names_one_host():
                    self._respond(400, "text/plain", "the request names no host, or several\n")
                elif not self._is_of_here():
                    self._respond(403, "text/plain", "this host or origin is not served; name hosts in operations.hosts\n")
                elif (answer := answers.get(self.path)) is None:
                    self._respond(404, "text/plain", "not found\n")
                else:
                    self._respond(200, *answer())

            def _names_one_host(self) -> bool:
                count = len(self.headers.get_all("Host", []))
                # Probes in HTTP/1.0 need none, and no browser speaks it.
                return count == 1 or (count == 0 and self.request_version != "HTTP/1.1")

            def _is_of_here(self) -> bool:
                named, origins = self.headers.get("Host"), self.headers.get_all("Origin", [])
                if named is None:
                    return not origins
                return _is_own(named, hosts) and all(origin in (f"http://{named}", f"https://{named}") for origin in origins)

            def _respond(self, code: int, kind: str, body: str) -> None:
                content = body.encode()
                self.send_response(code)
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
