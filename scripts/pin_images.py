#!/usr/bin/env python3
"""Writes the digests of container images into files, where they are named by a tag.

Usage: pin_images.py FILE...

Reads the same lines as check_images.py. Asks the images' registries by skopeo or, if that is not installed, by docker buildx.
The tag stays before the digest. Images that the operator builds (spirea, spirea-cluster) have no digest before they are
pushed: they are printed and left alone. Exits with 1 if a digest cannot be had; such an image stays as it is.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import check_images

OPERATORS = ("spirea", "spirea-cluster")
"""Names of images that the operator builds and pushes."""


def is_operators(image):
    """True if an image is built by the operator: its name, without a registry, a tag and a digest, is one of `OPERATORS`."""
    name = image.partition("@")[0].partition(":")[0]
    return name in OPERATORS


def digest(image):
    """Returns the digest of the manifest that an image's tag names, of all platforms if there are several.

    Raises `OSError` with the cause.
    """
    if shutil.which("skopeo"):
        command = ["skopeo", "inspect", "--raw", f"docker://{image}"]
    elif shutil.which("docker"):
        command = ["docker", "buildx", "imagetools", "inspect", "--raw", image]
    else:
        raise OSError("neither skopeo nor docker is installed; install one of them")
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0 or not done.stdout:
        cause = done.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise OSError(f"{' '.join(command[:-1])}: {cause or 'it printed nothing'}")
    # By definition, a digest is the hash of the manifest's bytes.
    return f"sha256:{hashlib.sha256(done.stdout).hexdigest()}"


def pin(path):
    """Pins the images of a file. Returns False if one of them cannot be pinned."""
    text = path.read_text(encoding="utf-8")
    lines, complete = text.splitlines(keepends=True), True
    for number, image in check_images.images(text):
        if check_images.PINNED.fullmatch(image):
            continue
        if is_operators(image):
            print(f"{path}:{number}: {image} is built by the operator: push it, and write its digest here")
            continue
        try:
            pinned = f"{image}@{digest(image)}"
        except OSError as error:
            print(f"{path}:{number}: {image}: {error}", file=sys.stderr)
            complete = False
            continue
        lines[number - 1] = lines[number - 1].replace(image, pinned, 1)
        print(f"{path}:{number}: {pinned}")
    path.write_text("".join(lines), encoding="utf-8")
    return complete


def main(paths):
    """Pins the images of files and returns the exit code."""
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    return 0 if all([pin(Path(path)) for path in paths]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
