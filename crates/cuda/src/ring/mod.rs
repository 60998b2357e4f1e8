//! The steps on rings: [`RingBackend`] for [`CudaBackend`].
//!
//! Polynomials are values nearly all the time: `[limb][N]`, in the order of the plans of `spirea_math`, below the
//! primes; what is observable is the same, bit for bit, as by definition.
//!
//! - [`tables`] and [`twiddles`] are what kernels read of a ring, [`transform`] starts its transforms alone;
//! - [`decomposition`] makes digits, [`keys`] what they are multiplied by, [`stages`] multiplies, for [`expand`] and
//!   for [`tournament`];
//! - [`product`] multiplies plaintexts by leaves; [`ends`] begins and ends the pipeline, [`columns`] begins another
//!   one where it ended.
//!
//! Everything is queued in the order of the device's main stream; the host waits only for the bytes of `mod_switch` and
//! in `encode`.

mod ciphertexts;
mod columns;
mod decomposition;
mod ends;
mod expand;
mod keys;
mod product;
mod stages;
mod tables;
mod tournament;
mod transform;
mod twiddles;

use std::ops::Range;
use std::sync::Arc;

use spirea_backend::{
    BackendError, EvaluationKeys, FillPolynomial, FoldedBlocks, PanelLayout, RingBackend, SwitchedBits,
};
use spirea_math::{Expansion, Gadget, Ring};

pub use ciphertexts::{Ciphertexts, Leaves};
pub use columns::Columns;
pub use keys::Keys;
pub use product::{Form, Plain};
pub use stages::Granularity;
pub use tables::Tables;
pub use tournament::Selectors;
pub use transform::{Direction, transform_with};
pub use twiddles::Butterfly;

use crate::{CudaBackend, CudaFolded, CudaMatrix};

impl CudaBackend {
    /// [`RingBackend::rgsw_fold`] of the winners of the first `rounds` rounds.
    pub(crate) fn rgsw_fold_after(
        &self,
        tables: &Tables,
        selectors: &Selectors,
        rounds: usize,
        winners: Ciphertexts,
    ) -> Result<Ciphertexts, BackendError> {
        tournament::rgsw_fold(tables, selectors, rounds, winners)
    }
}

impl RingBackend for CudaBackend {
    type Tables = Tables;
    type Keys = Keys;
    type Leaves = Leaves;
    type Plain = Arc<Plain>;
    type Ciphertexts = Ciphertexts;
    type Selectors = Selectors;
    type Columns = Columns;

    fn tables(&self, ring: &Arc<Ring>) -> Result<Tables, BackendError> {
        Tables::check(ring)?;
        Tables::new(self.device(), ring)
    }

    fn keys(&self, tables: &Tables, keys: EvaluationKeys<'_>) -> Result<Keys, BackendError> {
        Keys::new(tables, keys)
    }

    fn encode(
        &self,
        tables: &Tables,
        rows: usize,
        columns: usize,
        fill: &FillPolynomial<'_>,
    ) -> Result<Arc<Plain>, BackendError> {
        ends::encode(tables, rows, columns, fill).map(Arc::new)
    }

    fn expand(
        &self,
        tables: &Tables,
        expansion: Expansion,
        queries: &[(&Keys, &[u32])],
    ) -> Result<Vec<Leaves>, BackendError> {
        expand::expand(tables, &self.ciphertexts, expansion, queries)
    }

    fn poly_fold(
        &self,
        tables: &Tables,
        plain: &Arc<Plain>,
        leaves: &[&Leaves],
    ) -> Result<Vec<Ciphertexts>, BackendError> {
        product::poly_fold(tables, plain, leaves)
    }

    fn add_bodies(
        &self,
        tables: &Tables,
        ciphertexts: &mut Ciphertexts,
        folded: &CudaFolded,
        words: Range<usize>,
        bits: u32,
    ) -> Result<(), BackendError> {
        ends::add_bodies(tables, ciphertexts, folded.words(), words, bits)
    }

    fn selectors(
        &self,
        tables: &Tables,
        keys: &Keys,
        leaves: &Leaves,
        first: usize,
        depth: usize,
        gadget: Gadget,
    ) -> Result<Selectors, BackendError> {
        tournament::selectors(tables, keys, leaves, first, depth, gadget)
    }

    fn rgsw_fold(
        &self,
        tables: &Tables,
        selectors: &Selectors,
        ciphertexts: Ciphertexts,
    ) -> Result<Ciphertexts, BackendError> {
        tournament::rgsw_fold(tables, selectors, 0, ciphertexts)
    }

    fn mod_switch(
        &self,
        tables: &Tables,
        ciphertexts: &[&Ciphertexts],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        ends::mod_switch(tables, ciphertexts, bits)
    }

    fn reinterpret(
        &self,
        tables: &Tables,
        ciphertexts: &Ciphertexts,
        bits: SwitchedBits,
        layout: PanelLayout,
    ) -> Result<CudaMatrix, BackendError> {
        ends::reinterpret(tables, ciphertexts, bits, layout)
    }

    fn columns(&self, layout: PanelLayout, words: &[u32]) -> Result<Columns, BackendError> {
        Columns::new(self.device(), layout, words)
    }

    fn encode_fold(
        &self,
        tables: &Tables,
        matrix: &CudaMatrix,
        columns: &Columns,
        folded: FoldedBlocks,
    ) -> Result<Arc<Plain>, BackendError> {
        columns.encode_fold(tables, matrix, 0, folded)
    }
}
