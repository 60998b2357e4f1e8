"""What stands between a client and its server: it writes down what it sees, and does with it what a test says."""

from __future__ import annotations

import http.client
import http.server
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

# What a browser may read of a response, as the server says it.
CORS = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "accept-ranges,content-range,etag,retry-after",
}


@dataclass
class Seen:
    """A request, as whoever stands between sees it."""

    method: str
    path: str
    body: bytes
    status: int = 0
    answer: bytes = b""

    @property
    def what(self) -> str:
        """The last part of the path: what is asked of a database."""
        return urlsplit(self.path).path.rsplit("/", 1)[-1]


@dataclass
class Reply:
    """A response before it is sent."""

    status: int
    headers: dict[str, str]
    body: bytes
    # The length that is told; the body's without.
    length: int | None = None
    # Bytes at a time, and the pause after each, in seconds.
    pieces: int = 1 << 20
    pause: float = 0.0
    # What is sent over and over behind the body.
    endless: bytes = b""

    def with_body(self, body: bytes) -> Reply:
        return replace(self, body=body)


# What becomes of a request: a reply, made with or without the server's own, or nothing but a closed connection.
Fate = Callable[[Seen, Callable[[], Reply]], Reply | None]


def passed_on(_: Seen, ask: Callable[[], Reply]) -> Reply | None:
    return ask()


@dataclass
class Middle:
    """A proxy of a server, or, without one, what answers as its fate says."""

    upstream: str | None
    fate: Fate = passed_on
    seen: list[Seen] = field(default_factory=list)
    # Seconds that a long body takes to come in.
    upload: float = 0.0
    # A file with a certificate and its key, for https.
    certificate: Path | None = None

    def __post_init__(self) -> None:
        middle = self
        self.stopping = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def relay(self) -> None:
                body = middle.taken(self.rfile, int(self.headers.get("Content-Length", 0)))
                seen = Seen(self.command, self.path, body)
                if self.command != "OPTIONS":
                    middle.seen.append(seen)

                def ask() -> Reply:
                    assert middle.upstream
                    connection = http.client.HTTPConnection(urlsplit(middle.upstream).netloc, timeout=60)
                    headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
                    connection.request(self.command, self.path, body or None, headers)
                    answer = connection.getresponse()
                    dropped = ("transfer-encoding", "connection", "content-length")
                    reply = Reply(
                        answer.status, {k: v for k, v in answer.getheaders() if k.lower() not in dropped}, answer.read()
                    )
                    connection.close()
                    return reply

                reply = ask() if self.command == "OPTIONS" and middle.upstream else middle.fate(seen, ask)
                if reply is None:
                    self.close_connection = True
                    return
                seen.status, seen.answer = reply.status, reply.body
                try:
                    self.send(reply)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def send(self, reply: Reply) -> None:
                self.send_response_only(reply.status)
                for name, text in reply.headers.items():
                    self.send_header(name, text)
                length = len(reply.body) if reply.length is None else reply.length
                if reply.endless:
                    self.send_header("Connection", "close")
                else:
                    self.send_header("Content-Length", str(length))
                self.end_headers()
                for start in range(0, len(reply.body), reply.pieces):
                    self.wfile.write(reply.body[start : start + reply.pieces])
                    self.wfile.flush()
                    if middle.stopping.wait(reply.pause):
                        return
                while reply.endless and not middle.stopping.is_set():
                    self.wfile.write(reply.endless)
                if length != len(reply.body) or reply.endless:
                    self.close_connection = True

            do_GET = do_POST = do_OPTIONS = do_HEAD = relay

            def log_message(self, *_: object) -> None:
                """Silent."""

        class Threads(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """A client that has gone is no error of the test."""

        self.server = Threads(("127.0.0.1", 0), Handler)
        if self.certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"http{'s' if self.certificate else ''}://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def taken(self, body: BinaryIO, length: int) -> bytes:
        """A body, of which a long one comes slowly."""
        if length < 1 << 16:
            return body.read(length)
        parts = [length // 32] * 31 + [length - 31 * (length // 32)]
        pieces = []
        for part in parts:
            pieces.append(body.read(part))
            self.stopping.wait(self.upload / len(parts))
        return b"".join(pieces)

    def asked(self, what: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.what == what]

    def wait_for(self, what: str, count: int = 1) -> None:
        """Waits until so many requests of a kind have come."""
        for _ in range(3000):
            if len(self.asked(what)) >= count:
                return
            time.sleep(0.01)
        raise AssertionError(f"no {what} came: {[seen.path for seen in self.seen]}")

    def __enter__(self) -> Middle:
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.server.shutdown()
        self.server.server_close()
