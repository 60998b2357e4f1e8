"""Programs that the system tests run."""

import json
import os
import re
import subprocess
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import spirea_report

ROOT = Path(__file__).resolve().parents[2]
CARGO = os.environ.get("CARGO", "cargo")
# Timeout in seconds for a server to be ready, or to end.
PATIENCE = 600


def run(*command, **options):
    """Runs a command, which must succeed. Returns the completed process, with separate output and errors."""
    command = [str(part) for part in command]
    done = subprocess.run(command, **{"capture_output": True, "text": True, "check": False, **options})
    assert done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout or ''}{done.stderr or ''}"
    return done


def cargo(*arguments, **environment):
    """Runs cargo in the workspace, which must succeed. Returns its output."""
    return run(CARGO, *arguments, cwd=ROOT, env={**os.environ, **environment}).stdout


def cargo_messages(**environment):
    """Builds the workspace's tests, unless they are built. Returns cargo's messages about what it built.

    It builds all packages: a build of one package has other features, and would compile everything again.
    """
    command = ("test", "--workspace", "--locked", "--no-run", "--message-format=json-render-diagnostics")
    return [json.loads(line) for line in cargo(*command, **environment).splitlines()]


def rust_tests(messages, folder):
    """Returns the test programs of the packages in a folder, by name."""
    return {
        message["target"]["name"]: message["executable"]
        for message in messages
        if message["reason"] == "compiler-artifact" and message["executable"] and message["profile"]["test"]
        if Path(message["manifest_path"]).is_relative_to(ROOT / folder)
    }


def target_folder():
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


class Folder:
    """A folder in which the program runs, with its own cache."""

    def __init__(self, spirea, path):
        self.spirea, self.path = spirea, path

    def run(self, *arguments):
        environment = os.environ | {"XDG_CACHE_HOME": str(self.path / "cache")}
        return run(self.spirea, *arguments, cwd=self.path, env=environment)

    def write(self, name, text):
        (self.path / name).write_text(text, encoding="utf-8")

    @contextmanager
    def serving(self, *arguments, ports=1):
        """Runs a server on free ports. Yields the addresses of the clients' port and, with two ports, of the operator's."""
        listen = ["--listen", "127.0.0.1:0", *(["--admin-listen", "127.0.0.1:0"] if ports == 2 else [])]
        command = [self.spirea, "serve", *arguments, *listen]
        number = len(list(self.path.glob("server-*.log")))
        with (
            spirea_report.log(self.path / f"server-{number}.log") as log,
            log.open("w") as errors,
            subprocess.Popen(command, cwd=self.path, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
        ):
            try:
                lines = [process.stdout.readline() for _ in range(ports)]
                assert all(lines), f"the server has ended\n{log.read_text()}"
                urls = [re.search(r"http://\S+", line).group() for line in lines]
                wait(process, f"{urls[0]}/readyz")
                yield urls
                assert process.poll() is None, "the server has ended"
            finally:
                process.terminate()
                try:
                    process.wait(timeout=PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    raise
        assert "panicked" not in log.read_text(), log.read_text()


def get(url, token=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as response:
        return response.read()


def wait(process, url):
    """Waits until a server's address answers with success."""
    deadline = monotonic() + PATIENCE
    while process.poll() is None:
        try:
            get(url)
            return
        except (OSError, urllib.error.HTTPError) as error:
            assert monotonic() < deadline, f"{url} is not ready: {error}"
        sleep(0.05)
    raise AssertionError(f"the server ended before {url} was ready")
