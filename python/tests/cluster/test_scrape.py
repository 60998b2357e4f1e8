"""Merged metrics of programs of which one writes any text."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spirea.cluster import scrape

HONEST = '# HELP n Number.\n# TYPE n counter\nn 1\nn{kind="a,share=\\"9\\""} 2\n'
# Everything of which samples consist, so that pages are often nearly right.
PIECES = (
    "n", "t", "t_bucket", "share", "replica", "__name__", "le", "0a", "{", "}", '"', '="', "=", ",", " ", "\n", "\n# TYPE ",
    "\n# HELP ", "#", "histogram", "gauge", "\\", "\\n", '\\"', "1", "-2.5e9", "+Inf", "NaN", "0x1", "1_0", "\x0b", "\x85",
    "\r", "\u2028", "\0", "é", 'n{share="0"} 1\n', 'n{ share="0"} 1\n', 'n{a="1",a="2"} 1\n',
)  # fmt: skip
texts = st.text(alphabet=st.characters(exclude_characters="\0"))
pages = st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join))


def parse(page):
    """Returns the samples of a page, as names, labels and numbers. Fails unless the whole page is well-formed."""
    samples, heads = [], set()
    assert page == "" or page.endswith("\n")
    for line in page.split("\n")[:-1]:
        assert "\0" not in line
        if line.startswith("#"):
            _, kind, name, rest = line.split(" ", 3)
            assert kind == "HELP" or (kind == "TYPE" and rest in ("counter", "gauge", "histogram", "summary", "untyped"))
            assert (kind, name) not in heads
            heads.add((kind, name))
        else:
            name = re.match("[A-Za-z0-9_:]*", line)[0]
            assert name and not name[0].isdigit()
            labels, rest = {}, line[len(name) :]
            if rest.startswith("{"):
                labels, rest = parse_labels(rest[1:])
            blank, *numbers = rest.split(" ")
            assert blank == "" and len(numbers) in (1, 2) and "_" not in rest and rest.isascii()
            float(numbers[0])
            samples.append((name, labels, [*map(float, numbers)]))
    return samples


def parse_labels(text):
    """Reads labels up to the closing brace, character by character. Returns them and the rest."""
    labels = {}
    while True:
        name, separator, text = text.partition('="')
        assert separator and re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) and not name.startswith("__")
        assert name not in labels
        value = ""
        while text[0] != '"':
            if text[0] == "\\":
                value, text = value + {"n": "\n", "\\": "\\", '"': '"'}[text[1]], text[2:]
            else:
                value, text = value + text[0], text[1:]
        labels[name], end, text = value, text[1], text[2:]
        if end == "}":
            return labels, text
        assert end == ","


@given(pages, texts)
@settings(max_examples=2000, deadline=None)
def test_any_page_is_merged_to_a_page_that_can_be_read(page, share):
    merged = parse(scrape.merged([({"share": "honest"}, HONEST), ({"share": share, "replica": "1"}, page)]))
    for name, labels, _ in merged:
        assert labels["share"] in ("honest", share), name
        assert labels["share"] != share or share == "honest" or labels["replica"] == "1"
    honest = [(name, labels) for name, labels, _ in merged if "replica" not in labels]
    assert honest == [("n", {"share": "honest"}), ("n", {"kind": 'a,share="9"', "share": "honest"})]


@given(st.dictionaries(st.sampled_from(["a", "share", "exported_share", "le"]), texts))
@settings(deadline=None)
def test_labels_keep_their_values(labels):
    page = scrape.gauge("n", "Number.", [(labels, 2)])
    assert parse(scrape.merged([({}, page)])) == [("n", labels, [2])]
    [(_, merged, _)] = parse(scrape.merged([({"share": "added"}, page)]))
    assert merged.pop("share") == "added"
    assert sorted(merged.values()) == sorted(labels.values())
    if "share" in labels:
        assert merged["exported_exported_share" if "exported_share" in labels else "exported_share"] == labels["share"]


@pytest.mark.parametrize(
    "line",
    [
        "n many", "n", "n{", 'n{a="1} 2', 'n{a="1"', 'n{a="1",,b="2"} 3', 'n{a="1"b="2"} 3', 'n{a="1",a="2"} 3',
        'n{ share="0"} 1', 'n{__name__="other"} 1', 'n{a="\\x"} 1', "n 1 2 3", "n 1_0", "n \u0661", "0n 1",
        "# TYPE n many", "# TYPE n", "# HELP n",
    ],
)  # fmt: skip
def test_a_malformed_line_is_omitted(line):
    assert scrape.merged([({"share": "1"}, f"{line}\nm 1\n")]) == 'm{share="1"} 1\n'
