"""HTTP: requests and retries (wire.md 2)."""

import time
import urllib.error
import urllib.request

import blake3

from . import envelope
from .errors import ClientError, Malformed, Refused

CONTENT_TYPE = "application/x-protobuf"  # wire.md 2.2
ATTEMPTS = 5
# wire.md 2.7: temporary errors, which are retried.
PASSING = ("OVERLOADED", "QUOTA_EXCEEDED", "LOADING", "STOPPING", "SLOW_BODY")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        """Refuses redirections, which would send queries elsewhere."""


class Server:
    """One database on one server."""

    def __init__(self, url, name, token=None):
        self.url, self.base = url, f"{url.rstrip('/')}/v1/databases/{name}"
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.opener = urllib.request.build_opener(_NoRedirects)

    def _once(self, path, body, headers, limit):
        request = urllib.request.Request(self.base + path, body, {**self.headers, **headers})
        try:
            with self.opener.open(request, timeout=120) as response:
                data = response.read(limit + 1)
        except urllib.error.HTTPError as error:
            raise refusal(error) from error
        except OSError as error:
            raise ClientError(f"{self.url} cannot be reached: {error}") from error
        if len(data) > limit:
            raise Malformed(f"{self.url} sends more than {limit} bytes")
        return data

    def _retrying(self, path, body=None, headers=None, limit=1 << 33):
        for attempt in range(ATTEMPTS):
            try:
                return self._once(path, body, headers or {}, limit)
            except Refused as refused:
                if refused.code not in PASSING or refused.accepted or attempt + 1 == ATTEMPTS:
                    raise
                time.sleep(max(refused.retry_after, 0.1 * 2**attempt))
        raise AssertionError("the loop returns or raises")

    def config(self, version=None):
        """Fetches the configuration, of a version if given (wire.md 2.3)."""
        return self._retrying("/config" + (f"?version={version.hex()}" if version else ""), limit=17 << 20)

    def hint(self, blake3_of_hint, length):
        """Fetches and verifies a hint (wire.md 2.4)."""
        hint = self._retrying(f"/hint?blake3={blake3_of_hint.hex()}", limit=length)
        if len(hint) != length or blake3.blake3(hint).digest() != blake3_of_hint:
            raise Malformed("the hint does not have the hash that the configuration names")
        return hint

    def register(self, request, keys, affinity=None):
        """Registers evaluation keys (wire.md 2.5)."""
        response = self._retrying("/keys", request, headers_of(affinity), 1 << 10)
        if envelope.Message(response).checked().hash(2) != blake3.blake3(keys).digest():
            raise Malformed("the server received other keys than were sent")

    def query(self, request, request_id, limit, affinity=None):
        """Sends a request with queries and returns the response (wire.md 2.6)."""
        headers = {**headers_of(affinity), "Spirea-Request-Id": request_id}
        return self._retrying("/query", request, headers, limit)


def headers_of(affinity):
    """Returns the headers of a request with a body (wire.md 2.2)."""
    return {"Content-Type": CONTENT_TYPE, **({"Spirea-Affinity": affinity} if affinity else {})}


def refusal(error):
    """Decodes a response with a status of 400 or above (wire.md 2.7)."""
    try:
        message = envelope.Message(error.read(1 << 16)).checked()
        code = envelope.CODES[message.number(2)]
        said = [message.text(3), message.text(4), bool(message.number(5)), message.bytes(6)]
    except (Malformed, IndexError):
        return ClientError(f"unexpected status {error.code}: is this the address of a Spirea server?")
    refused = Refused(error.code, code, *said)
    after = error.headers.get("Retry-After", "")
    refused.retry_after = int(after) if after.isdigit() else 0
    return refused
