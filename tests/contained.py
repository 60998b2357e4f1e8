#!/usr/bin/env python3
"""Runs a command with process numbers of its own (a PID namespace), or as it is where this user may make no namespace.

usage: contained.py COMMAND...

To end a worker, Ray sends SIGTERM to its process number, and SIGKILL five seconds later. By then the number may be that of a
thread of another test, whose process would die. In a namespace, the number can only belong to the command's own processes.
All of these end with the command.
"""

import os
import subprocess
import sys

NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
# The first process of a namespace adopts processes whose parents have ended. A shell reaps them.
FIRST = ["sh", "-c", '"$@"; exit $?', "sh"]


def may_contain():
    """True if this user may make a namespace."""
    try:
        return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def main():
    command = sys.argv[1:] or sys.exit(__doc__)
    command = [*NAMESPACE, *FIRST, *command] if may_contain() else command
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
