"""The command in the wheel behaves like the program without Python."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

import spirea

COMMANDS = [[os.path.join(os.path.dirname(sys.executable), "spirea")], [sys.executable, "-m", "spirea"]]


@pytest.fixture(params=COMMANDS, ids=["spirea", "python -m spirea"])
def command(request):
    def run(*arguments, **environment):
        return subprocess.run(
            [*request.param, *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            stdin=subprocess.DEVNULL,
            env=os.environ | environment,
        )

    return run


def test_it_is_there(command):
    done = command("--version")
    assert (done.returncode, done.stdout) == (0, f"spirea {spirea.__version__}\n")
    assert command("--help").stdout.startswith("Private information retrieval")


def test_its_exit_codes(command, keyed_server, tmp_path):
    found = command("get", keyed_server.url, "keyed", "k1")
    assert (found.returncode, found.stdout) == (0, "a1\t1\n")
    missing = command("get", keyed_server.url, "keyed", "nobody")
    assert (missing.returncode, missing.stdout, missing.stderr) == (1, "", "nobody: not found\n")
    assert command("get", keyed_server.url, "no-such-table", "k1").returncode == 2
    usage = command("frobnicate")
    assert usage.returncode == 2 and "unrecognized subcommand" in usage.stderr
    assert command("inspect", str(tmp_path)).returncode == 2


def test_a_reader_that_goes_away_ends_it_quietly():
    spirea_command = shutil.which("spirea", path=os.path.dirname(sys.executable))
    done = subprocess.run(
        f"{spirea_command} completions bash | head -1", shell=True, capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stderr == ""


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_a_server_finishes_when_it_is_asked_to(keyed, ending):
    server = subprocess.Popen(
        [*COMMANDS[0], "serve", keyed.path, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert server.stdout.readline().startswith(b"listening on http://")
    server.send_signal(ending)
    assert server.wait(timeout=300) == 0
    server.stdout.close()


def test_ctrl_c_ends_a_command_as_it_ends_programs(tmp_path):
    command = subprocess.Popen(
        [*COMMANDS[0], "build", "--input", "-", "--format", "csv", "--value", "v", "--out", str(tmp_path / "out")],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    # A pipe holds 64 KiB. When all bytes are written, the command has started to read.
    command.stdin.write(b"v\n" + b"x\n" * (1 << 17))
    command.stdin.flush()
    command.send_signal(signal.SIGINT)
    assert command.wait(timeout=300) == -signal.SIGINT
    command.stdin.close()


def test_cluster_says_what_it_needs(command, tmp_path):
    """Without the extra, the command names the missing package. The test hides the extra's first module."""
    (tmp_path / "yaml.py").write_text("raise ModuleNotFoundError(name='yaml')\n")
    done = command("cluster", "status", "cluster.yaml", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == "spirea: cluster needs yaml: pip install 'spirea[cluster]'\n"
