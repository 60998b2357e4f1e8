"""Archives whose bytes follow from what is in them: tar, Debian packages and images of containers.

Every function takes the files by their paths, and the time that they all get, in seconds since 1970.
"""

import gzip
import hashlib
import io
import json
import lzma
import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime

from installation import File

# The user of containers, which has no name.
NOBODY = 65532
# xz's filters of code by the names of an architecture, Linux's and Debian's. Python has none for aarch64.
BRANCHES = {"x86_64": lzma.FILTER_X86, "amd64": lzma.FILTER_X86}


@dataclass(frozen=True)
class Folder:
    """A folder that belongs to a user."""

    owner: int = 0


def gzipped(content):
    return gzip.compress(content, 9, mtime=0)


def xz(content, architecture=""):
    """Compresses by xz, which takes a quarter off what gzip makes of programs, for readers that all know it.

    The filter for an architecture's code replaces relative addresses of calls by absolute ones, which repeat: 3% of a program.
    """
    branches = [{"id": BRANCHES[architecture]}] if architecture in BRANCHES else []
    return lzma.compress(content, filters=[*branches, {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}])


def tar(entries, time):
    """A tar archive. Folders above the entries are in it, and belong to root."""
    entries = dict(entries)
    for path in list(entries):
        parts = path.split("/")[:-1]
        for end in range(1, len(parts) + 1):
            entries.setdefault("/".join(parts[:end]), Folder())
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path, entry in sorted(entries.items()):
            header = tarfile.TarInfo(f"./{path}")
            header.mtime = time
            match entry:
                case Folder(owner):
                    header.type, header.mode = tarfile.DIRTYPE, 0o755
                    header.uid = header.gid = owner
                    archive.addfile(header)
                case File(content, mode):
                    header.size, header.mode = len(content), mode
                    archive.addfile(header, io.BytesIO(content))
    return packed.getvalue()


def debian_package(control, scripts, settings, files, time):
    """A Debian package: format 2.0, an `ar` archive of three members.

    `control` has the fields of its description, `scripts` what runs when it is installed or removed, and `settings` the paths
    that belong to the administrator once they are installed.
    """
    described = {
        "control": File("".join(f"{name}: {value}\n" for name, value in control.items()).encode()),
        "conffiles": File("".join(f"/{path}\n" for path in settings).encode()),
        "md5sums": File("".join(f"{hashlib.md5(f.content).hexdigest()}  {p}\n" for p, f in sorted(files.items())).encode()),
        **{name: File(script.encode(), 0o755) for name, script in scripts.items()},
    }
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": xz(tar(described, time)),
        "data.tar.xz": xz(tar(files, time), control["Architecture"]),
    }
    package = b"!<arch>\n"
    for name, content in members.items():
        package += f"{name:<16}{time:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        package += content + b"\n" * (len(content) % 2)
    return package


def image(binary, architecture, version, time):
    """An image of a container with the static program alone, as an OCI layout within a tar archive."""
    created = datetime.fromtimestamp(time, UTC).isoformat()
    entries = {"spirea": File(binary, 0o755), "var/lib/spirea": Folder(NOBODY)}
    content = tar(entries, time)
    layer = gzipped(content)
    blobs = {}

    def blob(kind, content):
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = File(content)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    def encoded(value):
        return json.dumps(value, sort_keys=True).encode()

    config = {
        "architecture": architecture,
        "os": "linux",
        "created": created,
        "config": {
            "User": f"{NOBODY}:{NOBODY}",
            "WorkingDir": "/var/lib/spirea",
            "Entrypoint": ["/spirea"],
            "Cmd": ["serve", "--config", "/etc/spirea/spirea.toml"],
            "ExposedPorts": {"8080/tcp": {}, "8081/tcp": {}},
            "StopSignal": "SIGTERM",
            "Labels": {"org.opencontainers.image.version": version},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]},
        "history": [{"created": created, "created_by": "make release"}],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", encoded(config)),
        "layers": [blob("layer.v1.tar+gzip", layer)],
    }
    described = blob("manifest.v1+json", encoded(manifest))
    # podman names the image by it: localhost/spirea:VERSION.
    described["annotations"] = {"org.opencontainers.image.ref.name": f"spirea:{version}"}
    index = {"schemaVersion": 2, "manifests": [described]}
    layout = {"oci-layout": File(encoded({"imageLayoutVersion": "1.0.0"})), "index.json": File(encoded(index))}
    return gzipped(tar({**layout, **blobs}, time))
