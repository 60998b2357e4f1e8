//! How a table's file is read.

use std::path::Path;

use clap::Args;
use spirea_store::StoreError;
use spirea_store::ingest::{Format, FormatHints, Nulls};

use crate::output::parse_length;

/// What is said of a file beside its name.
#[derive(Args)]
pub struct InputOptions {
    /// Format, if the file's name does not tell: csv, tsv, jsonl, parquet, npy, raw.
    #[arg(long)]
    format: Option<String>,
    /// What stands between the fields of a line: one character, or tab. Implies csv.
    #[arg(long, value_name = "CHARACTER", value_parser = parse_delimiter)]
    delimiter: Option<u8>,
    /// Bytes of a value in a fixed-width file.
    #[arg(long, value_name = "SIZE", value_parser = parse_length)]
    pub record_bytes: Option<usize>,
    /// Rows of JSON or Parquet in which a column is null: refuse the table, take the value as empty, or skip the row.
    #[arg(long, default_value = "refuse", value_name = "refuse|empty|skip")]
    pub nulls: Nulls,
}

impl InputOptions {
    /// The format of the file at `path`.
    pub fn format(&self, path: &Path) -> Result<Format, StoreError> {
        let name = self.format.as_deref();
        let (delimiter, record_bytes) = (self.delimiter, self.record_bytes);
        Format::choose(FormatHints { name, delimiter, record_bytes }, path)
    }
}

fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("a delimiter is one character of ASCII, or tab".into()),
    }
}
