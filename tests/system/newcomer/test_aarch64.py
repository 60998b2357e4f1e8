"""Runs the files of a release for aarch64 up to the first look-up, under QEMU's emulation of a processor.

`make test-newcomer-aarch64` makes the files.
"""

import io
import re
import shutil
import subprocess
import tarfile
import zipfile

import pytest

import spirea_report
from system.newcomer import foreign
from system.newcomer.test_newcomer import layers
from system.programs import run

# Debian's C library for aarch64, below which QEMU looks for the libraries of a program.
LIBRARIES = "/usr/aarch64-linux-gnu"
QEMU = "qemu-aarch64-static"
TABLE = "domain,verdict\nexample.org,fine\nexample.net,bad\n"
LOOK_UP = """import spirea
with spirea.Server("domains", threads=1) as server, spirea.Client(server, keep="memory") as client:
    print(client.get("example.net").text("verdict"))"""

pytestmark = [pytest.mark.long, pytest.mark.needs("qemu-aarch64-static")]


def from_archive(release, folder):
    with tarfile.open(release.find("spirea-*-aarch64-linux.tar.xz")) as archive:
        archive.extractall(folder, filter="data")


def from_debian_package(release, folder):
    run("dpkg-deb", "--extract", release.find("spirea_*_arm64.deb"), folder)


def from_image(release, folder):
    (layer,) = layers(release.find("spirea-*-aarch64-image.tar.gz"))
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        archive.extractall(folder, filter="data")


@pytest.mark.parametrize("unpack", [from_archive, from_debian_package, from_image])
def test_command(release, tmp_path, unpack):
    unpack(release, tmp_path / "files")
    found = (tmp_path / "files").rglob("spirea")
    (program,) = [path for path in found if path.is_file() and path.parent.name in ("bin", "files")]
    (tmp_path / "domains.csv").write_text(TABLE, encoding="utf-8")
    spirea = [QEMU, "-L", LIBRARIES, program]
    columns = ["--key", "domain", "--value", "verdict", "--threads", "1"]
    run(*spirea, "build", "--quiet", "--input", "domains.csv", *columns, "--out", "domains", cwd=tmp_path)
    serve = [*spirea, "serve", "domains", "--listen", "127.0.0.1:0", "--threads", "1"]
    with (
        spirea_report.log(tmp_path / "server.log") as log,
        log.open("w") as errors,
        subprocess.Popen(serve, cwd=tmp_path, stdout=subprocess.PIPE, stderr=errors, text=True) as server,
    ):
        try:
            url = re.search(r"http://\S+", server.stdout.readline()).group()
            assert run(*spirea, "get", url, "domains", "example.net", "--wait", "60", "--no-cache").stdout == "bad\n"
        finally:
            server.terminate()
    assert server.returncode == 0


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt-get downloads a Python for aarch64")
def test_wheel(release, tmp_path):
    root = foreign.unpack(["python3"], "arm64", tmp_path)
    with zipfile.ZipFile(release.find("spirea-*_aarch64.whl")) as wheel:
        wheel.extractall(tmp_path / "packages")
    (tmp_path / "domains.csv").write_text(TABLE, encoding="utf-8")
    python = [QEMU, "-E", f"PYTHONPATH={tmp_path / 'packages'}", "-L", root, (root / "usr/bin/python3").resolve()]
    columns = ["--key", "domain", "--value", "verdict", "--threads", "1"]
    command = [*python, "-m", "spirea", "build", "--quiet", "--input", "domains.csv", *columns, "--out", "domains"]
    run(*command, cwd=tmp_path)
    assert run(*python, "-c", LOOK_UP, cwd=tmp_path).stdout == "bad\n"
