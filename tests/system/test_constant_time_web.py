"""Interprets the WebAssembly module that ships, with secrets marked: no branch, address or division may depend on a secret.

`conformance/taint` interprets the module and connects its conversations to real servers. Randomness and looked-up keys are
marked bit by bit. If a value is not declassified, the dependence must be found. docs/constant-time.md must list all
declassified values.
"""

import json
import subprocess

import pytest

import web
from system import reasons
from system.programs import cargo, target_folder
from system.reference_world import CHANGED, NAMES, ROWS, database, served, value

KEYED = {"wanted": [{"keys": ["k17", "k1", "never"]}], "values": [[value(17), "17"], [*CHANGED.values()], "absent"]}
ROWS_WANTED = {"wanted": [{"indices": [17, 2, ROWS]}], "values": [[value(17)], "absent", ["added"]]}
BINS = {"wanted": [{"indices": [17, 1, 2]}, {"indices": [2]}], "values": [[value(17)], ["changed"], "dropped", "absent"]}
# Keys with three copies each, one of them wanted twice.
COPIES = {
    "wanted": [{"keys": ["k17", "k1", "k17", "never"]}],
    "values": [[value(17), "17"], [*CHANGED.values()], [value(17), "17"], "absent"],
}
# A table of more than one unit of `onion`, because a table of one unit needs no keys.
LARGE = {"wanted": [{"indices": [170, 3]}], "values": [["170 " * 75], ["3 " * 75]]}
# A visit that stores evaluation keys, and a second client that reuses them.
RESUMED = {"wanted": KEYED["wanted"], "values": KEYED["values"] * 2, "resume": True}
VISITS = {
    **{f"{name}-keyed": (name, database(name, "keyed"), KEYED) for name in NAMES if name != "onion"},
    "onion-large": ("onion", "onion-large", LARGE),
    "hybrid-resumed": ("hybrid", "hybrid-keyed", RESUMED),
    "simple-rows": ("simple", "simple-rows", ROWS_WANTED),
    "dpf-xor-rows": ("dpf-xor", "dpf-xor-rows", ROWS_WANTED),
    "dpf-xor-bins": ("dpf-xor", "dpf-xor-bins", BINS | {"fetch": True}),
    "dpf-xor-copies": ("dpf-xor", "dpf-xor-copies", COPIES | {"fetch": True}),
}
# Visits of the short form: a hint; evaluation keys, which are stored; two servers. Their tables cover all code of tables.
SHORT = ("simple-keyed", "hybrid-resumed", "dpf-xor-keyed", "dpf-xor-rows", "dpf-xor-bins", "dpf-xor-copies")
# The quickest visits, in which values are kept marked instead of declassified.
QUICK = ("dpf-xor-keyed", "dpf-xor-rows", "dpf-xor-bins", "dpf-xor-copies")


@pytest.fixture(scope="module")
def world(spirea, tmp_path_factory):
    with served(spirea, tmp_path_factory.mktemp("taint")) as world:
        yield world


@pytest.fixture(scope="module")
def large(world):
    """Addresses of a server of a table with several units."""
    tables = world.tables
    tables.write("large.csv", "\n".join(["note", *(f"{row} " * 75 for row in range(200))]) + "\n")
    tables.run("build", "--input", "large.csv", "--value", "note", "--protocol", "onion", "--out", "onion-large")
    with tables.serving("onion-large") as urls:
        yield urls


@pytest.fixture(scope="module")
def interpreter():
    """Command that interprets the module. With the whole workspace's features, cargo reuses the tests' build."""
    cargo("build", "--locked", "--workspace", "--bin", "taint")
    with web.alone():
        shipped, named = web.made(web.Toolchain(), web.CLIENT_MODULE)
    return [target_folder() / "debug/taint", shipped, named]


@pytest.fixture(scope="module")
def visit(world, large, interpreter):
    """Function that makes a visit by name, checks its values, and returns the findings."""

    def make(name, **more):
        protocol, table, plan = VISITS[name]
        given = {key: part for key, part in plan.items() if key != "values"}
        urls = large if plan is LARGE else world.urls(protocol)
        plan_text = json.dumps({"addresses": urls, "database": table, **given, **more})
        done = subprocess.run([*interpreter, plan_text], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)
        assert said["values"] == plan["values"]
        return said

    return make


@pytest.fixture(scope="module")
def outcomes(visit, side_by_side):
    """The chosen visits, in parallel."""
    return side_by_side("test_no_secret_steers_the_module_that_ships", "name", visit)


def shown(found):
    return "\n".join(f"{place['what']}, at byte {place['offset']}: {' < '.join(place['calls'])}" for place in found)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name in SHORT else pytest.mark.full) for name in VISITS])
def test_no_secret_steers_the_module_that_ships(outcomes, name):
    said = outcomes[name].result()
    assert not said["found"], shown(said["found"])
    listed = reasons.listed(reasons.PROTOCOLS) | reasons.listed(reasons.SESSION)
    missing = set(said["reasons"]) - listed
    assert not missing, f"docs/constant-time.md leaves out {sorted(missing)}"
    print(f"{name}: {said['instructions']:,} instructions, {said['selects']} places where `select` has a secret condition")


def test_documented_reasons_of_a_session_are_all_there_are(outcomes):
    if not set(SHORT) <= outcomes.keys():
        pytest.skip("only some visits were chosen, and each has reasons of its own")
    found = set().union(*(future.result()["reasons"] for future in outcomes.values()))
    unfound = reasons.listed(reasons.SESSION) - found
    assert not unfound, f"docs/constant-time.md has besides {sorted(unfound)}"


@pytest.mark.parametrize("name", QUICK)
def test_mark_that_is_kept_is_found(visit, name):
    """Without any one of the reasons, a place where a secret steers the module is found."""
    for reason in visit(name)["reasons"]:
        assert visit(name, keep=reason)["found"], f"nothing was found without '{reason}'"
