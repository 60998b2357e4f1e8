"""Tests of scripts/gpu_hour.py and of the archive with it: on the emulated CUDA device, with stand-ins for NVIDIA's tools.

SPIREA_CUDA_DRIVER names the emulated driver; the default is the newest that cargo has built.
"""

import ast
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from time import monotonic, sleep

import pytest

import gpu_hour
import gpu_kit
from system.programs import PATIENCE, ROOT, run, target_folder

SCRIPT = ROOT / "scripts/gpu_hour.py"
# Prints the fixed lines of a device.
NVIDIA_SMI = "echo 'NVIDIA-SMI 580.00  Driver Version: 580.00  CUDA Version: 13.0'"
# Run what they are given, behind their own options.
SANITIZER = """
echo "sanitizer $*"
while [ "$1" != --error-exitcode ]; do shift; done
shift 2
exec "$@"
"""
# Stands for a profiler: spirea-lab must take the options that it is given, and ends before it measures.
NCU = """
echo "ncu $*"
while [ "$1" != "$LAB" ]; do shift; done
"$@" --device 99
[ $? = 3 ] || exit 1
for figures; do :; done
echo slow > "$figures"
echo '"ID","Kernel Name","gpu__time_duration.sum"'
echo '"0","ring_split_4096","12.5"'
"""
# Leaves a process in a session of its own, and does not end.
HANGING = """
setsid sleep 1000 &
echo $! > "$HELD.tmp" && mv "$HELD.tmp" "$HELD"
wait
"""
# Narrows the list of checks and the figures, which take minutes on the emulated device, to quick ones.
NARROW = """
case "$1 $2 $*" in
*--filter*) ;;
"gpu check"*) set -- "$@" --filter "40 " ;;
"gpu bench"*) set -- "$@" --filter ntt ;;
esac
case "$0" in
"$LAB") exec "$LAB_ITSELF" "$@" ;;
*) exec "$SPIREA_ITSELF" "$@" ;;
esac
"""
# Stands for both programs: lists a check, and passes it.
PASSING = """
echo '{"check":"dpf aes-128 bit","outcome":"ok"}'
"""


@pytest.fixture(scope="module")
def driver():
    """Path of the emulated driver."""
    if said := os.environ.get("SPIREA_CUDA_DRIVER"):
        return Path(said)
    built = target_folder().glob("debug/build/spirea-cuda-emulation-*/out/libcuda.so")
    newest = max(built, key=lambda path: path.stat().st_mtime, default=None)
    if newest is None:
        pytest.fail(
            "there is no emulated driver: cargo build -p spirea-cuda-emulation, or give SPIREA_CUDA_DRIVER", pytrace=False
        )
    return newest


def write_program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


class Machine:
    """A machine with stand-ins for NVIDIA's tools, on which the script runs."""

    def __init__(self, folder, program, **environment):
        self.folder, self.out, self.held = folder, folder / "out", folder / "held"
        self.tools = folder / "tools"
        self.tools.mkdir()
        self.program, self.lab = (write_program(folder / name, program) for name in ("program", "lab"))
        self.environment = os.environ | {
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "LAB": str(self.lab),
            "HELD": str(self.held),
            **environment,
        }
        self.install("nvidia-smi", NVIDIA_SMI)

    def install(self, name, text):
        write_program(self.tools / name, text)

    def command(self, call, seconds):
        words = [call, "--seconds", str(seconds), "--out", self.out, "--spirea", self.program, "--lab", self.lab]
        return [sys.executable, str(SCRIPT), *map(str, words)]

    def call(self, call, seconds=PATIENCE):
        """Makes a call of the script. Returns its exit code."""
        done = subprocess.run(self.command(call, seconds), env=self.environment, capture_output=True, text=True)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode

    def summary(self):
        return (self.out / "summary.txt").read_text(encoding="utf-8")

    def outcomes(self):
        """The first word of each command's line in the summary, by the command's name."""
        lines = [line.split(" s  ", 1) for line in self.summary().splitlines() if line.startswith(("ok ", "EXIT "))]
        return {rest.split(":")[0]: head.rsplit(None, 1)[0] for head, rest in lines}

    def log(self, name):
        return (self.out / f"{name}.log").read_text(encoding="utf-8")

    def packed(self):
        with tarfile.open(self.out / "results.tar.xz") as archive:
            return {Path(name).name for name in archive.getnames()}


@pytest.fixture
def emulated(tmp_path, spirea, lab, driver):
    """A machine with the emulated device."""
    programs = {"SPIREA_ITSELF": str(spirea), "LAB_ITSELF": str(lab)}
    return Machine(tmp_path, NARROW, **programs, SPIREA_CUDA_DRIVER=str(driver))


@pytest.fixture
def passing(tmp_path):
    """A machine whose program passes at once."""
    return Machine(tmp_path, PASSING)


def ended(process):
    """True once a process has ended, waiting for it for some seconds."""
    deadline = monotonic() + 10
    while monotonic() < deadline:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return True
        sleep(0.05)
    return False


def test_correct_checks_everything_also_under_the_sanitizer(emulated):
    emulated.install("compute-sanitizer", SANITIZER)
    assert emulated.call("correct") == 0, emulated.summary()
    outcomes = emulated.outcomes()
    families = ["self-test", "module_fold", *(f"protocol {name}" for name in ("simple", "double", "dpf-xor", "dpf-sum"))]
    for name in ["nvidia-smi", "list", *(f"check {family}" for family in families)]:
        assert outcomes[name] == "ok", emulated.summary()
    for name in ("self-test", "module_fold"):
        assert outcomes[f"memcheck {name}"] == outcomes[f"racecheck {name}"] == "ok", emulated.summary()
    assert set(outcomes.values()) == {"ok"} and "\n0 failed\n" in emulated.summary()
    assert "\n1 passed, 0 failed, 0 not run" in emulated.log("check-module_fold")
    # An option of memcheck alone.
    assert "--tool memcheck --report-api-errors no --error-exitcode 9" in emulated.log("memcheck-module_fold")
    assert "--tool racecheck --error-exitcode 9" in emulated.log("racecheck-module_fold")
    assert "\n1 passed, 0 failed, 0 not run" in emulated.log("racecheck-module_fold")
    assert {"summary.txt", "check-module_fold.log"} <= emulated.packed()


def test_figures_are_lines_of_json(emulated):
    assert emulated.call("figures") == 0, emulated.summary()
    figures = [json.loads(line) for line in (emulated.out / "figures.jsonl").read_text(encoding="utf-8").splitlines()]
    assert figures[0]["device"] == "Spirea emulation"
    assert {"limit", "ntt", "inverse-ntt"} <= {figure["name"] for figure in figures}
    assert "figures.jsonl" in emulated.packed()


def test_tools_profile_with_options_that_the_program_takes(emulated):
    emulated.install("ncu", NCU)
    assert emulated.call("tools") == 0, emulated.summary()
    outcomes = emulated.outcomes()
    names = [f"ncu timeline {figure}" for figure, _, _ in gpu_hour.TIMELINES]
    names += [f"ncu launch {kernel}" for _, kernel, _ in gpu_hour.LAUNCHES]
    assert {outcomes[name] for name in names} == {"ok"}, emulated.summary()
    said = emulated.log("ncu-launch-ring_split")
    assert "--kill yes" in said and "--launch-skip 5 --launch-count 1 --section SpeedOfLight" in said
    # Tables are in the logs, not in the summary; figures that a profiler made slower are in neither.
    assert '"ring_split_4096"' in said and '"ring_split_4096"' not in emulated.summary()
    assert "ncu-launch-ring_split.log" in emulated.packed() and "profiled.tmp" not in emulated.packed()


def test_texts_select_each_check_once(emulated):
    hour = hour_of(emulated)
    hour.spirea = emulated.environment["SPIREA_ITSELF"]
    names = gpu_hour.list_checks(hour)
    texts = gpu_hour.families(names)
    assert len(names) > 100
    for name in names:
        assert [text in name for text in texts].count(True) == (not name.startswith("self-test")), name


def hour_of(machine, seconds=PATIENCE):
    """A call of the script in this process."""
    machine.out.mkdir()
    hour = gpu_hour.Hour(machine.program, machine.lab, machine.out, seconds)
    hour.environment = dict(machine.environment)
    return hour


def test_a_driver_that_the_linker_does_not_know_is_found(emulated, driver, monkeypatch):
    folder = emulated.folder / "drivers"
    folder.mkdir()
    (folder / "libcuda.so.580.00").symlink_to(driver)
    monkeypatch.setattr(gpu_hour, "DRIVERS", [str(folder)])
    hour = hour_of(emulated)
    del hour.environment["SPIREA_CUDA_DRIVER"]
    assert any(name.startswith("module_fold") for name in gpu_hour.find_device(hour))
    assert not hour.failures


def test_without_a_device_the_exit_code_is_3(emulated):
    emulated.environment["SPIREA_CUDA_DRIVER"] = "/nowhere/libcuda.so"
    assert emulated.call("all") == 3
    assert "no device (no-driver: no NVIDIA driver" in emulated.summary().splitlines()[-1]
    assert {"summary.txt", "list.log"} <= emulated.packed()


def test_a_failed_command_is_named_and_others_go_on(passing):
    passing.install("compute-sanitizer", "echo 'FAILED     0.02 s  self-test mma: place 3'; exit 9")
    passing.install("ncu", "exit 0")
    assert passing.call("all") == 1
    outcomes = passing.outcomes()
    failed = [f"{kind} {family}" for kind in gpu_hour.SANITIZERS for family in ("self-test", "dpf")]
    assert {name for name, outcome in outcomes.items() if outcome != "ok"} == set(failed), passing.summary()
    assert {outcomes[name] for name in failed} == {"EXIT 9"}
    assert "             FAILED     0.02 s  self-test mma: place 3\n" in passing.summary()
    last = passing.summary().splitlines()[-1]
    assert last.startswith("4 failed: ") and all(name in last for name in failed)
    assert outcomes["figures"] == outcomes["ncu launch product"] == "ok"


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(passing):
    passing.install("ncu", HANGING)
    assert passing.call("tools", seconds=15) == 1
    first = f"ncu timeline {gpu_hour.TIMELINES[0][0]}"
    assert passing.outcomes()[first] == "EXIT timeout", passing.summary()
    assert passing.summary().count(": no time is left\n") == len(gpu_hour.TIMELINES + gpu_hour.LAUNCHES) - 1
    assert passing.summary().splitlines()[-1] == f"1 failed: {first}"
    assert ended(int(passing.held.read_text()))


@pytest.mark.parametrize(("call", "tool"), [("tools", "ncu"), ("correct", "compute-sanitizer")])
def test_an_interrupted_call_ends_its_commands(passing, call, tool):
    passing.install(tool, HANGING)
    process = subprocess.Popen(passing.command(call, PATIENCE), env=passing.environment, stdout=subprocess.DEVNULL)
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    try:
        while process.poll() is None and not passing.held.exists():
            sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 130
    finally:
        watchdog.cancel()
    assert passing.summary().splitlines()[-1] == "interrupted"
    assert ended(int(passing.held.read_text()))


def test_missing_tools_are_named(passing, monkeypatch):
    monkeypatch.setattr(gpu_hour, "tool", lambda name: None)
    hour = hour_of(passing)
    gpu_hour.correct(hour, ["dpf aes-128 bit"])
    gpu_hour.tools(hour, ["dpf aes-128 bit"])
    assert not hour.failures and passing.outcomes() == {"check self-test": "ok", "check dpf": "ok"}
    for tool in ("compute-sanitizer", "ncu"):
        assert f"this machine has no {tool}\n" in passing.summary()


def test_a_program_that_lists_no_check_or_does_not_start_fails(passing):
    write_program(passing.program, "exit 0")
    assert passing.call("correct") == 1 and passing.summary().splitlines()[-1] == "1 failed: list"
    write_program(passing.program, """echo '{"check":"dpf aes-128 bit","outcome'; [ "$1" = --version ]""")
    assert passing.call("correct") == 1 and passing.summary().splitlines()[-1] == "1 failed: list"
    # The header of a program of another processor.
    passing.program.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(57))
    assert passing.call("correct") == 1
    assert passing.outcomes()["list"] == "EXIT not started", passing.summary()


def test_the_script_is_of_python_3_9():
    ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 9))


def test_the_kit_runs_where_it_is_unpacked(tmp_path):
    program = Path("/bin/true").resolve()
    said = run(sys.executable, ROOT / "scripts/gpu_kit.py", program, program, tmp_path).stdout
    assert f"MiB; the programs need glibc {gpu_kit.glibc(program)} or later" in said
    run("tar", "xf", tmp_path / f"{gpu_kit.NAME}.tar.xz", cwd=tmp_path)
    folder = tmp_path / gpu_kit.NAME
    assert {path.name for path in folder.iterdir()} == {"spirea", "spirea-lab", "gpu_hour.py", "README.txt"}
    assert (folder / "README.txt").read_text().count("\n") == 3
    run(folder / "spirea")
    done = subprocess.run([sys.executable, "gpu_hour.py", "correct"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1 and f", {folder / 'spirea'}\n" in done.stdout, done.stdout + done.stderr
    assert (folder / "gpu-hour/results.tar.xz").is_file()


def test_the_newest_version_of_glibc_is_named(monkeypatch):
    symbols = "0 DF *UND* 0 (GLIBC_2.9) read\n0 DF *UND* 0 (GLIBC_2.34) main\n0 DF *UND* 0 (GLIBC_PRIVATE) secret\n"
    monkeypatch.setattr(gpu_kit.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, symbols))
    assert gpu_kit.glibc("program") == "2.34"
