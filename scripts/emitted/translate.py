"""Translates the machine code of kernels to C++ that runs on the CUDA emulation, instruction by instruction.

Registers start with poison. Each jump of the code is a jump of the translation, so nothing of the assembler's work is undone.
"""

import itertools
import re

from emitted import cubin, sass
from emitted.meanings import meaning
from emitted.operands import Operands, Refusal

# Addresses of parameters among the constants, and of the first byte of shared memory, by the major version of a target.
PARAMETERS = {7: 0x160, 8: 0x160, 9: 0x210, 10: 0x380, 12: 0x380}
SHARED = {7: 0, 8: 0, 9: 1024, 10: 1024, 12: 1024}
# Lanes that have not diverged. Turing's code asks for them in loops that lanes leave one by one: there each lane is alone.
# Later code asks only ahead of atomic operations, whose lanes it combines: there all lanes are together.
ALONE = "(1u << emitted::lane())"
TOGETHER = "spirea::ballot(true)"
UNDIVERGED = {7: ALONE, 8: TOGETHER, 9: TOGETHER, 10: TOGETHER, 12: TOGETHER}
TARGET = re.compile(r"`\(([^)]*)\)")
BRANCHES = re.compile(r'"BRANCH_TARGETS ([^"]*)"')
# Branches of warps that have diverged, which a warp of fibers never reports.
NEVER_TAKEN = ("DIV",)
BYTES = 16


def label(name):
    return "at_" + re.sub(r"\W", "_", name)


class Body:
    """The statements of a kernel's code."""

    def __init__(self, code):
        self.code = code
        self.operands = Operands(any(isinstance(one, sass.Instruction) and one.name == "IGMMA" for one in code))
        # Addresses to which called functions return.
        self.returns = [one.address + BYTES for one in code if isinstance(one, sass.Instruction) and one.name == "CALL"]
        self.lines = list(itertools.chain.from_iterable(map(self.translated, code)))

    def translated(self, one):
        """Yields the statements of a label or an instruction."""
        if isinstance(one, sass.Label):
            yield f"{label(one.name)}:;"
            return
        if one.address in self.returns:
            yield f"return_{one.address:x}:;"
        if one.guard in ("!PT", "!UPT"):
            return
        statement = self.jump(one) if one.name in JUMPS else meaning(self.operands, one)
        if statement:
            guard = f"if ({self.operands.predicate(one.guard)}) " if one.guard else ""
            yield f"    {guard}{{ {statement} }}"

    def jump(self, one):
        """Returns the statement of an instruction after which another than the next may follow."""
        if one.name == "EXIT":
            return "return;"
        if one.name in ("BRX", "BRXU"):
            return self.chosen(one)
        if one.name == "RET":
            cases = " ".join(f"case {address}u: goto return_{address:x};" for address in self.returns)
            return f"switch ({self.operands.word(one.operands[0].split(' ')[0])}) {{ {cases} default: emitted::never(); }}"
        if one.modifiers[:1] == NEVER_TAKEN:
            return ""
        *condition, target = one.operands
        to = f"goto {label(TARGET.fullmatch(target)[1])};"
        # A warp of fibers is always converged: BRA.CONV is taken.
        if not condition or one.modifiers[:1] == ("CONV",):
            return to
        return f"if ({self.operands.predicate(*condition)}) {to}"

    def chosen(self, one):
        """A jump to one of several places, by a register with the place in the kernel."""
        register, offset = one.operands[0].split(" ")
        if int(offset, 0) != -(one.address + BYTES):
            raise Refusal(f"a jump from another place: {one}")
        names = BRANCHES.search(one.remark)[1].split(",")
        cases = " ".join(f"case {self.place_of(name)}u: goto {label(name)};" for name in dict.fromkeys(names))
        return f"switch ({self.operands.word(register)}) {{ {cases} default: emitted::never(); }}"

    def place_of(self, name):
        """Returns the address of the first instruction after a label."""
        behind = itertools.dropwhile(lambda one: one != sass.Label(name), self.code)
        return next(one.address for one in behind if isinstance(one, sass.Instruction))

    def declarations(self):
        """Yields the declarations of all registers."""
        count = self.operands.registers
        if self.operands.in_memory:
            yield f"    uint32_t r[{count}];"
            yield f"    for (uint32_t i = 0; i < {count}; i++) r[i] = emitted::POISON + i;"
        else:
            yield from (f"    uint32_t r{i} = emitted::POISON + {i};" for i in range(count))
        yield from (f"    uint32_t u{i} = emitted::POISON + {i};" for i in range(self.operands.uniform))
        yield from (f"    bool p{i} = false, up{i} = true;" for i in range(7))


JUMPS = ("BRA", "BRX", "BRXU", "CALL", "EXIT", "RET")


def function(name, code, kernel):
    """Returns the lines of a kernel: its function, and its entry in the emulation's table."""
    body = Body(code)
    length = max([BYTES, *(offset + size for offset, size in kernel.parameters)])
    copies = [
        f"    std::memcpy(parameters + {offset}, arguments[{number}], {size});"
        for number, (offset, size) in enumerate(kernel.parameters)
    ]
    sizes = ", ".join(f"{{{size}, false}}" for _, size in kernel.parameters)
    table = ", ".join(f"{word}u" for word in kernel.constants) or "0"
    return [
        f"void run_{name}([[maybe_unused]] const unsigned char* parameters) {{",
        f"    [[maybe_unused]] static constexpr uint32_t table[] = {{{table}}};",
        *body.declarations(),
        *body.lines,
        "}",
        f"void call_{name}(void (*)(), void** arguments) {{",
        f"    alignas(16) unsigned char parameters[{length}] = {{}};",
        *copies,
        f"    run_{name}(parameters);",
        "}",
        f"const emitted::Registration {name}_is_registered("
        f'{{"{name}", {kernel.threads}, 1, nullptr, call_{name}, {{{sizes}}}}});',
        "",
    ]


def source(disassembly, image, architecture):
    """Returns C++ with the kernels of a cubin for an architecture, such as 90a, from its disassembly."""
    major = int(architecture.rstrip("a")) // 10
    known = cubin.kernels(image)
    lines = [
        f"#define EMITTED_PARAMETERS {PARAMETERS[major]}u",
        f"#define EMITTED_SHARED {SHARED[major]}u",
        f"#define EMITTED_UNDIVERGED {UNDIVERGED[major]}",
        '#include "emitted.hpp"',
        "",
        "namespace {",
        "",
    ]
    for name, code in sass.kernels(disassembly).items():
        try:
            lines += function(name, code, known[name])
        except Refusal as refusal:
            raise Refusal(f"{name}: {refusal}") from refusal
    return "\n".join([*lines, "}  // namespace", ""])
