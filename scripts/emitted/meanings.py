"""The meaning of each instruction, as statements of C++. `crates/cuda/emulation/emitted` has the functions that they call.

NVIDIA lists the instructions' names, and no more. The meanings follow from the PTX that they were made of, and are tested by
what they compute. Instructions that only steer caches, or that reconverge warps, have none: threads are fibers, and meet where
an operation needs all lanes.
"""

import re
import struct

from emitted.operands import NUMBER, PREDICATE, Refusal

MEANINGS = {}
COMPARISONS = {"GE": ">=", "GT": ">", "LE": "<=", "LT": "<", "NE": "!=", "EQ": "=="}
CHANGES = {"ADD": "__atomic_fetch_add", "XOR": "__atomic_fetch_xor"}
WITHOUT_EFFECT = ("BMOV", "BSSY", "BSYNC", "CCTL", "CGAERRBAR", "ENDCOLLECTIVE", "ERRBAR", "FENCE", "YIELD")
SPECIAL = {
    "SR_TID.X": "emulation::current->index.x",
    "SR_CTAID.X": "emulation::view->index.x",
    "SR_CTAID.Y": "emulation::view->index.y",
    "SR_CTAID.Z": "emulation::view->index.z",
    # The first window of shared memory: blocks are in no cluster.
    "SR_CgaCtaId": "0u",
    "SR_LANEID": "emitted::lane()",
    "SR_LTMASK": "((1u << emitted::lane()) - 1)",
    "SR_LEMASK": "((2u << emitted::lane()) - 1)",
}
# A shuffle's limit for segments of a whole warp.
WHOLE_WARP = "0x1f"


def means(*names):
    """Registers the meaning of instructions."""

    def register(function):
        MEANINGS.update(dict.fromkeys(names, function))
        return function

    return register


def meaning(operands, one):
    """Returns the statements of an instruction that does not jump.

    Raises Refusal for an instruction, or a form of it, that is not among the meanings.
    """
    if one.name in WITHOUT_EFFECT:
        return ""
    # Uniform instructions compute the same for all lanes, on registers of their own.
    name = one.name if one.name in MEANINGS else one.name.removeprefix("U")
    if name not in MEANINGS:
        raise Refusal(f"no meaning for {one}")
    try:
        return MEANINGS[name](operands, one)
    except (Refusal, AssertionError, ValueError, LookupError, TypeError) as error:
        raise Refusal(f"no meaning for this form: {one} ({error})") from error


def size_of(modifiers):
    """Returns the bytes that a memory instruction moves."""
    for modifier, size in (("128", 16), ("64", 8), ("U8", 1), ("U16", 2)):
        if modifier in modifiers:
            return size
    return 4


def carried(given):
    """Splits off the predicates at the beginning of operands, which the instruction writes: carries of a sum."""
    count = 0
    while PREDICATE.fullmatch(given[count]):
        count += 1
    return given[:count], given[count:]


# Words and integers.


@means("MOV", "R2UR")
def move(o, i):
    to, value = i.operands
    return o.set_wide(to, o.wide(value)) if "64" in i.modifiers else o.set(to, o.word(value))


@means("CS2R")
def clear(o, i):
    to, value = i.operands
    assert value == "SRZ" and not i.modifiers
    return o.set_wide(to, "0ull")


@means("S2R", "S2UR")
def read_special(o, i):
    to, value = i.operands
    return o.set(to, SPECIAL[value])


@means("IADD", "VIADD")
def add(o, i):
    to, *terms = i.operands
    if "64" in i.modifiers:
        return o.set_wide(to, " + ".join(map(o.wide, terms)))
    return o.set(to, " + ".join(map(o.word, terms)))


@means("IADD3")
def add_three(o, i):
    to, rest = i.operands[0], i.operands[1:]
    carries, terms = carried(rest)
    if "64" in i.modifiers:
        assert all(carry in ("PT", "UPT") for carry in carries)
        return o.set_wide(to, " + ".join(map(o.wide, terms)))
    # A negated term is its complement and one, which may carry.
    negated = [term.startswith("-") and not term.startswith("-0x") and "X" not in i.modifiers for term in terms[:3]]
    words = [
        f"uint64_t(uint32_t(~{o.word(term[1:])})) + 1" if minus else f"uint64_t({o.word(term)})"
        for term, minus in zip(terms[:3], negated)
    ]
    words += [f"uint64_t({o.predicate(term)})" for term in terms[3:]]
    told = [o.set_predicate(carry, f"(sum >> 32) >= {number}") for number, carry in enumerate(carries, 1)]
    return " ".join([f"const uint64_t sum = {' + '.join(words)};", *told, o.set(to, "uint32_t(sum)")])


@means("IMAD")
def multiply_add(o, i):
    if i.modifiers[:1] in (("WIDE",), ("HI",)):
        return multiply_add_wide(o, i)
    if i.modifiers[:1] == ("X",):
        to, a, b, c, carry = i.operands
        return o.set(to, f"{o.word(a)} * {o.word(b)} + {o.word(c)} + uint32_t({o.predicate(carry)})")
    # The other names say for which purpose the compiler multiplies and adds.
    assert i.modifiers[:1] in ((), ("U32",), ("MOV",), ("IADD",), ("SHL",))
    to, a, b, c = i.operands
    return o.set(to, f"{o.word(a)} * {o.word(b)} + {o.word(c)}")


def multiply_add_wide(o, i):
    """A product of two words and a pair of words. `HI` keeps the high word of the sum."""
    to, rest = i.operands[0], i.operands[1:]
    carries, (a, b, c) = carried(rest)
    assert len(carries) <= 1
    # A factor has no sign of its own here: its complement would lack the upper word.
    assert all(NUMBER.fullmatch(factor) or factor[0] not in "-~" for factor in (a, b))
    function = "emitted::product" if "U32" in i.modifiers else "emitted::signed_product"
    told = [o.set_predicate(carry, "sum < addend") for carry in carries]
    last = o.set(to, "uint32_t(sum >> 32)") if "HI" in i.modifiers else o.set_wide(to, "sum")
    sum_ = f"const uint64_t addend = {o.wide(c)}, sum = {function}({o.word(a)}, {o.word(b)}) + addend;"
    return " ".join([sum_, *told, last])


def least_or_greatest(o, to, a, b, least):
    """The lesser of two values if the predicate is true, and otherwise the greater."""
    return o.set(to, f"emitted::least_or_greatest({a}, {o.word(b)}, {o.predicate(least)})")


@means("IMNMX", "VIMNMX")
def extremum(o, i):
    if i.modifiers == ("U64",):
        told, (to, a, b, least, _) = carried(i.operands)
        assert set(told) <= {"PT", "UPT"}
        return o.set_wide(to, f"emitted::least_or_greatest({o.wide(a)}, {o.wide(b)}, {o.predicate(least)})")
    assert i.modifiers == ("U32",)
    told, (a, b, least) = carried(i.operands[1:])
    assert set(told) <= {"PT", "UPT"}
    return least_or_greatest(o, i.operands[0], o.word(a), b, least)


@means("VIADDMNMX")
def add_extremum(o, i):
    assert i.modifiers == ("U32",)
    told, (a, b, c, least) = carried(i.operands[1:])
    assert set(told) <= {"PT", "UPT"}
    return least_or_greatest(o, i.operands[0], f"{o.word(a)} + {o.word(b)}", c, least)


@means("LOP3")
def logic(o, i):
    assert i.modifiers == ("LUT",)
    given = i.operands
    nonzero = given[0] if PREDICATE.fullmatch(given[0]) else None
    to, a, b, c, table, other = given[1:] if nonzero else given
    words = ", ".join(map(o.word, (a, b, c)))
    told = o.set_predicate(nonzero, f"value != 0 || {o.predicate(other)}") if nonzero else ""
    return f"const uint32_t value = emitted::logic<{table}>({words}); {told} {o.set(to, 'value')}"


@means("PLOP3")
def predicate_logic(o, i):
    first, second, a, b, c, table, other_table = i.operands
    bits = ", ".join(map(o.predicate, (a, b, c)))
    values = f"const bool value = emitted::logic_bit({bits}, {table}), other = emitted::logic_bit({bits}, {other_table});"
    return f"{values} {o.set_predicate(first, 'value')} {o.set_predicate(second, 'other')}"


def told_of(o, i, condition, with_):
    """Sets a comparison's predicates: of the condition and of its contrary, each with a third predicate."""
    joint = "&&" if "AND" in i.modifiers else "||"
    assert ("AND" in i.modifiers) != ("OR" in i.modifiers)
    with_ = o.predicate(with_)
    values = f"const bool is = {condition}, value = is {joint} {with_}, other = !is {joint} {with_};"
    return f"{values} {o.set_predicate(i.operands[0], 'value')} {o.set_predicate(i.operands[1], 'other')}"


@means("ISETP")
def compare(o, i):
    _, _, a, b, with_, *low = i.operands
    kind = i.modifiers[0]
    if "U64" in i.modifiers or "S64" in i.modifiers:
        cast = "int64_t" if "S64" in i.modifiers else "uint64_t"
        a, b = f"{cast}({o.wide(a)})", f"{cast}({o.wide(b)})"
    else:
        cast = "uint32_t" if "U32" in i.modifiers else "int32_t"
        a, b = f"{cast}({o.word(a)})", f"{cast}({o.word(b)})"
    condition = f"{a} {COMPARISONS[kind]} {b}"
    if "EX" in i.modifiers:
        # The high words of a comparison, whose low words have been compared in the same way.
        (below,) = map(o.predicate, low)
        strict = COMPARISONS[kind].removesuffix("=")
        condition = {
            "NE": f"({a} != {b} || {below})",
            "EQ": f"({a} == {b} && {below})",
        }.get(kind, f"({a} {strict} {b} || ({a} == {b} && {below}))")
    return told_of(o, i, condition, with_)


@means("SEL")
def select(o, i):
    to, a, b, which = i.operands
    if "64" in i.modifiers:
        return o.set_wide(to, f"{o.predicate(which)} ? {o.wide(a)} : {o.wide(b)}")
    return o.set(to, f"{o.predicate(which)} ? {o.word(a)} : {o.word(b)}")


@means("SHF")
def shift(o, i):
    to, low, count, high = i.operands
    (kind,) = [name for name in i.modifiers if name in ("U32", "S32", "U64", "S64")]
    bits = int(kind[1:])
    count = f"({o.word(count)} & {bits - 1}u)" if "W" in i.modifiers else f"emitted::at_most({o.word(count)}, {bits}u)"
    name = "left" if i.modifiers[0] == "L" else "right_signed" if kind[0] == "S" else "right"
    half = "high" if "HI" in i.modifiers else "low"
    return o.set(to, f"emitted::{name}_{half}({o.word(low)}, {o.word(high)}, {count})")


@means("LEA")
def shift_add(o, i):
    to, rest = i.operands[0], i.operands[1:]
    carries, rest = carried(rest)
    assert len(carries) <= 1
    if "HI" not in i.modifiers:
        assert not i.modifiers
        low, addend, count = rest
        shifted = f"uint32_t({o.word(low)} << {count})"
    elif "SX32" in i.modifiers:
        low, addend, count, *carry = rest
        shifted = f"uint32_t(uint64_t(int64_t(int32_t({o.word(low)})) << {count}) >> 32)"
    else:
        low, addend, high, count, *carry = rest
        shifted = f"uint32_t(emitted::join({o.word(low)}, {o.word(high)}) << {count} >> 32)"
    # A carry out of a sum with a carry in, and of one with a negative term, is another than this one.
    assert not carries or not ("X" in i.modifiers or addend.startswith("-"))
    more = [f"uint64_t({o.predicate(*carry)})"] if "X" in i.modifiers else []
    sum_ = " + ".join([f"uint64_t({shifted})", f"uint64_t({o.word(addend)})", *more])
    told = [o.set_predicate(out, "(sum >> 32) != 0") for out in carries]
    return " ".join([f"const uint64_t sum = {sum_};", *told, o.set(to, "uint32_t(sum)")])


@means("PRMT")
def permute_bytes(o, i):
    to, low, selectors, high = i.operands
    return o.set(to, f"spirea::permute_bytes({o.word(low)}, {o.word(high)}, {o.word(selectors)})")


@means("BREV")
def reverse_bits(o, i):
    to, value = i.operands
    return o.set(to, f"__brev({o.word(value)})")


@means("POPC")
def count_ones(o, i):
    to, value = i.operands
    return o.set(to, f"uint32_t(__popc({o.word(value)}))")


@means("FLO")
def leading_one(o, i):
    to, value = i.operands
    assert i.modifiers == ("U32",)
    return o.set(to, f"emitted::leading_one({o.word(value)})")


@means("IDP")
def dot_bytes(o, i):
    to, a, b, c = i.operands
    assert i.modifiers == ("4A", "U8", "U8")
    return o.set(to, f"spirea::dot_bytes({o.word(a)}, {o.word(b)}, {o.word(c)})")


@means("R2P")
def to_predicates(o, i):
    _, value, mask = i.operands
    bits = [number for number in range(7) if int(mask, 0) >> number & 1]
    return f"const uint32_t value = {o.word(value)}; " + " ".join(f"p{bit} = value >> {bit} & 1;" for bit in bits)


@means("P2R")
def from_predicates(o, i):
    to, _, value, mask = i.operands
    bits = " | ".join(f"uint32_t(p{bit}) << {bit}" for bit in range(7) if int(mask, 0) >> bit & 1)
    return o.set(to, f"({o.word(value)} & ~{mask}u) | {bits}")


# Real numbers, by which the compiler divides integers.


@means("HFMA2")
def set_halves(o, i):
    to, zero, _, high, low = i.operands
    assert zero == "-RZ"
    high, low = (struct.unpack("<H", struct.pack("<e", float(half)))[0] for half in (high, low))
    return o.set(to, f"0x{high << 16 | low:x}u")


@means("I2F", "I2FP")
def to_real(o, i):
    to, value = i.operands
    assert any(name in i.modifiers for name in ("U16", "U32", "U64"))
    rounding = next((name for name in ("RP", "RZ") if name in i.modifiers), "RN")
    value = o.wide(value) if "U64" in i.modifiers else f"uint64_t({o.word(value)}{' & 0xffffu' * ('U16' in i.modifiers)})"
    return o.set(to, f"emitted::to_real({value}, emitted::{rounding})")


@means("F2I")
def to_integer(o, i):
    to, value = i.operands
    assert "TRUNC" in i.modifiers
    if "U64" in i.modifiers:
        return o.set_wide(to, f"emitted::to_wide({o.word(value)})")
    assert "U32" in i.modifiers
    return o.set(to, f"emitted::to_word({o.word(value)})")


@means("MUFU")
def reciprocal(o, i):
    to, value = i.operands
    assert i.modifiers == ("RCP",)
    return o.set(to, f"emitted::reciprocal({o.word(value)})")


@means("FMUL")
def multiply_reals(o, i):
    to, a, b = i.operands
    rounding = i.modifiers[0] if i.modifiers else "RN"
    return o.set(to, f"emitted::multiply({o.word(a)}, {o.word(b)}, emitted::{rounding})")


def real(o, text):
    """Returns the value of a real operand."""
    if text.startswith("|"):
        return f"std::fabs({real(o, text.strip('|'))})"
    return f"emitted::real({o.word(text)})" if re.match(r"-?[UR]", text) else f"{float(text)!r}f"


@means("FSETP")
def compare_reals(o, i):
    _, _, a, b, with_ = i.operands
    a, b = real(o, a), real(o, b)
    # The names that end with U are also true for values that are not ordered.
    condition = {"GT": f"({a} > {b})", "GEU": f"!({a} < {b})"}[i.modifiers[0]]
    return told_of(o, i, condition, with_)


@means("FSEL")
def select_reals(o, i):
    to, a, b, which = i.operands
    return o.set(to, f"emitted::bits({o.predicate(which)} ? {real(o, a)} : {real(o, b)})")


# Memory.


def address(o, i, place, size):
    """Returns the pointer of an instruction that reads or writes `size` bytes."""
    return o.shared_address(place, size) if i.name in ("LDS", "STS") else o.global_address(place, size)


@means("LDC", "LDCU")
def load_constants(o, i):
    to, place = i.operands
    count = size_of(i.modifiers) // 4
    found = re.fullmatch(r"c\[(0x[0-9a-f]+)\]\[(.*)\]", place)
    words = ", ".join(o.constant(found, word) for word in range(count))
    return f"const uint32_t words[{count}] = {{{words}}}; {o.set_words(to, 'words', count)}"


@means("LDG", "LD", "LDS")
def load(o, i):
    to, place = i.operands
    size = size_of(i.modifiers)
    if to == "RZ":
        return ""
    # A kernel reads in this way while it waits for other blocks, which must go on.
    wait = "emulation::spin(); " if i.name != "LDS" and {"STRONG", "GPU"} <= set(i.modifiers) else ""
    from_ = address(o, i, place, size)
    if size < 4:
        return f"{wait}{o.set(to, f'emitted::load<uint{8 * size}_t>({from_})')}"
    return f"{wait}const auto words = emitted::load<emitted::Words<{size // 4}>>({from_}); " + o.set_words(
        to, "words.of", size // 4
    )


@means("STG", "ST", "STS")
def store(o, i):
    place, value = i.operands
    size = size_of(i.modifiers)
    to = address(o, i, place, size)
    if size < 4:
        return f"emitted::store({to}, uint{8 * size}_t({o.word(value)}));"
    words = ", ".join(o.following(value, size // 4))
    return f"emitted::store({to}, emitted::Words<{size // 4}>{{{{{words}}}}});"


@means("RED", "REDG", "ATOM", "ATOMG")
def change(o, i):
    size = size_of(i.modifiers)
    *result, place, value = i.operands
    value = o.wide(value) if size == 8 else o.word(value)
    (function,) = [function for name, function in CHANGES.items() if name in i.modifiers]
    pointer = f"static_cast<uint{8 * size}_t*>({address(o, i, place, size)})"
    before = f"{function}({pointer}, {value}, __ATOMIC_RELAXED)"
    if not result or result[-1] == "RZ":
        return f"{before};"
    assert size == 4
    return o.set(result[-1], before)


@means("MEMBAR")
def order_memory(_, i):
    return "__threadfence();"


@means("LDGSTS")
def begin_copy(o, i):
    to, from_ = i.operands
    assert "128" in i.modifiers and "BYPASS" in i.modifiers
    return f"emulation::copy_begin({o.shared_address(to, 16)}, {o.global_address(from_, 16)});"


@means("LDGDEPBAR")
def end_copies(_, i):
    return "emulation::copy_commit();"


@means("DEPBAR")
def await_copies(_, i):
    counter, left = i.operands
    assert i.modifiers == ("LE",) and counter == "SB0"
    return f"emulation::copy_wait({int(left, 0)});"


@means("LDSM")
def load_matrices(o, i):
    to, place = i.operands
    assert i.modifiers == ("16", "M88", "4")
    return f"uint32_t words[4]; emitted::load_matrices(words, {o.shared_address(place, 16)}); {o.set_words(to, 'words', 4)}"


# Operations of several lanes.


@means("NOP")
def meet_warp(_, i):
    """What is left of a warp's barrier where the assembler knows that the warp has converged."""
    return "emitted::meet_warp(0xffffffffu);"


@means("WARPSYNC")
def meet_lanes(o, i):
    if i.modifiers == ("ALL",):
        return "emitted::meet_warp(0xffffffffu);"
    if i.modifiers == ("COLLECTIVE",):
        return "emitted::never();"
    (mask,) = i.operands
    assert not i.modifiers
    return f"emitted::meet_warp({o.word(mask)});"


@means("BAR")
def meet_block(o, i):
    assert i.modifiers[0] == "SYNC"
    if i.operands == ("0x0",):
        return "emitted::meet_block();"
    number, threads = i.operands
    return f"spirea::group_barrier({o.word(number)}, {o.word(threads)});"


@means("SHFL")
def shuffle(o, i):
    valid, to, value, lane, limit = i.operands
    mode = {"BFLY": "from_lane_xor", "IDX": "from_lane"}[i.modifiers[0]]
    check = "" if limit == WHOLE_WARP else f"emitted::require_whole_warp({o.word(limit)}); "
    return f"{check}{o.set_predicate(valid, 'true')} {o.set(to, f'spirea::{mode}({o.word(value)}, {o.word(lane)})')}"


@means("VOTE", "VOTEU")
def vote(o, i):
    assert i.modifiers == ("ANY",)
    if len(i.operands) == 2:
        # All lanes agree where the compiler votes into a predicate alone: it makes the predicate uniform.
        to, value = i.operands
        return o.set_predicate(to, o.predicate(value))
    to, told, value = i.operands
    assert told in ("PT", "UPT")
    if value in ("PT", "UPT"):
        return o.set(to, "EMITTED_UNDIVERGED")
    return o.set(to, f"spirea::ballot({o.predicate(value)})")


@means("REDUX")
def reduce(o, i):
    to, value = i.operands
    assert i.modifiers == ("XOR",)
    return o.set(to, f"emitted::xor_of_warp({o.word(value)})")


def fragments(o, i):
    """The operands of a product of a warp."""
    to, a, b, c = i.operands
    rows, columns, sums = (", ".join(o.following(text, count)) for text, count in ((a, 4), (b, 2), (c, 4)))
    return to, c, f"const uint32_t a[4] = {{{rows}}}, b[2] = {{{columns}}}; uint32_t d[4] = {{{sums}}};"


@means("IMMA")
def multiply_bytes(o, i):
    if i.modifiers == ("8816", "U8", "U8"):
        return multiply_few_bytes(o, i)
    assert i.modifiers == ("16832", "U8", "U8")
    to, _, given = fragments(o, i)
    return f"{given} spirea::mma_u8u8(d, a, b); {o.set_words(to, 'd', 4)}"


def multiply_few_bytes(o, i):
    """Turing's product, a quarter of that of later architectures: the other parts are zero."""
    to, a, b, c = i.operands
    sums = ", ".join(o.following(c, 2))
    given = f"const uint32_t a[4] = {{{o.word(a)}}}, b[2] = {{{o.word(b)}}}; uint32_t d[4] = {{{sums}}};"
    return f"{given} spirea::mma_u8u8(d, a, b); {o.set_words(to, 'd', 2)}"


@means("BMMA")
def count_common_ones(o, i):
    to, sums, given = fragments(o, i)
    assert i.modifiers == ("168256", "AND", "POPC") and sums == "RZ"
    return f"{given} spirea::mma_common_ones(d, a, b); {o.set_words(to, 'd', 4)}"


@means("MOVM")
def widen_nibbles(o, i):
    """Widens a matrix of nibbles to two of bytes. Which lane and byte a nibble comes to is not documented. It is the same for
    both factors of a product of bytes, and the product sums over these places, so any order serves."""
    to, value = i.operands
    assert i.modifiers == ("U4TO8", "M832")
    return f"uint32_t words[2]; emitted::widen_nibbles(words, {o.word(value)}); {o.set_words(to, 'words', 2)}"


@means("IGMMA")
def begin_product(o, i):
    to, rows, columns, sums, *ends = i.operands
    shape = re.fullmatch(r"64x(\d+)x32", i.modifiers[0])
    assert to == sums and i.modifiers[1:] == ("U8", "U8") and ends in ([], ["gsb0"]) and o.in_memory
    kind, first = o.parsed(re.fullmatch(r"gdesc\[(UR\d+)\]", columns)[1])
    width = int(shape[1]) // 8
    (d, *_), (a, *_) = o.following(to, 4 * width), o.following(rows, 4)
    descriptor = ", ".join(o.register(first + word, kind) for word in (2, 3))
    begun = f"emitted::begin_product({width}, &{d}, &{a}, emitted::join({descriptor}));"
    return f"{begun} {'spirea::warpgroup_commit();' if ends else ''}"


@means("WARPGROUP")
def await_products(_, i):
    if i.modifiers == ("ARRIVE",):
        return ""
    group, left = i.operands
    assert i.modifiers == ("DEPBAR", "LE") and group == "gsb0"
    return f"emitted::await_products({int(left, 0)});"
