//! The steps on rings: [`RingBackend`] for [`CpuBackend`].
//!
//! Polynomials are values nearly all the time, in the order of the plans of `spirea_math`; what is observable
//! is the same, bit for bit, as by definition. [`lanes`] is what an instruction set supplies; everything else
//! is written once over it:
//!
//! - [`modular`] multiplies and reduces, [`ntt`] transforms, [`digits`] decomposes;
//! - [`product`] multiplies digits by keys, for [`expand`] and for [`tournament`];
//! - [`fold`] multiplies plaintexts by leaves in the order of [`layout`]; [`ciphertexts`] ends the pipeline.

mod ciphertexts;
mod digits;
mod expand;
mod fold;
mod lanes;
mod layout;
mod modular;
mod ntt;
mod plain;
mod pool;
mod product;
mod tables;
mod tournament;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use spirea_backend::{
    Backend, BackendError, EvaluationKeys, FillPolynomial, FoldedBlocks, PanelLayout, RingBackend,
    SwitchedBits, centred,
};
use spirea_math::{Expansion, Gadget, Ring};

pub use ciphertexts::RingCiphertexts;
pub use expand::Schedule;
pub use fold::RingPlain;
pub use layout::RingLeaves;
pub(crate) use ntt::Direction;
pub(crate) use pool::WorkingMemory;
pub use tables::RingTables;
pub use tournament::RingSelectors;

use crate::isa::Isa;
use crate::{CpuBackend, CpuMatrix};
use lanes::WordLanes;
use product::{DigitKeys, RGSW, SUBSTITUTION};

/// A client's evaluation keys.
#[derive(Debug)]
pub struct RingKeys {
    /// By level.
    expansion: Vec<DigitKeys>,
    conversion: Option<DigitKeys>,
}

/// Columns of a public matrix that matrices in a layout are folded with.
#[derive(Debug)]
pub struct RingColumns {
    layout: PanelLayout,
    words: Vec<u32>,
}

/// The operations compiled for an instruction set.
pub(crate) trait RingKernels: Send + Sync {
    fn lanes(&self) -> usize;
    fn multiply_adds(&self, rounds: u64) -> u64;
    fn transform(&self, tables: &RingTables, direction: Direction, from: &[u32], to: &mut [u32]);
    /// Columns of a matrix among its [`blocks`](RingPlain::blocks).
    fn encode_columns(
        &self,
        tables: &RingTables,
        plain: &mut RingPlain,
        columns: Range<usize>,
        fill: &FillPolynomial<'_>,
    ) -> Result<(), BackendError>;
    fn expand(
        &self,
        tables: &RingTables,
        schedule: Schedule,
        expansion: Expansion,
        keys: &RingKeys,
        words: &[u32],
    ) -> Result<RingLeaves, BackendError>;
    fn poly_fold(
        &self,
        tables: &RingTables,
        plain: &RingPlain,
        leaves: &[&RingLeaves],
    ) -> Result<Vec<RingCiphertexts>, BackendError>;
    fn add_bodies(
        &self,
        tables: &RingTables,
        ciphertexts: &mut RingCiphertexts,
        words: &[u32],
        bits: u32,
    ) -> Result<(), BackendError>;
    #[allow(clippy::too_many_arguments, reason = "those of the operation")]
    fn selectors(
        &self,
        tables: &RingTables,
        keys: &RingKeys,
        leaves: &RingLeaves,
        first: usize,
        depth: usize,
        gadget: Gadget,
    ) -> Result<RingSelectors, BackendError>;
    fn rgsw_fold(
        &self,
        tables: &RingTables,
        selectors: &RingSelectors,
        ciphertexts: RingCiphertexts,
    ) -> Result<RingCiphertexts, BackendError>;
    fn mod_switch(
        &self,
        tables: &RingTables,
        ciphertexts: &[&RingCiphertexts],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError>;
}

/// Lanes and how many they are.
struct Vectors<L, const W: usize>(L);

impl<L: WordLanes<W>, const W: usize> RingKernels for Vectors<L, W> {
    fn lanes(&self) -> usize {
        W
    }

    fn multiply_adds(&self, rounds: u64) -> u64 {
        self.0.run(modular::MultiplyAdds { rounds })
    }

    fn transform(&self, tables: &RingTables, direction: Direction, from: &[u32], to: &mut [u32]) {
        ntt::transform(self.0, tables, direction, from, to);
    }

    fn encode_columns(
        &self,
        tables: &RingTables,
        plain: &mut RingPlain,
        columns: Range<usize>,
        fill: &FillPolynomial<'_>,
    ) -> Result<(), BackendError> {
        fold::encode_columns(self.0, tables, plain, columns, fill)
    }

    fn expand(
        &self,
        tables: &RingTables,
        schedule: Schedule,
        expansion: Expansion,
        keys: &RingKeys,
        words: &[u32],
    ) -> Result<RingLeaves, BackendError> {
        expand::expand(self.0, tables, schedule, expansion, &keys.expansion, words)
    }

    fn poly_fold(
        &self,
        tables: &RingTables,
        plain: &RingPlain,
        leaves: &[&RingLeaves],
    ) -> Result<Vec<RingCiphertexts>, BackendError> {
        fold::poly_fold(self.0, tables, plain, leaves)
    }

    fn add_bodies(
        &self,
        tables: &RingTables,
        ciphertexts: &mut RingCiphertexts,
        words: &[u32],
        bits: u32,
    ) -> Result<(), BackendError> {
        ciphertexts::add_bodies(self.0, tables, ciphertexts, words, bits)
    }

    fn selectors(
        &self,
        tables: &RingTables,
        keys: &RingKeys,
        leaves: &RingLeaves,
        first: usize,
        depth: usize,
        gadget: Gadget,
    ) -> Result<RingSelectors, BackendError> {
        tournament::selectors(self.0, tables, keys.conversion.as_ref(), leaves, first, depth, gadget)
    }

    fn rgsw_fold(
        &self,
        tables: &RingTables,
        selectors: &RingSelectors,
        ciphertexts: RingCiphertexts,
    ) -> Result<RingCiphertexts, BackendError> {
        tournament::rgsw_fold(self.0, tables, selectors, ciphertexts)
    }

    fn mod_switch(
        &self,
        tables: &RingTables,
        ciphertexts: &[&RingCiphertexts],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        ciphertexts::mod_switch(self.0, tables, ciphertexts, bits)
    }
}

/// The operations of an instruction set, if this machine has it.
pub(crate) fn kernels(isa: Isa) -> Option<Box<dyn RingKernels>> {
    match isa {
        Isa::Portable => Some(Box::new(Vectors(plain::Plain::<8>))),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => crate::isa::Avx2::detect().map(|token| Box::new(Vectors(token)) as _),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => crate::isa::Avx512::detect().map(|token| Box::new(Vectors(token)) as _),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx512 => None,
    }
}

impl RingBackend for CpuBackend {
    type Tables = RingTables;
    type Keys = RingKeys;
    type Leaves = RingLeaves;
    type Plain = RingPlain;
    type Ciphertexts = RingCiphertexts;
    type Selectors = RingSelectors;
    type Columns = RingColumns;

    fn tables(&self, ring: &Arc<Ring>) -> Result<RingTables, BackendError> {
        RingTables::new(ring, self.ring.lanes(), self.memory.clone())
    }

    fn keys(&self, tables: &RingTables, keys: EvaluationKeys<'_>) -> Result<RingKeys, BackendError> {
        let levels = keys.levels(tables.ring())? as usize;
        let take = |gadget, sources, words: &[u32]| {
            Ok(DigitKeys::new(tables, gadget, sources)?.filled(tables, words))
        };
        self.pool.install(|| {
            let of_level = (keys.expansion.len() / levels.max(1)).max(1);
            let expansion = keys.expansion.par_chunks(of_level);
            let expansion = expansion.map(|words| take(keys.expansion_gadget, SUBSTITUTION, words));
            let conversion = (!keys.conversion.is_empty())
                .then(|| take(keys.conversion_gadget, RGSW, keys.conversion))
                .transpose()?;
            Ok(RingKeys { expansion: expansion.collect::<Result<_, BackendError>>()?, conversion })
        })
    }

    fn encode(
        &self,
        tables: &RingTables,
        rows: usize,
        columns: usize,
        fill: &FillPolynomial<'_>,
    ) -> Result<RingPlain, BackendError> {
        let mut plain = RingPlain::room(tables, rows, columns)?;
        self.pool.install(|| {
            plain.blocks().try_for_each(|block| self.ring.encode_columns(tables, &mut plain, block, fill))
        })?;
        Ok(plain)
    }

    fn expand(
        &self,
        tables: &RingTables,
        expansion: Expansion,
        queries: &[(&RingKeys, &[u32])],
    ) -> Result<Vec<RingLeaves>, BackendError> {
        let served = |&(keys, words): &(&RingKeys, &[u32])| {
            words.len() == 2 * tables.words() && expansion.levels() as usize <= keys.expansion.len()
        };
        if !queries.iter().all(served) || expansion.levels() > tables.ring().degree().trailing_zeros() {
            return Err(BackendError::Shape("a ciphertext or keys that do not serve the expansion".into()));
        }
        self.pool.install(|| {
            let expand = |&(keys, words): &(&RingKeys, &[u32])| {
                self.ring.expand(tables, self.schedule, expansion, keys, words)
            };
            queries.par_iter().map(expand).collect()
        })
    }

    fn poly_fold(
        &self,
        tables: &RingTables,
        plain: &RingPlain,
        leaves: &[&RingLeaves],
    ) -> Result<Vec<RingCiphertexts>, BackendError> {
        self.pool.install(|| self.ring.poly_fold(tables, plain, leaves))
    }

    fn add_bodies(
        &self,
        tables: &RingTables,
        ciphertexts: &mut RingCiphertexts,
        folded: &Vec<u32>,
        words: Range<usize>,
        bits: u32,
    ) -> Result<(), BackendError> {
        let answers = folded.len();
        let Some(words) = folded.get(words) else {
            return Err(BackendError::Shape(format!("bodies that are not among {answers} answers")));
        };
        self.pool.install(|| self.ring.add_bodies(tables, ciphertexts, words, bits))
    }

    fn selectors(
        &self,
        tables: &RingTables,
        keys: &RingKeys,
        leaves: &RingLeaves,
        first: usize,
        depth: usize,
        gadget: Gadget,
    ) -> Result<RingSelectors, BackendError> {
        self.pool.install(|| self.ring.selectors(tables, keys, leaves, first, depth, gadget))
    }

    fn rgsw_fold(
        &self,
        tables: &RingTables,
        selectors: &RingSelectors,
        ciphertexts: RingCiphertexts,
    ) -> Result<RingCiphertexts, BackendError> {
        self.pool.install(|| self.ring.rgsw_fold(tables, selectors, ciphertexts))
    }

    fn mod_switch(
        &self,
        tables: &RingTables,
        ciphertexts: &[&RingCiphertexts],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        self.pool.install(|| self.ring.mod_switch(tables, ciphertexts, bits))
    }

    fn reinterpret(
        &self,
        tables: &RingTables,
        ciphertexts: &RingCiphertexts,
        bits: SwitchedBits,
        layout: PanelLayout,
    ) -> Result<CpuMatrix, BackendError> {
        let bytes = self.mod_switch(tables, &[ciphertexts], bits)?.concat();
        self.upload(layout, &layout.with_columns(bytes.chunks_exact(bits.bytes(tables.degree())))?)
    }

    fn columns(&self, layout: PanelLayout, words: &[u32]) -> Result<RingColumns, BackendError> {
        layout.columns_of(words)?;
        Ok(RingColumns { layout, words: words.to_vec() })
    }

    /// A block of columns at a time, whose answers are encoded while they are in the caches.
    fn encode_fold(
        &self,
        tables: &RingTables,
        matrix: &CpuMatrix,
        columns: &RingColumns,
        folded: FoldedBlocks,
    ) -> Result<RingPlain, BackendError> {
        let (layout, degree) = (matrix.layout(), tables.degree());
        folded.check(layout, columns.layout, degree)?;
        let width = layout.columns();
        let mut plain = RingPlain::room(tables, folded.blocks, columns.words.len() / width)?;
        for block in plain.blocks() {
            let words = self.scalar_fold(matrix, &columns.words[block.start * width..block.end * width])?;
            let fill = |row: usize, column: usize, to: &mut [i32]| {
                let words = &words[(column - block.start) * layout.rows() + row * degree..][..degree];
                to.iter_mut().zip(words).for_each(|(to, &word)| *to = centred(word, folded.bits));
            };
            self.pool.install(|| self.ring.encode_columns(tables, &mut plain, block.clone(), &fill))?;
        }
        Ok(plain)
    }
}
