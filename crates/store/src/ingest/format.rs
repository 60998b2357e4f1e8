//! Formats of input files, and the choice of a format.

use std::path::Path;

use super::{Encoding, is_standard_input};
use crate::StoreError;

/// A format of input files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Separated values.
    Csv(Separated),
    /// A single array of JSON objects or keys, or a single object whose members are keys and
    /// values.
    Json {
        /// Encoding of the text.
        encoding: Encoding,
    },
    /// JSON objects, one on each line.
    Jsonl {
        /// Encoding of the text.
        encoding: Encoding,
    },
    /// A file or a stream of Arrow's IPC format; Feather version 2 is one of these files.
    Arrow,
    /// Apache Parquet.
    Parquet,
    /// A NumPy array of one or two dimensions in C order: row i is value i.
    Npy,
    /// Values of a fixed number of bytes, one after another.
    Raw {
        /// Length of a value, in bytes.
        record_bytes: usize,
    },
}

/// A form of separated values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Separated {
    /// Byte between two fields.
    pub delimiter: u8,
    /// Meaning of quotes.
    pub quotes: Quotes,
    /// Encoding of the text.
    pub encoding: Encoding,
    /// Lines that are rows.
    pub lines: Lines,
}

/// The lines of separated values that are rows, and the part of a field that is its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Number of lines before the header or the first row.
    pub skip_rows: u64,
    /// Names of the columns.
    pub header: Header,
    /// Prefix of lines that are skipped.
    pub comment: Option<String>,
    /// Meaning of blank lines.
    pub blank: Blank,
    /// Meaning of white space around fields.
    pub space: Space,
}

impl Lines {
    /// A header, then one row on each line.
    pub const PLAIN: Self =
        Self { skip_rows: 0, header: Header::Line, comment: None, blank: Blank::Refuse, space: Space::Keep };
}

/// The names of columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// The first line contains the names.
    #[default]
    Line,
    /// The file contains no names. The columns have these names, or `column1`, `column2` and so on
    /// if the list is empty.
    Absent(Vec<String>),
}

/// Meaning of blank lines. With several columns, a blank line is never a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Blank {
    /// With a single column, a blank line before a row is refused, since it may be an empty value.
    #[default]
    Refuse,
    /// Blank lines are skipped.
    Skip,
}

/// Meaning of white space (spaces and tabs) around fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Space {
    /// White space belongs to the fields.
    #[default]
    Keep,
    /// White space is removed, except inside quotes.
    Trim,
}

impl Separated {
    /// Returns the form with this delimiter and plain lines, in UTF-8.
    pub const fn by(delimiter: u8, quotes: Quotes) -> Self {
        Self { delimiter, quotes, encoding: Encoding::Utf8, lines: Lines::PLAIN }
    }
}

/// Meaning of `"` in separated values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quotes {
    /// Fields may be quoted as in RFC 4180.
    Rfc4180,
    /// A quote is a character like any other.
    Literal,
}

/// Hints about a file's format, in addition to the name of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormatHints<'a> {
    /// The format's name: `csv`, `tsv`, `json`, `jsonl`, `arrow`, `parquet`, `npy` or `raw`.
    /// Without a name, the file's extension determines the format.
    pub name: Option<&'a str>,
    /// Byte between two fields of `csv`; implies `csv`.
    pub delimiter: Option<u8>,
    /// Length of a value of `raw`, in bytes; implies `raw`.
    pub record_bytes: Option<usize>,
    /// Meaning of quotes in `tsv`, where they are literal by default.
    pub quotes: Option<Quotes>,
    /// Encoding of `csv`, `tsv`, `json` or `jsonl`; UTF-8 by default.
    pub encoding: Option<Encoding>,
    /// Lines of `csv` or `tsv` that are rows. If the extension names no format, a setting other
    /// than [`Lines::PLAIN`] implies `csv`.
    pub lines: Lines,
}

/// Returns a name's extension in lower case, ignoring an extension for compression.
fn extension(name: &Path) -> Option<String> {
    let of = |name: &Path| name.extension()?.to_str().map(str::to_lowercase);
    match of(name).as_deref() {
        Some("gz" | "zst" | "xz" | "zip") => of(&name.with_extension("")),
        extension => extension.map(str::to_owned),
    }
}

impl Format {
    /// Values separated by commas, in UTF-8: RFC 4180.
    pub const CSV: Self = Self::Csv(Separated::by(b',', Quotes::Rfc4180));
    /// Values separated by tabs, in UTF-8, without quotes.
    pub const TSV: Self = Self::Csv(Separated::by(b'\t', Quotes::Literal));
    /// Lines of JSON in UTF-8.
    pub const JSONL: Self = Self::Jsonl { encoding: Encoding::Utf8 };

    /// Chooses the format of the file `input` from these hints.
    ///
    /// # Errors
    /// [`StoreError::BadOption`] with a list of the formats.
    pub fn choose(hints: FormatHints<'_>, input: &Path) -> Result<Self, StoreError> {
        let bad = |detail: String| Err(StoreError::BadOption(detail));
        let extension = extension(input);
        let implied = || match (hints.record_bytes, hints.delimiter) {
            (Some(_), _) => Some("raw"),
            (None, Some(_)) => Some("csv"),
            (None, None) => extension.as_deref(),
        };
        let named = hints.name.or_else(implied).unwrap_or("");
        let format = match (named, hints.delimiter) {
            ("csv", None) => Self::CSV,
            ("tsv" | "tab", None) => Self::TSV,
            ("csv", Some(b'"' | b'\r' | b'\n')) => {
                return bad("a quote or the end of a line cannot be the delimiter".into());
            }
            ("csv", Some(delimiter)) => Self::Csv(Separated::by(delimiter, Quotes::Rfc4180)),
            ("json", None) => Self::Json { encoding: Encoding::Utf8 },
            ("jsonl" | "ndjson", None) => Self::JSONL,
            ("arrow" | "arrows" | "feather" | "ipc", None) => Self::Arrow,
            ("parquet" | "pq", None) => Self::Parquet,
            ("npy", None) => Self::Npy,
            ("raw", None) => match hints.record_bytes {
                Some(record_bytes) if record_bytes > 0 => Self::Raw { record_bytes },
                _ => return bad("the format raw needs --record-bytes of at least 1".into()),
            },
            (
                "tsv" | "tab" | "json" | "jsonl" | "ndjson" | "arrow" | "arrows" | "feather" | "ipc"
                | "parquet" | "pq" | "npy" | "raw",
                Some(_),
            ) => return bad("--delimiter belongs to the format csv".into()),
            (_, None) if hints.name.is_none() && hints.lines != Lines::PLAIN => Self::CSV,
            (other, _) => {
                let formats = "csv, tsv, json, jsonl, arrow, parquet, npy, or raw with --record-bytes N";
                return bad(match (hints.name, is_standard_input(input)) {
                    (Some(_), _) => format!("no format is called {other:?}; there are {formats}"),
                    (None, true) => format!("standard input has no extension; give --format: {formats}"),
                    (None, false) => format!(
                        "{}: its extension names no format; give --format: {formats}",
                        input.display()
                    ),
                });
            }
        };
        if hints.record_bytes.is_some() && !matches!(format, Self::Raw { .. }) {
            return bad("--record-bytes belongs to the format raw".into());
        }
        format.with_text(hints)
    }

    /// Returns the format with the hints about its text.
    fn with_text(self, hints: FormatHints<'_>) -> Result<Self, StoreError> {
        let bad = |detail: &str| Err(StoreError::BadOption(detail.into()));
        let encoding = hints.encoding.unwrap_or_default();
        if hints
            .lines
            .comment
            .as_ref()
            .is_some_and(|prefix| prefix.is_empty() || prefix.contains(['\r', '\n']))
        {
            return bad("--comment is what a line begins with, such as # or //");
        }
        if hints.lines != Lines::PLAIN && !matches!(self, Self::Csv(_)) {
            return bad(
                "--no-header, --columns, --comment, --skip-rows, --skip-blank and --trim belong to the formats csv and tsv",
            );
        }
        match (self, hints.quotes, hints.encoding) {
            (Self::Csv(form), quotes, _) => {
                let quotes = quotes.unwrap_or(form.quotes);
                Ok(Self::Csv(Separated { quotes, encoding, lines: hints.lines, ..form }))
            }
            (_, Some(_), _) => bad("--quote belongs to the format tsv"),
            (Self::Json { .. } | Self::Jsonl { .. }, None, Some(Encoding::Bytes)) => {
                bad("JSON is text: --bytes belongs to the formats csv and tsv")
            }
            (Self::Json { .. }, None, _) => Ok(Self::Json { encoding }),
            (Self::Jsonl { .. }, None, _) => Ok(Self::Jsonl { encoding }),
            (_, None, Some(_)) => bad("--encoding and --bytes belong to text: csv, tsv, json and jsonl"),
            (format, None, None) => Ok(format),
        }
    }

    /// True if files of this format have named columns.
    pub fn has_columns(&self) -> bool {
        matches!(self, Self::Csv(_) | Self::Json { .. } | Self::Jsonl { .. } | Self::Arrow | Self::Parquet)
    }
}
