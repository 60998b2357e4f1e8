"""What can go wrong. None of these means that a key is absent."""


class ClientError(Exception):
    """A look-up failed."""


class Malformed(ClientError):
    """Bytes are not what the parameters say."""


class Untrusted(ClientError):
    """Bytes are not what the operator, or the version, vouches for."""


class Unverified(ClientError):
    """An answer does not verify: nothing of it is given out."""


class BadRequest(ClientError):
    """The table cannot be asked so."""


class Refused(ClientError):
    """The server refused or failed, and says why."""

    def __init__(self, status, code, message, remedy, accepted, current_version):
        super().__init__(f"the server refused ({status}, {code}): {message}; {remedy}")
        self.status, self.code, self.accepted, self.current_version = status, code, accepted, current_version
