#!/usr/bin/env python3
"""Checks that files of a release name container images by digest.

Usage: check_images.py FILE...

A tag can be pushed again with another image; a digest (NAME@sha256:...) names one image. Reads the lines FROM of
Containerfiles and the members `image` of YAML. Prints each image without a digest, with its file and line, and exits with 1 if
there is one.
"""

import re
import sys
from pathlib import Path

FROM = re.compile(r"^FROM\s+(?:--\S+\s+)*(?P<image>\S+)(?:\s+AS\s+(?P<stage>\S+))?", re.IGNORECASE)
MEMBER = re.compile(r"""^[\s-]*image:\s*["']?(?P<image>[^\s"']+)""")
PINNED = re.compile(r"\S+@sha256:[0-9a-f]{64}")


def images(text):
    """Yields line numbers, counted from 1, and images. Skips stages of a Containerfile, which are not images."""
    stages = {"scratch"}
    for number, line in enumerate(text.splitlines(), 1):
        if found := FROM.match(line) or MEMBER.match(line):
            named = found.groupdict(default="")
            if named["image"] not in stages:
                yield number, named["image"]
            stages.add(named.get("stage", ""))


def main(paths):
    """Checks the files and returns the exit code."""
    if not paths:
        print(__doc__, file=sys.stderr)
        return 2
    wrong = 0
    for path in paths:
        for number, image in images(Path(path).read_text(encoding="utf-8")):
            if not PINNED.fullmatch(image):
                wrong += 1
                print(f"{path}:{number}: {image} has no digest; name it as {image}@sha256:DIGEST")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
