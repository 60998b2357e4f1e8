//! Separated values: RFC 4180 with any byte as the delimiter, or the form of TSV, which has no
//! quotes.
//!
//! A file with ambiguous rows is refused: an unclosed quote, a quote inside an unquoted field, a
//! lone carriage return, a blank line in a file of one column.

use std::io::{self, BufRead as _, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use memchr::{memchr, memchr_iter, memchr2};

use super::text::{Fault, TextReader, explain};
use super::{
    Blank, Column, Header, MAX_LINE_BYTES, Quotes, Row, RowSource, Selection, Separated, Space, positions,
};
use crate::{Location, StoreError};

/// Rows of a file of separated values.
pub struct CsvRows<R> {
    records: Records<R>,
    path: PathBuf,
    bytes: u64,
    /// Description, for messages, of the source from which the number of columns is known.
    named: &'static str,
    columns: Vec<String>,
    cells: Vec<usize>,
    keyed: bool,
    /// True if the last record read is the first row and has not been returned yet.
    first: bool,
}

impl<R: Read> CsvRows<R> {
    /// Creates the rows of `input`, which has `bytes` bytes; messages call it `path`.
    ///
    /// # Errors
    /// [`StoreError::NoSuchColumn`] with a list of the columns, [`StoreError::Malformed`],
    /// [`StoreError::Io`].
    pub fn new(
        input: R,
        bytes: u64,
        path: &Path,
        form: Separated,
        selection: &Selection,
    ) -> Result<Self, StoreError> {
        let mut records = Records::new(input, form);
        let found = records.next().map_err(|error| explain(error, path))?;
        let empty = |detail| Err(StoreError::malformed(Location::File(path.into()), detail));
        let (columns, named) = match (&records.form.lines.header, found) {
            (Header::Line, true) => (records.texts(), "the header has"),
            (Header::Line, false) => return empty("it is empty; the first line must name the columns"),
            (Header::Absent(names), true) if names.is_empty() => {
                ((1..=records.ends.len()).map(|i| format!("column{i}")).collect(), "the first row has")
            }
            (Header::Absent(names), false) if names.is_empty() => {
                return empty("it is empty; name its columns with --columns");
            }
            (Header::Absent(names), _) => (names.clone(), "--columns names"),
        };
        let place = Location::Line(path.into(), records.place());
        let cells = positions(&place, &columns, &selection.columns())
            .map_err(|error| of_other_delimiter(&place, &columns).unwrap_or(error))?;
        let first = found && records.form.lines.header != Header::Line;
        let (path, keyed) = (path.into(), selection.key.is_some());
        let rows = Self { records, path, bytes, named, columns, cells, keyed, first };
        if found {
            rows.check()?;
        }
        Ok(rows)
    }

    /// Refuses the last record if its number of fields is wrong, or if it follows a blank line that
    /// may be a row.
    fn check(&self) -> Result<(), StoreError> {
        let refuse =
            |line, detail| Err(StoreError::malformed(Location::Line(self.path.clone(), line), detail));
        let fields = self.records.ends.len();
        if let (1, Blank::Refuse, Some(line)) =
            (self.columns.len(), self.records.form.lines.blank, self.records.blank)
        {
            let detail = "a blank line, which may be an empty value; leave blank lines out with --skip-blank, or write \"\" for an empty value";
            return refuse(line, detail.into());
        }
        if fields != self.columns.len() {
            let detail = format!(
                "it has {fields} fields where {} {}; put fields that contain the delimiter or line breaks in quotes",
                self.named,
                self.columns.len()
            );
            return refuse(self.records.place(), detail);
        }
        Ok(())
    }
}

impl<R: Read> RowSource for CsvRows<R> {
    fn next(&mut self, row: &mut Row) -> Result<bool, StoreError> {
        if !std::mem::take(&mut self.first) {
            if !self.records.next().map_err(|error| explain(error, &self.path))? {
                return Ok(false);
            }
            self.check()?;
        }
        let cells = row.reset(self.cells.len(), self.keyed);
        for (cell, &position) in cells.iter_mut().zip(&self.cells) {
            cell.extend_from_slice(self.records.field(position));
        }
        Ok(true)
    }

    fn place(&self) -> Location {
        Location::Line(self.path.clone(), self.records.place())
    }

    fn progress(&self) -> (u64, u64) {
        (self.records.reader.get_ref().bytes_read(), self.bytes)
    }

    fn columns(&self) -> Vec<Column> {
        self.columns.iter().map(|name| Column { name: name.clone(), kind: None }).collect()
    }
}

/// Returns the error for a header with a single column that seems to contain another delimiter.
fn of_other_delimiter(place: &Location, columns: &[String]) -> Option<StoreError> {
    let [column] = columns else { return None };
    let (name, _) = [("';'", ';'), ("tab", '\t'), ("'|'", '|'), ("','", ',')]
        .into_iter()
        .find(|&(_, delimiter)| column.contains(delimiter))?;
    let detail = format!(
        "the header is one column, {column:?}; if its fields are separated otherwise, give --delimiter {name}"
    );
    Some(StoreError::malformed(place.clone(), detail))
}

/// Reader of records of separated values.
struct Records<R> {
    reader: BufReader<TextReader<R>>,
    form: Separated,
    /// The last line read, including its end.
    line: Vec<u8>,
    /// Number of the last line read, from 1.
    number: u64,
    /// Number of the record's first line.
    start: u64,
    /// Number of the first blank line before the record.
    blank: Option<u64>,
    /// Fields of the record, one after another.
    text: Vec<u8>,
    /// End of each field in `text`, as an offset in bytes.
    ends: Vec<usize>,
}

impl<R: Read> Records<R> {
    fn new(input: R, form: Separated) -> Self {
        let reader = BufReader::with_capacity(1 << 18, TextReader::new(input, form.encoding));
        let (line, text, ends) = Default::default();
        Self { reader, form, line, number: 0, start: 0, blank: None, text, ends }
    }

    /// Returns the number of the record's first line, from 1.
    fn place(&self) -> u64 {
        self.start.max(1)
    }

    fn field(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.text[start..self.ends[i]]
    }

    fn texts(&self) -> Vec<String> {
        (0..self.ends.len()).map(|i| String::from_utf8_lossy(self.field(i)).into_owned()).collect()
    }

    /// Reads the next record; `false` at the end.
    fn next(&mut self) -> io::Result<bool> {
        self.blank = None;
        self.text.clear();
        self.ends.clear();
        while self.read_line()? {
            if self.number <= self.form.lines.skip_rows {
                continue;
            }
            let content = self.trimmed(0..self.content());
            let content = &self.line[content];
            if content.is_empty() {
                self.blank.get_or_insert(self.number);
            } else if !self
                .form
                .lines
                .comment
                .as_ref()
                .is_some_and(|mark| content.starts_with(mark.as_bytes()))
            {
                self.start = self.number;
                return self.split().map(|()| true);
            }
        }
        Ok(false)
    }

    /// Reads a line; `false` at the end.
    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let read = (&mut self.reader).take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', &mut self.line)?;
        self.number += u64::from(read > 0);
        if read > MAX_LINE_BYTES {
            return Err(self.fault("a line longer than 64 MiB; is this a CSV file?"));
        }
        Ok(read > 0)
    }

    /// Returns the length of the line without its end (LF or CR LF), in bytes.
    fn content(&self) -> usize {
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        line.strip_suffix(b"\r").unwrap_or(line).len()
    }

    /// Trims white space from a range of the line, if the form requires it. A delimiter does not
    /// count as white space.
    fn trimmed(&self, range: Range<usize>) -> Range<usize> {
        if self.form.lines.space == Space::Keep {
            return range;
        }
        let is_space = |byte: &&u8| byte.is_ascii_whitespace() && **byte != self.form.delimiter;
        let start = range.start + self.line[range.clone()].iter().take_while(is_space).count();
        start..range.end - self.line[start..range.end].iter().rev().take_while(is_space).count()
    }

    fn fault(&self, detail: &str) -> io::Error {
        Fault::error(self.number, detail)
    }

    /// Splits the line into fields, and reads further lines if a quoted field continues there.
    fn split(&mut self) -> io::Result<()> {
        let line = &self.line[..self.content()];
        // Most lines have neither quotes nor carriage returns: one search finds all their fields.
        if self.form.lines.space == Space::Keep && memchr2(b'"', b'\r', line).is_none() {
            let mut at = 0;
            for end in memchr_iter(self.form.delimiter, line).chain([line.len()]) {
                self.text.extend_from_slice(&line[at..end]);
                self.ends.push(self.text.len());
                at = end + 1;
            }
            return Ok(());
        }
        let mut rest = Some(0);
        while let Some(at) = rest {
            let end = self.content();
            let opened = self.trimmed(at..end).start;
            let is_quoted = self.form.quotes == Quotes::Rfc4180 && opened < end && self.line[opened] == b'"';
            rest = if is_quoted { self.quoted(opened + 1)? } else { self.unquoted(at)? };
            self.ends.push(self.text.len());
        }
        Ok(())
    }

    /// Reads the unquoted field at `at`; returns the start of the next field.
    fn unquoted(&mut self, at: usize) -> io::Result<Option<usize>> {
        let end = self.content();
        let length = memchr(self.form.delimiter, &self.line[at..end]);
        let field = self.trimmed(at..length.map_or(end, |length| at + length));
        if self.line[field.clone()].contains(&b'\r') {
            let detail =
                "a carriage return without a line feed; end lines with LF or CR LF, or quote the field";
            return Err(self.fault(detail));
        }
        if self.form.quotes == Quotes::Rfc4180 && self.line[field.clone()].contains(&b'"') {
            let detail = "a quote inside an unquoted field; put the field in quotes and double the quote";
            return Err(self.fault(detail));
        }
        self.text.extend_from_slice(&self.line[field]);
        Ok(length.map(|length| at + length + 1))
    }

    /// Reads the quoted field whose text begins at `at`; returns the start of the next field.
    fn quoted(&mut self, mut at: usize) -> io::Result<Option<usize>> {
        let opened = self.number;
        loop {
            let Some(length) = memchr(b'"', &self.line[at..]) else {
                self.text.extend_from_slice(&self.line[at..]);
                if self.text.len() > MAX_LINE_BYTES {
                    return Err(Fault::error(opened, "its quote is still open after 64 MiB; close it"));
                }
                if !self.read_line()? {
                    return Err(Fault::error(opened, "its quote is never closed; close it"));
                }
                at = 0;
                continue;
            };
            let quote = at + length;
            self.text.extend_from_slice(&self.line[at..quote]);
            at = quote + 1;
            if self.line.get(at) == Some(&b'"') {
                self.text.push(b'"');
                at += 1;
                continue;
            }
            let end = self.content();
            at = self.trimmed(at..end).start;
            return match self.line.get(at) {
                _ if at == end => Ok(None),
                Some(&byte) if byte == self.form.delimiter => Ok(Some(at + 1)),
                Some(b'\r') => Err(self.fault(
                    "a carriage return without a line feed; end lines with LF or CR LF, or quote the field",
                )),
                _ => Err(self.fault("text after a closing quote; double a quote that belongs to the field")),
            };
        }
    }
}
