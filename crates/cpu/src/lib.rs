//! The CPU backend: portable, AVX2 and AVX-512 kernels behind one dispatch.
//!
//! [`CpuBackend::new`] detects the machine's instruction sets once and chooses one; every later
//! operation uses it. All kernels give the same bytes.
//!
//! `unsafe` is confined to the modules named after an instruction set, whose functions take a token
//! that only detection can make, to the memory maps of `memory`, to cache hints, and to the policy
//! of threads and the free memory of heaps in `priority`.

// Other processors run the portable kernels, which use only a part of the common definitions.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, unused_macros, unused_mut, unused_variables)
)]

#[cfg(target_endian = "big")]
compile_error!("the kernels read the panel layout as little-endian words");

mod ahead;
mod aligned;
mod dpf;
mod fold;
mod isa;
mod machine;
mod matrix;
mod memory;
mod module;
mod parallel;
mod prefetch;
pub mod priority;
pub mod rates;
mod ring;

#[cfg(test)]
#[path = "../tests/it/common/oracle.rs"]
mod oracle;

use std::sync::OnceLock;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use spirea_backend::{
    Backend, BackendError, BackendId, FileRows, PanelLayout, RING_DEGREE, RingMatrix, check_answers,
};

pub use ahead::prefetch_distances;
pub use dpf::Traversal;
pub use isa::Isa;
pub use machine::memory_bytes;
pub use matrix::{CpuMatrix, CpuRows};
pub use ring::{
    ProductTables, RingCiphertexts, RingColumns, RingFixed, RingKeys, RingLeaves, RingPlain, RingSelectors,
    RingTables, Schedule,
};

use isa::{Found, with_token};
use parallel::Each;
use ring::WorkingMemory;

/// The token of [`Isa::Portable`] for folds of matrices.
#[cfg(target_arch = "x86_64")]
const PORTABLE: isa::Sse2 = isa::Sse2;
/// The token of [`Isa::Portable`] for folds of matrices.
#[cfg(not(target_arch = "x86_64"))]
const PORTABLE: isa::Portable<4> = isa::Portable;

/// The operations of a server on this machine's processor.
pub struct CpuBackend {
    id: BackendId,
    found: Found,
    schedule: Schedule,
    memory: WorkingMemory,
    pool: ThreadPool,
    /// Threads for work of low priority, started when it first comes.
    low: OnceLock<ThreadPool>,
}

impl CpuBackend {
    /// Creates a backend with the best kernels that this machine can run, on `threads` separate
    /// threads.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if `threads` is 0 or the threads cannot be started.
    pub fn new(threads: usize) -> Result<Self, BackendError> {
        Self::with_isa(Isa::available().into_iter().max().unwrap_or(Isa::Portable), threads)
    }

    /// Creates a backend with the kernels of a given instruction set, for tests and measurements.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] if the machine lacks the instruction set, `threads` is 0, or
    /// the threads cannot be started.
    pub fn with_isa(isa: Isa, threads: usize) -> Result<Self, BackendError> {
        let Some(found) = Found::detect(isa) else {
            return Err(BackendError::Unavailable(format!(
                "this processor has no {isa}: choose another instruction set"
            )));
        };
        Ok(Self {
            id: BackendId::unique(),
            found,
            schedule: Schedule::default(),
            memory: WorkingMemory::default(),
            pool: thread_pool(threads)?,
            low: OnceLock::new(),
        })
    }

    /// Sets another order of expansion, for measurements.
    pub fn with_schedule(self, schedule: Schedule) -> Self {
        Self { schedule, ..self }
    }

    /// Returns the instruction set in use.
    pub fn isa(&self) -> Isa {
        self.found.isa()
    }

    /// Runs `work` on the backend's threads for the caller's priority, through a pointer: see
    /// [`parallel`].
    fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let (mut work, mut result) = (Some(work), None);
        let run: &mut (dyn FnMut() + Send) = &mut || result = work.take().map(|work| work());
        self.threads_of_caller().install(run);
        result.expect("the threads have done the work")
    }

    /// Returns the threads for the caller's [priority]. If the system gives no threads of low
    /// priority, all work shares the normal threads.
    fn threads_of_caller(&self) -> &ThreadPool {
        if !priority::is_low() {
            return &self.pool;
        }
        self.low.get().unwrap_or_else(|| match priority::low_priority_pool(self.threads()) {
            Ok(pool) => self.low.get_or_init(|| pool),
            Err(_) => &self.pool,
        })
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }
}

fn thread_pool(threads: usize) -> Result<ThreadPool, BackendError> {
    if threads == 0 {
        return Err(BackendError::Unavailable("0 threads: give at least 1".into()));
    }
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|i| format!("spirea-cpu-{i}"))
        .build()
        .map_err(|error| BackendError::Unavailable(format!("{threads} threads: {error}")))
}

impl std::fmt::Debug for CpuBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CpuBackend").field("isa", &self.isa()).field("threads", &self.threads()).finish()
    }
}

impl Backend for CpuBackend {
    type Matrix = CpuMatrix;
    type Folded = Vec<u32>;

    fn name(&self) -> String {
        format!("cpu-{}", self.isa())
    }

    fn id(&self) -> BackendId {
        self.id
    }

    /// Runs a single call on the caller's thread.
    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        match count {
            1 => work(0),
            _ => self.install(|| (0..count).into_par_iter().each(work)),
        }
    }

    fn upload(&self, layout: PanelLayout, bytes: &[u8]) -> Result<CpuMatrix, BackendError> {
        self.install(|| CpuMatrix::copy_of(layout, bytes))
    }

    fn open(&self, stored: FileRows<'_, PanelLayout>) -> Result<CpuMatrix, BackendError> {
        self.install(|| CpuMatrix::open(&stored))
    }

    fn layout(&self, matrix: &CpuMatrix) -> PanelLayout {
        matrix.layout()
    }

    fn scalar_fold(&self, matrix: &CpuMatrix, queries: &[u32]) -> Result<Vec<u32>, BackendError> {
        let layout = matrix.layout();
        layout.batch_of(queries.len())?;
        Ok(self.install(|| {
            with_token!(self.found, PORTABLE, kernel => {
                fold::driver::scalar_fold(kernel, matrix.quads(), layout, queries)
            })
        }))
    }

    fn words(&self, folded: Vec<u32>) -> Result<Vec<u32>, BackendError> {
        Ok(folded)
    }

    fn folded(&self, queries: usize, words: Vec<u32>) -> Result<Vec<u32>, BackendError> {
        check_answers(queries, words.len())?;
        Ok(words)
    }

    fn module_fold(&self, matrix: &CpuMatrix, a: RingMatrix<'_>) -> Result<Vec<u32>, BackendError> {
        let layout = matrix.layout();
        let fits = layout.columns() == a.block_rows * RING_DEGREE
            && a.rank > 0
            && layout.columns().checked_mul(a.rank) == Some(a.coefficients.len());
        if !fits {
            return Err(BackendError::Shape(format!(
                "{} coefficients for {} x {} blocks do not meet {} columns",
                a.coefficients.len(),
                a.block_rows,
                a.rank,
                layout.columns()
            )));
        }
        Ok(self.install(|| {
            with_token!(self.found, PORTABLE, kernel => {
                module::module_fold(kernel, matrix.quads(), layout, a, module::CHUNK_BLOCKS)
            })
        }))
    }
}
