//! Division of a product among warps, blocks and launches.

use super::form::{Form, Team};

/// Number of terms of a step, which the layout keeps together.
pub(super) const STEP: usize = 32;
/// Slots of a block of the transposing kernels.
pub(super) const SLOTS: usize = 32;
/// Maximum number of queries of one product.
pub(super) const MOST_QUERIES: usize = 64;
/// Bytes of one column of a step, or of one row.
const STEP_BYTES: usize = STEP * 4;
/// Columns of a warp.
const GROUP: usize = 16;
/// Columns that lie together for warpgroups, and rows of a warpgroup.
const CORE_COLUMNS: usize = 8;
const WARPGROUP_ROWS: usize = 64;
/// Numbers of queries and rows up to which warps multiply.
const FEW_QUERIES: usize = 8;
const FEW_ROWS: usize = 32;
/// Steps of rows in shared memory.
const STAGES: usize = 4;
/// Maximum number of steps of columns in shared memory.
const MOST_PANEL: usize = 16;
/// Maximum number of warps of a block, and in each of its two directions.
const MOST_WARPS: usize = 8;
const MOST_SIDE: usize = 4;
/// Maximum size of a chunk's leaves, and of its sums, in bytes: written data must be read again
/// before it leaves the L2 cache. A single block of slots may exceed it.
const CHUNK_BYTES: usize = 16 << 20;
/// Minimum number of chunks of a prime's slots, so that chunks overlap.
const CHUNKS: usize = 4;

/// Shape of a product: a matrix of `rows` rows and `terms` columns for each slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub form: Form,
    /// True if the device has the kernels of warpgroups.
    pub warpgroups: bool,
    /// Slots of a polynomial, for each prime.
    pub degree: usize,
    /// Number of rows of the plain matrix.
    pub rows: usize,
    /// Number of columns of the plain matrix: the terms of each sum.
    pub terms: usize,
}

impl Shape {
    /// Returns the number of steps of terms.
    pub fn steps(self) -> usize {
        self.terms.div_ceil(STEP)
    }

    /// Returns the words of the plain matrix for each slot.
    pub fn slot_words(self) -> Option<usize> {
        self.rows.checked_mul(self.steps())?.checked_mul(STEP)
    }

    /// Returns the team that multiplies this many queries. A warpgroup computes 64 rows and 64
    /// columns. If there are far fewer rows or queries, warps waste less work.
    pub fn team(self, queries: usize) -> Team {
        let many = self.warpgroups && queries > FEW_QUERIES && self.rows > FEW_ROWS;
        if many && self.form.of_warpgroups().is_some() { Team::Warpgroup } else { Team::Warp }
    }

    /// Returns the words of the transposed leaves for each slot.
    pub fn leaf_words(self, queries: usize) -> usize {
        let columns = match self.team(queries) {
            Team::Warp => 2 * queries,
            Team::Warpgroup => (2 * queries).next_multiple_of(CORE_COLUMNS),
        };
        self.steps() * STEP * columns
    }

    /// Divides the tiles of a block with `shared_bytes` bytes of shared memory among warps.
    pub fn block(self, queries: usize, shared_bytes: usize) -> Block {
        match self.team(queries) {
            Team::Warp => self.block_of_warps(queries, shared_bytes),
            Team::Warpgroup => self.block_of_warpgroups(queries),
        }
    }

    /// Returns the block of `product_warpgroups.cu`: 64 columns, two warpgroups.
    fn block_of_warpgroups(self, queries: usize) -> Block {
        let (columns, rows) = (4, 2);
        let width = columns * GROUP;
        let panel = self.steps().div_ceil(self.steps().div_ceil(MOST_PANEL));
        let shared = panel * width * STEP_BYTES + STAGES * WARPGROUP_ROWS * STEP_BYTES;
        Block { columns, rows, panel, shared, blocks: (2 * queries).div_ceil(width) }
    }

    fn block_of_warps(self, queries: usize, shared_bytes: usize) -> Block {
        let groups = (2 * queries).div_ceil(GROUP);
        let columns = groups.div_ceil(groups.div_ceil(MOST_SIDE));
        let height = self.form.octets() * 8;
        let stages = |rows: usize| STAGES * rows * height * STEP_BYTES;
        let panel = |rows| shared_bytes.saturating_sub(stages(rows)) / (columns * GROUP * STEP_BYTES);
        // The largest number of rows of warps that leaves shared memory for enough steps of the
        // columns.
        let most = self.rows.div_ceil(height).min(MOST_WARPS / columns).min(MOST_SIDE);
        let rows = (1..=most).rev().find(|&rows| panel(rows) >= self.steps().min(MOST_PANEL / 2));
        let rows = rows.unwrap_or(1);
        // Panels have about the same length.
        let panel = panel(rows).clamp(1, MOST_PANEL).min(self.steps());
        let panel = self.steps().div_ceil(self.steps().div_ceil(panel));
        let shared = panel * columns * GROUP * STEP_BYTES + stages(rows);
        let blocks = (2 * queries).div_ceil(columns * GROUP);
        Block { columns, rows, panel, shared, blocks }
    }

    /// Divides slots and rows among launches.
    pub fn chunk(self, queries: usize) -> Chunk {
        let leaves = self.leaf_words(queries) * 4;
        let row_bytes = 2 * queries * 4;
        // A part of the rows is enough to keep the whole device busy.
        let most = (CHUNK_BYTES / SLOTS / row_bytes).next_multiple_of(32);
        let rows = self.rows.next_multiple_of(32).min(most);
        let mut slots = (self.degree / CHUNKS).max(SLOTS);
        while slots > SLOTS && slots * leaves.max(rows * row_bytes) > CHUNK_BYTES {
            slots /= 2;
        }
        Chunk { slots, rows }
    }
}

/// Arrangement of the warps of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Number of warps side by side, each for 16 columns.
    pub columns: usize,
    /// Number of warps one below the other.
    pub rows: usize,
    /// Steps of columns in shared memory.
    pub panel: usize,
    /// Bytes of shared memory.
    pub shared: usize,
    /// Number of blocks for all columns.
    pub blocks: usize,
}

/// Part of a product that one launch computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Number of slots, a divisor of the ring's degree.
    pub slots: usize,
    /// Maximum number of rows, a multiple of 32; also the stride of the sums.
    pub rows: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of shared memory of a block on 7.5, 8.6, 8.0 and 9.0.
    const DEVICES: [usize; 4] = [64 << 10, 99 << 10, 163 << 10, 227 << 10];

    fn shapes() -> impl Iterator<Item = Shape> {
        let sizes = [(1, 1), (8, 1280), (17, 33), (256, 256), (300, 1320), (4096, 512)];
        let shape = move |form, warpgroups| {
            sizes.map(move |(rows, terms)| Shape { form, warpgroups, degree: 4096, rows, terms })
        };
        Form::ALL
            .into_iter()
            .flat_map(move |form| [false, true].into_iter().flat_map(move |w| shape(form, w)))
    }

    #[test]
    fn blocks_fit() {
        for shape in shapes() {
            for (queries, shared_bytes) in
                (1..=MOST_QUERIES).flat_map(|queries| DEVICES.map(|shared_bytes| (queries, shared_bytes)))
            {
                let shape = Shape { warpgroups: shape.warpgroups && shared_bytes == DEVICES[3], ..shape };
                let block = shape.block(queries, shared_bytes);
                assert!(block.shared <= shared_bytes, "{shape:?}, {queries} queries: {block:?}");
                assert!((1..=MOST_PANEL).contains(&block.panel) && block.columns * block.rows <= MOST_WARPS);
                assert!(block.rows >= 1 && block.blocks * block.columns * GROUP >= 2 * queries);
            }
        }
    }

    #[test]
    fn chunks_are_whole_and_bounded() {
        for shape in shapes() {
            for queries in 1..=MOST_QUERIES {
                let Chunk { slots, rows } = shape.chunk(queries);
                assert!(slots % SLOTS == 0 && shape.degree % slots == 0 && rows % 32 == 0);
                let bytes = 4 * slots * shape.leaf_words(queries).max(2 * queries * rows);
                assert!(bytes <= CHUNK_BYTES || slots == SLOTS, "{shape:?}, {queries} queries: {bytes}");
            }
        }
    }
}
