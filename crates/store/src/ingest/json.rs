//! A single JSON value: an array of objects, an array of keys, or an object whose members are keys
//! and values. Elements are read one at a time, so memory holds a single element.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::jsonl::{Element, cell, key_cell};
use super::text::{Fault, TextReader, explain};
use super::{Column, Encoding, MAX_LINE_BYTES, Row, RowSource, Selection, positions};
use crate::{Location, StoreError};

/// Rows of a JSON file. Values become text as in JSONL.
pub struct JsonRows<R> {
    elements: Elements<R>,
    path: PathBuf,
    bytes: u64,
    shape: Shape,
    /// Selected columns: those of the caller, or the file's own.
    selection: Selection,
    columns: Vec<String>,
    /// True if the caller named no columns.
    unnamed: bool,
    /// True if the last element read has not been returned yet.
    first: bool,
}

/// The form of the elements.
enum Shape {
    /// Objects with a member for each column.
    Objects,
    /// Keys, or members with key and value. The list states the content of each cell: 0 for the
    /// key, 1 for the value.
    Columns(Vec<usize>),
}

const KEYS: [&str; 1] = ["key"];
const MEMBERS: [&str; 2] = ["key", "value"];

impl<R: Read> JsonRows<R> {
    /// Creates the rows of `input`, which has `bytes` bytes; messages call it `path`. If the
    /// selection has no columns, an array of keys becomes a set, and an object becomes a table of
    /// its members.
    ///
    /// # Errors
    /// [`StoreError::NoSuchColumn`] with a list of the columns, [`StoreError::BadOption`] if
    /// objects need a selection, [`StoreError::Malformed`], [`StoreError::Io`].
    pub fn new(
        input: R,
        bytes: u64,
        path: &Path,
        encoding: Encoding,
        selection: &Selection,
    ) -> Result<Self, StoreError> {
        let mut elements = Elements::new(TextReader::new(input, encoding));
        let first = elements.open().and_then(|()| elements.next()).map_err(|error| explain(error, path))?;
        let unnamed = selection.key.is_none() && selection.values.is_empty();
        let is_object = if first { elements.text.starts_with(b"{") } else { !unnamed };
        let names: &[&str] = match (elements.close, is_object) {
            (b'}', _) => &MEMBERS,
            (_, false) => &KEYS,
            (_, true) => &[],
        };
        let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
        let mut selection = selection.clone();
        let shape = if names.is_empty() {
            selection.check(true)?;
            Shape::Objects
        } else {
            if unnamed {
                selection.key = Some(names[0].clone());
                selection.values = names[1..].to_vec();
            }
            let place = Location::Line(path.into(), elements.start);
            Shape::Columns(positions(&place, &names, &selection.columns())?)
        };
        let columns = selection.columns();
        Ok(Self { elements, path: path.into(), bytes, shape, selection, columns, unnamed, first })
    }

    /// Fills a row from the element; `false` if the row is skipped.
    fn fill(&self, row: &mut Row) -> Result<bool, StoreError> {
        let json = &self.elements.text;
        let positions = match &self.shape {
            Shape::Objects => {
                let element = Element { json, columns: &self.columns, selection: &self.selection };
                return element.fill(row, || self.place(), "the element; write an array of JSON objects");
            }
            Shape::Columns(positions) => positions,
        };
        let malformed = |detail: String| StoreError::malformed(self.place(), detail);
        let damaged = |error: serde_json::Error| malformed(format!("it is not JSON: {error}"));
        let wrapped = [b"{", &json[..], b"}"].concat();
        let (key, texts);
        let parts: &[&str] = match self.elements.close {
            b'}' => {
                let members: BTreeMap<String, &RawValue> =
                    serde_json::from_slice(&wrapped).map_err(damaged)?;
                let Some((name, value)) = members.into_iter().next() else {
                    return Err(malformed("it is not JSON: a comma without a member".into()));
                };
                key = serde_json::to_string(&name).expect("text is JSON");
                texts = [key.as_str(), value.get()];
                &texts
            }
            _ => &[serde_json::from_slice::<&RawValue>(json).map_err(damaged)?.get()],
        };
        let cells = row.reset(positions.len(), self.selection.key.is_some());
        for (i, (slot, &position)) in cells.iter_mut().zip(positions).enumerate() {
            if parts[position] == "null" {
                if !self.selection.takes_null(i, || self.place())? {
                    return Ok(false);
                }
                continue;
            }
            let is_key = i == 0 && self.selection.key.is_some();
            *slot =
                if is_key { key_cell(parts[position]) } else { cell(parts[position]) }.map_err(malformed)?;
        }
        Ok(true)
    }
}

impl<R: Read> RowSource for JsonRows<R> {
    fn next(&mut self, row: &mut Row) -> Result<bool, StoreError> {
        while std::mem::take(&mut self.first)
            || self.elements.next().map_err(|error| explain(error, &self.path))?
        {
            if self.fill(row)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn place(&self) -> Location {
        Location::Line(self.path.clone(), self.elements.start)
    }

    fn progress(&self) -> (u64, u64) {
        (self.elements.reader.get_ref().bytes_read(), self.bytes)
    }

    fn columns(&self) -> Vec<Column> {
        let names: &[&str] = match (&self.shape, self.elements.close) {
            (Shape::Objects, _) => &[],
            (Shape::Columns(_), b'}') => &MEMBERS,
            (Shape::Columns(_), _) => &KEYS,
        };
        names.iter().map(|&name| Column { name: name.into(), kind: None }).collect()
    }

    fn own_columns(&self) -> Option<Selection> {
        self.unnamed.then(|| self.selection.clone())
    }
}

/// Raw elements of an array or an object.
struct Elements<R> {
    reader: BufReader<TextReader<R>>,
    /// Closing bracket of the array or the object.
    close: u8,
    /// True once an element has been read.
    begun: bool,
    /// True once the end has been read.
    ended: bool,
    /// The last element read.
    text: Vec<u8>,
    /// Line of the next byte, from 1.
    line: u64,
    /// First line of the element.
    start: u64,
}

impl<R: Read> Elements<R> {
    fn new(text: TextReader<R>) -> Self {
        let reader = BufReader::with_capacity(1 << 18, text);
        Self { reader, close: 0, begun: false, ended: false, text: Vec::new(), line: 1, start: 1 }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.reader.fill_buf()?.first().copied())
    }

    fn take(&mut self, byte: u8) {
        self.line += u64::from(byte == b'\n');
        self.reader.consume(1);
    }

    /// Skips white space; returns the byte that follows.
    fn skip_space(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.peek()? {
                Some(byte) if byte.is_ascii_whitespace() => self.take(byte),
                found => return Ok(found),
            }
        }
    }

    fn fault<T>(&self, detail: &str) -> io::Result<T> {
        Err(Fault::error(self.line, detail))
    }

    /// Reads the opening bracket of the array or the object.
    fn open(&mut self) -> io::Result<()> {
        self.close = match self.skip_space()? {
            Some(b'[') => b']',
            Some(b'{') => b'}',
            _ => return self.fault(
                "it is neither an array nor an object of JSON; for one object a line, give --format jsonl",
            ),
        };
        self.reader.consume(1);
        Ok(())
    }

    /// Reads the next element; `false` at the end.
    fn next(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let cut_off = "it is cut off: its array or its object is never closed";
        match self.skip_space()? {
            None => return self.fault(cut_off),
            Some(byte) if byte == self.close => {
                self.take(byte);
                self.ended = true;
                return match self.skip_space()? {
                    None => Ok(false),
                    Some(_) => self
                        .fault("text after the end of the JSON; for one object a line, give --format jsonl"),
                };
            }
            Some(b',') if self.begun => {
                self.take(b',');
                self.skip_space()?;
            }
            Some(_) if self.begun => {
                return self.fault("a comma is missing between two elements of the JSON");
            }
            Some(_) => {}
        }
        self.begun = true;
        self.start = self.line;
        self.text.clear();
        let (mut depth, mut in_string, mut escaped) = (0u32, false, false);
        loop {
            let Some(byte) = self.peek()? else { return self.fault(cut_off) };
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = in_string,
                b'"' => in_string = !in_string,
                _ if in_string => {}
                b',' | b']' | b'}' if depth == 0 => break,
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth -= 1,
                _ => {}
            }
            self.take(byte);
            self.text.push(byte);
            if self.text.len() > MAX_LINE_BYTES {
                return Err(Fault::error(self.start, "an element longer than 64 MiB; is this a table?"));
            }
        }
        let space = self.text.iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.text.truncate(self.text.len() - space);
        match self.text.is_empty() {
            true => self.fault("a comma without an element before or after it"),
            false => Ok(true),
        }
    }
}
