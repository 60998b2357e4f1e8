#!/usr/bin/env python3
"""Tests of check_imports.py, on crates written for them."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from check_imports import Crate

SCRIPT = Path(__file__).with_name("check_imports.py")


class Circles(unittest.TestCase):
    def circles(self, **files):
        """The circles of a crate with these files; `__` stands for `/` in their names."""
        return [["::".join(module) for module in group] for group in self.crate(files).circles()]

    def crate(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        source = Path(folder.name) / "src"
        for name, text in files.items():
            path = source / (name.replace("__", "/") + ".rs")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Crate(source)

    def test_two_files_that_import_each_other_are_a_circle(self):
        planted = {"lib": "mod a; mod b;", "a": "use crate::b::B; pub struct A(B);", "b": "use crate::a::A;"}
        self.assertEqual(self.circles(**planted), [["a", "b"]])
        planted["b"] = "pub struct B;"
        self.assertEqual(self.circles(**planted), [])

    def test_a_circle_leads_through_any_number_of_files(self):
        files = {"a": "use super::b::B;", "b": "use super::c::{self, C};", "c": "fn f() { crate::a::g() }"}
        self.assertEqual(self.circles(lib="mod a; mod b; mod c;", **files), [["a", "b", "c"]])

    def test_a_path_without_a_use_is_an_import(self):
        files = {"a": "fn f() { super::b::f() }", "b": "use crate::a::f;"}
        self.assertEqual(self.circles(lib="mod a; mod b;", **files), [["a", "b"]])

    def test_a_re_export_is_followed_to_the_file_that_defines_the_name(self):
        exported = {
            "lib": "mod a; mod b; mod c; pub use b::B; pub use c::*;",
            "a": "use crate::{B, C};",
            "b": "pub struct B;",
            "c": "pub struct C;",
        }
        self.assertEqual(self.circles(**exported), [])
        for name in ("b", "c"):
            circular = exported | {name: exported[name] + " use crate::a::A;"}
            self.assertEqual(self.circles(**circular), [["a", name]])

    def test_a_module_that_only_lists_its_children_is_in_no_circle(self):
        parent = "mod a; mod b; pub use a::A; pub use b::B;"
        self.assertEqual(self.circles(lib="mod x;", x__mod=parent, x__a="use super::B;", x__b="pub struct B;"), [])

    def test_imports_of_tests_do_not_count(self):
        root, a = "mod a; mod b;", "use crate::b::B;"
        b = "pub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n    fn f() { if true { A } }\n}\n"
        self.assertEqual(self.circles(lib=root, a=a, b=b), [])
        self.assertEqual(self.circles(lib=root, a=a, b=b + "use crate::a::A;"), [["a", "b"]])
        files = {"a": "use crate::b::B;", "b": "pub struct B; #[cfg(test)] mod tests;", "b__tests": "use crate::a::A;"}
        self.assertEqual(self.circles(lib="mod a; mod b;", **files), [])

    def test_comments_and_strings_import_nothing(self):
        b = '/// See [`A`](crate::a::A).\npub struct B; // crate::a::A\nconst C: &str = "crate::a::A";'
        self.assertEqual(self.circles(lib="mod a; mod b;", a="use crate::b::B;", b=b), [])

    def test_the_command_fails_on_a_circle_and_names_its_files(self):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "planted" / "src"
            source.mkdir(parents=True)
            (source.parent / "Cargo.toml").touch()
            (source / "lib.rs").write_text("mod a; mod b;")
            (source / "a.rs").write_text("use crate::b::B;")
            check = lambda: subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True)
            (source / "b.rs").write_text("use crate::a::A;")
            failed = check()
            self.assertEqual(failed.returncode, 1)
            self.assertIn("a imports b", failed.stdout)
            (source / "b.rs").write_text("")
            self.assertEqual((check().returncode, check().stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
