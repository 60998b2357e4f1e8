"""Encoding and decoding of protobuf messages, without a library (wire.md 3)."""

from .errors import Malformed

FORMAT = 1  # wire.md 3.1

# Error codes by number (wire.md 3.5).
CODES = [
    "UNSPECIFIED",
    "MALFORMED",
    "WRONG_FORMAT",
    "WRONG_CONTENT_TYPE",
    "TOO_LARGE",
    "SLOW_BODY",
    "UNKNOWN_DATABASE",
    "STALE_VERSION",
    "OVERLOADED",
    "LOADING",
    "FAILED",
    "STOPPING",
    "INTERNAL",
    "NO_KEYS_NEEDED",
    "WRONG_RANGE",
    "NO_SUCH_ENDPOINT",
    "UNKNOWN_KEYS",
    "UNKNOWN_HINT",
    "NOT_PUBLISHABLE",
    "BUSY",
    "UNAUTHENTICATED",
    "FORBIDDEN",
    "QUOTA_EXCEEDED",
    "METHOD_NOT_ALLOWED",
]


def varint(value):
    """Encodes a number (wire.md 3.1)."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """Encodes a field with a number, a boolean or bytes; omits default values (wire.md 3.1)."""
    if isinstance(value, (bytes, bytearray)):
        return varint(number << 3 | 2) + varint(len(value)) + bytes(value) if value else b""
    return varint(number << 3) + varint(int(value)) if value else b""


def repeated(number, values):
    """Encodes repeated fields of bytes, including empty ones."""
    return b"".join(varint(number << 3 | 2) + varint(len(value)) + value for value in values)


def _take_varint(data, at):
    value = 0
    for i in range(10):
        if at + i >= len(data):
            break
        value |= (data[at + i] & 0x7F) << 7 * i
        if data[at + i] < 0x80:
            return value, at + i + 1
    raise Malformed("a number of a message is cut off")


def fields(data):
    """Decodes a message. Returns the values of its fields by number, in order (wire.md 3.1)."""
    found, at = {}, 0
    while at < len(data):
        key, at = _take_varint(data, at)
        if key & 7 == 0:
            value, at = _take_varint(data, at)
        else:
            if key & 7 == 2:
                length, at = _take_varint(data, at)
            else:
                length = {1: 8, 5: 4}.get(key & 7)
            if length is None or at + length > len(data):
                raise Malformed("a field of a message is cut off or has no known type")
            value, at = data[at : at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


class Message:
    """A decoded message with typed access to its fields by number."""

    def __init__(self, data):
        self.fields = fields(data)

    def checked(self):
        """Returns the message if it has the format of this client (wire.md 3.1)."""
        if self.number(1) != FORMAT:
            raise Malformed(f"the message has format {self.number(1)}, and this client speaks format {FORMAT}")
        return self

    def _last(self, number, kind, default):
        value = self.fields.get(number, [default])[-1]
        if not isinstance(value, kind):
            raise Malformed(f"field {number} of a message has another type")
        return value

    def number(self, number):
        return self._last(number, int, 0)

    def bytes(self, number):
        return self._last(number, bytes, b"")

    def hash(self, number):
        value = self.bytes(number)
        if len(value) != 32:
            raise Malformed(f"field {number} of a message has {len(value)} bytes, not 32")
        return value

    def text(self, number):
        try:
            return self.bytes(number).decode()
        except UnicodeDecodeError as error:
            raise Malformed(f"field {number} of a message is no text") from error

    def message(self, number):
        """Returns a nested message; None if it is absent."""
        return Message(self.bytes(number)) if number in self.fields else None

    def all(self, number):
        values = self.fields.get(number, [])
        if not all(isinstance(value, bytes) for value in values):
            raise Malformed(f"field {number} of a message has another type")
        return values


def keys_request(version, keys, delta):
    """Encodes a request that registers keys (wire.md 3.3)."""
    return field(1, FORMAT) + field(2, version) + field(3, keys) + field(4, delta)


def query_request(version, queries, keys, delta_queries, delta_keys):
    """Encodes a request with queries (wire.md 3.4)."""
    head = field(1, FORMAT) + field(2, version) + repeated(3, queries) + field(4, keys)
    return head + repeated(5, delta_queries) + field(6, delta_keys)


def with_keys(request, keys, delta_keys):
    """Returns the same request with keys behind it (wire.md 2.5, 3.4)."""
    return request + field(7, keys) + field(8, delta_keys)


def query_response(data, version, count, answer_bytes, delta_answer_bytes):
    """Returns the base's and the delta's answers of a response to `count` look-ups (wire.md 3.4)."""
    response = Message(data).checked()
    if response.hash(2) != version:
        raise Malformed("another version answered than was asked")
    parts = [response.all(3), response.all(5)]
    for answers, length in zip(parts, (answer_bytes, delta_answer_bytes)):
        if length is not None and [len(answer) for answer in answers] != [length] * count:
            raise Malformed("the answers are not as many and as long as the parameters say")
    return parts
