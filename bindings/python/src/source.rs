//! Tables in the interpreter's memory, as rows for the store.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_array::{Array as _, RecordBatch, RecordBatchReader};
use arrow_pyarrow::FromPyArrow as _;
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use spirea_store::ingest::arrow::BatchRows;
use spirea_store::ingest::raw::FixedRows;
use spirea_store::ingest::{Nulls, Row, RowSource, RowTable, Selection};
use spirea_store::{Location, StoreError};

use crate::errors::Failure;

/// Rows of a table.
#[pyclass(frozen, module = "spirea._spirea")]
pub struct Source {
    /// Table in memory; `None` for files, which the options name.
    pub table: Option<Arc<dyn RowTable>>,
    /// Options of the command that name the table.
    pub arguments: Vec<String>,
}

#[pymethods]
impl Source {
    /// Rows of files, folders or patterns, with further options of the command.
    #[staticmethod]
    fn files(paths: Vec<String>, arguments: Vec<String>) -> Self {
        let inputs = paths.iter().map(|path| format!("--input={path}"));
        Self { table: None, arguments: inputs.chain(arguments).collect() }
    }

    /// Rows of an object that returns an Arrow stream each time it is asked. `rows` is the number
    /// of rows, or 0 if it is unknown.
    #[staticmethod]
    #[pyo3(signature = (table: "_ArrowStream", name, rows))]
    fn stream(table: Py<PyAny>, name: String, rows: u64) -> Self {
        Self::of(Stream { table, name: name.into(), rows })
    }

    /// Rows of `row_bytes` bytes each, one after another.
    #[staticmethod]
    #[pyo3(signature = (bytes: "object", row_bytes, name))]
    fn buffer(bytes: &Bound<'_, PyAny>, row_bytes: usize, name: String) -> PyResult<Self> {
        let buffer = PyBuffer::get(bytes)?;
        Ok(Self::of(Memory { buffer: Arc::new(buffer), row_bytes, name: name.into() }))
    }
}

/// Returns the keys in a column of a stream, as bytes like those of a built table; `None` for a
/// missing key.
#[pyfunction]
pub fn keys_of(py: Python<'_>, source: &Source, column: String) -> PyResult<Vec<Option<Py<PyBytes>>>> {
    let keys = source.keys(column).map_err(|error| Failure::from(error).raise(py))?;
    Ok(keys.into_iter().map(|key| key.map(|key| PyBytes::new(py, &key).unbind())).collect())
}

impl Source {
    fn keys(&self, column: String) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let Some(table) = &self.table else { return Ok(Vec::new()) };
        let selection = Selection { key: Some(column), values: Vec::new(), nulls: Nulls::Skip };
        let mut rows = table.open(&selection)?;
        let (mut keys, mut row) = (Vec::new(), Row::default());
        while rows.next(&mut row)? {
            // Skipped rows have no key.
            let (place, _) = rows.progress();
            keys.resize(place as usize - 1, None);
            keys.push(row.key().map(<[u8]>::to_vec));
        }
        let (all, _) = rows.progress();
        keys.resize(all as usize, None);
        Ok(keys)
    }

    fn of(table: impl RowTable + 'static) -> Self {
        let arguments = vec![format!("--input={}", table.name().display())];
        Self { table: Some(Arc::new(table)), arguments }
    }
}

/// Error of a read after the interpreter has exited.
const EXITS: &str = "the interpreter exits";

/// An object that returns Arrow streams.
struct Stream {
    table: Py<PyAny>,
    name: PathBuf,
    rows: u64,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("name", &self.name).finish_non_exhaustive()
    }
}

impl RowTable for Stream {
    fn name(&self) -> &Path {
        &self.name
    }

    fn open(&self, selection: &Selection) -> Result<Box<dyn RowSource + '_>, StoreError> {
        let malformed =
            |detail: String| StoreError::Malformed { place: Location::File(self.name.clone()), detail };
        let reader =
            Python::try_attach(|py| RecordBatchStreamReader::from_pyarrow_bound(self.table.bind(py)));
        let reader = reader.ok_or_else(|| malformed(EXITS.into()))?;
        let reader = reader.map_err(|error| malformed(format!("it gives no Arrow stream: {error}")))?;
        Ok(Box::new(BatchRows::new(Validated(reader), &self.name, selection, self.rows)?))
    }
}

/// Batches of a capsule, validated as far as the stated lengths of their buffers allow. The length
/// of an offset buffer is derived from its last offset, so the producer must have validated that
/// buffer.
struct Validated(RecordBatchStreamReader);

impl Iterator for Validated {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let validated = |batch: RecordBatch| {
            batch.columns().iter().try_for_each(|column| column.to_data().validate_full())?;
            Ok(batch)
        };
        self.0.next().map(|batch| batch.and_then(validated))
    }
}

impl RecordBatchReader for Validated {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

/// Consecutive rows in memory that belongs to Python.
struct Memory {
    buffer: Arc<PyBuffer<u8>>,
    row_bytes: usize,
    name: PathBuf,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("name", &self.name).finish_non_exhaustive()
    }
}

impl RowTable for Memory {
    fn name(&self) -> &Path {
        &self.name
    }

    fn open(&self, _: &Selection) -> Result<Box<dyn RowSource + '_>, StoreError> {
        let rows = (self.buffer.len_bytes() / self.row_bytes) as u64;
        let reader = MemoryReader { buffer: Arc::clone(&self.buffer), done: 0 };
        Ok(Box::new(FixedRows::new(reader, &self.name, self.row_bytes, rows)?))
    }
}

/// Reader of memory that belongs to Python. Each piece is read with the lock held, so that no one
/// writes to the memory meanwhile.
struct MemoryReader {
    buffer: Arc<PyBuffer<u8>>,
    done: usize,
}

impl Read for MemoryReader {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        let copy = |py: Python<'_>| {
            let cells =
                self.buffer.as_slice(py).ok_or_else(|| io::Error::other("its bytes are not in a row"))?;
            let rest = &cells[self.done..];
            let length = piece.len().min(rest.len());
            piece.iter_mut().zip(rest).for_each(|(byte, cell)| *byte = cell.get());
            Ok::<usize, io::Error>(length)
        };
        let length = Python::try_attach(copy).ok_or_else(|| io::Error::other(EXITS))??;
        self.done += length;
        Ok(length)
    }
}
