//! JSONL: one JSON object on each line.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::text::{TextReader, explain};
use super::{Encoding, MAX_LINE_BYTES, Row, RowSource, Selection};
use crate::{Location, StoreError};

/// Rows of a JSONL file. A string stands for its content. Any other value stands for its JSON text
/// without white space, in which numbers keep their notation.
pub struct JsonlRows<R> {
    reader: BufReader<TextReader<R>>,
    line: Vec<u8>,
    line_number: u64,
    path: PathBuf,
    bytes: u64,
    columns: Vec<String>,
    selection: Selection,
}

impl<R: Read> JsonlRows<R> {
    /// Creates the rows of `input`, which has `bytes` bytes; messages call it `path`.
    pub fn new(input: R, bytes: u64, path: &Path, encoding: Encoding, selection: &Selection) -> Self {
        Self {
            reader: BufReader::with_capacity(1 << 18, TextReader::new(input, encoding)),
            line: Vec::new(),
            line_number: 0,
            path: path.into(),
            bytes,
            columns: selection.columns(),
            selection: selection.clone(),
        }
    }

    fn read_line(&mut self) -> Result<bool, StoreError> {
        self.line.clear();
        let read = (&mut self.reader)
            .take(MAX_LINE_BYTES as u64 + 1)
            .read_until(b'\n', &mut self.line)
            .map_err(|error| explain(error, &self.path))?;
        self.line_number += 1;
        if read > MAX_LINE_BYTES {
            return Err(self.malformed("a line longer than 64 MiB; write one object a line"));
        }
        Ok(read > 0)
    }

    fn malformed(&self, detail: impl Into<String>) -> StoreError {
        StoreError::malformed(self.place(), detail)
    }
}

impl<R: Read> RowSource for JsonlRows<R> {
    fn next(&mut self, row: &mut Row) -> Result<bool, StoreError> {
        while self.read_line()? {
            if !self.line.iter().all(u8::is_ascii_whitespace)
                && self.element().fill(row, || self.place(), "the line; write one JSON object a line")?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn place(&self) -> Location {
        Location::Line(self.path.clone(), self.line_number)
    }

    fn progress(&self) -> (u64, u64) {
        (self.reader.get_ref().bytes_read(), self.bytes)
    }
}

impl<R: Read> JsonlRows<R> {
    fn element(&self) -> Element<'_> {
        Element { json: &self.line, columns: &self.columns, selection: &self.selection }
    }
}

/// A row as a JSON object.
pub(super) struct Element<'a> {
    pub json: &'a [u8],
    /// Columns of the selection.
    pub columns: &'a [String],
    pub selection: &'a Selection,
}

impl Element<'_> {
    /// Fills a row; `false` if the row is skipped. Messages name the place and `form`, which
    /// describes the expected input.
    pub(super) fn fill(
        &self,
        row: &mut Row,
        place: impl Fn() -> Location,
        form: &str,
    ) -> Result<bool, StoreError> {
        let malformed = |detail: String| StoreError::malformed(place(), detail);
        let explain = |error: serde_json::Error| {
            let text = error.to_string();
            // The parser sees a single element, so its own line number is meaningless.
            let cause = text.rsplit_once(" at line ").map_or(text.as_str(), |(cause, _)| cause);
            malformed(format!("{cause} at character {} of {form}", error.column()))
        };
        let mut parser = serde_json::Deserializer::from_slice(self.json);
        let values = Wanted(self.columns)
            .deserialize(&mut parser)
            .and_then(|values| parser.end().map(|()| values))
            .map_err(explain)?;
        let cells = row.reset(self.columns.len(), self.selection.key.is_some());
        for (i, (slot, value)) in cells.iter_mut().zip(values).enumerate() {
            match value.map(RawValue::get) {
                None => return Err(self.missing(&self.columns[i], place())),
                Some("null") => {
                    if !self.selection.takes_null(i, &place)? {
                        return Ok(false);
                    }
                }
                Some(text) => {
                    let is_key = i == 0 && self.selection.key.is_some();
                    let bytes = if is_key { key_cell(text) } else { cell(text) };
                    *slot = bytes.map_err(malformed)?;
                }
            }
        }
        Ok(true)
    }

    fn missing(&self, column: &str, place: Location) -> StoreError {
        let names = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(self.json);
        let columns = names.map(|map| map.keys().cloned().collect()).unwrap_or_default();
        StoreError::NoSuchField { place, column: column.into(), columns }
    }
}

/// Returns the bytes of a JSON value: a string's content, or another value's text without white
/// space.
///
/// # Errors
/// The fault: `null`, or a string that is not valid text.
pub(crate) fn cell(json: &str) -> Result<Vec<u8>, String> {
    if json == "null" {
        return Err("null is no value; give one (an empty one is a value)".into());
    }
    if json.starts_with('"') {
        let text = serde_json::from_str::<String>(json).map_err(|error| error.to_string())?;
        return Ok(text.into_bytes());
    }
    let mut bytes = Vec::new();
    push_compact(&mut bytes, json);
    Ok(bytes)
}

/// Returns the bytes of a JSON value that is a key. Users must be able to write the key again, so
/// it must be a string, an integer or a boolean.
///
/// # Errors
/// The fault: a list, an object, a number that is not an integer, or the fault from [`cell`].
pub(crate) fn key_cell(json: &str) -> Result<Vec<u8>, String> {
    let remedy = "make keys text, integers or truth values";
    if json.starts_with(['{', '[']) {
        return Err(format!("its key is a list or an object; {remedy}"));
    }
    if !json.starts_with('"') && json.contains(['.', 'e', 'E']) && !matches!(json, "true" | "false") {
        return Err(format!("its key is {json}, whose text nobody can be sure to repeat; {remedy}"));
    }
    cell(json)
}

/// Appends valid JSON without the white space between tokens.
fn push_compact(cell: &mut Vec<u8>, json: &str) {
    let (mut in_string, mut escaped) = (false, false);
    for byte in json.bytes() {
        if in_string || !byte.is_ascii_whitespace() {
            cell.push(byte);
        }
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ => {}
        }
    }
}

/// The raw values of the wanted members of an object.
struct Wanted<'c>(&'c [String]);

impl<'de> DeserializeSeed<'de> for Wanted<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Wanted<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = vec![None; self.0.len()];
        let mut seen = vec![false; self.0.len()];
        while let Some(name) = map.next_key_seed(Name(self.0))? {
            let Some(first) = name else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if std::mem::replace(&mut seen[first], true) {
                return Err(Error::custom(format!("two members are called {:?}", self.0[first])));
            }
            let value: &'de RawValue = map.next_value()?;
            // A column may be both key and value.
            for (slot, column) in values.iter_mut().zip(self.0) {
                if *column == self.0[first] {
                    *slot = Some(value);
                }
            }
        }
        Ok(values)
    }
}

/// Visitor of a member's name. It returns the position of the first wanted column with this name.
struct Name<'c>(&'c [String]);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|column| column == name))
    }
}
