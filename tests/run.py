#!/usr/bin/env python3
"""Runs the tests of the whole project, two parts at a time, and prints the wall time and the CPU time of each.

usage: run.py [--only PART[,PART...]] [--list] [--write-times]

The level comes from the environment: CI_FULL=1 is the full form, otherwise the short one. docs/testing.md explains the parts
and the levels. Each part writes its output to target/tests/PART.log; the run prints the log of a part that fails, and the
command that repeats the part alone.

In the short form, a part that lists files runs only if one of them differs from $BASE. The default of $BASE is the newest
commit that is known to have passed the full form (tests/base.py); without one, every part runs.

--only         runs these parts, and the parts that they need
--list         prints the parts that would run, and those that would not, with the reason
--write-times  writes the times of this run into docs/testing.md
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import base
from parts import PARTS, ROOT, Part, sanitized
from times import write_times
from usage import wait as wait_for

sys.path.insert(0, str(ROOT / "scripts"))

import debian

LOGS = ROOT / "target" / "tests"
# Number of parts that run at the same time. Most of them use one processor, or wait.
AT_ONCE = 2
# Last lines of the runners that parts use: pytest, vitest, tests/rust.py, and scripts that count checks.
COUNTS = [
    re.compile(r"^(\d+) tests of \d+ programs passed", re.MULTILINE),
    re.compile(r"^=+ .*?(\d+) passed.* in [0-9.]+s", re.MULTILINE),
    re.compile(r"^(\d+) passed(?:, \d+ (?:skipped|deselected|warnings?))* in ", re.MULTILINE),
    re.compile(r"^\s+Tests\s+.*?(\d+) passed", re.MULTILINE),
    re.compile(r"^(\d+) passed, 0 failed", re.MULTILINE),
    re.compile(r"^test result: ok\. (\d+) passed", re.MULTILINE),
]
SKIPPED = re.compile(r"^SKIPPED .*", re.MULTILINE)
# Names and errors of failed tests: pytest's, those of Rust's panics with the commands of tests/rust.py, and vitest's.
FAILURES = re.compile(
    r"^(?:(?:FAILED|ERROR) \S+::.*|thread '.*' .*panicked at .*\n.*|to repeat it alone: .*| FAIL  .*)$", re.MULTILINE
)
MOST_FAILURES = 20
DRAWN = re.compile(r"^.*SPIREA_DRAW=.*$", re.MULTILINE)
ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Result:
    part: Part
    passed: bool
    seconds: float
    tests: int
    skipped: list = field(default_factory=list)
    failures: list = field(default_factory=list)
    # Draws of the short form.
    drawn: list = field(default_factory=list)
    cpu_seconds: float = 0.0


class Run:
    """A run of the tests, with the processes that it started, so that it can end them all."""

    def __init__(self):
        self.processes = set()
        self.lock = threading.Lock()
        self.stopping = False

    def part(self, part):
        """Runs the commands of a part one after another, with their output in its log."""
        started = time.monotonic()
        log = LOGS / f"{part.name}.log"
        passed, cpu_seconds = True, 0.0
        with log.open("w") as out:
            for command in part.commands:
                out.write(f"$ {' '.join(map(str, command))}\n")
                out.flush()
                passed, used = self.command(command, part, out)
                cpu_seconds += used
                if not passed:
                    break
        text = ANSI.sub("", log.read_text(errors="replace"))
        tests = sum(int(count) for pattern in COUNTS for count in pattern.findall(text))
        seconds = time.monotonic() - started
        failures = [] if passed else FAILURES.findall(text)[:MOST_FAILURES]
        return Result(part, passed, seconds, tests, SKIPPED.findall(text), failures, DRAWN.findall(text), cpu_seconds)

    def command(self, command, part, out):
        """Runs a command. Returns True if it passed, and its CPU seconds."""
        with self.lock:
            if self.stopping:
                return False, 0.0
            environment = os.environ | {"NO_COLOR": "1"} | part.environment
            # The process has its own group, so that stopping a part also stops its servers.
            process = subprocess.Popen(
                list(map(str, command)),
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self.processes.add(process)
        code, cpu_seconds = wait_for(process)
        with self.lock:
            self.processes.discard(process)
        if code != 0:
            out.write(f"exit code {code}\n")
        return code == 0, cpu_seconds

    def stop(self):
        with self.lock:
            self.stopping = True
            for process in self.processes:
                os.killpg(process.pid, signal.SIGTERM)


def choose(only, full):
    """Returns the parts to run, and the reasons why the others do not run."""
    known = {part.name: part for part in PARTS}
    unknown = sorted(set(only) - set(known))
    if unknown:
        sys.exit(f"run.py: there is no part {', '.join(unknown)}; the parts are: {', '.join(known)}")
    commit, changed = base.changed_files(ROOT)
    chosen, reasons = [], {}
    for part in PARTS:
        if only:
            reason = None if part.name in only else "not asked for"
        elif part.only_full and not full:
            reason = "runs with CI_FULL=1"
        elif not full and part.files and changed is not None and not part.touched(changed):
            reason = f"its files are those of {commit[:12]}, which passed"
        else:
            reason = None
        if reason is None:
            chosen.append(part)
        else:
            reasons[part.name] = reason
    # Adds the parts that chosen parts need.
    needed = [name for part in chosen for name in part.needs]
    while needed:
        name = needed.pop()
        if name in reasons:
            del reasons[name]
            chosen.append(known[name])
            needed.extend(known[name].needs)
    return [part for part in PARTS if part in chosen], reasons


def provide(parts):
    """Installs the Debian packages that parts need, if this run may. Returns the parts that still lack one, with the
    reason."""
    lacking = {name for part in parts for name in part.programs if not debian.find(name)}
    if lacking and debian.may_install():
        debian.install(lacking)
    missing = {}
    for part in parts:
        reasons = [debian.remedy(name) for name in part.programs if not debian.find(name)]
        if reasons:
            missing[part.name] = "; ".join(reasons)
    return missing


def say(text):
    print(text, flush=True)


def tell(result):
    """Prints one line for a part that passed, and everything about one that failed."""
    name = result.part.name
    if result.passed:
        counted = f", {result.tests} tests" if result.tests else ""
        say(f"passed  {name}: {result.seconds:.0f} s, {result.cpu_seconds:.0f} CPU s{counted}")
        for line in result.drawn:
            say(f"        {line}")
        return
    log = LOGS / f"{name}.log"
    say(f"FAILED  {name}: its log, {log.relative_to(ROOT)}, follows")
    say(log.read_text(errors="replace"))
    say(f"FAILED  {name}, after {result.seconds:.0f} s. To repeat it alone: make test ONLY={name}")


def execute(parts):
    """Runs the parts in the order of the list, each after the parts that it needs."""
    run, results = Run(), {}
    waiting, running = list(parts), {}
    names = {part.name for part in parts}

    def ready(part):
        needs = [need for need in part.needs if need in names]
        return all(need in results for need in needs)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            while waiting or running:
                for part in [part for part in waiting if ready(part)]:
                    if len(running) >= AT_ONCE:
                        break
                    waiting.remove(part)
                    broken = [need for need in part.needs if need in results and not results[need].passed]
                    if broken:
                        say(f"FAILED  {part.name}: needs {', '.join(broken)}")
                        results[part.name] = Result(part, False, 0.0, 0)
                        continue
                    running[pool.submit(run.part, part)] = part
                if not running:
                    continue
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    part = running.pop(future)
                    results[part.name] = future.result()
                    tell(results[part.name])
        except BaseException:
            run.stop()
            raise
    return list(results.values())


def summary(results, reasons, missing, seconds):
    """Prints the results, and the parts that did not run with the reasons. Returns True if everything passed."""
    failed = [result.part.name for result in results if not result.passed]
    for name, reason in reasons.items():
        say(f"not run {name}: {reason}")
    for name, reason in missing.items():
        say(f"SKIPPED {name}: {reason}")
    for result in results:
        for line in result.skipped:
            say(f"SKIPPED {result.part.name}: {line.removeprefix('SKIPPED ')}")
    cpu_seconds = sum(result.cpu_seconds for result in results)
    counted = f"{len(results) - len(failed)} parts of {len(results)} passed"
    say(f"{counted} in {seconds / 60:.1f} minutes, {cpu_seconds / 60:.1f} CPU minutes")
    # The logs above may be long, and a reader may have only the end.
    for result in results:
        for line in result.failures:
            say(f"{result.part.name}: {line}")
    if failed:
        say(f"FAILED: {', '.join(failed)}")
    say(f"{sum(result.tests for result in results)} passed, {len(failed)} failed")
    return not failed


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write-times", action="store_true")
    parser.add_argument("--help", action="help")
    options = parser.parse_args()
    only = [name for name in re.split(r"[,\s]+", options.only) if name]
    full = os.environ.get("CI_FULL") == "1"
    parts, reasons = choose(only, full)
    if options.list:
        for part in parts:
            say(f"{part.name}: {part.about}")
        for name, reason in reasons.items():
            say(f"not run {name}: {reason}")
        return
    # SIGTERM must end the parts too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("run.py: terminated"))
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    started = time.monotonic()
    missing = provide(parts)
    if missing and full and os.geteuid() == 0:
        sys.exit("\n".join(f"run.py: {name}: {reason}" for name, reason in missing.items()))
    if sanitized(parts):
        os.environ["SPIREA_EMULATION_ASAN"] = "1"
    results = execute([part for part in parts if part.name not in missing])
    passed = summary(results, reasons, missing, time.monotonic() - started)
    if options.write_times:
        write_times(results, full)
    if passed and full and not only and not missing:
        base.record(ROOT)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
