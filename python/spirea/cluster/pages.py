"""The port for operations: `/`, `/status.json`, `/metrics`, `/healthz`. It is read-only.

Pages of other sites in an operator's browser cannot read it. Requests of another origin are refused, and so are requests with
an unknown host name, as after DNS rebinding.
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

from ..errors import ClusterError
from . import status as statuses

_SECONDS = 5.0
"""Timeout of receiving a request, and of each write of a response."""
_HEALTH_SECONDS = 1.0
"""Timeout of a request on the health thread, which reads requests one after another."""
_AT_ONCE = 16
"""Most requests that are answered at a time. Beyond it, the health thread answers health checks, and other requests are cut
off."""
_HEALTH = "/healthz"


class _Bounded(ThreadingHTTPServer):
    daemon_threads = True
    # Backlog of the listening socket. With the default of 5 the kernel drops connections of a burst, which retry after a
    # second.
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
        """Reports a defect. A closed connection is not a defect."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def is_health_thread(self) -> bool:
        """True if the caller is the health thread."""
        return threading.current_thread() is self._health

    def _answer_health(self) -> None:
        while True:
            super().process_request_thread(*self._further.get())


def _is_own(host: str, hosts: Sequence[str]) -> bool:
    """True if a Host header names this port: an address, localhost, or a name of the configuration."""
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
    """An HTTP server on a thread, for the lifetime of the process."""

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
                # The socket's own timeout restarts with each byte, so a timer limits the whole request.
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
                # HTTP/1.0 allows a missing Host header. Probes use it; browsers do not.
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
                """Logs nothing, so that readers leave no trace."""

        try:
            self._server = _Bounded((host, int(port)), Handler)
        except OSError as error:
            raise ClusterError(f"operations.listen: no server can listen on {listen}: {error}; set another port") from error
        self.port = self._server.server_port
        """The port that the server listens on."""
        threading.Thread(target=self._server.serve_forever, name="pages", daemon=True).start()
