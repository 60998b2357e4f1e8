#!/usr/bin/env python3
"""Builds and checks the pack of compiled CUDA kernels, which docs/kernels/pack.md describes.

Usage: cuda_pack.py build     compiles every kernel for every architecture, and writes the pack and its manifest
       cuda_pack.py check     compiles in the same way, and compares with the existing pack
       cuda_pack.py budgets   compiles, and prints the resources of each kernel

Options: --kernels DIR          folder of the sources (crates/cuda/kernels)
         --pack DIR             folder of the pack (crates/cuda/pack)
         --only FILE,...        these sources only (budgets)
         --arch 80,90a,ptx90    these targets only (check, budgets); for the others, check compares the pack
                                with the manifest

Each verb fails if a kernel exceeds its budget. If the compiler is missing, it is installed under target/ from pip's
package index. It needs no CUDA and no GPU, but a C++ compiler as its preprocessor.
"""

import argparse
import dataclasses
import hashlib
import json
import lzma
import re
import struct
import sys
from pathlib import Path

from cuda_compiler import ASSEMBLE, COMPILE, PTX_VERSION, ROOT, compile_all, digest, least_driver, pins, target
from cuda_sources import ARCHITECTURES, PTX, Kernel, PackError, read_sources, words

REMEDY = "remedy: make cuda-pack, and commit crates/cuda/pack"

MAGIC = b"SPIRCUDA"
FORMAT = 4
# Compression of the images. The dictionary bounds the decoder's memory: MAX_DECODER_KIB in crates/cuda/src/pack.rs.
LZMA = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 16 << 20}


# Requirements of kernels.


def uses_of(kernel, architecture, counts):
    """Counts the instructions that a kernel must use."""
    asked = [instruction for place, instruction in kernel.uses if place in (None, architecture)]
    return {
        instruction: sum(count for name, count in counts.items() if (name + ".").startswith(instruction + "."))
        for instruction in asked
    }


def is_remark(line):
    """True if a line of the compiler is only informative. A line about serialised `wgmma` looks the same and is a problem."""
    return line.startswith("ptxas info") and "Performance Loss" not in line


def problems_of(sources, built):
    """Returns all problems that prevent packing the kernels, one line each."""
    problems, owners = [], {}
    for source in sources:
        problems += source.problems
        for name in source.kernels:
            # Kernels are found by name only, so names must be unique.
            if name in owners:
                problems.append(f"{source.name}: kernel {name} is in {owners[name]} too")
            owners[name] = source.name
        mine = {architecture: one for (name, architecture), one in built.items() if name == source.name}
        for architecture, one in mine.items():
            place = f"{source.name}: {target(architecture)}"
            problems += [f"{place}: {line.strip()}" for line in one.warnings if not is_remark(line)]
            # Such names contain a hash of the folder's path, so the cubin would depend on the folder.
            for name in sorted(set(re.findall(rb"_ZN?\d+_INTERNAL_\w+", one.image))):
                problems.append(
                    f"{place}: {name.decode()} is named after the folder: what stays in a cubin has external "
                    "linkage (no unnamed namespace, no static, `extern CONSTANT const` for tables)"
                )
            for name, took in one.kernels.items():
                kernel = source.kernels.get(name)
                if kernel is None:
                    problems.append(f"{place}: kernel {name} has no budget: write `// budget {name}: N registers`")
                    continue
                if kernel.registers is not None and took["registers"] > kernel.registers:
                    problems.append(f"{place}: {name} takes {took['registers']} registers, its budget is {kernel.registers}")
                for what, unit in (("spills", " bytes"), ("stack", " bytes"), ("shared", " bytes of static memory")):
                    if took[what]:
                        problems.append(f"{place}: {name} has {what} of {took[what]}{unit}; none is allowed")
                for instruction, count in uses_of(kernel, architecture, one.sass.get(name, {})).items():
                    if not count:
                        problems.append(f"{place}: {name} has no {instruction}")
        for name, kernel in source.kernels.items():
            if mine.keys() == set(source.architectures) and not any(name in one.kernels for one in mine.values()):
                problems.append(f"{source.name}: {name} is compiled for none of {', '.join(map(target, mine))}")
            for place, instruction in kernel.uses:
                if place in mine and name not in mine[place].kernels:
                    problems.append(f"{source.name}: {name} must use {instruction} on {target(place)} but is not there")
    return sorted(set(problems))


def print_budgets(sources, built):
    rows = [("kernel", "sm", "registers", "of", "spills", "stack", "shared", "instructions", "uses")]
    for source in sources:
        for architecture in ARCHITECTURES:
            if one := built.get((source.name, architecture)):
                for name, took in sorted(one.kernels.items()):
                    kernel, counts = source.kernels.get(name, Kernel(None, [])), one.sass.get(name, {})
                    uses = uses_of(kernel, architecture, counts).items()
                    rows.append(
                        (
                            f"{source.name.removesuffix('.cu')}/{name}",
                            architecture,
                            took["registers"],
                            kernel.registers or "?",
                            took["spills"],
                            took["stack"],
                            took["shared"],
                            sum(counts.values()),
                            ", ".join(f"{count} {what}" for what, count in uses),
                        )
                    )
    rows[1:] = sorted(rows[1:], key=lambda row: (row[0], ARCHITECTURES.index(row[1])))
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [
            str(cell).ljust(width) if column in (0, 8) else str(cell).rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        print("  ".join(cells).rstrip())
    for (name, architecture), one in built.items():
        for line in filter(is_remark, one.warnings):
            print(f"{name}: {target(architecture)}: {line}")


# The pack and its manifest.


KINDS = {"": 0, "a": 1, PTX: 2}


@dataclasses.dataclass
class Image:
    """What the driver loads for a target: a cubin or PTX, and the names of its kernels."""

    data: bytes
    kernels: list


def split_target(architecture):
    """Returns the major and minor version of a target, and its kind."""
    kind = PTX if architecture.startswith(PTX) else "a" if architecture.endswith("a") else ""
    number = int(architecture.removeprefix(PTX).rstrip("a"))
    return number // 10, number % 10, KINDS[kind]


def joined_target(major, minor, kind):
    """Returns the target that `split_target` splits."""
    names = {0: "{}{}", 1: "{}{}a", 2: PTX + "{}{}"}
    if kind not in names:
        raise PackError(f"the pack is damaged: there is no kind {kind}")
    return names[kind].format(major, minor)


def pack(images):
    """Encodes a pack of {(name, architecture): Image}, in the format of docs/kernels/pack.md."""
    keys = sorted(images, key=lambda key: (key[0], ARCHITECTURES.index(key[1])))
    texts = {key: (key[0].encode("ascii"), " ".join(images[key].kernels).encode("ascii")) for key in keys}
    table_length = 8 + sum(54 + len(name) + len(kernels) for name, kernels in texts.values())
    # By target, because a device needs the images of one target.
    starts, raw = {}, b""
    for key in sorted(keys, key=lambda key: ARCHITECTURES.index(key[1])):
        starts[key] = len(raw)
        raw += images[key].data
    stream = lzma.compress(raw, check=lzma.CHECK_NONE, filters=[LZMA])
    table = struct.pack("<II", least_driver(), len(keys))
    for key in keys:
        data, (name, kernels) = images[key].data, texts[key]
        sizes = 44 + table_length, len(stream), starts[key], len(data), len(kernels)
        table += struct.pack("<BBBBIIIIH", *split_target(key[1]), len(name), *sizes)
        table += hashlib.sha256(data).digest() + name + kernels
    body = table + stream
    return MAGIC + struct.pack("<I", FORMAT) + hashlib.sha256(body).digest() + body


def unpack(data):
    """Decodes a pack. Returns the images by name and architecture."""
    try:
        if data[:8] != MAGIC:
            raise PackError("this is no pack")
        if struct.unpack_from("<I", data, 8) != (FORMAT,):
            raise PackError("a pack of another format")
        if data[12:44] != hashlib.sha256(data[44:]).digest():
            raise PackError("the pack is damaged: its hash is another")
        (driver, count), at, images, streams = struct.unpack_from("<II", data, 44), 52, {}, {}
        if driver != least_driver():
            raise PackError(f"a pack for drivers from {driver} on, not from {least_driver()}")
        for _ in range(count):
            major, minor, kind, length, offset, stored, start, raw, listed = struct.unpack_from("<BBBBIIIIH", data, at)
            wanted, name = data[at + 22 : at + 54], data[at + 54 : at + 54 + length].decode("ascii")
            kernels = data[at + 54 + length : at + 54 + length + listed].decode("ascii").split(" ")
            at += 54 + length + listed
            if offset not in streams:
                streams[offset] = lzma.decompress(data[offset : offset + stored])
            image = streams[offset][start : start + raw]
            if len(image) != raw or hashlib.sha256(image).digest() != wanted:
                raise PackError(f"the pack is damaged: {name} for {major}.{minor} has another hash")
            images[name, joined_target(major, minor, kind)] = Image(image, kernels)
        return images
    except (struct.error, lzma.LZMAError, UnicodeDecodeError) as error:
        raise PackError(f"the pack is damaged: {error}") from error


def render(value, indent=""):
    """Formats JSON; an object is on one line if it fits."""
    line = json.dumps(value)
    if not isinstance(value, dict) or (
        len(indent) + len(line) < 110 and not any(isinstance(inner, dict) for inner in value.values())
    ):
        return line
    deeper = indent + "  "
    inner = ",\n".join(f"{deeper}{json.dumps(key)}: {render(value[key], deeper)}" for key in value)
    return f"{{\n{inner}\n{indent}}}"


def leaves(value, place=()):
    """Returns the plain values of nested objects by their paths."""
    if not isinstance(value, dict):
        return {place: value}
    return {path: leaf for key, inner in value.items() for path, leaf in leaves(inner, (*place, key)).items()}


def manifest(sources, built):
    """Returns the manifest: the inputs of the pack, and the resources of each kernel. It has no times and no paths."""
    files, cubins = {}, {}
    for source in sources:
        for architecture in ARCHITECTURES:
            if one := built.get((source.name, architecture)):
                files |= one.files
                kernels = {}
                for name, took in sorted(one.kernels.items()):
                    counts = one.sass.get(name, {})
                    uses = uses_of(source.kernels[name], architecture, counts)
                    kernels[name] = took | {"instructions": sum(counts.values())} | uses
                cubins.setdefault(source.name.removesuffix(".cu"), {})[architecture] = {
                    "bytes": len(one.image),
                    "sha256": digest(one.image),
                    "kernels": kernels,
                }
    return (
        render(
            {
                "format": FORMAT,
                "driver": least_driver(),
                "compiler": pins(),
                "flags": " ".join(COMPILE).format("XX"),
                "assembler": " ".join(ASSEMBLE).format("XX"),
                "ptx": PTX_VERSION,
                "sources": dict(sorted(files.items())),
                "cubins": cubins,
            }
        )
        + "\n"
    )


def sections(cubin):
    """Returns the sections of a 64-bit ELF file by name."""
    (table,), (size, count, names) = struct.unpack_from("<Q", cubin, 0x28), struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + size * number) for number in range(count)]
    strings = headers[names][4]
    found = {}
    for name, kind, _, _, offset, length in headers:
        start = strings + name
        title = cubin[start : cubin.index(b"\0", start)].decode()
        found[title] = b"" if kind == 8 else cubin[offset : offset + length]
    return found


def differing_kernels(one, other):
    """Describes what differs between two images: in cubins, the kernels whose sections differ."""
    if one.data == other.data:
        return "the names of its kernels"
    try:
        one, other = sections(one.data), sections(other.data)
    except (struct.error, ValueError, IndexError):
        return "the whole"
    differ = sorted(
        {
            name.removeprefix(".text.")
            for name in one.keys() | other.keys()
            if name.startswith(".text.") and one.get(name) != other.get(name)
        }
    )
    return "kernel " + ", ".join(differ) if differ else "not the kernels' code but what is around it"


def restricted(text, architectures):
    """Returns the text of a manifest with the cubins for these architectures only, and without sources that have none."""
    content = json.loads(text)
    for name, cubins in content["cubins"].items():
        content["cubins"][name] = {key: cubins[key] for key in cubins if key in architectures}
        if not content["cubins"][name]:
            del content["sources"][f"{name}.cu"]
    content["cubins"] = {name: cubins for name, cubins in content["cubins"].items() if cubins}
    return render(content) + "\n"


def unmade(there, written, architectures):
    """Compares the cubins of a pack for all other architectures with its manifest. Returns a line for each difference."""
    told = {
        (name, architecture): cubin["sha256"]
        for name, cubins in json.loads(written)["cubins"].items()
        for architecture, cubin in cubins.items()
    }
    found = {key: digest(image.data) for key, image in there.items()}
    return [
        f"{name}.cu: {target(architecture)} is another in the pack than in the manifest"
        for name, architecture in sorted(told.keys() | found.keys())
        if architecture not in architectures and told.get((name, architecture)) != found.get((name, architecture))
    ]


def differences(images, text, folder, architectures):
    """Compares the pack and the manifest in a folder with the images built for these architectures. Returns a line for each
    difference."""
    found = []
    try:
        there = unpack((folder / "kernels.pack").read_bytes())
        written = (folder / "manifest.json").read_text(encoding="utf-8")
        if architectures != ARCHITECTURES:
            found = unmade(there, written, architectures)
            there = {key: there[key] for key in there if key[1] in architectures}
            written = restricted(written, architectures)
    except OSError as error:
        return [f"{error.filename}: {error.strerror}"]
    except PackError as error:
        return [f"kernels.pack: {error}"]
    except (ValueError, KeyError) as error:
        return [f"manifest.json: {error}"]
    for name, architecture in sorted(images.keys() | there.keys()):
        key, place = (name, architecture), f"{name}.cu: {target(architecture)}"
        if key not in there:
            found.append(f"{place} is not in the pack")
        elif key not in images:
            found.append(f"{place} is in the pack, but not among the sources")
        elif there[key] != images[key]:
            found.append(f"{place} differs: {differing_kernels(there[key], images[key])}")
    if written != text:
        now = leaves(json.loads(text))
        try:
            then = leaves(json.loads(written))
        except ValueError as error:
            return [*found, f"manifest.json: {error}"]
        # The hash and size of a differing cubin differ too; the cubin has been reported above.
        told = [
            f"manifest.json: {' '.join(path)}: {then.get(path, 'missing')}, now {now.get(path, 'missing')}"
            for path in sorted(now.keys() | then.keys())
            if now.get(path) != then.get(path) and path[-1] not in ("sha256", "bytes")
        ]
        found += told[:20] + [f"manifest.json: {len(told) - 20} more"] * (len(told) > 20)
        found = found or ["manifest.json is written otherwise"]
    return found


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("Usage: ", 1)[1])
    parser.add_argument("verb", choices=["build", "check", "budgets"])
    parser.add_argument("--kernels", type=Path, default=ROOT / "crates" / "cuda" / "kernels")
    parser.add_argument("--pack", type=Path, default=ROOT / "crates" / "cuda" / "pack")
    parser.add_argument("--only", type=words, default=[])
    parser.add_argument("--arch", type=words, default=ARCHITECTURES)
    options = parser.parse_args()
    if (options.verb != "budgets" and options.only) or (options.verb == "build" and options.arch != ARCHITECTURES):
        parser.error("a pack holds all sources for all architectures")
    for unknown in set(options.arch) - set(ARCHITECTURES):
        parser.error(f"no architecture {unknown!r}; there are {', '.join(ARCHITECTURES)}")

    try:
        sources = read_sources(options.kernels, options.only)
        built = compile_all(options.kernels, sources, options.arch)
    except PackError as error:
        sys.exit(str(error))
    if options.verb == "budgets":
        print_budgets(sources, built)
    if problems := problems_of(sources, built):
        sys.exit("\n".join(problems))
    if options.verb == "budgets":
        return

    images = {
        (name.removesuffix(".cu"), architecture): Image(one.image, sorted(one.kernels))
        for (name, architecture), one in built.items()
    }
    text = manifest(sources, built)
    differ = differences(images, text, options.pack, options.arch)
    if options.verb == "check":
        if differ:
            sys.exit("\n".join([*differ, REMEDY]))
    elif differ:
        # Another liblzma compresses the same cubins to other bytes, so a pack with the same cubins is not rewritten.
        options.pack.mkdir(parents=True, exist_ok=True)
        (options.pack / "kernels.pack").write_bytes(pack(images))
        (options.pack / "manifest.json").write_text(text, encoding="utf-8")
    kernels = sum(len(one.kernels) for one in built.values())
    print(f"{len(sources)} sources, {len(images)} images with {kernels} kernels: as in the pack")


if __name__ == "__main__":
    main()
