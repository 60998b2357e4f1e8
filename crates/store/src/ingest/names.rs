//! File names in folders and patterns.

use std::path::{Component, Path};

/// Characters that turn a path into a pattern.
pub(super) const WILDCARDS: [char; 3] = ['*', '?', '['];

/// Options for patterns, in which neither `*` nor `?` matches a separator.
pub(super) const PATTERNS: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// True if a folder's table excludes this name: a hidden name, or a name that begins with `_` and
/// is not a partition.
pub(super) fn is_left_out(name: &str) -> bool {
    name.starts_with('.') || (name.starts_with('_') && !name.contains('='))
}

/// True if `pattern` admits all names in `path` after the pattern's leading names without
/// wildcards. A name that [`is_left_out`] excludes is admitted only if one of the pattern's
/// remaining names begins with the same character.
pub(super) fn is_found(pattern: &Path, path: &Path) -> bool {
    let literal = names(pattern).take_while(|name| !name.contains(WILDCARDS)).count();
    let is_named =
        |name: &str| names(pattern).skip(literal).any(|named| named.as_bytes()[0] == name.as_bytes()[0]);
    names(path).skip(literal).all(|name| !is_left_out(name) || is_named(name))
}

/// Returns the names in a path that are valid text.
fn names(path: &Path) -> impl Iterator<Item = &str> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => name.to_str(),
        _ => None,
    })
}
