#!/usr/bin/env python3
"""Changes crates in small ways, one at a time, and records the changes that no test notices.

usage: mutants.py [--seed S] [--skip K] [--count N] [--again] [--own] PACKAGE ...
       mutants.py --report PACKAGE ...

PACKAGE is one of the packages below. cargo-mutants lists the mutants of a package (`cargo install cargo-mutants --locked`).
This script sorts them by a hash of the seed and of their description, which has no line number, skips the first K, and tests
the next N. --own runs the package's own tests only. --again tests the survivors again, with the tests of today.

All mutants are compiled at once, into a copy of the working tree: a changed expression is one arm of a `match` on the variable
SPIREA_MUTANT, the original is the other. Each test first runs alone and records the mutants that it reaches. A mutant is then
tested by the tests that reach it, the quickest first, until one fails. Results are lines of target/mutants/SEED.jsonl.

Needs the Python packages tree-sitter and tree-sitter-rust.
"""

import argparse
import hashlib
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import tree_sitter_rust
from tree_sitter import Language, Parser

from parts import CARGO, ROOT

MUTANTS = os.environ.get("CARGO_MUTANTS", "cargo-mutants")
FOLDER = ROOT / "target" / "mutants"
TREE, BUILD = FOLDER / "tree", FOLDER / "build"
TRACE = 2**32 - 1
# Limit of processor time: this many times the time of the test without the mutant, plus some seconds. A mutant that waits uses
# no processor time, so it also has a much longer limit of wall time, because a busy machine is many times slower.
TIMES, SECONDS, WAIT = 5, 5, 30
# Programs that should notice the mutants of a package, in this order.
CONFORMANCE = ("spirea-conformance", "--test=conformance")
PROGRAMS = {
    "spirea-lattice": [("spirea-lattice", "--lib"), ("spirea-lattice", "--test=it"), CONFORMANCE],
    "spirea-protocols": [("spirea-protocols", "--lib"), ("spirea-protocols", "--test=toy"), CONFORMANCE],
    "spirea-engine": [("spirea-engine", "--lib"), ("spirea-engine", "--test=it"), CONFORMANCE],
    "spirea-store": [("spirea-store", "--lib"), ("spirea-store", "--test=it")],
}
# Conformance tests draw the same protocols for all mutants.
ENVIRONMENT = os.environ | {"SPIREA_DRAW": "mutants"}
MODULE = """
#[allow(missing_docs)]
#[doc(hidden)]
pub mod mutants__ {
    use std::io::Write as _;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    static ACTIVE: LazyLock<u32> =
        LazyLock::new(|| std::env::var("SPIREA_MUTANT").map_or(0, |id| id.parse().unwrap()));
    static REACHED: [AtomicBool; 1 << 14] = [const { AtomicBool::new(false) }; 1 << 14];

    #[inline]
    pub fn active(ids: &'static [u32]) -> u32 {
        let active = *ACTIVE;
        if active == u32::MAX {
            reached(ids);
        }
        active
    }

    #[cold]
    fn reached(ids: &'static [u32]) {
        for &id in ids {
            if !REACHED[id as usize].swap(true, Ordering::Relaxed) {
                let file = std::env::var("SPIREA_MUTANTS_REACHED").unwrap();
                let mut file = std::fs::File::options().append(true).create(true).open(file).unwrap();
                file.write_all(format!("{id}\\n").as_bytes()).unwrap();
            }
        }
    }
}
"""


@dataclass
class Mutant:
    """A mutant: its number, its description, and where it is."""

    id: int
    package: str
    name: str
    file: str
    line: int
    genre: str
    replacement: str
    # Range of bytes of the file that it replaces.
    start: int
    end: int
    function: str
    result: dict = field(default_factory=dict)


def listed(package, seed):
    """Lists the mutants of a package, in the order given by the seed."""
    command = [MUTANTS, "mutants", "--list", "--json", "--package", package]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found, count = [], Counter()
    for mutant in json.loads(done.stdout):
        described = f"{mutant['file']}: {mutant['name'].split(': ', 1)[1]}"
        count[described] += 1
        lines = (ROOT / mutant["file"]).read_text().splitlines(keepends=True)

        def offset(place, lines=lines):
            before = "".join(lines[: place["line"] - 1]) + lines[place["line"] - 1][: place["column"] - 1]
            return len(before.encode())

        span = mutant["span"]
        found.append(
            Mutant(
                id=0,
                package=package,
                name=f"{described} #{count[described]}",
                file=mutant["file"],
                line=span["start"]["line"],
                genre=mutant["genre"],
                replacement=mutant["replacement"],
                start=offset(span["start"]),
                end=offset(span["end"]),
                function=(mutant["function"] or {}).get("return_type", ""),
            )
        )
    found.sort(key=lambda mutant: hashlib.sha256(f"{seed} {mutant.name}".encode()).digest())
    return found


PARSER = Parser(Language(tree_sitter_rust.language()))


def is_constant(node):
    """True if the compiler evaluates a node, which then cannot read a variable."""
    while node.parent:
        parent = node.parent
        if parent.type in ("const_item", "array_type", "const_block", "enum_variant", "type_arguments", "attribute_item"):
            return True
        if parent.type == "array_expression" and node == parent.child_by_field_name("length"):
            return True
        if parent.type == "function_item":
            first = parent.children[: parent.children.index(parent.child_by_field_name("name"))]
            if any(child.type == "function_modifiers" and b"const" in child.text for child in first):
                return True
        node = parent
    return False


def places(root, mutants):
    """Returns the mutants by the node that they change, and the mutants that cannot be an arm of a `match`."""
    by_node, others = defaultdict(list), []
    for mutant in mutants:
        node = root.descendant_for_byte_range(mutant.start, max(mutant.start, mutant.end - 1))
        if mutant.genre == "FnValue":
            while node and not (node.type == "function_item" and node.child_by_field_name("body").start_byte < mutant.start):
                node = node.parent
            node = node and node.child_by_field_name("body")
            fits = node is not None and "impl " not in mutant.function
        elif mutant.genre in ("BinaryOperator", "UnaryOperator"):
            node = root.descendant_for_byte_range(mutant.start, mutant.start).parent
            fits = node.type in ("binary_expression", "compound_assignment_expr", "unary_expression")
        else:
            fits = False
        if fits and not is_constant(node):
            by_node[node.id].append(mutant)
        else:
            others.append(mutant)
    return by_node, others


def text_of(source, node, by_node):
    """Returns the source of a node with all mutants below it."""
    pieces, at = [], node.start_byte
    for child in node.children:
        pieces += [source[at : child.start_byte], written(source, child, by_node)]
        at = child.end_byte
    return b"".join([*pieces, source[at : node.end_byte]])


def written(source, node, by_node):
    """Returns the source of a node with all mutants at it and below it."""
    text, mutants = text_of(source, node, by_node), by_node.get(node.id, [])
    if not mutants:
        return text
    ids = ", ".join(str(mutant.id) for mutant in mutants)
    ask = f"match crate::mutants__::active(&[{ids}]) {{"
    if node.type == "block":
        arms = "".join(f"{m.id} => {{ /*<{m.id}*/ return {m.replacement}; /*>*/ }}\n" for m in mutants)
        return text[:1] + f"\n{ask} {arms} _ => {{}} }}\n".encode() + text[1:]
    arms = []
    for mutant in mutants:
        if node.type == "unary_expression":
            changed = f"{mutant.replacement} ({node.children[1].text.decode()})"
        else:
            left, right = (node.child_by_field_name(side).text.decode() for side in ("left", "right"))
            sides = (left, f"({right})") if node.type == "compound_assignment_expr" else (f"({left})", f"({right})")
            changed = f"{sides[0]} {mutant.replacement} {sides[1]}"
        arms.append(f"{mutant.id} => {{ /*<{mutant.id}*/ {changed} /*>*/ }}\n")
    return f"({ask} {''.join(arms)} _ => {{ ".encode() + text + b" } })"


def write_tree(mutants):
    """Copies the working tree and writes the mutants into the copy. Returns the mutants that do not fit."""
    names = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(names, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\0")
    names = {name for name in names if name and (ROOT / name).is_file()}
    by_file, others = defaultdict(list), []
    for mutant in mutants:
        by_file[mutant.file].append(mutant)
    libraries = {f"crates/{mutant.package.removeprefix('spirea-')}/src/lib.rs" for mutant in mutants}
    for name in names:
        content = (ROOT / name).read_bytes()
        if name in by_file:
            root = PARSER.parse(content).root_node
            by_node, unfit = places(root, by_file[name])
            others += unfit
            content = written(content, root, by_node)
        if name in libraries:
            content += MODULE.encode()
        copied = TREE / name
        # Unchanged files keep their time, so that cargo does not compile them again.
        if not copied.exists() or copied.read_bytes() != content:
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(content)
            shutil.copymode(ROOT / name, copied)
    for file in (TREE / "crates").rglob("*.rs"):
        if str(file.relative_to(TREE)) not in names:
            file.unlink()
    return others


def cargo(*arguments):
    """Runs cargo in the copy. Returns its messages."""
    environment = ENVIRONMENT | {"CARGO_TARGET_DIR": str(BUILD), "CARGO_INCREMENTAL": "1"}
    command = [CARGO, *arguments, "--locked", "--message-format=json"]
    done = subprocess.run(command, cwd=TREE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]


def unviable(packages):
    """Finds the numbers of the mutants that do not compile, by the errors that cargo reports."""
    found = set()
    messages = cargo("check", "--keep-going", *(f"--package={package}" for package in packages))
    for message in messages:
        if message["reason"] != "compiler-message" or message["message"]["level"] != "error":
            continue
        ids = set()
        for span in message["message"]["spans"]:
            content = (TREE / span["file_name"]).read_bytes() if (TREE / span["file_name"]).exists() else b""
            before = content[: span["byte_start"] + 1]
            opened = before.rfind(b"/*<")
            if opened >= 0 and before.find(b"/*>*/", opened) < 0:
                ids.add(int(re.match(rb"/\*<(\d+)", before[opened:])[1]))
        if not ids and message["message"]["spans"]:
            print(f"mutants.py: no mutant explains this error:\n{message['message']['rendered']}", flush=True)
            raise SystemExit(1)
        found |= ids
    return found


def build(program):
    """Compiles a test program. Returns its file."""
    package, target = program
    messages = cargo("test", "--no-run", "--package", package, target)
    built = [message["executable"] for message in messages if message.get("executable") and message["profile"]["test"]]
    if not built:
        sys.exit(f"mutants.py: {package} {target} does not compile")
    return built[0]


def processor_time():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(program, file, test, mutant, limit, **environment):
    """Runs one test. Returns its exit code; None if it exceeds `limit` seconds of processor time, or waits too long."""
    package = program[0].removeprefix("spirea-")
    folder = TREE / package if package == "conformance" else TREE / "crates" / package
    seconds = math.ceil(limit)
    process = subprocess.Popen(
        [file, "--exact", test],
        cwd=folder,
        env=ENVIRONMENT | {"SPIREA_MUTANT": str(mutant)} | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds)),
    )
    try:
        code = process.wait(timeout=WAIT * limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return None
    return None if -code in (signal.SIGXCPU, signal.SIGKILL) else code


def reach(program, file):
    """Runs every test of a program alone. Returns, for each mutant, the tests that reach it, with their processor time."""
    names = subprocess.run([file, "--list", "--format=terse"], stdout=subprocess.PIPE, text=True, check=True).stdout
    tests = [name.removesuffix(": test") for name in names.splitlines() if name.endswith(": test")]
    reached, record = defaultdict(list), FOLDER / "reached"
    for test in tests:
        record.unlink(missing_ok=True)
        started = processor_time()
        code = run(program, file, test, TRACE, 3600, SPIREA_MUTANTS_REACHED=str(record))
        if code != 0:
            sys.exit(f"mutants.py: {test} of {program} fails without a mutant")
        used = processor_time() - started
        for line in record.read_text().split() if record.exists() else []:
            reached[int(line)].append((used, test))
    return {mutant: sorted(found) for mutant, found in reached.items()}


def wilson(part, whole):
    """Returns the 95% confidence interval of a share, after Wilson."""
    z, share = 1.96, part / whole
    middle, width = share + z * z / (2 * whole), z * math.sqrt(share * (1 - share) / whole + (z / (2 * whole)) ** 2)
    return (middle - width) / (1 + z * z / whole), (middle + width) / (1 + z * z / whole)


def last_results(file):
    lines = map(json.loads, file.read_text().splitlines()) if file.exists() else []
    return {line["mutant"]: line for line in lines}


def report(package, file):
    found = [line for line in last_results(file).values() if line["package"] == package]
    count = Counter(line["result"] for line in found)
    viable = sum(count[result] for result in ("caught", "timeout", "survived"))
    if viable:
        low, high = wilson(count["survived"], viable)
        share = f"{count['survived'] / viable:.1%} of {viable} survive, {low:.1%} to {high:.1%}"
        print(f"{package}: {dict(count)}; {share}", flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--own", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("packages", nargs="+", choices=PROGRAMS)
    options = parser.parse_args()
    file = FOLDER / f"{options.seed}.jsonl"
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not options.report:
        test(options, file)
    for package in options.packages:
        report(package, file)


def test(options, file):
    """Tests mutants of packages and appends their results to a file."""
    known, mutants = last_results(file), []
    for package in options.packages:
        found = listed(package, options.seed)
        print(f"{package}: {len(found)} mutants", flush=True)
        if options.again:
            mutants += [mutant for mutant in found if known.get(mutant.name, {}).get("result") == "survived"]
        else:
            found = found[options.skip : options.skip + options.count]
            mutants += [mutant for mutant in found if mutant.name not in known]
    for number, mutant in enumerate(mutants):
        mutant.id = number + 1

    def tell(mutant, result, program=None, test=None):
        line = {"mutant": mutant.name, "package": mutant.package, "line": mutant.line, "result": result}
        line |= {"program": " ".join(program) if program else None, "test": test, "own": options.own}
        with file.open("a") as lines:
            lines.write(json.dumps(line) + "\n")
        print(f"{result}: {mutant.name} (line {mutant.line}) {test or ''}", flush=True)

    while True:
        others = {mutant.id for mutant in write_tree(mutants)}
        broken = unviable(options.packages)
        for mutant in mutants:
            if mutant.id in others or mutant.id in broken:
                tell(mutant, "not tested" if mutant.id in others else "unviable")
        mutants = [mutant for mutant in mutants if mutant.id not in others | broken]
        if not broken:
            break
    programs = {}
    for package in options.packages:
        left = [mutant for mutant in mutants if mutant.package == package]
        run_for = [program for program in PROGRAMS[package] if program[0] == package or not options.own]
        for program in run_for:
            if not left:
                break
            if program not in programs:
                started = time.monotonic()
                executable = build(program)
                print(f"{' '.join(program)}: compiled in {time.monotonic() - started:.0f} s", flush=True)
                programs[program] = executable, reach(program, executable)
                print(f"{' '.join(program)}: each test ran alone after {time.monotonic() - started:.0f} s", flush=True)
            executable, reached = programs[program]
            survived = []
            for mutant in left:
                for used, name in reached.get(mutant.id, []):
                    code = run(program, executable, name, mutant.id, TIMES * used + SECONDS)
                    if code != 0:
                        tell(mutant, "timeout" if code is None else "caught", program, name)
                        break
                else:
                    survived.append(mutant)
                    if program == run_for[-1]:
                        tell(mutant, "survived")
            left = survived


if __name__ == "__main__":
    main()
