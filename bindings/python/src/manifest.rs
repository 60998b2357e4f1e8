//! Manifests of snapshots, verified before Python reads any of their fields.

use pyo3::prelude::*;
use spirea_backend::Share;
use spirea_cluster::ShareFiles;
use spirea_store::manifest::{MANIFEST_FILE, MATRIX_FILE};
use spirea_store::{Manifest as Verified, Snapshot};

use crate::errors::Failure;

/// A file's name, its length, the byte ranges to read, and true if the snapshot may lack the file.
type Part = (String, u64, Vec<(u64, u64)>, bool);

/// A verified manifest of a snapshot.
#[pyclass(frozen, module = "spirea._spirea")]
pub struct Manifest {
    manifest: Verified,
    #[pyo3(get)]
    version: String,
    bytes: u64,
}

#[pymethods]
impl Manifest {
    /// Parses and verifies a manifest's file.
    #[staticmethod]
    fn parse(py: Python<'_>, content: &[u8]) -> PyResult<Self> {
        let verified = Verified::from_bytes(content);
        let (manifest, version) =
            verified.map_err(|error| Failure::new("ClusterError", error.to_string()).raise(py))?;
        Ok(Self { manifest, version: version.to_string(), bytes: content.len() as u64 })
    }

    /// Number of values of the table, or of its rows if it has no keys.
    #[getter]
    fn entries(&self) -> u64 {
        self.manifest.table.entries
    }

    /// Returns the name and the length of each file besides the manifest.
    #[getter]
    fn files(&self) -> Vec<(String, u64)> {
        self.manifest.files().map(|entry| (entry.file.clone(), entry.bytes)).collect()
    }

    /// Returns the files that the server of a share reads besides the manifest: name, length,
    /// ranges, and true if the file is optional.
    fn share_files(&self, py: Python<'_>, index: usize, count: usize) -> PyResult<Vec<Part>> {
        let share = Share::new(index, count)
            .map_err(|error| Failure::new("ClusterError", error.to_string()).raise(py))?;
        let parts = ShareFiles::of(&self.manifest, self.bytes, share).files.into_iter();
        let ranges = |ranges: Vec<[u64; 2]>| ranges.into_iter().map(|[start, end]| (start, end)).collect();
        Ok(parts
            .filter(|part| part.path != MANIFEST_FILE)
            .map(|part| (part.path, part.size, ranges(part.ranges), part.optional))
            .collect())
    }

    /// Returns the name and the length of each file that a coordinator reads besides the manifest.
    fn coordinator_files(&self) -> Vec<(String, u64)> {
        self.files().into_iter().filter(|(file, _)| file != MATRIX_FILE).collect()
    }
}

/// Verifies all files except the matrix of the snapshot in a folder.
#[pyfunction]
pub fn verify_beside_matrix(py: Python<'_>, folder: &str) -> PyResult<()> {
    let verified = py.detach(|| Snapshot::open(folder)?.verify_beside_matrix());
    verified.map_err(|error| Failure::new("ClusterError", error.to_string()).raise(py))
}
