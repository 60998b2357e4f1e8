"""`python -m spirea.cluster.leash PARENT COMMAND...`: a command of `spirea` that does not outlive who watches it.

A worker whose watcher is gone would hold memory that Ray believes to be free, and listen where nobody stops it.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def command(*arguments: str) -> list[str]:
    """The command line that has this process for its parent."""
    return [sys.executable, "-m", __name__, str(os.getpid()), *arguments]


def _follow(parent: int) -> None:
    """Has the kernel end this process with the thread that made it."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    # It may have gone before that.
    if os.getppid() != parent:
        sys.exit("spirea: who started this is gone")


def main() -> None:
    """Runs the command, and ends with its exit code."""
    from .. import _spirea

    _follow(int(sys.argv[1]))
    sys.exit(_spirea.run_command(["spirea", *sys.argv[2:]]))


if __name__ == "__main__":
    main()
