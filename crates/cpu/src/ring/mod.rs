//! The steps on rings: [`RingBackend`] for [`CpuBackend`].
//!
//! Polynomials are values nearly all the time, in the order of the plans of `spirea_math`.
//! Observable results equal those by definition, bit for bit. [`lanes`] lists the operations that
//! an instruction set supplies; everything else is written once over them:
//!
//! - [`modular`] multiplies and reduces, [`ntt`] transforms, [`digits`] decomposes;
//! - [`product`] multiplies digits by [`keys`], for [`tournament`] and, with [`image`]s, for
//!   [`expand`] and [`rotate`];
//! - [`fixed`] packs with constant uniform halves, whose known digits [`substitute`] uses;
//! - [`residues`] switches keys with a special prime and multiplies ciphertexts, for protocols with
//!   ciphertexts of their own;
//! - [`fold`] multiplies plaintexts, in [`narrow`] words, by leaves in the order of [`layout`];
//!   [`ciphertexts`] ends the pipeline.

mod ciphertexts;
mod digits;
mod expand;
mod fixed;
mod fold;
mod image;
mod keys;
mod lanes;
mod layout;
mod modular;
mod narrow;
mod ntt;
mod pool;
mod portable;
mod product;
mod residues;
mod rotate;
mod scratch;
mod substitute;
mod tables;
mod tournament;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use std::sync::Arc;

use spirea_backend::{
    Backend, BackendError, Bodies, EvaluationKeys, FillPolynomial, FixedPacking, FoldedBlocks, PackedEnds,
    PanelLayout, RingBackend, SwitchedBits, centred, check_batches, check_ciphertexts,
};
use spirea_math::{Expansion, Gadget, Ring, Rotations};

pub use ciphertexts::RingCiphertexts;
pub use expand::Schedule;
pub use fixed::RingFixed;
pub use fold::RingPlain;
pub use keys::RingKeys;
pub use layout::RingLeaves;
pub(crate) use ntt::Direction;
pub(crate) use pool::WorkingMemory;
pub use residues::ProductTables;
pub use tables::RingTables;
pub use tournament::RingSelectors;

use crate::isa::{Found, Portable, with_token};
use crate::machine;
use crate::{CpuBackend, CpuMatrix};
use fixed::Room;
use lanes::WordLanes;
use modular::MultiplyAdds;

/// Columns of a public matrix, with which matrices of a layout are folded.
#[derive(Debug)]
pub struct RingColumns {
    layout: PanelLayout,
    words: Vec<u32>,
}

/// Evaluates an expression with `$lanes` bound to the lanes of an instruction set.
macro_rules! with_lanes {
    ($found:expr, $lanes:ident => $operation:expr) => {
        with_token!($found, Portable::<8>, $lanes => $operation)
    };
}
use with_lanes;

/// Returns the number of lanes of an instruction set.
pub(crate) fn lanes_of(found: Found) -> usize {
    fn count<L: WordLanes<W>, const W: usize>(_: L) -> usize {
        W
    }
    with_lanes!(found, lanes => count(lanes))
}

/// Computes `rounds` rounds of products and sums in registers; returns the number of products.
pub(crate) fn multiply_adds(found: Found, rounds: u64) -> u64 {
    with_lanes!(found, lanes => lanes.run(MultiplyAdds { rounds }))
}

/// Transforms a polynomial.
pub(crate) fn transform(
    found: Found,
    tables: &RingTables,
    direction: Direction,
    from: &[u32],
    to: &mut [u32],
) {
    with_lanes!(found, lanes => ntt::transform(lanes, tables, direction, from, to));
}

/// Leaves may take 1/16 of the machine's memory; databases need the rest.
const LEAVES_SHARE: u64 = 16;

impl RingBackend for CpuBackend {
    type Tables = RingTables;
    type Keys = RingKeys;
    type Plain = RingPlain;
    type Columns = RingColumns;
    type Leaves = Vec<RingLeaves>;
    type Ciphertexts = Vec<RingCiphertexts>;
    type Selectors = RingSelectors;
    type Matrices = Vec<CpuMatrix>;
    type Fixed = RingFixed;

    /// Returns a share of the machine's memory.
    fn leaves_memory(&self) -> u64 {
        machine::memory_bytes() / LEAVES_SHARE
    }

    fn tables(&self, ring: &Arc<Ring>) -> Result<RingTables, BackendError> {
        RingTables::new(ring, lanes_of(self.found))
    }

    fn keys(&self, tables: &RingTables, keys: EvaluationKeys<'_>) -> Result<RingKeys, BackendError> {
        self.install(|| RingKeys::new(tables, keys))
    }

    fn encode(
        &self,
        tables: &RingTables,
        rows: usize,
        columns: usize,
        fill: &FillPolynomial<'_>,
    ) -> Result<RingPlain, BackendError> {
        let mut plain =
            with_lanes!(self.found, lanes => RingPlain::room(lanes, tables, &self.memory, rows, columns))?;
        self.install(|| {
            with_lanes!(self.found, lanes => plain.blocks().try_for_each(|block| {
                fold::encode_columns(lanes, tables, &self.memory, &mut plain, block, fill)
            }))
        })?;
        Ok(plain)
    }

    fn expand(
        &self,
        tables: &RingTables,
        expansion: Expansion,
        queries: &[(&RingKeys, &[u32])],
    ) -> Result<Vec<RingLeaves>, BackendError> {
        self.install(|| {
            with_lanes!(self.found, lanes => {
                expand::expand(lanes, tables, &self.memory, self.schedule, expansion, queries)
            })
        })
    }

    fn leaves(
        &self,
        tables: &RingTables,
        queries: usize,
        words: &[u32],
    ) -> Result<Vec<RingLeaves>, BackendError> {
        let count = check_ciphertexts(tables.ring(), queries, words)?;
        let of_query = words.chunks_exact((count * 2 * tables.words()).max(1)).take(queries);
        self.install(|| {
            with_lanes!(self.found, lanes => {
                of_query.map(|words| RingLeaves::of(lanes, tables, &self.memory, words)).collect()
            })
        })
    }

    fn expand_leaf(
        &self,
        tables: &RingTables,
        expansion: Expansion,
        keys: &[&RingKeys],
        leaves: &Vec<RingLeaves>,
        leaf: usize,
    ) -> Result<Vec<RingLeaves>, BackendError> {
        self.install(|| {
            with_lanes!(self.found, lanes => {
                let roots = expand::Roots { leaves, leaf };
                expand::expand_leaf(lanes, tables, &self.memory, self.schedule, expansion, keys, roots)
            })
        })
    }

    fn rotate(
        &self,
        tables: &RingTables,
        rotations: Rotations,
        keys: &[&RingKeys],
        leaves: &Vec<RingLeaves>,
    ) -> Result<Vec<RingLeaves>, BackendError> {
        self.install(|| {
            with_lanes!(self.found, lanes => {
                rotate::rotate(lanes, tables, &self.memory, rotations, keys, leaves)
            })
        })
    }

    fn poly_fold(
        &self,
        tables: &RingTables,
        plain: &[RingPlain],
        leaves: &Vec<RingLeaves>,
    ) -> Result<Vec<RingCiphertexts>, BackendError> {
        self.install(|| {
            with_lanes!(self.found, lanes => {
                fold::poly_fold(lanes, tables, &self.memory, plain, leaves)
            })
        })
    }

    fn sum_rotated(
        &self,
        tables: &RingTables,
        rotations: Rotations,
        keys: &[&RingKeys],
        ciphertexts: Vec<RingCiphertexts>,
    ) -> Result<Vec<RingCiphertexts>, BackendError> {
        self.install(|| {
            with_lanes!(self.found, lanes => {
                rotate::sum_rotated(lanes, tables, &self.memory, rotations, keys, ciphertexts)
            })
        })
    }

    fn add_bodies(
        &self,
        tables: &RingTables,
        ciphertexts: &mut Vec<RingCiphertexts>,
        folded: &Vec<u32>,
        bodies: &Bodies,
        bits: u32,
    ) -> Result<(), BackendError> {
        self.install(|| {
            with_lanes!(self.found, lanes => {
                ciphertexts::add_bodies(lanes, tables, ciphertexts, folded, bodies, bits)
            })
        })
    }

    fn selectors(
        &self,
        tables: &RingTables,
        keys: &[&RingKeys],
        leaves: &Vec<RingLeaves>,
        first: usize,
        depth: usize,
        gadget: Gadget,
    ) -> Result<RingSelectors, BackendError> {
        self.install(|| {
            with_lanes!(self.found, lanes => {
                tournament::selectors(lanes, tables, &self.memory, keys, leaves, first, depth, gadget)
            })
        })
    }

    fn rgsw_fold(
        &self,
        tables: &RingTables,
        selectors: &RingSelectors,
        ciphertexts: Vec<RingCiphertexts>,
    ) -> Result<Vec<RingCiphertexts>, BackendError> {
        self.install(|| {
            with_lanes!(self.found, lanes => {
                tournament::rgsw_fold(lanes, tables, &self.memory, selectors, ciphertexts)
            })
        })
    }

    fn ciphertext_words(
        &self,
        tables: &RingTables,
        ciphertexts: &Vec<RingCiphertexts>,
    ) -> Result<Vec<u32>, BackendError> {
        let mut words = Vec::new();
        ciphertexts.iter().for_each(|ciphertexts| ciphertexts.push_in_order(tables, &mut words));
        Ok(words)
    }

    fn ciphertexts(
        &self,
        tables: &RingTables,
        queries: usize,
        words: &[u32],
    ) -> Result<Vec<RingCiphertexts>, BackendError> {
        let count = check_ciphertexts(tables.ring(), queries, words)?;
        let of_query = |query: usize| {
            let words = &words[query * count * 2 * tables.words()..][..count * 2 * tables.words()];
            RingCiphertexts::of(tables, &self.memory, words)
        };
        (0..queries).map(of_query).collect()
    }

    fn mod_switch(
        &self,
        tables: &RingTables,
        parts: &[&Vec<RingCiphertexts>],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        self.install(|| {
            with_lanes!(self.found, lanes => {
                ciphertexts::mod_switch(lanes, tables, parts, bits)
            })
        })
    }

    fn reinterpret(
        &self,
        tables: &RingTables,
        ciphertexts: &Vec<RingCiphertexts>,
        bits: SwitchedBits,
        layout: PanelLayout,
    ) -> Result<Vec<CpuMatrix>, BackendError> {
        let switched = self.mod_switch(tables, &[ciphertexts], bits)?;
        let matrix = |bytes: &Vec<u8>| {
            let columns = bytes.chunks_exact(bits.bytes(tables.degree()));
            self.upload(layout, &layout.with_columns(columns)?)
        };
        switched.iter().map(matrix).collect()
    }

    fn scalar_fold_own(&self, matrices: &Vec<CpuMatrix>, queries: &[u32]) -> Result<Vec<u32>, BackendError> {
        let Some(layout) = matrices.first().map(CpuMatrix::layout) else { return Ok(Vec::new()) };
        check_batches(matrices.len(), layout.batch_of(queries.len())?)?;
        let queries = queries.chunks_exact(layout.columns());
        let answers = matrices.iter().zip(queries).map(|(matrix, query)| self.scalar_fold(matrix, query));
        Ok(answers.collect::<Result<Vec<_>, _>>()?.concat())
    }

    fn columns(&self, layout: PanelLayout, words: &[u32]) -> Result<RingColumns, BackendError> {
        layout.columns_of(words)?;
        Ok(RingColumns { layout, words: words.to_vec() })
    }

    fn encode_fold(
        &self,
        tables: &RingTables,
        matrices: &Vec<CpuMatrix>,
        columns: &RingColumns,
        folded: FoldedBlocks,
        leaves: &Vec<RingLeaves>,
    ) -> Result<Vec<RingCiphertexts>, BackendError> {
        check_batches(matrices.len(), leaves.len())?;
        let of_query = |(matrix, leaves): (&CpuMatrix, &RingLeaves)| {
            let plain = self.encode_answers(tables, matrix, columns, folded)?;
            let leaves = std::slice::from_ref(leaves);
            self.install(|| {
                with_lanes!(self.found, lanes => {
                    fold::poly_fold(lanes, tables, &self.memory, std::slice::from_ref(&plain), leaves)
                })
            })
        };
        let ciphertexts = matrices.iter().zip(leaves).map(of_query).collect::<Result<Vec<_>, _>>()?;
        Ok(ciphertexts.into_iter().flatten().collect())
    }

    fn fix_uniform(
        &self,
        tables: &RingTables,
        packing: FixedPacking,
        uniform: &[u32],
        plain: &[RingPlain],
        bits: SwitchedBits,
    ) -> Result<(RingFixed, Vec<u8>), BackendError> {
        let (fixed, results) = self.install(|| {
            with_lanes!(self.found, lanes => {
                let room = Room { lanes, tables, memory: &self.memory, schedule: self.schedule };
                fixed::fix(room, packing, uniform, plain)
            })
        })?;
        let switched = self.mod_switch(tables, &[&results], bits)?.concat();
        let [halves, _] = bits.halves(tables.degree(), &switched);
        Ok((fixed, halves))
    }

    fn pack_fixed(
        &self,
        tables: &RingTables,
        fixed: &RingFixed,
        plain: &[RingPlain],
        queries: &[&[u32]],
        ends: PackedEnds<'_, Vec<u32>>,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        let PackedEnds { folded, bodies, plaintext_bits, switched } = ends;
        self.install(|| {
            with_lanes!(self.found, lanes => {
                let room = Room { lanes, tables, memory: &self.memory, schedule: self.schedule };
                let mut packed = fixed::pack(room, fixed, plain, queries)?;
                ciphertexts::add_bodies(lanes, tables, &mut packed, folded, bodies, plaintext_bits)?;
                ciphertexts::switch_halves(lanes, tables, &packed, switched.b)
            })
        })
    }
}

impl CpuBackend {
    /// Returns the plaintext polynomials of a matrix's answers to columns. Works on one block of
    /// columns at a time, whose answers are encoded while they are in the caches.
    fn encode_answers(
        &self,
        tables: &RingTables,
        matrix: &CpuMatrix,
        columns: &RingColumns,
        folded: FoldedBlocks,
    ) -> Result<RingPlain, BackendError> {
        let (layout, degree) = (matrix.layout(), tables.degree());
        folded.check(layout, columns.layout, degree)?;
        let width = layout.columns();
        let count = columns.words.len() / width;
        let mut plain = with_lanes!(self.found, lanes => {
            RingPlain::room(lanes, tables, &self.memory, folded.blocks, count)
        })?;
        for block in plain.blocks() {
            let words = self.scalar_fold(matrix, &columns.words[block.start * width..block.end * width])?;
            let fill = |row: usize, column: usize, to: &mut [i32]| {
                let words = &words[(column - block.start) * layout.rows() + row * degree..][..degree];
                to.iter_mut().zip(words).for_each(|(to, &word)| *to = centred(word, folded.bits));
            };
            self.install(|| {
                with_lanes!(self.found, lanes => {
                    fold::encode_columns(lanes, tables, &self.memory, &mut plain, block.clone(), &fill)
                })
            })?;
        }
        Ok(plain)
    }
}
