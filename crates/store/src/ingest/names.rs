//! Names that folders and patterns stand for.

use std::path::{Component, Path};

/// Characters that make a pattern of a path.
pub(super) const WILDCARDS: [char; 3] = ['*', '?', '['];

/// Patterns, in which neither `*` nor `?` stands for a separator.
pub(super) const PATTERNS: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Tests that a folder does not count a name among its own: a hidden one, or one that begins with `_` and is no partition.
pub(super) fn is_left_out(name: &str) -> bool {
    name.starts_with('.') || (name.starts_with('_') && !name.contains('='))
}

/// Tests that none of the names that a pattern stands for in a path is left out, unless a name in the pattern begins alike.
pub(super) fn is_found(pattern: &Path, path: &Path) -> bool {
    let literal = names(pattern).take_while(|name| !name.contains(WILDCARDS)).count();
    let is_named =
        |name: &str| names(pattern).skip(literal).any(|named| named.as_bytes()[0] == name.as_bytes()[0]);
    names(path).skip(literal).all(|name| !is_left_out(name) || is_named(name))
}

/// The names in a path that are text.
fn names(path: &Path) -> impl Iterator<Item = &str> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => name.to_str(),
        _ => None,
    })
}
