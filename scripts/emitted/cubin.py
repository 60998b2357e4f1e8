"""Reads of a cubin what its disassembly lacks: parameters, block sizes and tables of constants."""

import struct
from dataclasses import dataclass, field

from cuda_pack import sections

# Attributes of a kernel (EIATTR_*), and the format whose value has a length of its own.
PARAMETER, MAX_THREADS, WITH_LENGTH = 0x17, 0x05, 4
INFORMATION, CONSTANTS = ".nv.info.", ".nv.constant2."


@dataclass
class Kernel:
    """A kernel's parameters, each with offset and size in bytes, the most threads of its blocks, and its table of words."""

    parameters: list = field(default_factory=list)
    threads: int = 1
    constants: tuple = ()


def attributes(section):
    """Yields the attributes that have a length of their own, each with its value."""
    at = 0
    while at + 4 <= len(section):
        kind, attribute, length = struct.unpack_from("<BBH", section, at)
        at += 4
        if kind == WITH_LENGTH:
            yield attribute, section[at : at + length]
            at += length


def kernels(image):
    """Returns the kernels of a cubin by their names."""
    found = {}
    for title, section in sections(image).items():
        if title.startswith(INFORMATION):
            kernel = found.setdefault(title.removeprefix(INFORMATION), Kernel())
            parameters = []
            for attribute, value in attributes(section):
                if attribute == PARAMETER:
                    _, ordinal, offset, flags = struct.unpack_from("<IHHI", value)
                    parameters.append((ordinal, offset, flags >> 18))
                elif attribute == MAX_THREADS:
                    (kernel.threads,) = struct.unpack_from("<I", value)
            kernel.parameters = [(offset, size) for _, offset, size in sorted(parameters)]
        elif title.startswith(CONSTANTS):
            kernel = found.setdefault(title.removeprefix(CONSTANTS), Kernel())
            kernel.constants = struct.unpack(f"<{len(section) // 4}I", section[: len(section) // 4 * 4])
    return found
