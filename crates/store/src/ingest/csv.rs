//! Separated values with a header: RFC 4180, with any byte between fields; or without quotes, as TSV is written.
//!
//! The parser of the `csv` crate accepts anything; what it would guess at (an unclosed quote, a quote inside
//! an unquoted field, a blank line, a lone carriage return) is refused by a check in front of it.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::text::{Fault, TextReader, explain as explain_text};
use super::{MAX_LINE_BYTES, Quotes, Row, RowSource, Selection, Separated, positions};
use crate::{Location, StoreError};

/// Rows of a CSV file.
pub struct CsvRows<R> {
    reader: csv::Reader<StrictQuotes<TextReader<R>>>,
    record: csv::ByteRecord,
    path: PathBuf,
    bytes: u64,
    cells: Vec<usize>,
    keyed: bool,
}

impl<R: Read> CsvRows<R> {
    /// Rows of `input`, which has `bytes` bytes and is called `path` in messages.
    ///
    /// # Errors
    /// [`StoreError::NoSuchColumn`] that lists the header, [`StoreError::Malformed`], [`StoreError::Io`].
    pub fn new(
        input: R,
        bytes: u64,
        path: &Path,
        form: Separated,
        selection: &Selection,
    ) -> Result<Self, StoreError> {
        let text = TextReader::new(input, form.encoding);
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(form.delimiter)
            .quoting(form.quotes == Quotes::Rfc4180)
            .buffer_capacity(1 << 18)
            .from_reader(StrictQuotes::new(text, form));
        let header = reader.byte_headers().map_err(|error| explain(error, path))?;
        if header.is_empty() {
            let detail = "it is empty; the first line must name the columns";
            return Err(StoreError::malformed(Location::File(path.into()), detail));
        }
        let columns: Vec<_> = header.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        let place = Location::Line(path.into(), 1);
        let cells = positions(&place, &columns, &selection.columns())
            .map_err(|error| of_other_delimiter(&place, &columns).unwrap_or(error))?;
        let (record, keyed) = (csv::ByteRecord::new(), selection.key.is_some());
        Ok(Self { reader, record, path: path.into(), bytes, cells, keyed })
    }
}

impl<R: Read> RowSource for CsvRows<R> {
    fn next(&mut self, row: &mut Row) -> Result<bool, StoreError> {
        if !self.reader.read_byte_record(&mut self.record).map_err(|error| explain(error, &self.path))? {
            return Ok(false);
        }
        let cells = row.reset(self.cells.len(), self.keyed);
        for (cell, &position) in cells.iter_mut().zip(&self.cells) {
            cell.extend_from_slice(&self.record[position]);
        }
        Ok(true)
    }

    fn place(&self) -> Location {
        Location::Line(self.path.clone(), self.record.position().map_or(1, csv::Position::line))
    }

    fn progress(&self) -> (u64, u64) {
        (self.reader.get_ref().input.bytes_read(), self.bytes)
    }
}

/// The error for a header that is one column because something else stands between its fields, if that seems so.
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

fn explain(error: csv::Error, path: &Path) -> StoreError {
    let line = error.position().map(csv::Position::line);
    let place =
        |line: Option<u64>| line.map_or(Location::File(path.into()), |l| Location::Line(path.into(), l));
    match error.into_kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => StoreError::malformed(
            place(line),
            format!(
                "it has {len} fields where the header has {expected_len}; put fields that contain the delimiter or line breaks in quotes"
            ),
        ),
        csv::ErrorKind::Io(error) => explain_text(error, path),
        other => StoreError::malformed(place(line), csv_kind(&other)),
    }
}

fn csv_kind(kind: &csv::ErrorKind) -> String {
    format!("it is not CSV: {kind:?}")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    RecordStart,
    FieldStart,
    Unquoted,
    Quoted,
    /// After a quote inside a quoted field: its end, or the first of two quotes that stand for one.
    QuoteInQuoted,
    CarriageReturn,
}

/// Passes CSV on and checks its quotes and line ends.
struct StrictQuotes<R> {
    input: R,
    form: Separated,
    state: State,
    line: u64,
    record_bytes: usize,
    quote_opened: u64,
    blank: Option<u64>,
}

impl<R> StrictQuotes<R> {
    fn new(input: R, form: Separated) -> Self {
        let state = State::RecordStart;
        Self { input, form, state, line: 1, record_bytes: 0, quote_opened: 0, blank: None }
    }

    #[inline]
    fn step(&mut self, byte: u8) -> io::Result<()> {
        use State::{CarriageReturn, FieldStart, QuoteInQuoted, Quoted, RecordStart, Unquoted};
        self.record_bytes += 1;
        let is_quote = byte == b'"' && self.form.quotes == Quotes::Rfc4180;
        self.state = match (self.state, byte) {
            (Quoted, b'"') => QuoteInQuoted,
            (Quoted, _) => {
                self.line += u64::from(byte == b'\n');
                if self.record_bytes > MAX_LINE_BYTES {
                    let detail = "its quote is still open after 64 MiB; close it";
                    return Err(Fault::error(self.quote_opened, detail));
                }
                Quoted
            }
            (RecordStart | FieldStart, _) if is_quote => {
                self.check_blank()?;
                self.quote_opened = self.line;
                Quoted
            }
            (QuoteInQuoted, b'"') => Quoted,
            (Unquoted, _) if is_quote => {
                let detail = "a quote inside an unquoted field; put the field in quotes and double the quote";
                return Err(Fault::error(self.line, detail));
            }
            (RecordStart, b'\r' | b'\n') => {
                self.blank.get_or_insert(self.line);
                self.end_line(byte)
            }
            (CarriageReturn, b'\n') => self.end_line(byte),
            (CarriageReturn, _) => {
                let detail =
                    "a carriage return without a line feed; end lines with LF or CR LF, or quote the field";
                return Err(Fault::error(self.line, detail));
            }
            (_, b'\r' | b'\n') => self.end_line(byte),
            (QuoteInQuoted | RecordStart | FieldStart | Unquoted, byte) if byte == self.form.delimiter => {
                self.check_blank()?;
                FieldStart
            }
            (QuoteInQuoted, _) => {
                let detail = "text after a closing quote; double a quote that belongs to the field";
                return Err(Fault::error(self.line, detail));
            }
            (RecordStart | FieldStart | Unquoted, _) => {
                self.check_blank()?;
                Unquoted
            }
        };
        if self.record_bytes > MAX_LINE_BYTES {
            return Err(Fault::error(self.line, "a line longer than 64 MiB; is this a CSV file?"));
        }
        Ok(())
    }

    #[inline]
    fn end_line(&mut self, byte: u8) -> State {
        if byte == b'\r' {
            return State::CarriageReturn;
        }
        self.line += 1;
        self.record_bytes = 0;
        State::RecordStart
    }

    /// A blank line is no row to the parser, and a row of one empty field to RFC 4180: only at the end does
    /// it not matter.
    #[inline]
    fn check_blank(&self) -> io::Result<()> {
        match self.blank {
            None => Ok(()),
            Some(line) => {
                Err(Fault::error(line, "a blank line; remove it, or write \"\" for an empty value"))
            }
        }
    }
}

impl<R: Read> Read for StrictQuotes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        if read == 0 && !buffer.is_empty() && self.state == State::Quoted {
            return Err(Fault::error(self.quote_opened, "its quote is never closed; close it"));
        }
        buffer[..read].iter().try_for_each(|&byte| self.step(byte))?;
        Ok(read)
    }
}
