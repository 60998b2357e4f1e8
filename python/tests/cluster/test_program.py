"""A watched program comes back under its address, ends when told, and never outlives its watcher."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

from spirea.cluster.program import Program

# Program that announces that it is ready, with the number of its starts, and waits. SIGTERM ends it, like a worker.
SCRIPT = """
import json, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
count = pathlib.Path(sys.argv[1])
started = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(started))
print("not JSON")
print(json.dumps({"ready": True, "started": started, "former": sys.argv[2]}), flush=True)
print("a line of the log", file=sys.stderr, flush=True)
while True:
    time.sleep(0.1)
"""


def eventually(holds, seconds=300):
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def test_a_program_that_is_killed_comes_back_and_knows_what_it_said(tmp_path):
    def command(former):
        return [sys.executable, "-c", SCRIPT, str(tmp_path / "count"), json.dumps(former)]

    program = Program(command, tmp_path / "log")
    said = eventually(lambda: program.said)
    assert said["started"] == 1 and said["former"] == "null" and program.restarts == 0
    program.signal(signal.SIGKILL)
    said = eventually(lambda: program.said and program.said["started"] == 2 and program.said)
    assert json.loads(said["former"])["started"] == 1 and program.restarts == 1
    assert "a line of the log" in program.trouble and "ended with exit code -9" in program.trouble
    pid = program.pid
    program.stop(300.0)
    assert program.pid is None and program.said is None
    assert not os.path.exists(f"/proc/{pid}")
    assert (tmp_path / "count").read_text() == "2"


def test_one_that_cannot_start_is_tried_ever_more_seldom(tmp_path):
    program = Program(lambda former: [sys.executable, "-c", "raise SystemExit('no such share')"], tmp_path / "log")
    eventually(lambda: program.restarts >= 2)
    program.stop(5.0)
    assert program.said is None and "no such share" in program.trouble


def test_one_that_cannot_be_executed_is_tried_again_and_it_is_said(tmp_path):
    tool = tmp_path / "tool"
    program = Program(lambda former: [str(tool), str(tmp_path / "count"), ""], tmp_path / "log")
    eventually(lambda: program.restarts >= 1)
    assert program.said is None and "it cannot be started" in program.trouble and str(tool) in program.trouble
    tool.write_text(f"#!{sys.executable}\n{SCRIPT}")
    tool.chmod(0o755)
    eventually(lambda: program.said)
    program.stop(300.0)


def test_what_one_says_that_was_never_ready_is_told(tmp_path):
    told = []
    script = "import sys; print(sys.argv[1], file=sys.stderr); sys.exit(1)"
    lives = iter("abcdefgh")
    program = Program(lambda former: [sys.executable, "-c", script, next(lives)], tmp_path / "log", told.append)
    eventually(lambda: len(told) >= 2)
    program.stop(5.0)
    assert told[:2] == ["a", "b"]


def test_the_log_of_a_program_that_runs_for_ever_begins_anew(tmp_path, monkeypatch):
    copied, copyfile = [], shutil.copyfile
    monkeypatch.setattr("spirea.cluster.program._LOOKS", 0.01)
    monkeypatch.setattr("spirea.cluster.program._LOG_BYTES", 10_000)
    monkeypatch.setattr("shutil.copyfile", lambda log, old: copied.append(old) or copyfile(log, old))
    script = (
        "import itertools, sys, time\n"
        "for line in itertools.count():\n    print(f'{line:0100}', file=sys.stderr, flush=True)\n    time.sleep(0.001)"
    )
    log = tmp_path / "log"
    program = Program(lambda former: [sys.executable, "-c", script], log)
    eventually(lambda: len(copied) >= 3 and log.stat().st_size > 0)
    program.stop(5.0)
    assert program.restarts == 0 and set(copied) == {tmp_path / "log.old"}
    # The truncated log starts at its first byte, without the program's first line and without a hole.
    text = log.read_bytes()
    assert b"\0" not in text and b"0" * 100 + b"\n" not in text
    assert {path.name for path in tmp_path.iterdir()} == {"log", "log.old"}


WATCHER = """
import pathlib, sys, time
from spirea.cluster import leash
from spirea.cluster.program import Program
log = pathlib.Path(sys.argv[2])
program = Program(lambda former: leash.command("serve", "--listen", "127.0.0.1:0", sys.argv[1]), log)
while "keyed" not in (log.read_text() if log.exists() else ""):
    time.sleep(0.01)
print(program.pid, flush=True)
time.sleep(600)
"""


def test_a_program_does_not_outlive_who_watches_it(tmp_path, keyed):
    watcher = subprocess.Popen(
        [sys.executable, "-c", WATCHER, os.fspath(keyed), str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    )
    with watcher:
        pid = int(watcher.stdout.readline())
        assert os.path.exists(f"/proc/{pid}")
        watcher.kill()
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))
