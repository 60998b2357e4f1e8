"""Sources of CUDA kernels: their targets, and the budgets and instructions that the comments above kernels state."""

import collections
import dataclasses
import re

# Targets of a source: cubins by their architecture, and PTX that newer devices compile, with the prefix "ptx".
ARCHITECTURES = ["75", "80", "86", "89", "90a", "100", "120", "ptx90"]
PTX = "ptx"


class PackError(Exception):
    """An error that the user of the script can fix."""


@dataclasses.dataclass
class Kernel:
    """Limits of a kernel, from the comment above it."""

    registers: int
    # (architecture or None for all, instruction)
    uses: list


@dataclasses.dataclass
class Source:
    name: str
    text: str
    architectures: list
    kernels: dict
    problems: list


BUDGET = re.compile(r"\s*//\s*budget(?:\s+(?P<kernel>\w+))?:(?P<rest>.*)")
USES = re.compile(r"\s*//\s*uses(?:\s+(?P<kernel>\w+))?(?:\((?P<where>[^)]*)\))?:(?P<rest>.*)")
REGISTERS = re.compile(r"\s*(\d+) registers\s*")
KERNEL = re.compile(r"\s*KERNEL\(\s*(\w+)")
LIMITED = re.compile(r"//\s*architectures:(.*)")


def words(text):
    return re.split(r"[,\s]+", text.strip())


def parse_source(name, text):
    """Finds the kernels of a source and their budgets. Adds errors to `problems`."""
    source = Source(name, text, list(ARCHITECTURES), {}, [])
    lines = text.splitlines()
    for number, line in enumerate(lines[:20], 1):
        if limited := LIMITED.fullmatch(line):
            source.architectures = words(limited[1])
            for unknown in set(source.architectures) - set(ARCHITECTURES):
                source.problems.append(f"{name}:{number}: no architecture {unknown!r}; there are {ARCHITECTURES}")

    # Budgets and uses by kernel, and the line of each kernel.
    budgets, uses, declared = {}, collections.defaultdict(list), {}
    above, in_macro = [], False

    def attach(kernel, comment):
        """Gives the unnamed lines of a comment to the kernel below it."""
        for kind, number, match in comment:
            problem = f"{name}:{number}: "
            to = match["kernel"] or kernel
            if to is None:
                source.problems.append(
                    problem + f"this line stands above no KERNEL; a macro's kernel is named: `// {kind} some_kernel: ...`"
                )
            elif kind == "budget":
                if not (count := REGISTERS.fullmatch(match["rest"])):
                    source.problems.append(problem + "a budget reads `// budget: 64 registers`")
                elif to in budgets:
                    source.problems.append(problem + f"a second budget for {to}")
                else:
                    budgets[to] = int(count[1])
            else:
                where = words(match["where"]) if match["where"] else [None]
                for unknown in set(where) - {None, *ARCHITECTURES}:
                    source.problems.append(problem + f"no architecture {unknown!r}; there are {ARCHITECTURES}")
                uses[to] += [(place, instruction) for place in where for instruction in words(match["rest"])]

    for number, line in enumerate(lines, 1):
        macro = in_macro or line.lstrip().startswith("#define")
        in_macro = macro and line.endswith("\\")
        kernel = None if macro else KERNEL.match(line)
        if match := BUDGET.fullmatch(line):
            above.append(("budget", number, match))
        elif match := USES.fullmatch(line):
            above.append(("uses", number, match))
        elif not line.lstrip().startswith("//"):
            attach(kernel and kernel[1], above)
            above = []
        if kernel:
            declared[kernel[1]] = number
    attach(None, above)

    for kernel, number in declared.items():
        if kernel not in budgets:
            source.problems.append(f"{name}:{number}: kernel {kernel} has no budget: write above it `// budget: N registers`")
    for kernel in declared.keys() | budgets.keys() | uses.keys():
        source.kernels[kernel] = Kernel(budgets.get(kernel), uses[kernel])
    return source


def read_sources(folder, only):
    """Reads the sources of a folder, ordered by name."""
    names = sorted(path.name for path in folder.glob("*.cu"))
    for missing in set(only or []) - set(names):
        raise PackError(f"there is no {missing} in {folder}; there are {', '.join(names)}")
    return [parse_source(name, (folder / name).read_text(encoding="utf-8")) for name in names if not only or name in only]
