"""The command line, as `spirea` and as `python -m spirea`."""

import signal
import sys

from . import _spirea


def main() -> None:
    """Runs the command with this process's arguments, and exits with its code."""
    if sys.argv[1:2] == ["cluster"]:
        sys.exit(_cluster(sys.argv[2:]))
    # Restores the default signal handler, as in the command without Python: Ctrl-C ends the process at once, unless the server
    # installs its own handler.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_spirea.run_command(["spirea", *sys.argv[1:]]))


def _cluster(arguments: list[str]) -> int:
    """Runs `spirea cluster`, which is written in Python and needs the packages of the extra `cluster`."""
    try:
        from .cluster.command import main as cluster
    except ModuleNotFoundError as error:
        print(f"spirea: cluster needs {error.name}: pip install 'spirea[cluster]'", file=sys.stderr)
        return 2
    return cluster(arguments)


if __name__ == "__main__":
    main()
