//! Snapshots.

use std::sync::Arc;

use pyo3::prelude::*;
use rayon::ThreadPoolBuilder;
use spirea_cpu::CpuBackend;
use spirea_protocols::{ProtocolError, TableKind};
use spirea_store::{Snapshot as Stored, StoreError};

use crate::errors::{Failure, of_options};
use crate::job::{Job, Shared};
use crate::source::Source;

/// A built table.
#[pyclass(frozen, get_all, module = "spirea._spirea")]
pub struct Snapshot {
    path: String,
    name: String,
    version: String,
    keyed: bool,
    rows: u64,
    records: u64,
    record_bytes: usize,
    fields: Vec<String>,
    types: Vec<&'static str>,
    protocol: String,
    servers: usize,
    bins: usize,
    manifest: String,
}

impl From<Stored> for Snapshot {
    fn from(snapshot: Stored) -> Self {
        let manifest = snapshot.manifest();
        let (table, protocol) = (&manifest.table, &manifest.protocol);
        Self {
            path: snapshot.folder().display().to_string(),
            name: manifest.name.clone(),
            version: snapshot.version().to_string(),
            keyed: table.kind == TableKind::Keyword,
            rows: table.entries,
            records: table.records,
            record_bytes: table.record_bytes(),
            fields: table.fields.clone(),
            types: table.types.iter().map(|kind| kind.name()).collect(),
            protocol: protocol.name.into(),
            servers: protocol.parties,
            bins: protocol.bins,
            manifest: String::from_utf8_lossy(&manifest.to_bytes()).into_owned(),
        }
    }
}

#[pymethods]
impl Snapshot {
    /// Opens the snapshot in a folder.
    #[staticmethod]
    fn open(py: Python<'_>, path: &str) -> PyResult<Self> {
        let opened = py.detach(|| Stored::open(path));
        opened.map(Self::from).map_err(|error| Failure::from(error).raise(py))
    }
}

/// Builds a snapshot of `source` with options of `spirea build`.
#[pyfunction]
#[pyo3(signature = (source, arguments) -> "Job[Snapshot]")]
pub fn build(py: Python<'_>, source: &Source, arguments: Vec<String>) -> PyResult<Job> {
    let table = source.table.clone();
    let arguments: Vec<String> = source.arguments.iter().cloned().chain(arguments).collect();
    let work = move |job: &Arc<Shared>| {
        let (options, threads) =
            spirea_cli::build_options(&arguments, table).map_err(|error| of_options(error, "OptionError"))?;
        let backend =
            CpuBackend::new(threads.count()).map_err(|error| StoreError::from(ProtocolError::from(error)))?;
        // A pool of its own: in a forked process, a pool shared by the process would have no
        // threads left.
        let pool = ThreadPoolBuilder::new().num_threads(threads.count()).build();
        let pool = pool.map_err(|error| Failure::new("BuildError", error.to_string()))?;
        let job = Arc::clone(job);
        Ok(pool.install(move || spirea_store::build(&options, &Arc::new(backend), &*job))?)
    };
    Job::start(py, work, |py, snapshot: Stored| Ok(Py::new(py, Snapshot::from(snapshot))?.into_any()))
}
