//! The steps on rings: [`RingBackend`] for [`CudaBackend`].
//!
//! Polynomials are nearly always values (NTT form): `[limb][N]`, in the order of the plans of
//! `spirea_math`, below the primes. Observable results agree bit for bit with the definition.
//!
//! - [`primes`], [`twiddles`] and [`tables`] are the constants of a ring that kernels read;
//!   [`transform`] runs its transforms alone.
//! - [`decomposition`] makes digits, [`keys`] holds their multipliers, and [`stages`] multiplies
//!   both, by kernels of a [`granularity`]: for the [`substitutions`] of [`expand`] and
//!   [`rotations`], and for [`tournament`].
//! - [`product`] multiplies plaintexts by leaves; [`ends`] begins and ends the pipeline;
//!   [`columns`] begins a second pipeline with the results of the first.
//!
//! All work is queued in the order of the device's main stream. The host waits only for the bytes
//! of `mod_switch` and in `encode`.

mod ciphertexts;
mod columns;
mod decomposition;
mod ends;
mod expand;
mod granularity;
mod keys;
mod primes;
mod product;
mod rotations;
mod stages;
mod substitutions;
mod tables;
mod tournament;
mod transform;
mod twiddles;

use std::sync::Arc;

use spirea_backend::{
    BackendError, Bodies, EvaluationKeys, FillPolynomial, FoldedBlocks, PanelLayout, RingBackend,
    SwitchedBits, check_batches, check_ciphertexts, whole_halves,
};
use spirea_math::{Expansion, Gadget, Ring, Rotations};

pub use ciphertexts::{Ciphertexts, Leaves};
pub use columns::Columns;
pub use granularity::Granularity;
pub use keys::Keys;
pub use product::{Form, Plain};
pub use tables::Tables;
pub use tournament::Selectors;
pub use transform::{Direction, transform_with};
pub use twiddles::Butterfly;

use crate::driver::View;
use crate::{CudaBackend, CudaFolded, CudaMatrix};

/// Leaves may take 1/16 of a device's memory; databases need the rest.
const LEAVES_SHARE: u64 = 16;

impl CudaBackend {
    /// Runs [`RingBackend::expand_leaf`] for queries with these leaves.
    pub(crate) fn expand_leaf_of(
        &self,
        tables: &Tables,
        expansion: Expansion,
        queries: &[(&Keys, View<'_, u32>)],
        leaf: usize,
    ) -> Result<Leaves, BackendError> {
        expand::expand_leaf(tables, expansion, queries, leaf)
    }

    /// Runs [`RingBackend::rotate`] for queries with these leaves.
    pub(crate) fn rotate_of(
        &self,
        tables: &Tables,
        rotations: Rotations,
        queries: &[(&Keys, View<'_, u32>)],
    ) -> Result<Leaves, BackendError> {
        rotations::rotate(tables, rotations, queries)
    }

    /// Runs [`RingBackend::poly_fold`] for matrices that are not contiguous.
    pub(crate) fn poly_fold_of(
        &self,
        tables: &Tables,
        plain: &[&Plain],
        leaves: &Leaves,
    ) -> Result<Ciphertexts, BackendError> {
        product::poly_fold(tables, plain, leaves)
    }

    /// Runs [`RingBackend::rgsw_fold`] on the winners of the first `rounds` rounds.
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
    type Plain = Plain;
    type Columns = Columns;
    type Leaves = Leaves;
    type Ciphertexts = Ciphertexts;
    type Selectors = Selectors;
    type Matrices = Vec<CudaMatrix>;

    /// Returns a fixed fraction of the device's memory. The memory of a batch is reserved before a
    /// database answers, so the bound must not depend on the loaded databases.
    fn leaves_memory(&self) -> u64 {
        self.device().properties().memory_bytes as u64 / LEAVES_SHARE
    }

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
    ) -> Result<Plain, BackendError> {
        ends::encode(tables, rows, columns, fill)
    }

    fn expand(
        &self,
        tables: &Tables,
        expansion: Expansion,
        queries: &[(&Keys, &[u32])],
    ) -> Result<Leaves, BackendError> {
        expand::expand(tables, &self.ciphertexts, expansion, queries)
    }

    fn leaves(&self, tables: &Tables, queries: usize, words: &[u32]) -> Result<Leaves, BackendError> {
        self.ciphertexts(tables, queries, words)
    }

    fn expand_leaf(
        &self,
        tables: &Tables,
        expansion: Expansion,
        keys: &[&Keys],
        leaves: &Leaves,
        leaf: usize,
    ) -> Result<Leaves, BackendError> {
        self.expand_leaf_of(tables, expansion, &leaves.with(tables, keys)?, leaf)
    }

    fn rotate(
        &self,
        tables: &Tables,
        rotations: Rotations,
        keys: &[&Keys],
        leaves: &Leaves,
    ) -> Result<Leaves, BackendError> {
        self.rotate_of(tables, rotations, &leaves.with(tables, keys)?)
    }

    fn poly_fold(
        &self,
        tables: &Tables,
        plain: &[Plain],
        leaves: &Leaves,
    ) -> Result<Ciphertexts, BackendError> {
        self.poly_fold_of(tables, &plain.iter().collect::<Vec<_>>(), leaves)
    }

    fn sum_rotated(
        &self,
        tables: &Tables,
        rotations: Rotations,
        keys: &[&Keys],
        ciphertexts: Ciphertexts,
    ) -> Result<Ciphertexts, BackendError> {
        rotations::sum_rotated(tables, rotations, keys, ciphertexts)
    }

    fn add_bodies(
        &self,
        tables: &Tables,
        ciphertexts: &mut Ciphertexts,
        folded: &CudaFolded,
        bodies: &Bodies,
        bits: u32,
    ) -> Result<(), BackendError> {
        ends::add_bodies(tables, ciphertexts, folded.words()?, bodies, bits)
    }

    fn selectors(
        &self,
        tables: &Tables,
        keys: &[&Keys],
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

    fn ciphertext_words(&self, tables: &Tables, ciphertexts: &Ciphertexts) -> Result<Vec<u32>, BackendError> {
        let main = self.device().main();
        let mut all = Vec::new();
        for query in 0..ciphertexts.queries() {
            let words = ciphertexts.of(tables, query);
            self.answers.download(&main, &words, |words| all.extend_from_slice(words))?;
        }
        Ok(all)
    }

    fn ciphertexts(
        &self,
        tables: &Tables,
        queries: usize,
        words: &[u32],
    ) -> Result<Ciphertexts, BackendError> {
        let count = check_ciphertexts(tables.ring(), queries, words)?;
        Ciphertexts::of_words(tables, queries, count, words)
    }

    fn mod_switch(
        &self,
        tables: &Tables,
        parts: &[&Ciphertexts],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        ends::mod_switch(tables, &self.answers, parts, bits)
    }

    fn reinterpret(
        &self,
        tables: &Tables,
        ciphertexts: &Ciphertexts,
        bits: SwitchedBits,
        layout: PanelLayout,
    ) -> Result<Vec<CudaMatrix>, BackendError> {
        ends::reinterpret(tables, ciphertexts, bits, layout)
    }

    fn scalar_fold_own(
        &self,
        matrices: &Vec<CudaMatrix>,
        queries: &[u32],
    ) -> Result<CudaFolded, BackendError> {
        let Some(layout) = matrices.first().map(CudaMatrix::layout) else {
            return Ok(CudaFolded::new(self.device().alloc(0)?));
        };
        check_batches(matrices.len(), layout.batch_of(queries.len())?)?;
        let matrices: Vec<_> = matrices.iter().collect();
        self.fold_own(&matrices, &queries.chunks_exact(layout.columns()).collect::<Vec<_>>())
    }

    fn columns(&self, layout: PanelLayout, words: &[u32]) -> Result<Columns, BackendError> {
        Columns::new(self.device(), layout, words)
    }

    fn encode_fold(
        &self,
        tables: &Tables,
        matrices: &Vec<CudaMatrix>,
        columns: &Columns,
        folded: FoldedBlocks,
        leaves: &Leaves,
    ) -> Result<Ciphertexts, BackendError> {
        columns.encode_fold(tables, matrices, 0, folded, leaves)
    }

    whole_halves!(tables => tables.ring());
}
