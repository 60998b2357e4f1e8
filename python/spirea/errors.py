"""Exceptions of the package. Each is a `SpireaError`, and its message says what to do.

SpireaError
    OptionError        an invalid argument; also a ValueError
    BuildError         a table was not built, or a snapshot not opened
        TableError     the table has invalid rows; also a ValueError
            DuplicateKeyError
    PlanError          no plan is possible
    PublishError       changes were not published
    ServerError        a server could not be started, or has stopped
    ClusterError       a cluster failed to do what was asked
        ConfigError    its configuration is wrong; also a ValueError
    LookUpError        a look-up failed; never means that a key is absent
        UnreachableError    a server cannot be reached, or does not answer; also a ConnectionError
        RefusedError        a server refused, with its reason
        VersionError        a server of another version or kind, or two servers that do not agree
        AnswerError         a wrong answer, which was withheld
    ForkError          an object of another process; also a RuntimeError
    StoppedError       the call was stopped before it was done
    DefectError        a defect of the package itself; also a RuntimeError
"""

__all__ = [
    "AnswerError",
    "BuildError",
    "ClusterError",
    "ConfigError",
    "DefectError",
    "DuplicateKeyError",
    "ForkError",
    "LookUpError",
    "OptionError",
    "PlanError",
    "PublishError",
    "RefusedError",
    "ServerError",
    "SpireaError",
    "StoppedError",
    "TableError",
    "UnreachableError",
    "VersionError",
]


class SpireaError(Exception):
    """Base class of all errors of the package."""


class OptionError(SpireaError, ValueError):
    """An argument is invalid. The message says what is valid."""


class BuildError(SpireaError):
    """A table was not built, or a snapshot not opened. The target folder is unchanged."""


class TableError(BuildError, ValueError):
    """A table has invalid rows: a key or a value is missing, or has the wrong type or length."""


class DuplicateKeyError(TableError):
    """Keys occur in several rows. The message names the first of these keys, and their rows."""


class PlanError(SpireaError):
    """No plan is possible for the table."""


class PublishError(SpireaError):
    """Changes were not published. The message has the reason, with the number of the change where one is at fault."""


class ServerError(SpireaError):
    """A server could not be started, or has stopped."""


class ClusterError(SpireaError):
    """A cluster failed to do what was asked (`spirea.cluster`)."""


class ConfigError(ClusterError, ValueError):
    """A cluster's configuration is wrong. The message names file, line and key, and says what to do."""


class LookUpError(SpireaError):
    """A look-up failed. It never means that a key is absent, and no message contains a key."""

    url: str | None = None
    """Address of the failing server, if known; the first one if the server has several."""

    status: int | None = None
    """HTTP status of the response, if there was one."""


class UnreachableError(LookUpError, ConnectionError):
    """A server cannot be reached, or does not answer in time. With two servers, the message names the server."""


class RefusedError(LookUpError):
    """A server refused the request. The message has its reason."""


class VersionError(LookUpError):
    """A server has another version, or is no such server, or two servers do not serve the same table."""


class AnswerError(LookUpError):
    """A look-up is impossible, or an answer was wrong and was withheld."""


class ForkError(SpireaError, RuntimeError):
    """An object belongs to another process. Its threads and connections do not survive a fork."""


class StoppedError(SpireaError):
    """The call was stopped before it was done, by `stop` or because the interpreter exits."""


class DefectError(SpireaError, RuntimeError):
    """A defect of the package itself. Please report it."""
