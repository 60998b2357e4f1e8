"""Tests of examples/: each runs against a server of its own, finds what is there, and tells a failure from an absence."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager

import numpy as np
import pytest

from system.programs import ROOT, Folder, run

EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.full


@contextmanager
def serving(spirea, path):
    """Serves a list of domains under the name `blocked`. Yields the server's address."""
    folder = Folder(spirea, path)
    folder.write("list.csv", "domain,verdict\nads.example,advertising\n")
    key = ["--key", "domain", "--value", "verdict", "--normalise", "domain"]
    folder.run("build", "--input", "list.csv", *key, "--protocol", "hybrid", "--out", "blocked")
    with folder.serving("blocked") as [url]:
        yield url


def test_fastapi(spirea, tmp_path, monkeypatch):
    from fastapi.testclient import TestClient

    specification = importlib.util.spec_from_file_location("example_app", EXAMPLES / "fastapi/app.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    with serving(spirea, tmp_path) as url:
        monkeypatch.setenv("SPIREA_URL", url)
        context = TestClient(module.app)
        with context as client:
            assert client.get("/domains/ads.example").json() == {"listed": True, "verdict": "advertising"}
            assert client.get("/domains/example.org").json() == {"listed": False, "verdict": None}

            async def failing(name):
                raise module.spirea.LookUpError("a failure")

            monkeypatch.setattr(module.app.state, "client", type("Failing", (), {"get": staticmethod(failing)}))
            assert client.get("/domains/ads.example").status_code == 503


def get(url):
    """Returns the status and the JSON of a response."""
    try:
        with urllib.request.urlopen(url, timeout=300) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_node(spirea, tmp_path):
    shutil.copytree(EXAMPLES / "node", tmp_path / "node")
    packed = run("npm", "pack", "--silent", ROOT / "clients/ts", cwd=tmp_path).stdout.strip()
    run("npm", "install", "--silent", "--offline", tmp_path / packed, cwd=tmp_path / "node")
    with serving(spirea, tmp_path) as url:
        environment = os.environ | {"SPIREA_URL": url, "PORT": "0"}
        command = ["node", "service.mjs"]
        process = subprocess.Popen(command, cwd=tmp_path / "node", env=environment, stdout=subprocess.PIPE, text=True)
        with process:
            try:
                port = process.stdout.readline().split()[-1]
                own = f"http://127.0.0.1:{port}/check"
                assert get(f"{own}?key=ads.example") == (200, {"listed": True, "verdict": "advertising"})
                assert get(f"{own}?key=example.org") == (200, {"listed": False, "verdict": None})
                assert get(own)[0] == 400
            finally:
                process.terminate()


def test_notebook(tmp_path):
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook = nbformat.read(EXAMPLES / "notebook/join.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    notebook.cells[-1].source = notebook.cells[-1].source.replace("[7, 120]", "[7, 121]")
    with pytest.raises(CellExecutionError):
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_model(spirea, tmp_path):
    np.save(tmp_path / "films.npy", np.eye(100, 4, dtype=np.float32))
    folder = Folder(spirea, tmp_path)
    folder.run("build", "--input", "films.npy", "--protocol", "hybrid", "--out", "films")
    command = [sys.executable, EXAMPLES / "model/model.py"]
    with folder.serving("films") as [url]:
        assert run(*command, url, "2").stdout.split() == ["2", "0", "1", "3"]
        assert run(*command, url).stdout.split() == ["0", "1", "2", "3"]
    done = subprocess.run([*map(str, command), url, "2"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no ranking now" in done.stderr
