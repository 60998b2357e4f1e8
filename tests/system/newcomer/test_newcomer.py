"""Follows the first page of each file of a release to the first look-up, where nothing but that file is there.

`make release` makes the files, in target/release-files; SPIREA_RELEASE_FILES names another folder. The page comes out of the
file itself. Each look-up verifies the record's checksum, else it fails. The image's test needs root, or a user with
subordinate ids, as podman does. The others need neither.
"""

import email
import gzip
import json
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

import spirea_report
from system.newcomer import roots
from system.newcomer.pages import SERVER, follow, installation, javascript, look_up, packed, with_archive
from system.programs import run

pytestmark = [pytest.mark.long, pytest.mark.needs("bwrap")]

# dpkg, and programs that it needs.
DPKG = ("dpkg", "dpkg-deb", "dpkg-split", "diff", "ldconfig", "rm", "start-stop-daemon", "tar")
# podman raises limits by default, which machines may forbid. All allow lower ones.
LIMITS = ("--ulimit=nofile=4096:4096", "--ulimit=nproc=1024:1024")
# The most bytes of a release's files for one machine.
MAX_COMMAND, MAX_ARCHIVE, MAX_IMAGE = 35_000_000, 12_000_000, 40_000_000


def test_archive(release, tmp_path, timed):
    root = roots.bare(tmp_path, "tar", "xz")
    name = release.place("spirea-*-{architecture}-linux.tar.xz", root.home)
    page = packed(root.home / name, "spirea-*/README.md")
    top = name.split(f"-{release.architecture}")[0]
    follow(root, [installation(page, name), f'export PATH="$PWD/{top}/bin:$PATH"'], page)
    timed()
    # glibc's own versions, in the table of what the program needs.
    versions = run("objdump", "-T", root.home / top / "bin/spirea").stdout
    needed = {tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([\d.]+)", versions)}
    assert needed and max(needed) <= (2, 17), max(needed)


def test_the_command_and_its_archive_are_small(release):
    archive = release.find("spirea-*-{architecture}-linux.tar.xz")
    with tarfile.open(archive) as opened:
        (command,) = [member.size for member in opened if Path(member.name).match("bin/spirea")]
    assert command <= MAX_COMMAND, command
    assert archive.stat().st_size <= MAX_ARCHIVE, archive.stat().st_size


def test_the_image_is_small(release):
    (layer,) = layers(release.find("spirea-*-{architecture}-image.tar.gz"))
    assert len(layer) <= MAX_IMAGE, len(layer)


def layers(image):
    """Returns the layers of an OCI image, without compression."""
    with tarfile.open(image) as opened:

        def blob(described):
            return opened.extractfile(f"./blobs/{described['digest'].replace(':', '/')}").read()

        (manifest,) = json.load(opened.extractfile("./index.json"))["manifests"]
        return [gzip.decompress(blob(layer)) for layer in json.loads(blob(manifest))["layers"]]


def test_debian_package(release, tmp_path, timed):
    root = roots.bare(tmp_path, *DPKG)
    roots.installed_packages(root, "libc6")
    name = release.place("spirea_*.deb", root.home)
    run("dpkg-deb", "--extract", root.home / name, tmp_path / "package")
    page = (tmp_path / "package/usr/share/doc/spirea/README.md").read_text(encoding="utf-8")
    # apt asks its servers what else a package needs; here dpkg refuses a package that needs more than libc6.
    line = installation(page, name).replace("apt install", "dpkg --install")
    follow(root, [line, "test -f /etc/spirea/spirea.toml", "spirea --version"], page)
    timed()


def test_wheel(release, tmp_path, timed):
    root = roots.equipped(tmp_path)
    name = release.place("spirea-*_{architecture}.whl", root.home)
    with zipfile.ZipFile(root.home / name) as wheel:
        (metadata,) = [path for path in wheel.namelist() if path.endswith(".dist-info/METADATA")]
        page = email.message_from_string(wheel.read(metadata).decode()).get_payload()
    environment = ["python3 -m venv environment", ". environment/bin/activate"]
    follow(root, [*environment, installation(page, name)], page)
    timed()


def test_npm_package(release, tmp_path, timed):
    root = roots.equipped(tmp_path)
    name = release.place("spirea-*[0-9].tgz", root.home)
    page = packed(root.home / name, "package/README.md")
    (root.home / "look-up.mjs").write_text(javascript(page), encoding="utf-8")
    look_up(root, [f"npm install --silent ./{name}", with_archive(release, root), SERVER], "node look-up.mjs")
    timed()


@pytest.mark.needs("podman")
def test_image(release, tmp_path, timed):
    name = release.place("spirea-*-{architecture}-image.tar.gz", tmp_path)
    page = packed(release.find("spirea-*-{architecture}-linux.tar.xz"), "spirea-*/README.md")
    podman = [
        "podman",
        "--runtime=runc",
        f"--root={tmp_path / 'storage'}",
        f"--runroot={tmp_path / 'state'}",
        "--storage-driver=vfs",
    ]
    assert installation(page, name) == f"podman load -i {name}"
    said = run(*podman, "load", "--input", tmp_path / name).stdout
    image = re.search(r"Loaded image: (\S+)", said)[1]
    assert image.startswith("localhost/spirea:")
    try:
        in_image(podman, image, tmp_path)
        timed()
    finally:
        run(*podman, "rm", "--all", "--force", "--time", "0")
        run(*podman, "rmi", "--all", "--force")


def in_image(podman, image, tmp_path):
    """Builds a table, serves it and looks a key up, each in a container of its own."""
    data = tmp_path / "data"
    data.mkdir()
    # For the image's user, which has no name here.
    data.chmod(0o777)
    (data / "domains.csv").write_text("domain,verdict\nexample.org,fine\nexample.net,bad\n", encoding="utf-8")
    container = [*podman, "run", "--rm", "--network=host", *LIMITS, f"--volume={data}:/data", "--workdir=/data", image]
    run(*container, "build", "--input", "domains.csv", "--key", "domain", "--value", "verdict", "--out", "domains")
    serve = [*container, "serve", "domains", "--listen", "127.0.0.1:0"]
    with (
        spirea_report.log(tmp_path / "server.log") as log,
        log.open("w") as errors,
        subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=errors, text=True) as server,
    ):
        try:
            url = re.search(r"http://\S+", server.stdout.readline()).group()
            assert run(*container, "get", url, "domains", "example.net", "--wait", "60").stdout == "bad\n"
        finally:
            # podman passes it on, and the server ends by itself.
            server.terminate()
    assert server.returncode == 0
