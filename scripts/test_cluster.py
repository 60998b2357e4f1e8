#!/usr/bin/env python3
"""The tests of python/spirea/cluster, whole clusters on a real Ray among them, and the commands of docs/scale-out.md.

Usage: test_cluster.py PYTHON [PYTEST ARGUMENT ...]

PYTHON is that of a virtual environment with what python/tests/requirements.cluster.txt names. With SPIREA_CLUSTER=long there
are more protocols and more faults, and what was measured is printed.
"""

import os
import subprocess
import sys
import tempfile

from test_python import ROOT, Installed


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    # What Ray would tell its makers, and look for in clouds.
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}
    package, arguments = Installed(sys.argv[1]), sys.argv[2:]
    # Sockets of Ray lie below it, and a socket's path is short.
    with tempfile.TemporaryDirectory(prefix="spirea-") as elsewhere:
        package.run("mypy", "mypy", "--config-file", ROOT / "pyproject.toml", "-p", "spirea.cluster", cwd=elsewhere)
        tests = ["pytest", "-p", "no:cacheprovider", ROOT / "python/tests/cluster", "--confcutdir", ROOT / "python/tests"]
        package.run("pytest", *tests, *arguments, cwd=elsewhere)
    # The long form gives options; whoever names a test wants that one alone.
    if all(argument.startswith("-") for argument in arguments):
        program = package.python.parent / "spirea"
        command = [sys.executable, ROOT / "scripts/run_docs.py", program, ROOT / "docs/scale-out.md"]
        if subprocess.run(command, check=False, env=package.environment).returncode != 0:
            sys.exit("docs/scale-out.md: FAILED")


if __name__ == "__main__":
    main()
