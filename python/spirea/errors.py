"""What can go wrong. Every exception of the package is a `SpireaError`, and says what to do about it.

SpireaError
    OptionError        an argument that cannot be used; also a ValueError
    BuildError         a table was not built, or a snapshot not opened
        TableError     the table's rows cannot be taken as they are; also a ValueError
            DuplicateKeyError
    PlanError          no plan can be made
    ServerError        a server could not be started, or has stopped
    ClusterError       a cluster cannot do what was asked of it
        ConfigError    its configuration is wrong; also a ValueError
    LookUpError        a look-up failed; never that a key is absent
        UnreachableError    a server cannot be reached, or does not answer; also a ConnectionError
        RefusedError        a server refused, and said why
        VersionError        a server of another version or kind, or two servers that do not agree
        AnswerError         an answer that is wrong, and was withheld
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
    "RefusedError",
    "ServerError",
    "SpireaError",
    "StoppedError",
    "TableError",
    "UnreachableError",
    "VersionError",
]


class SpireaError(Exception):
    """Any error of the package."""


class OptionError(SpireaError, ValueError):
    """An argument that cannot be used, with what could be."""


class BuildError(SpireaError):
    """A table was not built, or a snapshot not opened. After it the target is as it was."""


class TableError(BuildError, ValueError):
    """The rows of a table cannot be taken as they are: a key or a value is missing, has the wrong type or length."""


class DuplicateKeyError(TableError):
    """Keys that stand in several rows. The message names the first of them, and their rows."""


class PlanError(SpireaError):
    """No plan can be made for the table."""


class ServerError(SpireaError):
    """A server could not be started, or has stopped."""


class ClusterError(SpireaError):
    """A cluster cannot do what was asked of it (`spirea.cluster`)."""


class ConfigError(ClusterError, ValueError):
    """A cluster's configuration is wrong. The message names file, line and key, and says what to do."""


class LookUpError(SpireaError):
    """A look-up failed. It never means that a key is absent, and no message contains a key."""

    url: str | None = None
    """Address of the server with which it failed, where one is known: the first of its addresses."""


class UnreachableError(LookUpError, ConnectionError):
    """A server cannot be reached, or does not answer in time; of two servers, the message says which."""


class RefusedError(LookUpError):
    """A server refused, and said why."""


class VersionError(LookUpError):
    """What answers is a server of another version or kind, or two servers do not serve the same table."""


class AnswerError(LookUpError):
    """A look-up that cannot be made, or an answer that is wrong and was withheld."""


class ForkError(SpireaError, RuntimeError):
    """An object that belongs to another process: its threads and connections did not come along through the fork."""


class StoppedError(SpireaError):
    """The call was stopped before it was done, by `stop` or because the interpreter exits."""


class DefectError(SpireaError, RuntimeError):
    """A defect of the package itself. Please report it."""
