"""Console blocks of documents: their commands, and the output that the document promises.

A block begins with ```console. Lines that begin with `$ ` are commands; a backslash continues a command. The commands of a
document run in order, in one shell and in one folder. Servers in the background are stopped at the end. A line of output under
a command must appear in the command's output; `...` stands for any text.
"""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from spirea_report import SHOWN

BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
MARKER = "--- end of step ---"
SECONDS = 900
"""Limit of a document's commands. Each of them has a shorter limit of its own, and says then what was missing."""


def steps(text):
    """Returns the commands of a document's text, each with its lines of output."""
    found = []
    for block in BLOCK.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif found and found[-1][0].endswith("\\"):
                found[-1] = (found[-1][0] + "\n" + line, [])
            elif found and line.strip():
                found[-1][1].append(line)
    return found


def matches(expected, printed):
    pattern = ".*".join(re.escape(part.strip()) for part in expected.split("..."))
    return any(re.search(pattern, line) for line in printed.splitlines())


def run_steps(commands, shell, folder, environment=None, seconds=SECONDS):
    """Runs commands in a shell, whose arguments end with the option that takes a script. Their logs are in `folder`.

    All commands together have `seconds`.
    """
    script = "set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
    script += "".join(f"{command}\necho '{MARKER}'\n" for command, _ in commands)
    with subprocess.Popen(
        [*shell, script],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            errors += f"\nit took longer than {seconds} s"
    printed = output.split(MARKER + "\n")
    # Adds the logs of servers that the document starts in the background.
    errors += "".join(f"\n{log.name}:\n{log.read_text()[-SHOWN:]}" for log in sorted(Path(folder).glob("*.log")))
    if process.returncode != 0:
        failed = commands[min(len(printed) - 1, len(commands) - 1)][0]
        pytest.fail(f"failed at\n$ {failed}\n{printed[-1]}{errors}", pytrace=False)
    for (command, expected), said in zip(commands, printed, strict=False):
        for line in expected:
            if not matches(line, said):
                pytest.fail(f"after\n$ {command}\nexpected\n{line}\nbut it printed\n{said}{errors}", pytrace=False)
