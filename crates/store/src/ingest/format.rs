//! Formats of input files, and how one is chosen.

use std::path::Path;

use super::{Encoding, is_standard_input};
use crate::StoreError;

/// A format of input files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Separated values.
    Csv(Separated),
    /// One array of JSON objects or keys, or one object whose members are keys and values.
    Json {
        /// The encoding of its text.
        encoding: Encoding,
    },
    /// One JSON object a line.
    Jsonl {
        /// The encoding of its text.
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
        /// Bytes of a value.
        record_bytes: usize,
    },
}

/// A form of separated values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Separated {
    /// The byte between two fields.
    pub delimiter: u8,
    /// The meaning of quotes.
    pub quotes: Quotes,
    /// The encoding of its text.
    pub encoding: Encoding,
    /// The lines that are rows.
    pub lines: Lines,
}

/// The lines of separated values that are rows, and the part of a field that is its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Number of lines that stand before the header or the first row.
    pub skip_rows: u64,
    /// The names of the columns.
    pub header: Header,
    /// Prefix of lines that are left out.
    pub comment: Option<String>,
    /// The meaning of blank lines.
    pub blank: Blank,
    /// The meaning of white space around fields.
    pub space: Space,
}

impl Lines {
    /// A header, and then a row in each line.
    pub const PLAIN: Self =
        Self { skip_rows: 0, header: Header::Line, comment: None, blank: Blank::Refuse, space: Space::Keep };
}

/// The names of columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// The first line has them.
    #[default]
    Line,
    /// The file has none: they are these, or `column1`, `column2` and so on if the list is empty.
    Absent(Vec<String>),
}

/// The meaning of blank lines. With several columns a blank line is no row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Blank {
    /// With one column a blank line before a row is refused, since it may be an empty value.
    #[default]
    Refuse,
    /// Blank lines are left out.
    Skip,
}

/// The meaning of white space (spaces and tabs) around fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Space {
    /// It belongs to the fields.
    #[default]
    Keep,
    /// It is left out, unless it stands in quotes.
    Trim,
}

impl Separated {
    /// The form with this delimiter and plain lines, in UTF-8.
    pub const fn by(delimiter: u8, quotes: Quotes) -> Self {
        Self { delimiter, quotes, encoding: Encoding::Utf8, lines: Lines::PLAIN }
    }
}

/// The meaning of `"` in separated values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quotes {
    /// Fields may stand in quotes, as RFC 4180 has them.
    Rfc4180,
    /// A quote is a character like any other.
    Literal,
}

/// Hints of a file's format beside its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormatHints<'a> {
    /// The format's name: `csv`, `tsv`, `json`, `jsonl`, `arrow`, `parquet`, `npy` or `raw`. Without one the file's extension tells.
    pub name: Option<&'a str>,
    /// The byte between two fields, of `csv`, which it implies.
    pub delimiter: Option<u8>,
    /// Bytes of a value, of `raw`, which it implies.
    pub record_bytes: Option<usize>,
    /// The meaning of quotes in `tsv`, where they are literal by default.
    pub quotes: Option<Quotes>,
    /// The encoding of `csv`, `tsv`, `json` or `jsonl`; UTF-8 by default.
    pub encoding: Option<Encoding>,
    /// The lines of `csv` or `tsv` that are rows. Other lines than plain ones imply `csv` if the extension names no format.
    pub lines: Lines,
}

/// The extension of a name without the one that says how the file is compressed, in lower case.
fn extension(name: &Path) -> Option<String> {
    let of = |name: &Path| name.extension()?.to_str().map(str::to_lowercase);
    match of(name).as_deref() {
        Some("gz" | "zst" | "xz" | "zip") => of(&name.with_extension("")),
        extension => extension.map(str::to_owned),
    }
}

impl Format {
    /// Values with commas between them, in UTF-8: RFC 4180.
    pub const CSV: Self = Self::Csv(Separated::by(b',', Quotes::Rfc4180));
    /// Values with tabs between them, in UTF-8, without quotes.
    pub const TSV: Self = Self::Csv(Separated::by(b'\t', Quotes::Literal));
    /// Lines of JSON in UTF-8.
    pub const JSONL: Self = Self::Jsonl { encoding: Encoding::Utf8 };

    /// The format of the file `input`, of which these hints are given.
    ///
    /// # Errors
    /// [`StoreError::BadOption`] that lists the formats.
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

    /// The format with the hints of how its text is written.
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

    /// Tests that files of this format have named columns.
    pub fn has_columns(&self) -> bool {
        matches!(self, Self::Csv(_) | Self::Json { .. } | Self::Jsonl { .. } | Self::Arrow | Self::Parquet)
    }
}
