//! [`Backend`] on a device: `scalar_fold` and its matrices.

mod answers;
mod kernel;
mod matrix;
mod module;
mod plan;

use rayon::prelude::*;
use spirea_backend::{
    Backend, BackendError, BackendId, FileRows, PanelLayout, QueryWords, RingMatrix, check_answers,
};

use crate::CudaBackend;
use crate::driver::{Buffer, Event, Stream};
use crate::upload::{RowWords, upload_file};

pub(crate) use answers::Arrivals;
pub use kernel::ScalarFoldKernel;
pub use matrix::CudaMatrix;
pub use plan::ScalarFoldPlan;

/// Answers of a batch in the device's memory. They may not be computed yet: later uses on the main
/// stream wait for the computation.
#[derive(Debug)]
pub struct CudaFolded {
    words: Buffer<u32>,
    /// End of the computation, if it runs on a stream other than the main one.
    computed: Option<Event>,
}

impl CudaFolded {
    /// Wraps answers that the main stream computes.
    pub(crate) fn new(words: Buffer<u32>) -> Self {
        Self { words, computed: None }
    }

    /// Wraps answers whose computation is the last work queued on `stream`.
    fn of(stream: &Stream, words: Buffer<u32>) -> Result<Self, BackendError> {
        // Recorded first: if recording fails, the main stream has no event to wait for, so `stream`
        // must free the words.
        let computed = Some(stream.record()?);
        Ok(Self { words: words.freed_by_main(), computed })
    }

    /// Returns the answers' words, one answer after another, for work on the main stream.
    pub(crate) fn words(&self) -> Result<&Buffer<u32>, BackendError> {
        self.wait()?;
        Ok(&self.words)
    }

    /// Makes the main stream wait for the computation.
    fn wait(&self) -> Result<(), BackendError> {
        let main = self.words.device().main();
        Ok(self.computed.iter().try_for_each(|computed| main.after_event(computed))?)
    }
}

impl Drop for CudaFolded {
    /// Frees the words after their computation.
    fn drop(&mut self) {
        // A lost device returns only errors.
        let _ = self.wait();
    }
}

impl CudaBackend {
    /// Runs [`Backend::scalar_fold`] with the given kernel, to compare kernels.
    ///
    /// # Errors
    /// As [`Backend::scalar_fold`]; [`BackendError::Unavailable`] if this device has no such
    /// kernel.
    #[doc(hidden)]
    pub fn scalar_fold_with(
        &self,
        kernel: ScalarFoldKernel,
        matrix: &CudaMatrix,
        queries: &[u32],
    ) -> Result<CudaFolded, BackendError> {
        self.fold_staged(kernel, matrix, &RowWords(&[queries]))
    }

    /// Runs [`Backend::scalar_fold`] for queries that are not contiguous in memory.
    pub(crate) fn fold_queries(
        &self,
        matrix: &CudaMatrix,
        queries: &[&[u32]],
    ) -> Result<CudaFolded, BackendError> {
        self.scalar_fold_from(matrix, &RowWords(queries))
    }

    /// Folds each query with its own matrix, one fold after another; all matrices have one shape.
    pub(crate) fn fold_own(
        &self,
        matrices: &[&CudaMatrix],
        queries: &[&[u32]],
    ) -> Result<CudaFolded, BackendError> {
        let (layout, device) = (matrices[0].layout(), self.device());
        let plan = ScalarFoldPlan::new(device, layout, 1)?;
        let answers = device.alloc(queries.len() * layout.rows())?;
        self.queries.stage(&device.main(), &RowWords(queries), |words| {
            matrices.iter().enumerate().try_for_each(|(i, matrix)| {
                let query = words.range(i * layout.columns()..(i + 1) * layout.columns());
                let answer = answers.range(i * layout.rows()..(i + 1) * layout.rows());
                plan.run(&device.main(), matrix, &query, &answer)
            })
        })?;
        Ok(CudaFolded::new(answers))
    }

    fn fold_staged(
        &self,
        kernel: ScalarFoldKernel,
        matrix: &CudaMatrix,
        queries: &dyn QueryWords,
    ) -> Result<CudaFolded, BackendError> {
        let (layout, device) = (matrix.layout(), self.device());
        let batch = layout.batch_of(queries.count())?;
        let plan = ScalarFoldPlan::with_kernel(device, kernel, layout, batch)?;
        let stream = match kernel {
            // The vector kernel's blocks are short and leave room on the processors. The main
            // stream can expand and pack at the same time.
            ScalarFoldKernel::Vector => device.scans(),
            // Blocks of the tensor cores take whole processors, each for a long time.
            ScalarFoldKernel::Mma | ScalarFoldKernel::Wgmma => device.main(),
        };
        let answers = stream.alloc(batch * layout.rows())?;
        self.queries.stage(&stream, queries, |words| plan.run(&stream, matrix, words, &answers.all()))?;
        CudaFolded::of(&stream, answers)
    }
}

impl Backend for CudaBackend {
    type Matrix = CudaMatrix;
    type Folded = CudaFolded;

    /// Returns a name such as `cuda-sm90`.
    fn name(&self) -> String {
        let compute = self.device().properties().compute;
        format!("cuda-sm{}{}", compute.major, compute.minor)
    }

    fn id(&self) -> BackendId {
        self.id
    }

    /// Runs the calls on the global thread pool, which also fills pinned memory. Runs a single call
    /// on the caller's thread.
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        match count {
            1 => work(0),
            _ => (0..count).into_par_iter().for_each(work),
        }
    }

    fn upload(&self, layout: PanelLayout, bytes: &[u8]) -> Result<CudaMatrix, BackendError> {
        CudaMatrix::from_memory(self.device(), layout, bytes)
    }

    /// Copies the matrix to the device's memory in any case: a
    /// [residence](spirea_backend::Residence) in host memory has no meaning here.
    fn open(&self, stored: FileRows<'_, PanelLayout>) -> Result<CudaMatrix, BackendError> {
        let held = |layout| CudaMatrix::held(self.device(), layout);
        upload_file(self.device(), &stored, held, CudaMatrix::bytes)?.loaded()
    }

    fn layout(&self, matrix: &CudaMatrix) -> PanelLayout {
        matrix.layout()
    }

    fn scalar_fold(&self, matrix: &CudaMatrix, queries: &[u32]) -> Result<CudaFolded, BackendError> {
        self.scalar_fold_from(matrix, &RowWords(&[queries]))
    }

    fn scalar_fold_from(
        &self,
        matrix: &CudaMatrix,
        queries: &dyn QueryWords,
    ) -> Result<CudaFolded, BackendError> {
        let batch = matrix.layout().batch_of(queries.count())?;
        let kernel = ScalarFoldKernel::for_batch(self.device().properties().compute, batch);
        self.fold_staged(kernel, matrix, queries)
    }

    fn words(&self, folded: CudaFolded) -> Result<Vec<u32>, BackendError> {
        self.read_words(folded, answers::copy_of)
    }

    fn read_words<T>(&self, folded: CudaFolded, read: impl FnOnce(&[u32]) -> T) -> Result<T, BackendError> {
        self.answers.download(&self.device().main(), &folded.words()?.all(), read)
    }

    fn folded(&self, queries: usize, words: Vec<u32>) -> Result<CudaFolded, BackendError> {
        check_answers(queries, words.len())?;
        Ok(CudaFolded::new(self.device().upload(&words)?))
    }

    /// Uses `scalar_fold` instead of transforms, because the hint is computed only once for a
    /// database.
    fn module_fold(&self, matrix: &CudaMatrix, a: RingMatrix<'_>) -> Result<Vec<u32>, BackendError> {
        module::module_fold(matrix, a)
    }
}
