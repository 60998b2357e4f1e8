#!/usr/bin/env python3
"""Compiles the device program of processing in memory for riscv32. The emulation interprets the image to count instructions.

The image crates/pim/dpu/dpxor.rv32 is committed, so that only this script needs the compiler, which is clang with lld:

    CLANG=clang LLD=ld.lld scripts/pim_image.py [--check]

With --check the script compiles and writes nothing. As root it installs missing Debian packages. For real devices, the SDK's
own compiler builds the program: see docs/protocols/pim.md.
"""

import os
import shlex
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import debian

CRATE = Path(__file__).resolve().parent.parent / "crates" / "pim"
SOURCE = CRATE / "dpu" / "dpxor.c"
IMAGE = CRATE / "dpu" / "dpxor.rv32"
# Number of tasklets of the image, as in IM-PIR.
TASKLETS = 16
FLAGS = [
    "--target=riscv32",
    "-march=rv32im",
    "-mabi=ilp32",
    "-mcmodel=medany",
    "-O2",
    "-std=gnu17",
    "-ffreestanding",
    "-fno-builtin",
    "-fno-strict-aliasing",
    "-Wall",
    "-Wextra",
    "-Werror",
    f"-DNR_TASKLETS={TASKLETS}",
    f"-I{CRATE / 'emulation' / 'include'}",
]


def checksum(data):
    """Returns the FNV-1a hash of 64 bits, which ties an image to its source."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def sections(elf):
    """Returns the loaded bytes by address, and the addresses of symbols."""
    (table, entry, count) = (*struct.unpack_from("<I", elf, 28), *struct.unpack_from("<HH", elf, 42))
    loaded = {}
    for i in range(count):
        kind, offset, address, _, size, _, _, _ = struct.unpack_from("<8I", elf, table + i * entry)
        if kind == 1 and size:
            loaded[address] = elf[offset : offset + size]
    (table, entry, count) = (*struct.unpack_from("<I", elf, 32), *struct.unpack_from("<HH", elf, 46))
    headers = [struct.unpack_from("<10I", elf, table + i * entry) for i in range(count)]
    symbols = {}
    for _, kind, _, _, offset, size, link, _, _, _ in headers:
        if kind != 2:
            continue
        names = headers[link][4]
        for place in range(offset, offset + size, 16):
            name, value = struct.unpack_from("<II", elf, place)
            symbols[elf[names + name :].split(b"\0", 1)[0].decode()] = value
    return loaded, symbols


def words(data):
    data += bytes(-len(data) % 4)
    lines = [struct.unpack_from(f"<{min(8, (len(data) - i) // 4)}I", data, i) for i in range(0, len(data), 32)]
    return "".join(" ".join(f"{word:08x}" for word in line) + "\n" for line in lines)


def tool(variable, name):
    return shlex.split(os.environ.get(variable) or debian.program(name))


def compile_program(folder):
    """Compiles the program into an object file in a folder."""
    unit = folder / "dpxor.o"
    subprocess.run([*tool("CLANG", "clang"), *FLAGS, "-c", SOURCE, "-o", unit], check=True)
    return unit


def main(arguments):
    with tempfile.TemporaryDirectory() as folder:
        unit, linked = compile_program(Path(folder)), Path(folder, "dpxor.elf")
        if arguments == ["--check"]:
            return
        subprocess.run([*tool("LLD", "ld.lld"), "-T", CRATE / "dpu" / "riscv32.ld", "-o", linked, unit], check=True)
        loaded, symbols = sections(linked.read_bytes())
    text = f"source {checksum(SOURCE.read_bytes()):016x}\narguments {symbols['dpxor_arguments']:08x}\n"
    for address, data in sorted(loaded.items()):
        text += f"at {address:08x}\n{words(data)}"
    IMAGE.write_text(text)
    print(f"wrote {IMAGE}: {len(loaded[0x80000000]) // 4} instructions")


if __name__ == "__main__":
    main(sys.argv[1:])
