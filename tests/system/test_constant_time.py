"""Runs client code under valgrind with secrets marked as undefined: no branch and no address may depend on a secret.

Planted faults must be found, and docs/constant-time.md must list all declassified values. The checked program contains only
the client half, as it ships. Its servers' answers come from `constant-time-answers`, which runs outside valgrind.
"""

import platform
import re
import shutil
import subprocess

import pytest

import debian
from system import reasons
from system.programs import cargo, target_folder

pytestmark = [
    pytest.mark.needs("valgrind"),
    pytest.mark.skipif(
        platform.machine() not in ("x86_64", "AMD64"),
        reason=f"secrets are marked on x86-64 alone, and this is {platform.machine()}",
    ),
]

# Exit code of valgrind if a secret steers the program.
STEERED = 9
# Kinds of the short form: one with evaluation keys and packing; one with a hint; one with two servers. The longest comes
# first.
SHORT = ["exppack-simple", "simple", "dpf-xor"]
KINDS = [
    "exppack-double-per-query",
    "exppack-simple-per-query",
    "bins",
    "packed-bins",
    "dpf-sum",
    "onion",
    "hybrid",
    "double-pack",
    "exppack-double",
    "double",
    *SHORT,
]
PROFILE = "constant-time"


@pytest.fixture(scope="module")
def checked():
    """Program that runs under valgrind: client code as it ships."""
    package = ("--package", "spirea-constant-time", "--bin", "constant-time")
    cargo("build", "--locked", "--profile", PROFILE, "--features", "memcheck", *package)
    return target_folder() / PROFILE / "constant-time"


@pytest.fixture(scope="module")
def answering(tmp_path_factory):
    """Program that computes the answers. With the whole workspace's features, cargo reuses the tests' build.

    It is a copy, because cargo replaces examples, and other parts of the tests run it while the checks start this one.
    """
    cargo("build", "--locked", "--workspace", "--example", "constant-time-answers")
    return shutil.copy(target_folder() / "debug/examples/constant-time-answers", tmp_path_factory.mktemp("answering"))


def check(program, *arguments, stdin=subprocess.DEVNULL):
    """Runs the program under valgrind."""
    command = [debian.find("valgrind"), "-q", f"--error-exitcode={STEERED}", "--num-callers=30", program, *arguments]
    return subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def outcomes(checked, answering, side_by_side):
    """Checks of all chosen kinds, in parallel."""

    def work(kind):
        with subprocess.Popen([answering, kind], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as servers:
            done = check(checked, kind, stdin=servers.stdout)
            # If the client has ended early, the servers must fail to write, so that they end too.
            servers.stdout.close()
            said = servers.stderr.read().decode(errors="replace")
        return done, servers.returncode, said

    return side_by_side("test_no_secret_steers_client_code", "kind", work)


def declassified(done):
    return set(re.findall(r"^declassified: (.*)$", done.stdout, re.MULTILINE))


@pytest.mark.parametrize("fault", ["branch", "address", "slice"])
def test_planted_fault_is_found(checked, fault):
    done = check(checked, "--plant", fault)
    assert done.returncode == STEERED, f"a planted {fault} on a secret was not found: {done.stderr}"


def test_every_kind_is_here(checked):
    assert sorted(check(checked, "--list").stdout.split()) == sorted(KINDS)


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[] if kind in SHORT else pytest.mark.full) for kind in KINDS])
def test_no_secret_steers_client_code(outcomes, kind):
    done, answered, said = outcomes[kind].result()
    assert done.returncode != STEERED, f"a secret steers client code: {done.stderr}"
    assert (done.returncode, answered) == (0, 0), f"{done.stderr}{said}"
    missing = declassified(done) - reasons.listed(reasons.PROTOCOLS)
    assert not missing, f"docs/constant-time.md leaves out {sorted(missing)}"


@pytest.mark.full
def test_documented_reasons_are_all_there_are(outcomes):
    if outcomes.keys() != set(KINDS):
        pytest.skip("only some kinds were chosen, and each has reasons of its own")
    found = set().union(*(declassified(future.result()[0]) for future in outcomes.values()))
    listed = reasons.listed(reasons.PROTOCOLS)
    assert found == listed, f"docs/constant-time.md has besides {sorted(listed - found)}"
