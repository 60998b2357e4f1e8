//! `scalar_fold` on device buffers, with shapes, grids and scratch memory computed once.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use spirea_backend::{BackendError, MAX_BATCH, PANEL_ROWS, PanelLayout};

use super::ScalarFoldKernel;
use super::matrix::{CudaMatrix, QUADS_BEHIND};
use crate::args;
use crate::driver::{Arg, Buffer, Compute, Device, Grid, Kernel, Stream, View};

/// Threads of a block: in the vector kernels, the kernel that splits queries, and most others.
const THREADS: usize = 256;
/// Panels of a block of the vector kernels: one for each warp.
const VECTOR_PANELS: usize = THREADS / 32;
/// Quads of a panel in a block of the vector kernels (`PIECE_QUADS` in scalar_fold_vector.cu).
const VECTOR_QUADS: usize = 512;
/// Quads that a block of the vector kernels takes in a round; the last round may go beyond the
/// panel.
const VECTOR_ROUND_QUADS: usize = 16;
/// Quads of a step, and queries and words of a tile (scalar_fold.cuh).
const STEP_QUADS: usize = 8;
const TILE_QUERIES: usize = 4;
const TILE_WORDS: usize = 128;

/// Tensor-core kernel with its constants (`Tiling` in scalar_fold_tensor.cuh).
struct TensorKernel {
    name: &'static str,
    threads: usize,
    /// Panels of a block.
    panels: usize,
    /// Tiles of queries of a block.
    tiles: usize,
    /// Steps of a stage.
    steps: usize,
    /// Number of stages in shared memory, from [`Compute::AMPERE`] on.
    slots: usize,
}

const MMA: [TensorKernel; 3] = [
    TensorKernel { name: "scalar_fold_mma_8", threads: THREADS, panels: 8, tiles: 2, steps: 2, slots: 4 },
    TensorKernel { name: "scalar_fold_mma_16", threads: THREADS, panels: 8, tiles: 4, steps: 2, slots: 4 },
    TensorKernel { name: "scalar_fold_mma_32", threads: THREADS, panels: 8, tiles: 8, steps: 2, slots: 4 },
];
const WGMMA: [TensorKernel; 2] = [
    TensorKernel { name: "scalar_fold_wgmma_32", threads: THREADS, panels: 8, tiles: 8, steps: 4, slots: 4 },
    TensorKernel { name: "scalar_fold_wgmma_64", threads: 384, panels: 6, tiles: 16, steps: 4, slots: 4 },
];

const _: () = assert!(
    VECTOR_ROUND_QUADS <= QUADS_BEHIND + 1 && WGMMA[0].steps * STEP_QUADS <= QUADS_BEHIND + 1,
    "kernels read no further than the room behind the matrix"
);

impl TensorKernel {
    /// Returns the smallest kernel that takes the batch at once; a larger batch becomes several
    /// groups of the largest kernel.
    fn mma(batch: usize) -> &'static Self {
        MMA.iter().find(|kernel| batch <= kernel.queries()).unwrap_or(&MMA[2])
    }

    /// Returns the kernel that pads the batch least; the larger one if both pad equally.
    fn wgmma(batch: usize) -> &'static Self {
        let [small, large] = &WGMMA;
        let padded = |kernel: &Self| batch.next_multiple_of(kernel.queries());
        if padded(large) <= padded(small) { large } else { small }
    }

    fn queries(&self) -> usize {
        self.tiles * TILE_QUERIES
    }

    fn stage_quads(&self) -> usize {
        self.steps * STEP_QUADS
    }

    /// Returns the bytes of shared memory of a block: `SLOTS` stages.
    fn shared_bytes(&self, compute: Compute) -> usize {
        let stage = self.panels * self.stage_quads() * 128 + self.steps * self.tiles * TILE_WORDS * 4;
        let slots = if compute < Compute::AMPERE { 2 } else { self.slots };
        slots * stage
    }
}

/// Structure of the same name in scalar_fold_tensor.cuh.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct TensorShape {
    quads: u32,
    panels: u32,
    panel_groups: u32,
    tile_groups: u32,
    stages: u32,
    piece_stages: u32,
    batch: u32,
}

#[derive(Debug)]
enum Work {
    Vector {
        kernel: Kernel,
        grid: Grid,
    },
    Tensor {
        split: Kernel,
        split_grid: Grid,
        kernel: Kernel,
        grid: Grid,
        shape: TensorShape,
        planes: Buffer<u32>,
    },
}

/// Prepared `scalar_fold` for matrices of one shape and batches of one size, from buffer to buffer.
/// The plan owns its scratch memory, so that running it allocates nothing.
#[derive(Debug)]
pub struct ScalarFoldPlan {
    layout: PanelLayout,
    batch: usize,
    work: Work,
}

impl ScalarFoldPlan {
    /// Plans with the kernel that suits the batch.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if the batch is not 1 to [`MAX_BATCH`] or the shape is too large for
    /// any device, [`BackendError::Unavailable`] if there is no room for the scratch memory.
    pub fn new(device: &Arc<Device>, layout: PanelLayout, batch: usize) -> Result<Self, BackendError> {
        let kernel = ScalarFoldKernel::for_batch(device.properties().compute, batch);
        Self::with_kernel(device, kernel, layout, batch)
    }

    /// Plans with the given kernel, to compare kernels.
    ///
    /// # Errors
    /// As [`Self::new`]; [`BackendError::Unavailable`] if this device has no such kernel.
    pub fn with_kernel(
        device: &Arc<Device>,
        kernel: ScalarFoldKernel,
        layout: PanelLayout,
        batch: usize,
    ) -> Result<Self, BackendError> {
        if batch == 0 || batch > MAX_BATCH {
            return Err(BackendError::Shape(format!("a batch of {batch}: 1 to {MAX_BATCH} are possible")));
        }
        let work = match kernel {
            ScalarFoldKernel::Vector => vector(device, layout, batch)?,
            ScalarFoldKernel::Mma => tensor(device, TensorKernel::mma(batch), layout, batch)?,
            ScalarFoldKernel::Wgmma => tensor(device, TensorKernel::wgmma(batch), layout, batch)?,
        };
        Ok(Self { layout, batch, work })
    }

    /// Queues the work on `stream`. `queries` and `answers` follow one another, as in
    /// [`spirea_backend::Backend::scalar_fold`].
    ///
    /// On a stream other than the main one, the caller must order the work after the work that
    /// fills the buffers, and before the buffers or this plan are dropped ([`Stream::after`]). Runs
    /// of one plan share its scratch memory, so only one stream may run it at a time.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if a shape differs from the plan's; the device's error.
    pub fn run(
        &self,
        stream: &Stream,
        matrix: &CudaMatrix,
        queries: &View<'_, u32>,
        answers: &View<'_, u32>,
    ) -> Result<(), BackendError> {
        if matrix.layout() != self.layout {
            return Err(self.refused(queries, answers));
        }
        self.take(stream, queries)?;
        self.multiply(stream, matrix, 0, queries, answers)
    }

    /// Queues the conversion of queries to the form that the kernel multiplies by. The result stays
    /// until the next call.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn take(&self, stream: &Stream, queries: &View<'_, u32>) -> Result<(), BackendError> {
        if queries.len() != self.batch * self.layout.columns() || !queries.address().is_multiple_of(16) {
            return Err(self.refused(queries, queries));
        }
        if let Work::Tensor { split, split_grid, planes, .. } = &self.work {
            let (quads, batch) = (self.layout.quads() as u32, self.batch as u32);
            let padded_quads = (planes.len() / (split_grid.blocks[1] as usize * 4)) as u32;
            stream.launch(split, *split_grid, args![queries, planes, quads, padded_quads, batch])?;
        }
        Ok(())
    }

    /// Queues the products of the converted queries with rows from `first` on of a matrix; the
    /// number of rows is that of the plan's layout. The work only reads the result of `take`, so
    /// several streams may run it at once.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) fn multiply(
        &self,
        stream: &Stream,
        matrix: &CudaMatrix,
        first: usize,
        queries: &View<'_, u32>,
        answers: &View<'_, u32>,
    ) -> Result<(), BackendError> {
        let (rows, columns) = (self.layout.rows(), self.layout.columns());
        let last = first.checked_add(rows).filter(|&last| last <= matrix.layout().rows());
        let (Some(last), true) = (last, first.is_multiple_of(PANEL_ROWS)) else {
            return Err(self.refused(queries, answers));
        };
        if matrix.layout().columns() != columns
            || queries.len() != self.batch * columns
            || answers.len() != self.batch * rows
            || !queries.address().is_multiple_of(16)
        {
            return Err(self.refused(queries, answers));
        }
        // These rows are followed by other rows, or by the room after the matrix: kernels may read
        // there.
        let bytes = matrix.bytes().range(first * columns..last * columns);
        // The answers must begin with zeros, because blocks add their sums to them.
        stream.zero(answers)?;
        match &self.work {
            Work::Vector { kernel, grid } => {
                let (quads, batch) = (self.layout.quads() as u32, self.batch as u32);
                let panels = self.layout.panels() as u32;
                let args = args![bytes, queries, answers, quads, panels, batch];
                stream.launch(kernel, *grid, args)?;
            }
            Work::Tensor { kernel, grid, shape, planes, .. } => {
                let args = args![bytes, planes, answers, Arg::structure(shape)];
                stream.launch(kernel, *grid, args)?;
            }
        }
        Ok(())
    }

    fn refused(&self, queries: &View<'_, u32>, answers: &View<'_, u32>) -> BackendError {
        let (rows, columns) = (self.layout.rows(), self.layout.columns());
        let (queries, answers) = (queries.len(), answers.len());
        BackendError::Shape(format!(
            "{queries} words of queries and {answers} of answers for {} queries of {rows} x {columns}",
            self.batch
        ))
    }
}

/// Plans `scalar_fold_vector_1` or `scalar_fold_vector_2`.
fn vector(device: &Arc<Device>, layout: PanelLayout, batch: usize) -> Result<Work, BackendError> {
    let (name, queries) = if batch == 1 { ("scalar_fold_vector_1", 1) } else { ("scalar_fold_vector_2", 2) };
    words(layout.quads() + VECTOR_ROUND_QUADS)?;
    words(layout.panels())?;
    let panel_groups = layout.panels().div_ceil(VECTOR_PANELS);
    let blocks = blocks(&[panel_groups, layout.quads().div_ceil(VECTOR_QUADS)])?;
    let grid = Grid::cube([blocks, batch.div_ceil(queries), 1], THREADS);
    Ok(Work::Vector { kernel: device.kernel(name)?, grid: grid.shared(queries * VECTOR_QUADS * 16) })
}

/// Plans a tensor-core kernel.
fn tensor(
    device: &Arc<Device>,
    kernel: &TensorKernel,
    layout: PanelLayout,
    batch: usize,
) -> Result<Work, BackendError> {
    let stages = layout.quads().div_ceil(kernel.stage_quads());
    let panel_groups = layout.panels().div_ceil(kernel.panels);
    let tile_groups = batch.div_ceil(kernel.queries());
    let tall = blocks(&[panel_groups, tile_groups])?;
    let piece_stages = piece(tall, stages, kernel, device.properties().processors as usize);
    let blocks = blocks(&[tall, stages.div_ceil(piece_stages)])?;

    let padded_quads = stages * kernel.stage_quads();
    let padded_batch = tile_groups * kernel.queries();
    let split_blocks = padded_quads.div_ceil(THREADS);
    let shape = TensorShape {
        quads: words(layout.quads())?,
        panels: words(layout.panels())?,
        panel_groups: words(panel_groups)?,
        tile_groups: words(tile_groups)?,
        // Kernels also count the padded quads, so these must fit in a word.
        stages: words(padded_quads).map(|_| stages as u32)?,
        piece_stages: words(piece_stages)?,
        batch: words(batch)?,
    };
    Ok(Work::Tensor {
        split: device.kernel("scalar_fold_planes")?,
        split_grid: Grid::cube([split_blocks, padded_batch, 1], THREADS),
        kernel: device.kernel(kernel.name)?,
        grid: Grid::new(blocks, kernel.threads).shared(kernel.shared_bytes(device.properties().compute)),
        shape,
        planes: device.alloc(padded_quads * padded_batch * 4)?,
    })
}

/// Returns the stages of a panel that a block takes: all of them, unless more blocks are needed to
/// occupy the processors evenly.
fn piece(blocks: usize, stages: usize, kernel: &TensorKernel, processors: usize) -> usize {
    /// Blocks wanted for each processor, so that a last, incomplete wave costs little.
    const WAVES: usize = 16;
    /// Minimum number of quads of a piece, so that the start and the end of a piece cost little.
    const LEAST_QUADS: usize = 512;
    let pieces =
        (WAVES * processors / blocks).clamp(1, (stages * kernel.stage_quads()).div_ceil(LEAST_QUADS));
    stages.div_ceil(pieces)
}

/// Converts a count to a word, as kernels take it.
fn words(count: usize) -> Result<u32, BackendError> {
    u32::try_from(count).map_err(|_| beyond())
}

/// Multiplies counts to the number of blocks of a grid.
fn blocks(counts: &[usize]) -> Result<usize, BackendError> {
    let product = counts.iter().try_fold(1usize, |product, &count| product.checked_mul(count));
    product.filter(|&blocks| blocks < 1 << 31).ok_or_else(beyond)
}

fn beyond() -> BackendError {
    BackendError::Shape("a matrix larger than any device".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_get_the_tile_that_suits_them() {
        for (batch, mma, wgmma) in [
            (1, 8, 32),
            (8, 8, 32),
            (9, 16, 32),
            (17, 32, 32),
            (32, 32, 32),
            (33, 32, 64),
            (64, 32, 64),
            (65, 32, 32),
            (100, 32, 64),
            (256, 32, 64),
        ] {
            let queries = (TensorKernel::mma(batch).queries(), TensorKernel::wgmma(batch).queries());
            assert_eq!(queries, (mma, wgmma), "{batch}");
        }
    }

    #[test]
    fn stages_fit_shared_memory() {
        // A block may have 64 KiB on compute capability 7.5, 99 KiB on 8.6, 8.9 and 12.0, and 227
        // KiB on 9.0.
        let turing = Compute { major: 7, minor: 5 };
        assert!(MMA.iter().all(|kernel| kernel.shared_bytes(turing) <= 64 << 10));
        assert!(MMA.iter().all(|kernel| kernel.shared_bytes(Compute::AMPERE) <= 99 << 10));
        assert!(WGMMA.iter().all(|kernel| kernel.shared_bytes(Compute::WARPGROUPS) <= 227 << 10));
    }
}
