use std::fmt;
use std::path::{Path, PathBuf};

use spirea_protocols::ProtocolError;
use spirea_protocols::table::MAX_VALUE_BYTES;

use crate::changes::{Cursor, named};
use crate::expected_rows::ExpectedRows;

/// Place of a fault in an input file: `data.csv:1042`, or `data.parquet: row 17`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A line of a text file, from 1.
    Line(PathBuf, u64),
    /// A row, from 1, without a header.
    Row(PathBuf, u64),
    /// The file as a whole.
    File(PathBuf),
}

impl Location {
    /// Returns the line, if the place is in the text file of this name.
    fn line_in(&self, input: &Path) -> Option<u64> {
        match self {
            Self::Line(path, line) if path == input => Some(*line),
            _ => None,
        }
    }

    fn file(&self) -> &Path {
        let (Self::Line(path, _) | Self::Row(path, _) | Self::File(path)) = self;
        path
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Row(path, row) => write!(f, "{}: row {row}", path.display()),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Error of building a table or opening a snapshot. Messages name the file, the place in it and a
/// remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The system refused to read or write.
    #[error("{path}: cannot {action}: {source}{}", remedy(.source), path = .path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Attempted operation: `read`, `write`, `rename`.
        action: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// An option is invalid.
    #[error("{0}")]
    BadOption(String),
    /// The input does not have its format.
    #[error("{place}: {detail}")]
    Malformed {
        /// Place of the fault.
        place: Location,
        /// The cause and a remedy.
        detail: String,
    },
    /// A requested column does not exist.
    #[error("{place}: no column {column:?}; there are {}{}", list(.columns), one_by_one(.column, .columns).unwrap_or_default())]
    NoSuchColumn {
        /// Place where the columns are named.
        place: Location,
        /// The column.
        column: String,
        /// Existing columns.
        columns: Vec<String>,
    },
    /// A row of JSON lacks a requested field.
    #[error(
        "{place}: the row has no field {column:?}; it has {}{}", list(.columns),
        one_by_one(.column, .columns).unwrap_or_else(|| "; give every row the field, with null where there is nothing (see --nulls)".into())
    )]
    NoSuchField {
        /// The row.
        place: Location,
        /// The field.
        column: String,
        /// Fields of the row.
        columns: Vec<String>,
    },
    /// A value is missing.
    #[error(
        "{place}: column {column:?} is null; give it a value (an empty one is a value) or drop the row; --nulls empty or --nulls skip does so for all rows"
    )]
    Null {
        /// The row.
        place: Location,
        /// The column.
        column: String,
    },
    /// Cancelled through [`Progress`](crate::Progress).
    #[error("stopped before it was done; nothing was built or changed")]
    Stopped,
    /// The input of a table by position has no rows.
    #[error(
        "{}: it has no rows; a table that is looked up by position needs at least one, a table with --key does not", .path.display()
    )]
    Empty {
        /// The input.
        path: PathBuf,
    },
    /// The input does not have the expected number of rows.
    #[error(
        "{}: it has {rows} rows, and not {expected}, as --expect-rows says: it may be cut off", .path.display()
    )]
    UnexpectedRows {
        /// The input.
        path: PathBuf,
        /// Rows of the input.
        rows: u64,
        /// Expected number of rows.
        expected: ExpectedRows,
    },
    /// A base has less than half the values of the current version.
    #[error(
        "the new base has {new} values, less than half of the {former} of the current version: its input may have been cut off; if it is right, allow it (--allow-shrinking of spirea publish, ?shrinking=allow of a reload)"
    )]
    Shrunk {
        /// Values of the current version.
        former: u64,
        /// Values of the base.
        new: u64,
    },
    /// A value exceeds the table's limit.
    #[error(
        "{place}: {what} has {bytes} bytes, above the limit of {most}: drop it, split it over several keys, or build the table with a --max-value of up to {MAX_VALUE_BYTES}"
    )]
    Oversize {
        /// Place of the value.
        place: Location,
        /// Description of the value.
        what: String,
        /// Length of the value, in bytes.
        bytes: usize,
        /// Limit of the table, in bytes.
        most: usize,
    },
    /// Keys occur in several rows.
    #[error("{}: duplicate keys: {}{}; keep one row of each, or take one with --on-duplicate first or last", .path.display(), repeats(.path, .keys), more(*.others))]
    DuplicateKeys {
        /// The input.
        path: PathBuf,
        /// The first such keys, in the order of their second rows.
        keys: Vec<RepeatedKey>,
        /// Number of further such keys.
        others: u64,
    },
    /// The target of a build exists.
    #[error("{}: {detail}", .path.display())]
    Exists {
        /// The target.
        path: PathBuf,
        /// Reason why it was left unchanged, and a remedy.
        detail: String,
    },
    /// The path does not hold a complete snapshot.
    #[error("{}: {detail}", .path.display())]
    NotASnapshot {
        /// Path.
        path: PathBuf,
        /// Description of the actual content, and a remedy.
        detail: String,
    },
    /// A manifest cannot be trusted.
    #[error("{}: {detail}; copy the snapshot again or rebuild it", .path.display())]
    BadManifest {
        /// The manifest.
        path: PathBuf,
        /// Fault of the manifest.
        detail: String,
    },
    /// A file of a snapshot differs from the manifest.
    #[error("{}: {detail}; copy the snapshot again or rebuild it", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Fault of the file.
        detail: String,
    },
    /// A query of a new snapshot did not return the stored value; the snapshot was not published.
    #[error(
        "the new snapshot failed its self-test at record {record}: {detail}; it was not published. The memory or the disk of this machine may be faulty: build again, and report this if it repeats"
    )]
    SelfTest {
        /// The record.
        record: u64,
        /// The result of the query.
        detail: String,
    },
    /// The table cannot accept a change. Nothing was changed.
    #[error("{key}: {detail}; nothing was changed")]
    BadChange {
        /// The key or the row.
        key: String,
        /// Reason, and a remedy.
        detail: String,
    },
    /// A folder is not a repository.
    #[error(
        "{}: not a repository: it has no folder versions; make one with `spirea publish --repository DIR --base SNAPSHOT`", .path.display()
    )]
    NotARepository {
        /// The folder.
        path: PathBuf,
    },
    /// Another process, or another operation of this process, is using the repository.
    #[error("{}: {detail}", .path.display())]
    Busy {
        /// The repository.
        path: PathBuf,
        /// Description of the other operation, and a remedy.
        detail: String,
    },
    /// The repository does not have this version.
    #[error("{}: {detail}", .path.display())]
    NoSuchVersion {
        /// The repository.
        path: PathBuf,
        /// The versions that exist instead.
        detail: String,
    },
    /// The cursor that changes of a stream follow is not the cursor of the current version.
    #[error(
        "{}: the changes follow {}, and the current version has {}: resume the stream there", .path.display(), named(.after.as_ref()), named(.current.as_ref())
    )]
    OtherCursor {
        /// The repository.
        path: PathBuf,
        /// Cursor that the changes follow.
        after: Option<Cursor>,
        /// Cursor of the current version.
        current: Option<Cursor>,
    },
    /// A copy of another repository would exceed the allowed bytes on disk.
    #[error(
        "{}: a copy needs {needed} bytes beside the {kept} bytes that are kept, and {most} bytes are allowed (follow.disk, --follow-disk): allow more", .path.display()
    )]
    OverQuota {
        /// The repository.
        path: PathBuf,
        /// Bytes still to be received.
        needed: u64,
        /// Bytes of the repository's files.
        kept: u64,
        /// Maximum bytes of the repository's files.
        most: u64,
    },
    /// A record of a repository's versions cannot be trusted, or does not match the files beside
    /// it.
    #[error(
        "{}: {detail}; restore the repository from a copy, or remove this file to go back to the version before", .path.display()
    )]
    BadLog {
        /// The record.
        path: PathBuf,
        /// Fault of the record.
        detail: String,
    },
    /// Another repository sent something that cannot be copied.
    #[error("{0}")]
    BadCopy(String),
    /// The protocol or the backend refused or failed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The operating system gave no randomness.
    #[error("the operating system gave no randomness for the table: {0}")]
    NoEntropy(getrandom::Error),
}

impl StoreError {
    pub(crate) fn malformed(place: Location, detail: impl Into<String>) -> Self {
        Self::Malformed { place, detail: detail.into() }
    }
}

fn remedy(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; free space there or build on another file system: a build needs about twice the table's size"
        }
        ErrorKind::FileTooLarge => "; raise the file size limit or build on another file system",
        ErrorKind::PermissionDenied => "; check the permissions of the file and its folder",
        ErrorKind::ReadOnlyFilesystem => "; choose a folder on a writable file system",
        ErrorKind::NotFound => "; check the path",
        ErrorKind::IsADirectory => "; it is a folder: name a file",
        ErrorKind::NotADirectory => "; a folder of this path is a file: check the path",
        _ => "",
    }
}

/// Returns the remedy if a column's name is a list of columns.
fn one_by_one(column: &str, columns: &[String]) -> Option<String> {
    let parts: Vec<_> = column.split(',').map(str::trim).collect();
    let are_columns = parts.iter().all(|part| columns.iter().any(|column| column == part));
    (parts.len() > 1 && are_columns)
        .then(|| format!("; give columns of values one by one: --value {}", parts.join(" --value ")))
}

fn list(columns: &[String]) -> String {
    const SHOWN: usize = 50;
    let mut text =
        columns.iter().take(SHOWN).map(|column| format!("{column:?}")).collect::<Vec<_>>().join(", ");
    match columns.len() {
        0 => text.push_str("none"),
        count if count > SHOWN => text.push_str(&format!(" and {} more", count - SHOWN)),
        _ => {}
    }
    text
}

fn more(others: u64) -> String {
    match others {
        0 => String::new(),
        1 => "; and 1 more key".into(),
        _ => format!("; and {others} more keys"),
    }
}

/// A key that occurs in several rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepeatedKey {
    /// The key, shortened, in quotes and without control characters; empty while unknown.
    pub key: String,
    /// Numbers of the first rows with this key, from 1.
    pub rows: Vec<u64>,
    /// Places of these rows, as far as known.
    pub places: Vec<Location>,
}

impl RepeatedKey {
    /// Maximum number of keys of a table that are named, and of rows for each.
    pub(crate) const NAMED: usize = 20;

    /// Formats a key or a value for a message.
    pub(crate) fn quoted(key: &[u8]) -> String {
        const SHOWN: usize = 60;
        let text = String::from_utf8_lossy(key);
        match text.char_indices().nth(SHOWN) {
            None => format!("{text:?}"),
            Some((end, _)) => format!("{:?}…", &text[..end]),
        }
    }
}

fn repeats(input: &Path, keys: &[RepeatedKey]) -> String {
    let numbered = |what: &str, numbers: &[u64]| {
        format!("{what} {}", numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
    };
    let of_key = |RepeatedKey { key, rows, places }: &RepeatedKey| {
        let lines: Vec<u64> = places.iter().filter_map(|place| place.line_in(input)).collect();
        let is_list = places.len() == rows.len() && places.iter().any(|place| place.file() != input);
        let place = match lines.len() == rows.len() {
            true => numbered("lines", &lines),
            false if is_list => places.iter().map(Location::to_string).collect::<Vec<_>>().join(", "),
            false => numbered("rows", rows),
        };
        if key.is_empty() { place } else { format!("{key} in {place}") }
    };
    keys.iter().map(of_key).collect::<Vec<_>>().join("; ")
}

/// Adds the file to an I/O error.
pub(crate) trait IoContext<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, StoreError> {
        #[cfg(test)]
        let this = faults::pass(self);
        #[cfg(not(test))]
        let this = self;
        this.map_err(|source| StoreError::Io { path: path.into(), action, source })
    }
}

/// Fault injection for tests: after a number of file operations, all further ones fail, as if the
/// process had ended.
#[cfg(test)]
pub(crate) mod faults {
    use std::cell::Cell;

    thread_local! {
        static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Lets `operations` operations succeed and all later ones fail; `None` ends the injection.
    pub(crate) fn after(operations: Option<u64>) {
        LEFT.set(operations);
    }

    /// True if an operation has failed.
    pub(crate) fn tripped() -> bool {
        LEFT.get() == Some(0)
    }

    pub(super) fn pass<T>(result: std::io::Result<T>) -> std::io::Result<T> {
        match LEFT.get() {
            Some(0) => Err(std::io::Error::other("the test has pulled the plug")),
            Some(left) => {
                LEFT.set(Some(left - 1));
                result
            }
            None => result,
        }
    }
}
