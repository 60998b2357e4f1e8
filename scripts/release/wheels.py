"""The machines on which a wheel runs, by the tags of its platform."""

import re


def runs_with(tag, glibc):
    """True if wheels with a platform's tag run with a version of glibc."""
    needed = re.match(r"manylinux_(\d+)_(\d+)_", tag)
    return needed is not None and tuple(map(int, needed.groups())) <= tuple(map(int, glibc.split(".")))
