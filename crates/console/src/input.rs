//! Options for reading a table's files.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use spirea_store::StoreError;
use spirea_store::ingest::{Blank, Encoding, Files, FormatHints, Header, Lines, Nulls, Quotes, Space};

use crate::output::parse_length;

/// Description of a file besides its name.
#[derive(Args)]
pub struct InputOptions {
    /// Format, if it does not follow from the file's name: csv, tsv, json, jsonl, arrow, parquet,
    /// npy, raw.
    #[arg(help_heading = "Input", long)]
    format: Option<String>,
    /// Separator of a line's fields: one character, or tab. Implies csv.
    #[arg(help_heading = "Input", long, value_name = "CHARACTER", value_parser = parse_delimiter)]
    delimiter: Option<u8>,
    /// Encoding of a text file by its label on the web, such as windows-1252, shift_jis or utf-16;
    /// UTF-8 by default.
    #[arg(help_heading = "Input", long, value_name = "LABEL", conflicts_with = "bytes")]
    encoding: Option<Encoding>,
    /// Take keys and values of csv and tsv as bytes, which need not be text.
    #[arg(help_heading = "Input", long)]
    bytes: bool,
    /// Take quotes in tsv as csv does; by default they are characters like any other.
    #[arg(help_heading = "Input", long)]
    quote: bool,
    #[command(flatten)]
    lines: LineOptions,
    /// Bytes of a value in a fixed-width file.
    #[arg(help_heading = "Input", long, value_name = "SIZE", value_parser = parse_length)]
    pub record_bytes: Option<usize>,
    /// Rows of JSON, Arrow or Parquet in which a column is null: refuse the table, take the value
    /// as empty, or skip the row.
    #[arg(help_heading = "Input", long, default_value = "refuse", value_name = "refuse|empty|skip")]
    pub nulls: Nulls,
}

impl InputOptions {
    /// Finds the files of these inputs: paths, folders and patterns.
    ///
    /// # Errors
    /// Those of [`Files::find`].
    pub fn files(&self, inputs: &[PathBuf]) -> Result<Files, StoreError> {
        let name = self.format.as_deref();
        let (delimiter, record_bytes) = (self.delimiter, self.record_bytes);
        let quotes = self.quote.then_some(Quotes::Rfc4180);
        let encoding = if self.bytes { Some(Encoding::Bytes) } else { self.encoding };
        let lines = self.lines.lines();
        Files::find(inputs, &FormatHints { name, delimiter, record_bytes, quotes, encoding, lines })
    }
}

/// Opens a file for reading.
///
/// # Errors
/// If it cannot be opened or is a folder, with its name and a remedy.
pub fn open(path: &Path) -> Result<File, StoreError> {
    let failed = |source| StoreError::Io { path: path.into(), action: "open", source };
    let file = File::open(path).map_err(failed)?;
    match file.metadata().map_err(failed)?.is_dir() {
        true => Err(failed(ErrorKind::IsADirectory.into())),
        false => Ok(file),
    }
}

/// Options for the lines of csv and tsv that are rows.
#[derive(Args)]
struct LineOptions {
    /// The first line of csv or tsv is a row, not the names of the columns: they are column1,
    /// column2 and so on, or --columns.
    #[arg(help_heading = "Lines", long)]
    no_header: bool,
    /// Names of the columns of a file without a header, with commas between them.
    #[arg(help_heading = "Lines", long, value_name = "NAMES", value_delimiter = ',', requires = "no_header")]
    columns: Vec<String>,
    /// Leave out the lines of csv or tsv that begin with this, such as # or //.
    #[arg(help_heading = "Lines", long, value_name = "PREFIX")]
    comment: Option<String>,
    /// Leave out this number of lines before the header, or before the first row of a file without
    /// a header.
    #[arg(help_heading = "Lines", long, value_name = "LINES", default_value_t = 0)]
    skip_rows: u64,
    /// Leave out the blank lines of a file with one column, which may be empty values; with several
    /// columns, blank lines are always left out.
    #[arg(help_heading = "Lines", long)]
    skip_blank: bool,
    /// Leave out spaces and tabs around the fields of csv and tsv.
    #[arg(help_heading = "Lines", long)]
    trim: bool,
}

impl LineOptions {
    fn lines(&self) -> Lines {
        Lines {
            skip_rows: self.skip_rows,
            header: if self.no_header { Header::Absent(self.columns.clone()) } else { Header::Line },
            comment: self.comment.clone(),
            blank: if self.skip_blank { Blank::Skip } else { Blank::Refuse },
            space: if self.trim { Space::Trim } else { Space::Keep },
        }
    }
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("a delimiter is one character of ASCII, or tab".into()),
    }
}
