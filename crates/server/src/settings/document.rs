//! A TOML file whose errors name the file, the line and the key.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::{DeTable, DeValue};

/// Error of a setting: its place, the problem, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{cause}", before(.place, .cause))]
pub struct SettingError {
    /// File, line and key, or the environment variable.
    pub place: String,
    /// Problem and remedy.
    pub cause: String,
}

/// Returns the prefix for a cause: the place, or nothing if the cause already begins with the
/// file's name.
fn before(place: &str, cause: &str) -> String {
    match cause.strip_prefix(place) {
        Some(rest) if rest.starts_with([':', '/']) => String::new(),
        _ => format!("{place}: "),
    }
}

/// A key with its position in the text.
struct Entry {
    /// Full key: parts are joined by dots, and tables of an array have their number.
    key: String,
    /// Byte range of the key's name; `value` is the byte range of the key's value.
    name: Range<usize>,
    value: Range<usize>,
}

/// Text of a TOML file, with the position of each key.
pub(crate) struct Document<'a> {
    path: PathBuf,
    text: &'a str,
    entries: Vec<Entry>,
}

impl<'a> Document<'a> {
    /// Parses a file's text. A text that is not TOML has no keys; [`Document::read`] reports the
    /// problem.
    pub fn new(path: &Path, text: &'a str) -> Self {
        let mut entries = Vec::new();
        if let Ok(table) = DeTable::parse(text) {
            collect(table.get_ref(), "", &mut entries);
        }
        Self { path: path.into(), text, entries }
    }

    /// Deserializes the document.
    pub fn read<T: Deserialize<'a>>(&self) -> Result<T, SettingError> {
        let error = match toml::de::Deserializer::parse(self.text).and_then(T::deserialize) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let span = error.span().unwrap_or_default();
        let within = |outer: &Range<usize>| outer.start <= span.start && span.end <= outer.end;
        // The innermost key that contains the error's span.
        let key = self
            .entries
            .iter()
            .filter(|entry| within(&entry.name) || within(&entry.value))
            .max_by_key(|entry| (within(&entry.name), entry.key.len()))
            .map_or("", |entry| &entry.key);
        let path = self.path.display();
        let line = self.line(span.start);
        let place = if key.is_empty() { format!("{path}:{line}") } else { format!("{path}:{line}: {key}") };
        Err(SettingError { place, cause: explain(error.message()) })
    }

    /// Returns the file and line of a key, if the key is there.
    pub fn place(&self, key: &str) -> Option<String> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(format!("{}:{}: {key}", self.path.display(), self.line(entry.name.start)))
    }

    /// Returns a message about a key, with the key's place.
    pub fn locate(&self, key: &str, cause: &str) -> String {
        let place = self.place(key).unwrap_or_else(|| format!("{}: {key}", self.path.display()));
        SettingError { place, cause: cause.into() }.to_string()
    }

    /// Returns all keys, with dots between their parts.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
    }
}

fn collect(table: &DeTable<'_>, above: &str, entries: &mut Vec<Entry>) {
    for (name, value) in table {
        let key = format!("{above}{}", name.get_ref());
        entries.push(Entry { key: key.clone(), name: name.span(), value: value.span() });
        match value.get_ref() {
            DeValue::Table(inner) => collect(inner, &format!("{key}."), entries),
            DeValue::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    let key = format!("{key}.{i}");
                    if let DeValue::Table(inner) = item.get_ref() {
                        collect(inner, &format!("{key}."), entries);
                    }
                    entries.push(Entry { key, name: item.span(), value: item.span() });
                }
            }
            _ => (),
        }
    }
}

/// Rewrites the parser's message; for an unknown key, suggests the nearest known key.
pub(super) fn explain(message: &str) -> String {
    if let Some((unknown, known)) = unknown_field(message) {
        return match nearest(unknown, known.iter().copied()) {
            Some(near) => format!("unknown key; did you mean {near}?"),
            None => format!("unknown key; the keys here are {}", known.join(", ")),
        };
    }
    if message.starts_with("missing field") {
        return format!("the key {} is missing; add it", message.split('`').nth(1).unwrap_or_default());
    }
    message.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// Returns the unknown key that a message of the parser is about, and the known keys.
pub(super) fn unknown_field(message: &str) -> Option<(&str, Vec<&str>)> {
    let mut quoted = message.strip_prefix("unknown field")?.split('`').skip(1).step_by(2);
    Some((quoted.next()?, quoted.collect()))
}

/// Returns the known name most similar to `name`, if any is similar enough.
pub(super) fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    const ALIKE: f64 = 0.7;
    let likeness = |known: &'n str| (known, strsim::normalized_damerau_levenshtein(name, known));
    let best = known.into_iter().map(likeness).max_by(|a, b| a.1.total_cmp(&b.1));
    best.filter(|(_, likeness)| *likeness >= ALIKE).map(|(known, _)| known)
}
