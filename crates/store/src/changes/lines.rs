//! Changes as lines of JSON, the form in which a server receives them.
//!
//! ```text
//! {"key": "alpha", "value": "first"}
//! {"key": "beta", "deleted": true}
//! ```
//!
//! Keys and values are written as in JSONL tables: a string stands for its content, and any other
//! value stands for its JSON text without white space. With several fields, a value is an object of
//! the fields; in a set it is `{}`. The key of a table by position is the row number. Bytes that
//! are not text need [`Changes::to_bytes`].
//!
//! A producer of a stream marks its position by cursors, on lines of their own or on the line of a
//! change. A cursor covers its own line and all lines before it. The first line may name the cursor
//! that the changes follow, or null for none:
//!
//! ```text
//! {"after": "block 16"}
//! {"key": "alpha", "value": "second"}
//! {"key": "gamma", "value": "third", "cursor": "block 17"}
//! ```

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use spirea_protocols::delta::Change;
use spirea_protocols::{Table, TableKind};

use super::read::Reader;
use super::{After, Changes, Cursor};
use crate::ingest::jsonl::{cell, key_cell};
use crate::ingest::text::{TextReader, explain};
use crate::ingest::{Encoding, MAX_LINE_BYTES};
use crate::{Location, StoreError};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow, default, deserialize_with = "given")]
    key: Option<&'a RawValue>,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
    #[serde(default)]
    deleted: Option<bool>,
    #[serde(default)]
    cursor: Option<Cursor>,
    #[serde(default, deserialize_with = "exactly")]
    after: After,
}

/// Reads a member that is present, even if it is null.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn exactly<'de, D: Deserializer<'de>>(deserializer: D) -> Result<After, D::Error> {
    Option::deserialize(deserializer).map(After::Exactly)
}

/// Content of a line.
pub(super) struct Entry {
    /// Key and new value of a change; the value is `None` for a deletion. The key of a table by
    /// position is the row number as text.
    pub change: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// Cursor that the change follows.
    pub after: After,
    /// Cursor after the change.
    pub cursor: Option<Cursor>,
}

impl Entry {
    /// Parses a line, without checking that the table can accept the change. Returns `None` for a
    /// blank line.
    ///
    /// # Errors
    /// [`StoreError::Malformed`] with the place.
    pub fn parse(table: &Table, line: &[u8], place: &Location) -> Result<Option<Self>, StoreError> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let malformed = |detail: String| StoreError::malformed(place.clone(), detail);
        let form = r#"write {"key": KEY, "value": VALUE} or {"key": KEY, "deleted": true}"#;
        let Line { key, value, deleted, cursor, after } = serde_json::from_slice(line)
            .map_err(|error| malformed(format!("{}; {form}", without_line(&error))))?;
        let cell_of = |key: &RawValue| key_cell(key.get()).map_err(malformed);
        let change = match (key, value, deleted) {
            (Some(key), Some(value), None | Some(false)) => {
                Some((cell_of(key)?, Some(value_of(table, value).map_err(malformed)?)))
            }
            (Some(key), None, Some(true)) => Some((cell_of(key)?, None)),
            (None, None, None) if cursor.is_some() || after != After::Any => None,
            _ => return Err(malformed(format!("it is neither a value nor a deletion; {form}"))),
        };
        Ok(Some(Self { change, after, cursor }))
    }
}

impl Changes {
    /// Reads changes of `table` from lines of JSON; messages call the input `name`.
    ///
    /// # Errors
    /// [`StoreError::Malformed`] with the line's number, [`StoreError::Oversize`],
    /// [`StoreError::Io`].
    pub fn read_lines(table: &Table, lines: impl Read, name: &Path) -> Result<Self, StoreError> {
        let mut lines = BufReader::new(TextReader::new(lines, Encoding::Utf8));
        let mut reader = Reader::new(table);
        let (mut line, mut is_first, mut open) = (Vec::new(), true, None);
        for number in 1.. {
            let place = Location::Line(name.into(), number);
            line.clear();
            let read = (&mut lines).take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut line);
            let read = read.map_err(|error| explain(error, name))?;
            if read == 0 {
                break;
            }
            if read > MAX_LINE_BYTES {
                return Err(StoreError::malformed(place, "a line longer than 64 MiB"));
            }
            let Some(Entry { change, after, cursor }) = Entry::parse(table, &line, &place)? else { continue };
            if after != After::Any {
                if !is_first {
                    return Err(StoreError::malformed(place, "\"after\" must be in the first line"));
                }
                reader.changes.after = after;
            }
            is_first = false;
            if let Some((key, value)) = change {
                reader.add_at(&key, value, place.clone())?;
                open.get_or_insert(place);
            }
            if let Some(cursor) = cursor {
                reader.changes.set_cursor(cursor);
                open = None;
            }
        }
        match open {
            Some(place) if reader.changes.cursor.is_some() => Err(uncovered(place)),
            _ => Ok(reader.changes),
        }
    }

    /// Returns the changes as lines of JSON, which [`Changes::read_lines`] converts back for the
    /// same table.
    ///
    /// # Errors
    /// [`StoreError::BadChange`] for a key or a value that is not text, which JSON cannot
    /// represent, or for fields other than the table's.
    pub fn to_lines(&self, table: &Table) -> Result<Vec<u8>, StoreError> {
        let mut lines = Vec::new();
        let mut push = |line: &Value| {
            serde_json::to_writer(&mut lines, line).expect("JSON is written into memory");
            lines.push(b'\n');
        };
        if let After::Exactly(after) = &self.after {
            push(&json!({ "after": after }));
        }
        for (key, change) in self.iter() {
            let refuse = |detail: &str| StoreError::BadChange {
                key: super::key_text(table.kind, key),
                detail: detail.into(),
            };
            let text = |bytes: &[u8]| {
                str::from_utf8(bytes).map(Value::from).map_err(|_| {
                    refuse("it has bytes that are no text, which lines of JSON cannot carry: publish into the repository's folder")
                })
            };
            let named = match (table.kind, key.try_into().map(u64::from_le_bytes)) {
                (TableKind::Index, Ok(row)) => row.into(),
                _ => text(key)?,
            };
            let line = match change {
                Change::Delete => json!({ "key": named, "deleted": true }),
                Change::Put(value) => {
                    let fields = table.split_fields(value).map_err(|error| refuse(&error.to_string()))?;
                    let cells = fields.iter().map(|field| text(field)).collect::<Result<Vec<_>, _>>()?;
                    let value = match <[Value; 1]>::try_from(cells) {
                        Ok([value]) => value,
                        Err(cells) => table.fields.iter().cloned().zip(cells).collect::<Map<_, _>>().into(),
                    };
                    json!({ "key": named, "value": value })
                }
            };
            push(&line);
        }
        if let Some(cursor) = &self.cursor {
            push(&json!({ "cursor": cursor }));
        }
        Ok(lines)
    }
}

/// Returns the error for changes that no cursor covers. The first of them is at `place`.
pub(super) fn uncovered(place: Location) -> StoreError {
    let detail = "no cursor follows the changes from here on, so they are not published: end with {\"cursor\": CURSOR}";
    StoreError::malformed(place, detail)
}

/// Converts a value from its JSON text.
fn value_of(table: &Table, value: &RawValue) -> Result<Vec<u8>, String> {
    if let [_] = table.fields.as_slice() {
        return cell(value.get());
    }
    let form = || match table.fields.is_empty() {
        true => "its value must be {}: the table is a set".to_owned(),
        false => format!("its value must be an object of {}", table.fields.join(", ")),
    };
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(value.get()).map_err(|_| form())?;
    if let Some(name) = fields.keys().find(|name| !table.fields.contains(name)) {
        if table.fields.is_empty() {
            return Err(form());
        }
        return Err(format!("the table has no field {name:?}; it has {}", table.fields.join(", ")));
    }
    let field = |name: &String| match fields.get(name) {
        Some(value) => cell(value.get()),
        None => Err(format!("its value lacks the field {name:?}")),
    };
    let cells = table.fields.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    Ok(table.join_fields(&cells.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

/// Returns the parser's message without the line number, which is always 1.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(cause, _)| cause).into()
}
