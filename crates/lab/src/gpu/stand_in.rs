//! A backend on the device with generated databases, so that servers open databases without the
//! content of files.

use std::sync::Arc;

use parking_lot::Mutex;
use spirea_backend::{
    BackendError, Composed, FileRows, FillPolynomial, Operation, PanelLayout, RingBackend, RowLayout,
};
use spirea_cuda::{CudaBackend, CudaMatrix, CudaRows, Plain, Tables};

/// Stage of a server.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// Databases are opened. Their contents are random bytes instead of those of files.
    Opening,
    /// Queries are answered.
    Serving,
    /// Queries are answered, and the backend waits for the end of each step, so that each step can
    /// be timed.
    ByStep,
}

/// A device that fills every opened database with random bytes. Only the lengths of a server's
/// files are used.
pub struct StandIn {
    cuda: Arc<CudaBackend>,
    stage: Mutex<Stage>,
}

impl StandIn {
    /// Creates a stand-in in the opening stage.
    pub fn new(cuda: Arc<CudaBackend>) -> Self {
        Self { cuda, stage: Mutex::new(Stage::Opening) }
    }

    /// Starts serving, once all databases are opened.
    pub fn serve(&self) {
        self.enter(Stage::Serving);
    }

    /// Waits for each step from now on.
    pub fn wait_for_steps(&self) {
        self.enter(Stage::ByStep);
    }

    fn enter(&self, stage: Stage) {
        *self.stage.lock() = stage;
    }

    fn stage(&self) -> Stage {
        *self.stage.lock()
    }
}

impl Composed for StandIn {
    type Rings = CudaBackend;
    type Shares = CudaBackend;

    fn rings(&self) -> &CudaBackend {
        &self.cuda
    }

    fn shares(&self) -> &CudaBackend {
        &self.cuda
    }

    fn run<T>(
        &self,
        _: Operation,
        work: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        let result = work();
        if self.stage() == Stage::ByStep {
            self.cuda.device().synchronize()?;
        }
        result
    }

    fn open_matrix(&self, stored: FileRows<'_, PanelLayout>) -> Result<CudaMatrix, BackendError> {
        self.cuda.random_matrix(stored.part()?, 1)
    }

    fn open_records(&self, stored: FileRows<'_, RowLayout>) -> Result<CudaRows, BackendError> {
        self.cuda.random_rows(stored.part()?, 2)
    }

    fn encode_plain(
        &self,
        tables: &Tables,
        rows: usize,
        columns: usize,
        fill: &FillPolynomial<'_>,
    ) -> Result<Plain, BackendError> {
        if self.stage() != Stage::Opening {
            return self.cuda.encode(tables, rows, columns, fill);
        }
        let random = |row: usize, column: usize, coefficients: &mut [i32]| {
            let mut state = (row * columns + column) as u32;
            for coefficient in coefficients {
                state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
                *coefficient = (state >> 16) as i16 as i32;
            }
        };
        self.cuda.encode(tables, rows, columns, &random)
    }
}
