"""Finds imports between the files of a crate, and circles among them.

A file imports another file if it names an item of that file, by `use` or by a path. A re-exported name belongs to the file
that defines it. Imports of tests do not count.
"""

import re

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
STRING = re.compile(r'b?"(?:[^"\\]|\\.)*"', re.DOTALL)
TESTS = re.compile(r"#\[cfg\((?:all\()?test\b.*?\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+" + NAME + r"\s*(;|\{)", re.DOTALL)
USE = re.compile(r"(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
PATH = re.compile(r"\b((?:crate|super|self)(?:::" + NAME + r")+)")


def without_tests(text):
    """Removes the modules that only tests have from a source."""
    while match := TESTS.search(text):
        end = match.end()
        if match.group(1) == "{":
            depth = 1
            while depth and end < len(text):
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
        text = text[: match.start()] + text[end:]
    return text


def use_paths(tree, prefix=()):
    """Yields (path, local name) for a use tree such as `a::{b, c as d, e::*}`."""
    tree = tree.strip()
    if "{" in tree:
        head, _, body = tree.partition("{")
        prefix += tuple(part for part in head.strip().split("::") if part)
        depth, item, items = 0, "", []
        for char in body.rsplit("}", 1)[0]:
            depth += {"{": 1, "}": -1}.get(char, 0)
            if char == "," and not depth:
                items.append(item)
                item = ""
            else:
                item += char
        for part in [*items, item]:
            if part.strip():
                yield from use_paths(part, prefix)
        return
    path, _, alias = tree.partition(" as ")
    parts = prefix + tuple(part.strip() for part in path.split("::") if part.strip())
    if parts and parts[-1] == "self":
        parts = parts[:-1]
    yield parts, alias.strip() or (parts[-1] if parts else "")


class Crate:
    """The modules of a crate that are files, and the imports of each."""

    def __init__(self, source):
        self.source = source
        self.text = {}
        for path in sorted(source.rglob("*.rs")):
            parts = path.relative_to(source).with_suffix("").parts
            if "tests" in parts or "bin" in parts or parts[-1] == "tests":
                continue
            module = () if parts[-1] in ("lib", "main") and len(parts) == 1 else parts
            module = module[:-1] if module and module[-1] == "mod" else module
            self.text[module] = without_tests(STRING.sub('""', COMMENT.sub("", path.read_text())))
        self.exports = {module: {} for module in self.text}
        self.imports = {module: [] for module in self.text}
        for module, text in self.text.items():
            for public, tree in USE.findall(text):
                for parts, alias in use_paths(tree):
                    path = self.absolute(module, parts)
                    if path is None:
                        continue
                    if public and parts[-1] != "*":
                        self.exports[module][alias] = path
                    elif public:
                        self.exports[module].setdefault("*", []).append(path[:-1])
                    else:
                        self.imports[module].append(path)
            rest = USE.sub("", text)
            self.imports[module] += filter(None, (self.absolute(module, p.split("::")) for p in PATH.findall(rest)))

    def absolute(self, module, parts):
        """Resolves a path from the crate's root; None if it leads out of the crate."""
        parts = list(parts)
        if parts[0] == "crate":
            return tuple(parts[1:])
        if parts[0] in ("self", "super"):
            base = list(module)
            while parts and parts[0] in ("self", "super"):
                if parts.pop(0) == "super":
                    if not base:
                        return None
                    base.pop()
            return tuple(base + parts)
        # The path may start with the name of a child module.
        return module + tuple(parts) if (*module, parts[0]) in self.text else None

    def origin(self, path, seen=()):
        """Returns the file that defines the item of a path."""
        if path in seen:
            return None
        for length in range(len(path), -1, -1):
            module = path[:length]
            if module not in self.text:
                continue
            rest = path[length:]
            if not rest:
                return module
            exports = self.exports[module]
            if rest[0] in exports:
                return self.origin(exports[rest[0]] + rest[1:], (*seen, path))
            for star in exports.get("*", []):
                if star in self.text and re.search(r"\b" + re.escape(rest[0]) + r"\b", self.text[star]):
                    return self.origin(star + rest, (*seen, path))
            return module
        return None

    def edges(self):
        """Returns, for each file, the files that it imports."""
        return {
            module: {origin for path in paths if (origin := self.origin(path)) not in (None, module)}
            for module, paths in self.imports.items()
        }

    def circles(self):
        """Returns the groups of files that import each other, directly or indirectly (strongly connected components)."""
        edges, index, low, stack, found = self.edges(), {}, {}, [], []

        def visit(module):
            index[module] = low[module] = len(index)
            stack.append(module)
            for other in edges[module]:
                if other not in index:
                    visit(other)
                    low[module] = min(low[module], low[other])
                elif other in stack:
                    low[module] = min(low[module], index[other])
            if low[module] == index[module]:
                group = []
                while not group or group[-1] != module:
                    group.append(stack.pop())
                if len(group) > 1:
                    found.append(sorted(group))

        for module in edges:
            if module not in index:
                visit(module)
        return found
