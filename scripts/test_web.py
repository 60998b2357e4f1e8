#!/usr/bin/env python3
"""Tests of the JavaScript client: the package as npm installs it, in Chromium without a window and in Node, against servers.

usage: test_web.py SPIREA [PYTEST ARGUMENT ...]
       test_web.py SPIREA --bench [--without-vectors] [PROTOCOL ...]

With --bench it measures in Chromium and prints a JSON object for each protocol in place of testing. Runs with the Python of
a virtual environment that has what clients/ts/tests/requirements.txt names. Makes the package where it is not kept, and
installs Debian's Chromium where there is none and this may install packages.
"""

import os
import subprocess
import sys
from pathlib import Path

import debian

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "clients" / "ts" / "tests"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    spirea, arguments = Path(sys.argv[1]).resolve(), sys.argv[2:]
    chromium = debian.program("chromium")
    bench = arguments[:1] == ["--bench"]
    # What bench prints is JSON alone.
    made = [sys.executable, ROOT / "scripts" / "web.py", *([] if bench else ["--vectors"])]
    subprocess.run(made, check=True, stdout=sys.stderr if bench else None)
    web = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "web"
    environment = os.environ | {"SPIREA": str(spirea), "SPIREA_WEB": str(web.resolve()), "CHROMIUM": chromium}
    if bench:
        command = [TESTS / "bench.py", *arguments[1:]]
    else:
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations", "5", TESTS, *arguments]
    sys.exit(subprocess.run([sys.executable, *command], cwd=TESTS, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
