"""Operands of machine code as expressions of C++, over the variables of a translated kernel."""

import re

REGISTER = re.compile(r"(U?)R(\d+)(?:\.64|\.ROW|\.COL)?")
SCALED = re.compile(r"(U?R\d+)\.X(\d+)")
NUMBER = re.compile(r"-?0x[0-9a-f]+|-?\d+")
CONSTANT = re.compile(r"c\[(0x[0-9a-f]+)\]\[(.*)\]")
PREDICATE = re.compile(r"!?U?P[0-9T]")
DESCRIPTOR = re.compile(r"^desc\[UR\d+\]")
# Banks of constants: parameters and what the driver adds, and a kernel's own table.
BANKS = {"0x0": "emitted::parameter({at}, parameters)", "0x2": "emitted::table_word({at}, table)"}


class Refusal(Exception):
    """An instruction, or a form of it, whose meaning is not written here."""


class Operands:
    """Names a kernel's registers. With `in_memory` they are an array, because deferred products keep their addresses;
    otherwise each is a variable of its own, which compiles to better code."""

    def __init__(self, in_memory):
        self.in_memory = in_memory
        self.registers = self.uniform = 0

    def register(self, number, kind=""):
        if kind:
            self.uniform = max(self.uniform, number + 1)
            return f"u{number}"
        self.registers = max(self.registers, number + 1)
        return f"r[{number}]" if self.in_memory else f"r{number}"

    def following(self, text, count):
        """Returns the variables of `count` consecutive registers; zeros for RZ."""
        if text.split(".")[0] in ("RZ", "URZ"):
            return ["0u"] * count
        kind, first = self.parsed(text)
        return [self.register(first + i, kind) for i in range(count)]

    def parsed(self, text):
        """Returns the kind and the number of a register."""
        found = REGISTER.fullmatch(text)
        if found is None:
            raise Refusal(f"{text} is no register")
        return found[1], int(found[2])

    def word(self, text):
        """Returns the value of a word."""
        if text[0] in "-~" and not NUMBER.fullmatch(text):
            value = self.word(text[1:])
            return f"(0u - {value})" if text[0] == "-" else f"(~{value})"
        if text in ("RZ", "URZ", "SRZ"):
            return "0u"
        if NUMBER.fullmatch(text):
            return f"0x{int(text, 0) & 0xFFFFFFFF:x}u"
        if scaled := SCALED.fullmatch(text):
            return f"({self.word(scaled[1])} * {scaled[2]}u)"
        if constant := CONSTANT.fullmatch(text):
            return self.constant(constant, 0)
        kind, number = self.parsed(text)
        return self.register(number, kind)

    def constant(self, found, word):
        """Returns a word behind a constant operand."""
        bank, place = found.groups()
        if bank not in BANKS:
            raise Refusal(f"constant bank {bank}")
        terms = [self.word(term) for term in place.split("+")]
        return BANKS[bank].format(at=" + ".join([*terms, f"{4 * word}u"]))

    def wide(self, text):
        """Returns the value of two words: of a register and the next, of two constants, or of a number with its sign."""
        if text[0] == "-" and not NUMBER.fullmatch(text):
            return f"(0ull - {self.wide(text[1:])})"
        if text in ("RZ", "URZ"):
            return "0ull"
        if NUMBER.fullmatch(text):
            return f"uint64_t({int(text, 0)}ll)"
        if constant := CONSTANT.fullmatch(text):
            return f"emitted::join({self.constant(constant, 0)}, {self.constant(constant, 1)})"
        low, high = self.following(text, 2)
        return f"emitted::join({low}, {high})"

    def predicate(self, text):
        """Returns the value of a predicate."""
        if not PREDICATE.fullmatch(text):
            raise Refusal(f"{text} is no predicate")
        name = text.lstrip("!")
        value = "true" if name in ("PT", "UPT") else name.lower()
        return f"!{value}" if text.startswith("!") else value

    def set(self, to, value):
        """Assigns a word."""
        if to in ("RZ", "URZ"):
            return f"(void)({value});"
        return f"{self.word(to)} = {value};"

    def set_wide(self, to, value):
        """Assigns two words."""
        if to in ("RZ", "URZ"):
            return f"(void)({value});"
        low, high = self.following(to, 2)
        return f"emitted::split({value}, {low}, {high});"

    def set_predicate(self, to, value):
        """Assigns a predicate."""
        return f"(void)({value});" if to in ("PT", "UPT") else f"{self.predicate(to)} = {value};"

    def set_words(self, to, value, count):
        """Assigns the words of an array."""
        if to in ("RZ", "URZ"):
            return ""
        return " ".join(f"{name} = {value}[{i}];" for i, name in enumerate(self.following(to, count)))

    def shared_address(self, text, size):
        """Returns a pointer to `size` bytes at an address of 32 bits in shared memory."""
        return f"emitted::shared_at({' + '.join(map(self.word, terms(text)))}, {size})"

    def global_address(self, text, size):
        """Returns a pointer to `size` bytes at an address of 64 bits in global memory."""
        # Where no register is marked as wide, all are: Turing's code marks them in addresses of several registers only.
        marked = ".64" in text

        def term_of(term):
            wide = not marked or ".64" in term or term.startswith("UR") or NUMBER.fullmatch(term)
            return self.wide(term) if wide else self.word(term)

        return f"emitted::global_at({' + '.join(map(term_of, terms(text)))}, {size})"


def terms(address):
    """Returns the terms of an address, without the descriptor of its memory."""
    return DESCRIPTOR.sub("", address).strip("[]").split("+")
