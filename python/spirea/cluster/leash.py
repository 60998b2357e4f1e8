"""`python -m spirea.cluster.leash PARENT COMMAND...`: a command of `spirea` that ends with its parent process.

A worker without its watcher would hold memory that Ray counts as free, and nobody would stop it.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def command(*arguments: str) -> list[str]:
    """Returns the command line that starts a command with this process as its parent."""
    return [sys.executable, "-m", __name__, str(os.getpid()), *arguments]


def _follow(parent: int) -> None:
    """Asks the kernel to kill this process when the thread that started it ends."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    # The parent may have ended before the call.
    if os.getppid() != parent:
        sys.exit("spirea: who started this is gone")


def main() -> None:
    """Runs the command, and exits with its code."""
    from .. import _spirea

    _follow(int(sys.argv[1]))
    sys.exit(_spirea.run_command(["spirea", *sys.argv[2:]]))


if __name__ == "__main__":
    main()
