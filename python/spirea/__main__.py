"""The command line, as `spirea` and as `python -m spirea`."""

import signal
import sys

from . import _spirea


def main() -> None:
    """Runs the command with this process's arguments, and ends with its exit code."""
    if sys.argv[1:2] == ["cluster"]:
        sys.exit(_cluster(sys.argv[2:]))
    # As the command does without an interpreter around it: Ctrl-C ends it at once, or as the server has it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_spirea.run_command(["spirea", *sys.argv[1:]]))


def _cluster(arguments: list[str]) -> int:
    """`spirea cluster`, which is Python's, with what its extra installs."""
    try:
        from .cluster.command import main as cluster
    except ModuleNotFoundError as error:
        print(f"spirea: cluster needs {error.name}: pip install 'spirea[cluster]'", file=sys.stderr)
        return 2
    return cluster(arguments)


if __name__ == "__main__":
    main()
