"""Tests that the files of each crate import each other without circles, and that imports.py finds planted circles."""

import tomllib

import pytest

from system.imports import Crate
from system.programs import ROOT

MEMBERS = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["members"]
CRATES = sorted(path.relative_to(ROOT) for member in MEMBERS for path in ROOT.glob(member) if (path / "src").is_dir())


@pytest.mark.parametrize("crate", CRATES, ids=str)
def test_crate_has_no_circle(crate):
    source = Crate(ROOT / crate / "src")
    assert source.text, "there are no files"
    edges = source.edges()
    for circle in source.circles():
        lines = [f"{named(module)} imports {', '.join(map(named, sorted(edges[module] & set(circle))))}" for module in circle]
        pytest.fail("a circle of imports\n" + "\n".join(lines), pytrace=False)


def named(module):
    return "::".join(module) or "(root)"


@pytest.fixture
def circles(tmp_path):
    """Function that returns the circles of a crate with given files; `__` stands for `/` in their names."""
    numbers = iter(range(100))

    def of(**files):
        source = tmp_path / str(next(numbers)) / "src"
        for name, text in files.items():
            path = source / (name.replace("__", "/") + ".rs")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return [["::".join(module) for module in group] for group in Crate(source).circles()]

    return of


def test_two_files_that_import_each_other_are_a_circle(circles):
    planted = {"lib": "mod a; mod b;", "a": "use crate::b::B; pub struct A(B);", "b": "use crate::a::A;"}
    assert circles(**planted) == [["a", "b"]]
    planted["b"] = "pub struct B;"
    assert circles(**planted) == []


def test_a_circle_leads_through_any_number_of_files(circles):
    files = {"a": "use super::b::B;", "b": "use super::c::{self, C};", "c": "fn f() { crate::a::g() }"}
    assert circles(lib="mod a; mod b; mod c;", **files) == [["a", "b", "c"]]


def test_a_path_without_a_use_is_an_import(circles):
    files = {"a": "fn f() { super::b::f() }", "b": "use crate::a::f;"}
    assert circles(lib="mod a; mod b;", **files) == [["a", "b"]]


@pytest.mark.parametrize("name", ["b", "c"])
def test_a_re_export_is_followed_to_the_file_that_defines_the_name(circles, name):
    exported = {
        "lib": "mod a; mod b; mod c; pub use b::B; pub use c::*;",
        "a": "use crate::{B, C};",
        "b": "pub struct B;",
        "c": "pub struct C;",
    }
    assert circles(**exported) == []
    circular = exported | {name: exported[name] + " use crate::a::A;"}
    assert circles(**circular) == [["a", name]]


def test_a_module_that_only_lists_its_children_is_in_no_circle(circles):
    parent = "mod a; mod b; pub use a::A; pub use b::B;"
    assert circles(lib="mod x;", x__mod=parent, x__a="use super::B;", x__b="pub struct B;") == []


def test_imports_of_tests_do_not_count(circles):
    root, a = "mod a; mod b;", "use crate::b::B;"
    b = "pub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n    fn f() { if true { A } }\n}\n"
    assert circles(lib=root, a=a, b=b) == []
    assert circles(lib=root, a=a, b=b + "use crate::a::A;") == [["a", "b"]]
    files = {"a": "use crate::b::B;", "b": "pub struct B; #[cfg(test)] mod tests;", "b__tests": "use crate::a::A;"}
    assert circles(lib="mod a; mod b;", **files) == []


def test_comments_and_strings_import_nothing(circles):
    b = '/// See [`A`](crate::a::A).\npub struct B; // crate::a::A\nconst C: &str = "crate::a::A";'
    assert circles(lib="mod a; mod b;", a="use crate::b::B;", b=b) == []
