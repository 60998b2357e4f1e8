"""The files of a release: archives, packages and images, made of the program of the tests, and an installation."""

import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from system.programs import ROOT, cargo, run

sys.path.insert(0, str(ROOT / "scripts/release"))

import again
import archives
import installation
import sources
import wheels

TIME = 1_700_000_000
SCRIPT = ROOT / "scripts/release/installation.py"


# In place of the program, which takes a minute to compress when it was compiled for tests.
STAND_IN = installation.File(b"#!/bin/sh\necho spirea 0.1.0\n", 0o755)


@pytest.fixture(scope="module")
def files(spirea):
    return installation.files(spirea, "/usr/local") | {"bin/spirea": STAND_IN}


def members(archive):
    """The members of a tar archive by their names."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {
            member.name.removeprefix("./"): (member, opened.extractfile(member).read() if member.isfile() else None)
            for member in opened
        }


def test_an_installation_works_and_goes_without_a_trace(spirea, tmp_path):
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/other").write_text("somebody else's")
    said = run(sys.executable, SCRIPT, "install", spirea, prefix).stdout
    assert f"below {prefix}" in said
    assert run(prefix / "bin/spirea", "--version").stdout.startswith("spirea ")
    unit = (prefix / "lib/systemd/system/spirea.service").read_text()
    assert f"ExecStart={prefix}/bin/spirea serve" in unit and "/usr/bin/spirea" not in unit
    assert "spirea" in (prefix / "share/bash-completion/completions/spirea").read_text()
    assert (prefix / "share/man/man1/spirea-serve.1").is_file()
    # A second installation replaces the first, also while the program runs.
    run(sys.executable, SCRIPT, "install", spirea, prefix)
    run(sys.executable, SCRIPT, "uninstall", prefix)
    assert [path.name for path in prefix.rglob("*") if path.is_file()] == ["other"]
    assert not (prefix / "share").exists()


def test_what_was_not_installed_is_not_removed(tmp_path):
    command = [sys.executable, SCRIPT, "uninstall", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "nothing was installed" in done.stderr


def test_packagers_find_everything_below_their_folder(spirea, tmp_path):
    run(sys.executable, SCRIPT, "install", spirea, "/usr", tmp_path / "stage")
    assert (tmp_path / "stage/usr/bin/spirea").stat().st_mode & 0o777 == 0o755
    unit = (tmp_path / "stage/usr/lib/systemd/system/spirea.service").read_text()
    assert "ExecStart=/usr/bin/spirea serve" in unit


def test_archives_follow_from_their_content(files):
    first, second = archives.tar(files, TIME), archives.tar(dict(reversed(files.items())), TIME)
    assert first == second
    packed = members(first)
    member, content = packed["bin/spirea"]
    assert (member.mode, member.uid, member.mtime) == (0o755, 0, TIME)
    assert content == files["bin/spirea"].content
    assert packed["share/man"][0].isdir()


def test_code_is_compressed_by_the_filter_of_its_architecture():
    code = Path(shutil.which("bash")).read_bytes()
    filtered, plain = archives.xz(code, "x86_64"), archives.xz(code)
    assert lzma.decompress(filtered) == lzma.decompress(plain) == code
    assert subprocess.run(["xz", "--decompress"], input=filtered, stdout=subprocess.PIPE, check=True).stdout == code
    if os.uname().machine == "x86_64":
        assert len(filtered) < len(plain)


def test_a_debian_package_is_one(files, tmp_path):
    control = {"Package": "spirea", "Version": "0.1.0", "Architecture": "amd64", "Maintainer": "x <x@example.org>"}
    control["Description"] = "short\n longer"
    content = {"etc/spirea/spirea.toml": files["share/spirea/spirea.toml"], "usr/bin/spirea": files["bin/spirea"]}
    package = archives.debian_package(control, {"postinst": "#!/bin/sh\n"}, ["etc/spirea/spirea.toml"], content, TIME)
    assert package == archives.debian_package(control, {"postinst": "#!/bin/sh\n"}, ["etc/spirea/spirea.toml"], content, TIME)
    path = tmp_path / "spirea.deb"
    path.write_bytes(package)
    found, rest = {}, package[8:]
    assert package[:8] == b"!<arch>\n"
    while rest:
        name, size = rest[:16].decode().strip(), int(rest[48:58])
        found[name] = rest[60 : 60 + size]
        rest = rest[60 + size + size % 2 :]
    assert list(found) == ["debian-binary", "control.tar.xz", "data.tar.xz"]
    described = members(found["control.tar.xz"])
    assert described["conffiles"][1] == b"/etc/spirea/spirea.toml\n"
    digest = hashlib.md5(files["bin/spirea"].content).hexdigest()
    assert f"{digest}  usr/bin/spirea\n" in described["md5sums"][1].decode()
    assert members(found["data.tar.xz"])["usr/bin/spirea"][1] == files["bin/spirea"].content
    if shutil.which("dpkg-deb"):
        assert run("dpkg-deb", "--field", path, "Package").stdout == "spirea\n"
        run("dpkg-deb", "--extract", path, tmp_path / "root")
        assert run(tmp_path / "root/usr/bin/spirea", "--version").stdout.startswith("spirea ")


def test_cargo_loads_the_sources_of_the_python_package_with_their_lock(tmp_path):
    run(Path(sys.executable).parent / "maturin", "sdist", "--out", tmp_path)
    (archive,) = tmp_path.iterdir()
    sources.lock(archive, os.environ.get("CARGO", "cargo"))
    run("tar", "xf", archive, cwd=tmp_path)
    top = tmp_path / archive.name.removesuffix(".tar.gz")
    cargo("metadata", "--locked", "--offline", "--format-version", "1", "--manifest-path", top / "bindings/python/Cargo.toml")


@pytest.mark.parametrize(
    ("tag", "runs"),
    [
        ("manylinux_2_5_x86_64", True),
        ("manylinux_2_17_aarch64", True),
        ("manylinux_2_28_x86_64", False),
        ("linux_x86_64", False),
        ("musllinux_1_1_x86_64", False),
    ],
)
def test_wheels_run_with_the_oldest_glibc(tag, runs):
    assert wheels.runs_with(tag, "2.17") == runs


def test_an_image_is_a_layout_whose_hashes_are_right():
    image = archives.image(b"a static program", "amd64", "0.1.0", TIME)
    assert image == archives.image(b"a static program", "amd64", "0.1.0", TIME)
    packed = {name: content for name, (_, content) in members(image).items()}

    def blob(described):
        content = packed["blobs/" + described["digest"].replace(":", "/")]
        assert len(content) == described["size"]
        assert hashlib.sha256(content).hexdigest() == described["digest"].removeprefix("sha256:")
        return content

    assert json.loads(packed["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (only,) = json.loads(packed["index.json"])["manifests"]
    manifest = json.loads(blob(only))
    config, (layer,) = json.loads(blob(manifest["config"])), map(blob, manifest["layers"])
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(gzip.decompress(layer)).hexdigest()}"]
    content = members(layer)
    assert content["spirea"][1] == b"a static program" and content["spirea"][0].mode == 0o755
    assert only["annotations"] == {"org.opencontainers.image.ref.name": "spirea:0.1.0"}
    state = content["var/lib/spirea"][0]
    assert state.isdir() and f"{state.uid}:{state.gid}" == config["config"]["User"]


def test_files_made_again_are_compared_by_their_bytes(files, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    other = files | {"bin/spirea": installation.File(b"another program", 0o755)}
    for folder, content in ((first, files), (second, other)):
        (folder / "spirea.tar.xz").write_bytes(archives.xz(archives.tar(content, TIME)))
        (folder / "equal").write_bytes(b"equal")
        (folder / "SHA256SUMS").write_text(f"{folder}")
    (second / "new").write_bytes(b"")
    assert again.differences(first, first) == []
    assert again.differences(first, second) == [f"new is not in {first}", "spirea.tar.xz differs: ./bin/spirea"]
