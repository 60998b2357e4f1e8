#!/usr/bin/env python3
"""Checks a machine's GPU with Spirea, measures it, and profiles it, in one short run.

Usage: gpu_hour.py correct|figures|tools|all [--seconds N] [--out FOLDER] [--spirea PATH] [--lab PATH]

    correct   self-tests, every step and every protocol against the processor, then the kernels under compute-sanitizer
    figures   limits of the device, and the figures of steps and protocols: figures.jsonl
    tools     ncu: times of the kernels in a batch, and single launches of the hot kernels
    all       the three above, in some minutes

Needs Python 3.9 and NVIDIA's driver. compute-sanitizer and ncu, of the CUDA toolkit, are used if they are installed. Each
command is a process of its own with a timeout, so a fault or a hang ends that command alone. FOLDER receives NAME.log of every
command, summary.txt with a line for each, and results.tar.xz with all of these. The calls may share a folder.

Exit code: 0 if nothing failed, 1 if a command failed or timed out, 2 for a wrong usage, 3 without a device. Commands for which
no time is left are named, and are no failures.
"""

import argparse
import glob
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
# In seconds: the shortest time in which a command is started, and the time kept for packing the results.
LEAST, RESERVE = 3, 5
# Part of a command's timeout after which Spirea begins no further check or figure.
SHARE = 0.7
# The processor computes the expected results: more processes than processors gain nothing.
PROCESSES = max(2, min(10, os.cpu_count() or 1))
# Variable in the environment of every command, which the command's own processes inherit.
MARK = "SPIREA_GPU_HOUR"
# The code of `spirea gpu check` for a machine without a device.
NO_DEVICE = 3

DRIVERS = ["/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib", "/usr/local/cuda*/compat"]
CUBLAS = [
    "/usr/local/cuda*/lib64",
    "/usr/local/cuda*/targets/x86_64-linux/lib",
    "/usr/local/lib/python3*/*-packages/nvidia/*/lib",
    "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib",
]
TOOLS = ["/usr/local/cuda*/bin", "/opt/nvidia/nsight-compute/*"]

ENVIRONMENT = [
    "nvidia-smi",
    "nvidia-smi -q -d CLOCK,POWER,MEMORY",
    "nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader",
    "uname -a",
    "lscpu",
    "free -g",
    "getconf GNU_LIBC_VERSION",
]
SANITIZERS = {
    # Kernels are looked up in several modules. A module that lacks one is an error of the driver's function, and none of ours.
    "memcheck": ["--report-api-errors", "no"],
    "racecheck": [],
}
RINGS = "^(ring|product|transpose|scalar_fold)"
# Figures whose kernels are timed: the text that selects the figure, the kernels, and the number of launches.
TIMELINES = [
    ("onion 1.0", RINGS, 300),
    ("exppack-simple", RINGS, 250),
    ("hybrid", RINGS, 200),
    ("dpf-sum", "^share", 50),
]
# Single launches: the text that selects the figure, the kernel, and the number of its launches before.
LAUNCHES = [
    ("onion 1.0", "ring_split", 5),
    ("onion 1.0", "ring_game", 1),
    ("onion 1.0", "ring_substitution", 0),
    ("onion 1.0", "product", 0),
    ("onion 1.0", "transpose_columns", 0),
    ("ntt", "ntt_forward", 1),
]
SECTIONS = [
    "SpeedOfLight",
    "WarpStateStats",
    "SchedulerStats",
    "InstructionStats",
    "MemoryWorkloadAnalysis",
    "MemoryWorkloadAnalysis_Tables",
    "ComputeWorkloadAnalysis",
    "Occupancy",
    "LaunchStats",
]


class NoDevice(Exception):
    """The program finds no device, for the reason in the message."""


def marked(mark):
    """Returns the ids of the processes whose mark starts with this text."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            variables = Path(path).read_bytes().split(b"\0")
        except OSError:
            continue
        if any(variable.startswith(wanted) for variable in variables):
            found.append(int(path.split("/")[2]))
    return found


def end(mark):
    """Kills the processes of a mark. A profiled program leaves its profiler's group, and would hold the device's memory."""
    # A process that begins another program has no environment for a moment, so one look that finds nothing proves nothing.
    unseen = 0
    for _ in range(20):
        processes = marked(mark)
        unseen = 0 if processes else unseen + 1
        if unseen == 3:
            return
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


class Hour:
    """One call of this script: its programs and folder, the time left, and the outcome of its commands."""

    def __init__(self, spirea, lab, out, seconds):
        self.spirea, self.lab, self.out = str(spirea), str(lab), out
        self.ends = time.monotonic() + seconds
        self.environment = dict(os.environ)
        self.failures = []
        self.lock = threading.Lock()
        self.numbers = itertools.count()

    def say(self, line):
        """Writes a line to the output and to the summary."""
        with self.lock:
            print(line, flush=True)
            with open(self.out / "summary.txt", "a", encoding="utf-8") as summary:
                summary.write(f"{line}\n")

    def seconds(self, limit):
        """Returns the timeout of a command that starts now: `limit`, or less if less time is left."""
        return min(limit, self.ends - time.monotonic() - RESERVE)

    def minutes(self, limit):
        """Returns the option with which Spirea ends in time, without a timeout."""
        return ["--minutes", f"{max(self.seconds(limit), LEAST) * SHARE / 60:.3f}"]

    def execute(self, name, limit, command):
        """Runs a command and adds its line to the summary. Returns its exit code and its lines; None if no time is left."""
        seconds = self.seconds(limit)
        if seconds < LEAST:
            self.say(f"not run               {name}: no time is left")
            return None, []
        log, began = self.out / f"{re.sub('[^A-Za-z0-9._-]+', '-', name)}.log", time.monotonic()
        code = self.wait(command, log, seconds)
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        # Tables of ncu are for the log.
        last = " | ".join([line for line in lines if not line.startswith('"')][-2:])[-240:]
        outcome = "ok" if code == 0 else f"EXIT {code}"
        self.say(f"{outcome:<12} {time.monotonic() - began:6.1f} s  {name}: {last}")
        for line in [line for line in lines if line.startswith("FAILED")][:6]:
            self.say(f"             {line[:240]}")
        return code, lines

    def wait(self, command, log, seconds):
        """Runs a command in a session of its own, and ends whatever is left of it. Returns the exit code, or a word."""
        mark, child = f"{os.getpid()}-{next(self.numbers)}.", None
        with open(log, "w", encoding="utf-8") as output:
            # An interrupt may arrive once the command has begun and before `child` is known.
            try:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**self.environment, MARK: mark},
                    start_new_session=True,
                )
                # `stop` in another thread leaves no time to a command that begins beside it.
                return child.wait(min(seconds, self.ends - time.monotonic()))
            except OSError as error:
                output.write(f"{command[0]}: {error.strerror}\n")
                return "not started"
            except subprocess.TimeoutExpired:
                return "timeout"
            finally:
                end(mark)
                if child:
                    child.kill()
                    child.wait()

    def run(self, name, limit, command):
        """Runs a command that must succeed."""
        code, _ = self.execute(name, limit, command)
        if code not in (0, None):
            self.failures.append(name)

    def stop(self):
        """Ends all commands; none starts after this."""
        self.ends = time.monotonic()
        end(f"{os.getpid()}-")

    def check(self, *words):
        """Returns a command of `spirea gpu check`."""
        return [self.spirea, "gpu", "check", *words]

    def bench(self, *words):
        """Returns a command of `spirea-lab gpu bench`."""
        return [self.lab, "gpu", "bench", *words]

    def parallel(self, calls):
        """Makes calls in parallel."""
        with ThreadPoolExecutor(PROCESSES) as pool:
            try:
                for done in [pool.submit(call) for call in calls]:
                    done.result()
            except BaseException:
                self.stop()
                raise


def files(folders, name):
    """Returns the files of a name in folders, both given as patterns."""
    return [path for folder in folders for path in sorted(glob.glob(f"{folder}/{name}"))]


def tool(name):
    """Returns the path of one of the toolkit's programs, or None."""
    return shutil.which(name) or next(iter(files(TOOLS, name)), None)


def add_library_folder(environment, path):
    """Adds a library's folder to those in which the linker looks."""
    folders = [folder for folder in environment.get("LD_LIBRARY_PATH", "").split(":") if folder]
    environment["LD_LIBRARY_PATH"] = ":".join([*folders, str(Path(path).parent)])


def objects(lines):
    """Yields the JSON objects among lines, of which the last may be cut short."""
    for line in lines:
        if line.startswith("{"):
            try:
                yield json.loads(line)
            except ValueError:
                continue


def list_checks(hour):
    """Returns the names of all checks on this device."""
    code, lines = hour.execute("list", 60, hour.check("--minutes", "0", "--json"))
    if code == NO_DEVICE:
        raise NoDevice(" ".join(f"{given['error']}: {given['message']}" for given in objects(lines) if "error" in given))
    names = [given["check"] for given in objects(lines) if "check" in given]
    if code != 0 or not names:
        hour.failures.append("list")
    return names


def find_device(hour):
    """Returns the names of all checks. Tries the drivers of usual folders if the linker knows none."""
    for library in files(CUBLAS, "libcublasLt.so.1[23]")[:1]:
        add_library_folder(hour.environment, library)
    try:
        return list_checks(hour)
    except NoDevice as none:
        known = "SPIREA_CUDA_DRIVER" in hour.environment
        drivers = [] if known or not str(none).startswith("no-driver") else files(DRIVERS, "libcuda.so*")
        reason = none
    plain = hour.environment
    for driver in drivers:
        hour.environment = {**plain, "SPIREA_CUDA_DRIVER": driver}
        add_library_folder(hour.environment, driver)
        try:
            return list_checks(hour)
        except NoDevice as none:
            reason = none
    raise reason


def families(names):
    """Returns texts that select all checks but the self-tests: the first word of a step, or a protocol's name."""
    pairs = [name.split(" ")[:2] for name in names]
    texts = [f"protocol {second}" if first == "protocol" else f"{first} " for first, second in pairs]
    return [text for text in dict.fromkeys(texts) if text != "self-test "]


def describe(hour):
    """Records the machine."""
    for command in ENVIRONMENT:
        words = command.split(" ")
        if shutil.which(words[0]):
            hour.run(command, 20, words)
    hour.run("spirea --version", 20, [hour.spirea, "--version"])


def check(hour, family, limit=100):
    """Compares a family's results with the processor's."""
    words = ["--filter", family, "--db-gib", "0.25", *hour.minutes(limit)]
    hour.run(f"check {family.strip(' ,')}", limit, hour.check(*words))


def sanitize(hour, program, kind, family, limit=100):
    """Runs a family's kernels at the least sizes under one of compute-sanitizer's tools."""
    options = ["--tool", kind, *SANITIZERS[kind], "--error-exitcode", "9"]
    words = ["--scale", "tiny", "--filter", family, *hour.minutes(limit)]
    hour.run(f"{kind} {family.strip()}", limit, [program, *options, *hour.check(*words)])


def correct(hour, names):
    """Runs all checks, and then the kernels under compute-sanitizer."""
    check(hour, "self-test")
    texts = families(names)
    calls = [lambda text=text: check(hour, text) for text in texts]
    program = tool("compute-sanitizer")
    if program:
        steps = ["self-test", *(text for text in texts if not text.startswith("protocol "))]
        pairs = itertools.product(SANITIZERS, steps)
        calls += [lambda kind=kind, text=text: sanitize(hour, program, kind, text) for kind, text in pairs]
    else:
        hour.say("not run               memcheck, racecheck: this machine has no compute-sanitizer")
    hour.parallel(calls)


def figures(hour, names):
    """Measures everything, alone on the device."""
    limit = 300
    words = ["--out", str(hour.out / "figures.jsonl"), *hour.minutes(limit)]
    hour.run("figures", limit, hour.bench(*words))


def profile(hour, name, limit, figure, options):
    """Runs a figure under ncu, which ends it after the last launch that it profiles."""
    words = ["--clock-control", "none", "--cache-control", "none", "--kill", "yes", "--csv", "--page", "raw", *options]
    measured = ["--filter", figure, "--minutes", "10", "--out", str(hour.out / "profiled.tmp")]
    hour.run(name, limit, [tool("ncu"), *words, *hour.bench(*measured)])


def tools(hour, names):
    """Profiles kernels. More metrics than one make ncu repeat a launch, and restore the memory that it wrote."""
    if not tool("ncu"):
        hour.say("not run               ncu: this machine has no ncu")
        return
    for figure, kernels, count in TIMELINES:
        options = ["--metrics", "gpu__time_duration.sum", "--kernel-name", f"regex:{kernels}", "--launch-count", str(count)]
        profile(hour, f"ncu timeline {figure}", 30, figure, options)
    for figure, kernel, skipped in LAUNCHES:
        options = ["--kernel-name", f"regex:^{kernel}", "--launch-skip", str(skipped), "--launch-count", "1"]
        options += [word for section in SECTIONS for word in ("--section", section)]
        profile(hour, f"ncu launch {kernel}", 30, figure, options)


CALLS = {"correct": [correct], "figures": [figures], "tools": [tools], "all": [correct, figures, tools]}


def pack(out):
    """Packs everything in the folder into results.tar.xz."""
    # Figures of profiled kernels include the profiler's time.
    if (out / "profiled.tmp").exists():
        (out / "profiled.tmp").unlink()
    packed = out / "results.tar.xz"
    with tarfile.open(packed, "w:xz") as archive:
        for path in sorted(path for path in out.iterdir() if path.is_file() and path != packed):
            archive.add(path, f"{out.name}/{path.name}")
    print(f"wrote {packed}")


def default_program(name):
    """Returns the program beside this script, that of this checkout's release build, or that of the PATH."""
    places = [HERE / name, HERE.parent / "target/release" / name]
    return next((place for place in places if place.is_file()), shutil.which(name))


def arguments():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("call", choices=CALLS)
    parser.add_argument("--seconds", type=float, default=420, help="time for everything (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("gpu-hour"), help="folder of the results (default: %(default)s)")
    programs = {"--spirea": "spirea", "--lab": "spirea-lab"}
    for option, name in programs.items():
        usual = default_program(name)
        parser.add_argument(option, default=usual, help=f"the program {name} (default: beside this script, else of PATH)")
    given = parser.parse_args()
    for option, name in programs.items():
        if getattr(given, option[2:]) is None:
            parser.error(f"there is no program {name}: {option} PATH names it")
    return given


def outcome(hour, calls):
    """Makes calls. Returns the exit code."""
    try:
        describe(hour)
        names = find_device(hour)
        for call in calls if names else []:
            call(hour, names)
    except NoDevice as reason:
        hour.say(f"no device ({reason})")
        return NO_DEVICE
    except KeyboardInterrupt:
        hour.say("interrupted")
        return 130
    hour.say(f"{len(hour.failures)} failed{': ' if hour.failures else ''}{', '.join(hour.failures)}")
    return 1 if hour.failures else 0


def main():
    """Makes the calls of the command line and packs the results. Returns the exit code."""
    given = arguments()
    # `timeout` and service managers end a process by SIGTERM. Its commands end with it, as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    hour = Hour(Path(given.spirea).resolve(), Path(given.lab).resolve(), out, given.seconds)
    hour.say(f"{given.call}: {time.strftime('%Y-%m-%d %H:%M:%S')}, at most {given.seconds:g} s, {hour.spirea}")
    code = outcome(hour, CALLS[given.call])
    pack(out)
    return code


if __name__ == "__main__":
    sys.exit(main())
