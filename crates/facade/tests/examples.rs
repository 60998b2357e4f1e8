//! Every public item of this crate has an example, which is a test.

use std::fs;
use std::path::Path;

/// Keywords of items that need an example.
const ITEMS: [&str; 8] = ["const", "enum", "fn", "mod", "struct", "trait", "type", "use"];

/// Returns the public items of a source file without an example in their documentation. Modules
/// with their own file, and items that the crate both defines and re-exports, have their example at
/// the definition.
fn without_example(source: &str) -> Vec<&str> {
    let (mut has_example, mut found) = (false, Vec::new());
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            has_example |= text.trim_start().starts_with("```");
        } else if !line.starts_with("#[") {
            let item = line.strip_prefix("pub ").filter(|item| {
                let keyword = item.split(' ').next().unwrap_or_default();
                let is_own = ["use client::", "use record::"].iter().any(|own| item.starts_with(own));
                ITEMS.contains(&keyword) && !is_own && !(keyword == "mod" && item.ends_with(';'))
            });
            found.extend(item.filter(|_| !has_example));
            has_example = false;
        }
    }
    found
}

#[test]
fn every_public_item_has_an_example() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let source = fs::read_to_string(&path).unwrap();
        assert_eq!(without_example(&source), [""; 0], "{}", path.display());
        let opens = source.contains("//! ```") || source.contains("doc = include_str!(\"../README.md\")");
        let is_public = ["build.rs", "lib.rs", "server.rs"].iter().any(|name| path.ends_with(name));
        assert!(opens || !is_public, "{}: the module has no example", path.display());
        files += 1;
    }
    assert!(files >= 5, "the sources were not found");
}

#[test]
fn an_item_without_an_example_is_found() {
    let source = "/// A.\n///\n/// ```\n/// ```\n#[must_use]\npub fn a() {}\n/// B.\npub fn b() {}\npub(crate) fn c() {}\npub use d::D;\n";
    assert_eq!(without_example(source), ["fn b() {}", "use d::D;"]);
}
