//! Launches of a product's kernels, with the checks that the kernels rely on.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

use super::form::{Names, Team};
use super::shape::{Block, Chunk, SLOTS, Shape};
use crate::args;
use crate::driver::{Arg, Buffer, Device, DriverError, Grid, Kernel, Stream};
use crate::ring::primes::Prime;

/// Threads of a block of the transposing kernels.
const THREADS: usize = 256;
/// Bytes of shared memory for a tile of the transposing kernels: 32 x 33 words.
const TILE_BYTES: usize = 32 * 33 * 4;

/// The kernels of a form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernels {
    rows: Kernel,
    warp: OfTeam,
    /// `None` if the device has none.
    warpgroup: Option<OfTeam>,
    sums: Kernel,
}

/// The kernels of a form that depend on the team.
#[derive(Clone, Copy, Debug)]
struct OfTeam {
    columns: Kernel,
    product: Kernel,
}

/// Argument of `multiply` in `product.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Product {
    prime: Prime,
    companion: u32,
    quads: u32,
    rows: u32,
    first_row: u32,
    row_count: u32,
    row_stride: u32,
    columns: u32,
    steps: u32,
    panel: u32,
    column_groups: u32,
}

/// Rows of values, `[row][column][limb][N]`, to be stored in a plain matrix.
pub(super) struct Rows<'a> {
    pub first: usize,
    pub count: usize,
    pub values: &'a Buffer<u32>,
}

/// Operands of the product for a chunk of slots and rows of one prime.
pub(super) struct Operands<'a> {
    pub prime: Prime,
    pub queries: usize,
    /// Plain matrix; the prime's first slot is number `limb * degree`.
    pub plain: &'a Buffer<u32>,
    /// Transposed leaves of the chunk.
    pub leaves: &'a Buffer<u32>,
    /// Room for the chunk's sums.
    pub sums: &'a Buffer<u32>,
    /// First slot of the chunk in a polynomial of all limbs.
    pub first_slot: usize,
    pub first_row: usize,
}

impl Kernels {
    pub fn new(device: &Arc<Device>, shape: Shape) -> Result<Self, DriverError> {
        let of = |names: Names| {
            Ok(OfTeam { columns: device.kernel(names.columns)?, product: device.kernel(names.product)? })
        };
        let of_warpgroups = if shape.warpgroups { shape.form.of_warpgroups() } else { None };
        Ok(Self {
            rows: device.kernel(shape.form.rows())?,
            warp: of(shape.form.of_warps())?,
            warpgroup: of_warpgroups.map(of).transpose()?,
            sums: device.kernel("transpose_sums")?,
        })
    }

    fn of_team(&self, team: Team) -> &OfTeam {
        match (team, &self.warpgroup) {
            (Team::Warpgroup, Some(kernels)) => kernels,
            _ => &self.warp,
        }
    }

    /// Queues the transposition of one limb of some rows into the plain matrix.
    pub fn transpose_rows(
        &self,
        stream: &Stream,
        shape: Shape,
        primes: &[Prime],
        limb: usize,
        rows: &Rows<'_>,
        plain: &Buffer<u32>,
    ) -> Result<(), DriverError> {
        let words = primes.len() * shape.degree;
        let slot_words = plain.len() / words;
        assert!(rows.first + rows.count <= shape.rows && limb < primes.len());
        assert!(rows.values.len() >= rows.count * shape.terms * words);
        assert_eq!(Some(slot_words), shape.slot_words());
        let values = rows.values.all().address() + 4 * (limb * shape.degree) as u64;
        let plain = plain.range(limb * shape.degree * slot_words..plain.len());
        let grid = Grid::cube([rows.count, shape.steps(), shape.degree / SLOTS], THREADS).shared(TILE_BYTES);
        let args = args![
            values,
            plain,
            Arg::structure(&primes[limb]),
            rows.first as u32,
            shape.rows as u32,
            shape.terms as u32,
            words as u32,
        ];
        stream.launch(&self.rows, grid, args)
    }

    /// Queues the transposition of a chunk of all queries' leaves. `addresses` begins with the
    /// addresses of the queries' leaves; each query has at least `shape.terms` leaves, whose
    /// polynomials have `words` words.
    pub fn transpose_columns(
        &self,
        stream: &Stream,
        shape: Shape,
        chunk: Chunk,
        words: usize,
        addresses: &Buffer<u64>,
        to: &Operands<'_>,
    ) -> Result<(), DriverError> {
        assert!(to.leaves.len() >= chunk.slots * shape.leaf_words(to.queries));
        assert!(addresses.len() >= to.queries && to.first_slot + chunk.slots <= words);
        let blocks = [to.queries, shape.steps(), chunk.slots / SLOTS];
        let grid = Grid::cube(blocks, THREADS).shared(2 * TILE_BYTES);
        let args = args![addresses, to.leaves, shape.terms as u32, words as u32, to.first_slot as u32];
        stream.launch(&self.of_team(shape.team(to.queries)).columns, grid, args)
    }

    /// Queues the product of a chunk.
    pub fn multiply(
        &self,
        stream: &Stream,
        shape: Shape,
        block: Block,
        chunk: Chunk,
        operands: &Operands<'_>,
    ) -> Result<(), DriverError> {
        let &Operands { prime, queries, plain, leaves, sums, first_slot, first_row } = operands;
        let row_count = chunk.rows.min(shape.rows - first_row);
        let slot_words = shape.slot_words().unwrap_or(usize::MAX);
        assert!(sums.len() >= chunk.slots * 2 * queries * chunk.rows && chunk.rows.is_multiple_of(8));
        assert!(first_row.is_multiple_of(8) && leaves.len() >= chunk.slots * shape.leaf_words(queries));
        assert!(shape.form.holds(prime.q));
        let product = Product {
            prime,
            companion: ((1u64 << 32) / u64::from(prime.q)) as u32,
            quads: lazy_quads(prime.q),
            rows: shape.rows as u32,
            first_row: first_row as u32,
            row_count: row_count as u32,
            row_stride: chunk.rows as u32,
            columns: 2 * queries as u32,
            steps: shape.steps() as u32,
            panel: block.panel as u32,
            column_groups: block.columns as u32,
        };
        let plain = plain.range(first_slot * slot_words..(first_slot + chunk.slots) * slot_words);
        let threads = 32 * block.columns * block.rows;
        let grid = Grid::new(chunk.slots * block.blocks, threads).shared(block.shared);
        let kernel = &self.of_team(shape.team(queries)).product;
        stream.launch(kernel, grid, args![plain, leaves, sums, Arg::structure(&product)])
    }

    /// Queues the transposition of a chunk's sums to the results. The second half of `addresses`
    /// has the addresses of the queries' results, each of `shape.rows` ciphertexts.
    pub fn transpose_sums(
        &self,
        stream: &Stream,
        shape: Shape,
        chunk: Chunk,
        words: usize,
        addresses: &Buffer<u64>,
        from: &Operands<'_>,
    ) -> Result<(), DriverError> {
        let row_count = chunk.rows.min(shape.rows - from.first_row);
        assert!(from.sums.len() >= chunk.slots * 2 * from.queries * chunk.rows);
        assert!(addresses.len() / 2 >= from.queries && from.first_slot + chunk.slots <= words);
        let blocks = [row_count.div_ceil(32), 2 * from.queries, chunk.slots / SLOTS];
        let grid = Grid::cube(blocks, THREADS).shared(TILE_BYTES);
        let results = addresses.range(addresses.len() / 2..addresses.len());
        let args = args![
            results,
            from.sums,
            from.first_row as u32,
            row_count as u32,
            chunk.rows as u32,
            words as u32,
            from.first_slot as u32,
        ];
        stream.launch(&self.sums, grid, args)
    }
}

/// Returns the number of quads of products of residues that fit in a 64-bit sum on top of a folded
/// sum, which is below 2q 2^32.
fn lazy_quads(q: u32) -> u32 {
    let (q, most) = (u128::from(q), u128::from(q - 1));
    let terms = ((1u128 << 64) - (q << 33)) / (most * most).max(1);
    (terms / 4).min(1 << 20) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_take_what_fits() {
        for q in [12289, 67_043_329, 134_176_769, (1 << 28) - 57, 536_608_769, (1 << 30) - 35] {
            let terms = 4 * u128::from(lazy_quads(q));
            let most = u128::from(q - 1);
            assert!(terms >= 8 && (u128::from(q) << 33) - 1 + terms * most * most < 1 << 64, "{q}");
        }
        assert_eq!([536_608_769, 1_073_692_673].map(lazy_quads), [12, 2]);
    }
}
