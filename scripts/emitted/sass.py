"""Reads machine code as `nvdisasm -c` prints it."""

import re
from dataclasses import dataclass

SECTION = re.compile(r"\.text\.(\w+):")
LABEL = re.compile(r"\s*(\$?[.$\w]+):\s*$")
INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]+)\*/\s+(?:@(!?U?P[0-9T])\s+)?([A-Z][A-Z0-9_.x]*)\s*(.*?)\s*;")
COMMENT = re.compile(r"\(\*(.*?)\*\)")


@dataclass(frozen=True)
class Label:
    """A place to which code jumps."""

    name: str


@dataclass(frozen=True)
class Instruction:
    """An instruction: its address in the kernel, the predicate that guards it ("" if none does), its name, the modifiers of
    the name, its operands, and the remark behind them."""

    address: int
    guard: str
    name: str
    modifiers: tuple
    operands: tuple
    remark: str

    def __str__(self):
        guard = f"@{self.guard} " if self.guard else ""
        opcode, operands = ".".join((self.name, *self.modifiers)), ", ".join(self.operands)
        return f"/*{self.address:04x}*/ {guard}{opcode} {operands}".rstrip()


def operands(text):
    """Splits operands at the commas outside of brackets. `.reuse` only concerns a cache of registers."""
    found, depth = [""], 0
    for character in text.replace(".reuse", ""):
        depth += (character in "[(") - (character in ")]")
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    return tuple(part.strip() for part in found if part.strip())


def instruction(line):
    """Returns the instruction in a line, or None."""
    found = INSTRUCTION.match(line)
    if found is None:
        return None
    address, guard, opcode, rest = found.groups()
    name, *modifiers = opcode.split(".")
    remark = COMMENT.search(rest)
    listed = operands(COMMENT.sub("", rest))
    return Instruction(int(address, 16), guard or "", name, tuple(modifiers), listed, remark[1] if remark else "")


def kernels(text):
    """Returns the code of each kernel in a disassembly: a list of labels and instructions."""
    found, current = {}, None
    for line in text.splitlines():
        if section := SECTION.match(line):
            current = found.setdefault(section[1], [])
        elif line.lstrip().startswith(".section"):
            current = None
        elif current is None:
            continue
        elif label := LABEL.match(line):
            current.append(Label(label[1]))
        elif (found_one := instruction(line)) is not None:
            current.append(found_one)
    return found
