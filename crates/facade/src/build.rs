//! Building snapshots of tables.
//!
//! A snapshot is a folder that a server serves. The program `spirea build` has further options.
//!
//! # Examples
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let (input, out) = (folder.path().join("domains.csv"), folder.path().join("domains"));
//! use spirea::build::Builder;
//!
//! std::fs::write(&input, "domain,verdict\nexample.org,fine\nexample.net,bad\n")?;
//! let snapshot = Builder::from_file(&input).key("domain").value("verdict").build(&out)?;
//! assert_eq!(snapshot.manifest().name, "domains");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use spirea_cpu::CpuBackend;
use spirea_protocols::ProtocolError;
use spirea_protocols::choice::{Choice, SecurityLevel};
use spirea_protocols::planner::{Needs, Rates};
/// # Examples
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let out = folder.path().join("colours");
/// use spirea::build::{Builder, Snapshot};
///
/// Builder::from_rows(["colour"], [["red"], ["green"]]).build(&out)?;
/// let snapshot = Snapshot::open(&out)?;
/// assert_eq!(snapshot.manifest().table.entries, 2);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[doc(inline)]
pub use spirea_store::Snapshot;
/// # Examples
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// use spirea::build::{BuildError, Builder};
///
/// let rows = [["example.org", "fine"], ["example.org", "bad"]];
/// let table = Builder::from_rows(["domain", "verdict"], rows).key("domain");
/// let error = table.build(folder.path().join("domains")).unwrap_err();
/// assert!(matches!(error, BuildError::DuplicateKeys { .. }), "{error}");
/// # Ok::<_, std::io::Error>(())
/// ```
#[doc(inline)]
pub use spirea_store::StoreError as BuildError;
use spirea_store::ingest::{Files, FormatHints, RowList, Selection};
use spirea_store::{BuildOptions, Chooser, Input, Overwrite, Protocol, Silent};

/// Source of a table.
#[derive(Clone, Debug)]
enum Source {
    File(PathBuf),
    /// Names of the columns, and the rows.
    Rows(Vec<String>, Vec<Vec<Vec<u8>>>),
}

/// Builder of a snapshot.
///
/// # Examples
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let out = folder.path().join("domains");
/// use spirea::build::Builder;
///
/// let rows = [["example.org", "fine"], ["example.net", "bad"]];
/// let snapshot = Builder::from_rows(["domain", "verdict"], rows).key("domain").build(&out)?;
/// assert_eq!(snapshot.folder(), out);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    source: Source,
    key: Option<String>,
    values: Vec<String>,
    name: Option<String>,
    protocol: Option<String>,
    overwrite: Overwrite,
}

impl Builder {
    /// Starts a table of rows in memory, with a cell for each of the `columns`. Cells are bytes. By
    /// default a record has all columns except that of the keys.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let out = folder.path().join("colours");
    /// let table = spirea::build::Builder::from_rows(["colour", "code"], [["red", "f00"], ["green", "0f0"]]);
    /// assert_eq!(table.build(out)?.manifest().table.fields, ["colour", "code"]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_rows<C, R, B>(columns: C, rows: R) -> Self
    where
        C: IntoIterator<Item: Into<String>>,
        R: IntoIterator<Item: IntoIterator<Item = B>>,
        B: Into<Vec<u8>>,
    {
        let columns = columns.into_iter().map(Into::into).collect();
        let cells = |row: R::Item| row.into_iter().map(Into::into).collect();
        Self::of(Source::Rows(columns, rows.into_iter().map(cells).collect()))
    }

    /// Starts a table of a file: CSV, TSV, JSON, JSONL, npy, or Parquet and Arrow with the feature
    /// `parquet`. Its extension gives the format. Name the columns with [`Builder::key`] and
    /// [`Builder::value`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let (input, out) = (folder.path().join("colours.csv"), folder.path().join("colours"));
    /// std::fs::write(&input, "colour\nred\ngreen\n")?;
    /// let snapshot = spirea::build::Builder::from_file(&input).value("colour").build(&out)?;
    /// assert_eq!(snapshot.manifest().table.entries, 2);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_file(path: impl Into<PathBuf>) -> Self {
        Self::of(Source::File(path.into()))
    }

    fn of(source: Source) -> Self {
        let (key, values, name, protocol) = (None, Vec::new(), None, None);
        Self { source, key, values, name, protocol, overwrite: Overwrite::Refuse }
    }

    /// Sets the column of the keys. Without it, clients look the table up by index.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let out = folder.path().join("colours");
    /// // A table of keys alone is a set.
    /// let set = spirea::build::Builder::from_rows(["colour"], [["red"], ["green"]]).key("colour");
    /// assert!(set.build(out)?.manifest().table.fields.is_empty());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn key(mut self, column: impl Into<String>) -> Self {
        self.key = Some(column.into());
        self
    }

    /// Adds a column of values, which becomes a field of the records.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let out = folder.path().join("colours");
    /// let table = spirea::build::Builder::from_rows(["colour", "code"], [["red", "f00"], ["green", "0f0"]]);
    /// assert_eq!(table.value("code").build(out)?.manifest().table.fields, ["code"]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn value(mut self, column: impl Into<String>) -> Self {
        self.values.push(column.into());
        self
    }

    /// Sets the database's name, by which clients connect. The default is the folder's name.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let out = folder.path().join("monday");
    /// let table = spirea::build::Builder::from_rows(["colour"], [["red"], ["green"]]).name("colours");
    /// assert_eq!(table.build(out)?.manifest().name, "colours");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the protocol: `simple`, `double`, `exppack-simple`, `exppack-double`, `double-pack`,
    /// `hybrid` or `onion` with one server, `dpf-xor` or `dpf-sum` with two.
    ///
    /// By default a replaced snapshot keeps its protocol. Any other table has the protocol of one
    /// server that makes look-ups fastest. If the size of the table does not settle the choice, the
    /// build measures this machine for some seconds.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let out = folder.path().join("colours");
    /// let table = spirea::build::Builder::from_rows(["colour"], [["red"], ["green"]]).protocol("dpf-xor");
    /// assert_eq!(table.build(out)?.manifest().protocol.parties, 2);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn protocol(mut self, name: impl Into<String>) -> Self {
        self.protocol = Some(name.into());
        self
    }

    /// Replaces a snapshot in the target folder once the new one is complete. By default a build
    /// into an existing folder fails.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let out = folder.path().join("colours");
    /// let table = spirea::build::Builder::from_rows(["colour"], [["red"], ["green"]]);
    /// table.clone().build(&out)?;
    /// assert!(table.clone().build(&out).is_err());
    /// table.overwrite().build(&out)?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn overwrite(mut self) -> Self {
        self.overwrite = Overwrite::Replace;
        self
    }

    /// Builds the snapshot in the folder `out`, on all cores of this machine, and tests it with
    /// real queries. After a failure the folder is unchanged.
    ///
    /// # Errors
    /// [`BuildError`] for rows, columns or options that cannot be used, each with its place, and if
    /// the system refuses to read or write.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let out = folder.path().join("colours");
    /// let snapshot = spirea::build::Builder::from_rows(["colour"], [["red"], ["green"]]).build(&out)?;
    /// assert!(out.join("manifest.json").exists());
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(self, out: impl AsRef<Path>) -> Result<Snapshot, BuildError> {
        let out = out.as_ref();
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let backend = Arc::new(CpuBackend::new(threads).map_err(ProtocolError::from)?);
        let protocol = match (self.protocol, self.overwrite, Snapshot::open(out)) {
            (Some(protocol), ..) => Protocol::Named(Choice { protocol, ..Choice::default() }),
            (None, Overwrite::Replace, Ok(former)) => Protocol::Named(former.manifest().protocol.repeated()),
            (None, ..) => Protocol::Chosen(Arc::new(Fastest(Arc::clone(&backend)))),
        };
        let (input, values) = match self.source {
            Source::File(path) => (Input::Files(Files::find(&[path], &FormatHints::default())?), self.values),
            Source::Rows(columns, rows) => {
                let others = columns.iter().filter(|&column| Some(column) != self.key.as_ref());
                let values = if self.values.is_empty() { others.cloned().collect() } else { self.values };
                (Input::Rows(Arc::new(RowList::new("the rows", columns, rows)?)), values)
            }
        };
        let selection = Selection { key: self.key, values, ..Selection::default() };
        let options = BuildOptions {
            name: self.name,
            protocol,
            overwrite: self.overwrite,
            ..BuildOptions::of(input, selection, out)
        };
        spirea_store::build(&options, &backend, &Silent)
    }
}

/// Chooser of the protocol of one server that makes look-ups fastest, measured on a backend.
#[derive(Debug)]
struct Fastest(Arc<CpuBackend>);

impl Chooser for Fastest {
    fn choose(&self, records: u64, record_bytes: usize) -> Result<Choice, BuildError> {
        let needs = Needs::default();
        if let Some(settled) = needs.recommend_for_all_machines(records, record_bytes) {
            return Ok(settled.choice);
        }
        let rates = Rates::measure(&*self.0, &SecurityLevel::default().ring_sets())?;
        Ok(needs.recommend(records, record_bytes, &rates)?.choice)
    }
}
