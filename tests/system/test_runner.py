"""Tests of the tests' runner: choice and order of parts, and the output of failing parts."""

import json
import subprocess
import sys

import pytest

import base
import check
import contained
import parts
import run
import rust
import spirea_report
import system.programs
import times
from parts import PARTS, Part

COUNTED = {
    "1063 tests of 94 programs passed\n": 1063,
    "314 passed, 2 skipped in 143.20s (0:02:23)\n": 314,
    "17 passed, 3 deselected in 0.52s\n": 17,
    " Test Files  9 passed (9)\n      Tests  130 passed (130)\n": 130,
    "      Tests  1 failed | 128 passed (129)\n": 128,
    "running 2 tests\ntest result: ok. 2 passed; 0 failed; 0 ignored\n": 2,
    "no counts, 7 passed by chance": 0,
}


def git(folder, *arguments):
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Repository with two commits."""
    monkeypatch.delenv("BASE", raising=False)
    git(tmp_path, "init", "-q")
    for name in ("first", "second"):
        (tmp_path / name).write_text(name)
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", name)
    return tmp_path


# Starts a process whose parent ends at once, waits until it has ended, and prints whether it was reaped.
ORPHAN = """
import os, subprocess, time
said = subprocess.run(["sh", "-c", "sleep 0.1 >&- & echo $!"], stdout=subprocess.PIPE, text=True).stdout
while os.path.exists(f"/proc/{said.strip()}"):
    time.sleep(0.01)
print(os.getpid())
raise SystemExit(3)
"""


def test_command_with_process_numbers_of_its_own():
    if not contained.may_contain():
        pytest.skip("this user may make no namespace of process numbers")
    command = [sys.executable, parts.ROOT / "tests/contained.py", sys.executable, "-c", ORPHAN]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (3, "")
    assert int(done.stdout) < 10, "numbers begin with 1"


def test_without_a_base_nothing_is_known(repository):
    assert base.changed_files(repository) == (None, None)


def test_base_is_asked_for(repository, monkeypatch):
    monkeypatch.setenv("BASE", "HEAD~1")
    (repository / "first").write_text("changed")
    (repository / "third").write_text("new")
    assert base.changed_files(repository) == (git(repository, "rev-parse", "HEAD~1"), {"first", "second", "third"})
    monkeypatch.setenv("BASE", "nowhere")
    with pytest.raises(SystemExit, match="nowhere"):
        base.changed_files(repository)


def test_base_is_recorded_by_a_full_run_of_a_clean_checkout(repository):
    (repository / "first").write_text("changed")
    base.record(repository)
    assert base.base_commit(repository) is None
    git(repository, "checkout", "first")
    base.record(repository)
    assert base.changed_files(repository) == (git(repository, "rev-parse", "HEAD"), set())


def test_base_of_a_clone_is_the_committed_one(repository):
    passed = git(repository, "rev-parse", "HEAD")
    (repository / "tests").mkdir()
    (repository / base.COMMITTED).write_text(f"{passed}\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "record")
    assert base.changed_files(repository) == (passed, {base.COMMITTED})
    (repository / base.COMMITTED).write_text(f"{'0' * 40}\n")
    assert base.base_commit(repository) is None


def test_a_part_is_touched_by_its_files_only():
    part = Part("one", "", [], files=("rtl", "scripts/a.py"))
    assert part.touched({"rtl/unit.v"}) and part.touched({"scripts/a.py"})
    assert not part.touched({"rtl.md", "scripts/a.pyc", "docs/rtl"})


def test_parts_name_parts_programs_and_files_that_there_are():
    names = [part.name for part in PARTS]
    assert len(set(names)) == len(names)
    for place, part in enumerate(PARTS):
        assert set(part.needs) <= set(names), part.name
        assert all((parts.ROOT / file).exists() for file in part.files), part.name
        assert all(run.debian.remedy(program) for program in part.programs), part.name
        # A part of the short form must not need a part that only the full form has.
        assert part.only_full or not any(PARTS[names.index(need)].only_full for need in part.needs), place


def test_the_document_lists_the_parts():
    page = times.PAGE.read_text()
    assert times.replaced(page, "parts", times.part_rows()) == page, "python3 tests/run.py --write-times writes it"


@pytest.mark.parametrize("text", COUNTED)
def test_counts_of_runners_are_read(text):
    assert sum(int(count) for pattern in run.COUNTS for count in pattern.findall(text)) == COUNTED[text]


def executed(tmp_path, monkeypatch, *those):
    monkeypatch.setattr(run, "LOGS", tmp_path)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    return {result.part.name: result for result in run.execute(list(those))}


def test_a_failing_part_prints_its_log_and_the_command_and_stops_those_that_need_it(tmp_path, monkeypatch, capsys):
    good = Part("good", "", [[sys.executable, "-c", "print('3 passed, 0 failed')"]])
    bad = Part("bad", "", [[sys.executable, "-c", "print('the cause'); raise SystemExit(3)"], ["false"]], needs=("good",))
    later = Part("later", "", [["true"]], needs=("bad",))
    results = executed(tmp_path, monkeypatch, good, bad, later)
    assert {name: result.passed for name, result in results.items()} == {"good": True, "bad": False, "later": False}
    assert results["good"].tests == 3
    said = capsys.readouterr().out
    assert "the cause" in said and "exit code 3" in said and "make test ONLY=bad" in said and "later: needs bad" in said


def test_the_end_of_a_run_names_failed_tests_with_their_errors(tmp_path, monkeypatch, capsys):
    lines = [
        "FAILED tests/system/test_a.py::test_b[c] - OSError: [Errno 26] Text file busy",
        "thread 'a::b' (7) panicked at crates/a/src/b.rs:1:2:\nit is 3",
        "to repeat it alone: cargo test --package a --lib -- --exact a::b --nocapture",
        " FAIL  tests/a.test.ts > b",
    ]
    program = "import sys; print(sys.argv[1], 'more'); sys.exit(int(sys.argv[2]))"
    bad, good = (
        Part(name, "", [[sys.executable, "-c", program, "\n".join(lines), code]])
        for name, code in (("bad", "1"), ("good", "0"))
    )
    results = executed(tmp_path, monkeypatch, bad, good)
    capsys.readouterr()
    assert not run.summary(list(results.values()), {}, {}, 1.0)
    said = capsys.readouterr().out
    assert all(f"bad: {line}" in said for line in lines)
    assert "good: " not in said


def test_parts_run_two_at_a_time(tmp_path, monkeypatch):
    # Each part waits for the other's file, so both must run at the same time.
    program = """
import pathlib, sys, time
pathlib.Path(sys.argv[1]).touch()
while not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.01)
"""
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    pair = [
        Part(name, "", [[sys.executable, "-c", program, *files]]) for name, files in (("a", (one, other)), ("b", (other, one)))
    ]
    assert all(result.passed for result in executed(tmp_path, monkeypatch, *pair).values())


@pytest.fixture(scope="module")
def tests_built():
    system.programs.run(sys.executable, parts.ROOT / "tests/rust.py", "--build")


@pytest.mark.parametrize("program", ["--bin=spirea", "--bin=taint", "--example=apple-look-ups"])
def test_programs_share_the_libraries_of_the_tests(tests_built, program):
    """A library that is not fresh has other features or settings here than in the tests. A repeated test finds it compiled."""
    messages = system.programs.cargo("build", "--workspace", "--locked", program, "--message-format=json").splitlines()
    built = [message for message in map(json.loads, messages) if message["reason"] == "compiler-artifact"]
    assert built
    again = [message["target"]["name"] for message in built if not message["fresh"] and "lib" in message["target"]["kind"]]
    assert not again, f"compiled twice: {', '.join(again)}"


def test_tests_on_an_emulated_device_are_skipped_with_its_package(monkeypatch):
    programs = {f"{folder.name}/{target['name']}": file for folder, target, file in rust.build()}
    monkeypatch.setattr(rust, "left_out", lambda: {"spirea-cuda": "crates/cuda"})
    for name in parts.EMULATIONS["spirea-cuda"]:
        skipped = rust.emulations(name)
        [all_tests, others] = [system.programs.run(programs[name], "--list", *more).stdout for more in ([], skipped)]
        assert 0 < len(others) < len(all_tests), f"{name} has no such test"
    assert rust.emulations("store/it") == []


def test_a_failed_rust_test_has_a_command_of_its_own():
    folder = parts.ROOT / "crates/store"
    assert rust.repeat(folder, {"kind": ["lib"], "name": "spirea_store"}, "a::b") == (
        "cargo test --package spirea-store --lib -- --exact a::b --nocapture"
    )
    assert "--test it " in rust.repeat(folder, {"kind": ["test"], "name": "it"}, "c")
    assert rust.FAILED.findall("test a::b ... FAILED\ntest c - should panic ... FAILED\ntest d ... ok\n") == ["a::b", "c"]


def test_a_change_is_checked_by_what_it_touches():
    commands = [
        " ".join(map(str, command))
        for command in check.commands(["crates/wire/src/lib.rs", "docs/updates.md", "scripts/web.py"])
    ]
    assert any(f"{parts.CARGO} test" in command and "spirea-wire" in command for command in commands)
    assert any("test_docs.py::test_document[docs/updates.md]" in command for command in commands)
    assert any("ruff check scripts/web.py" in command for command in commands)
    assert not list(check.commands(["LICENSE"]))
    [clippy] = [
        " ".join(map(str, command)) for command in check.commands(["fuzz/fuzz_targets/wire.rs"]) if "clippy" in command
    ]
    assert "--features spirea-fuzz/libfuzzer" in clippy
    assert check.package("conformance/interleavings/tests/life.rs") is None


def test_draws_differ_by_seed_and_the_long_form_has_all_cases(monkeypatch):
    monkeypatch.setattr(spirea_report, "LONG", False)
    monkeypatch.setattr(spirea_report, "_draws", {})
    cases, seen = ["a", "b", "c"], set()
    for seed in range(40):
        monkeypatch.setenv("SPIREA_DRAW", str(seed))
        seen.update(spirea_report.drawn("letters", cases, 1))
        assert spirea_report.drawn("letters", cases, 2) == spirea_report.drawn("letters", cases, 2)
    assert seen == set(cases)
    # The runner prints such lines.
    assert run.DRAWN.search(spirea_report._draws["letters"])
    assert spirea_report.drawn("all", cases, 3) == cases and "all" not in spirea_report._draws
    monkeypatch.setattr(spirea_report, "LONG", True)
    assert spirea_report.drawn("letters", cases, 1) == cases
