"""Errors of the client. None of them means that a key is absent."""


class ClientError(Exception):
    """A look-up failed."""


class Malformed(ClientError):
    """Received bytes do not match the parameters."""


class Untrusted(ClientError):
    """Received data lacks a valid signature of the operator, or is not bound to the version."""


class Unverified(ClientError):
    """An answer does not verify, and is withheld."""


class BadRequest(ClientError):
    """The request is invalid for the table or for this client."""


class Refused(ClientError):
    """The server refused or failed; the message has its reason."""

    def __init__(self, status, code, message, remedy, accepted, current_version):
        super().__init__(f"the server refused ({status}, {code}): {message}; {remedy}")
        self.status, self.code, self.accepted, self.current_version = status, code, accepted, current_version
