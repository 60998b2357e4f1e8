"""HTTP to programs of the cluster, without the environment's proxies: a proxy would read the token."""

from __future__ import annotations

import ssl
import urllib.request


def read(request: str | urllib.request.Request, timeout: float, context: ssl.SSLContext | None = None) -> bytes:
    """Returns the body of a response.

    Raises `OSError`.
    """
    handlers = [urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)]
    with urllib.request.build_opener(*handlers).open(request, timeout=timeout) as answer:
        body: bytes = answer.read()
        return body
