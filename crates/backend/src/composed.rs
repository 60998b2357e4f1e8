//! Backends composed of other backends: the only code that forwards operations.

use std::sync::Arc;

use spirea_dpf::{Key, PrfKind};
use spirea_math::{Expansion, Gadget, Ring, Rotations};

use crate::{
    Backend, BackendError, BackendId, Bodies, EvaluationKeys, FileRows, FillPolynomial, FixedPacking,
    FoldedBlocks, Operation, PackedEnds, PanelLayout, QueryWords, RingBackend, RingMatrix, RowLayout,
    ShareBackend, ShareFold, SwitchedBits,
};

/// Backend composed of others: selects the backend for an operation and wraps its execution.
/// Implements [`Backend`] and [`RingBackend`] as far as [`Composed::Rings`] does, and
/// [`ShareBackend`] as far as [`Composed::Shares`] does.
pub trait Composed: Send + Sync + 'static {
    /// The backend for matrices and rings.
    type Rings: Send + Sync + 'static;
    /// The backend for shares.
    type Shares: Send + Sync + 'static;

    /// Returns the backend for matrices and rings.
    fn rings(&self) -> &Self::Rings;

    /// Returns the backend for shares.
    fn shares(&self) -> &Self::Shares;

    /// Runs an operation of either backend.
    ///
    /// # Errors
    /// Errors of the operation.
    fn run<T>(
        &self,
        operation: Operation,
        work: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError>;

    /// Runs [`Backend::open`].
    ///
    /// # Errors
    /// Errors of the operation.
    fn open_matrix(
        &self,
        stored: FileRows<'_, PanelLayout>,
    ) -> Result<<Self::Rings as Backend>::Matrix, BackendError>
    where
        Self::Rings: Backend,
    {
        self.rings().open(stored)
    }

    /// Runs [`ShareBackend::open_rows`].
    ///
    /// # Errors
    /// Errors of the operation.
    fn open_records(
        &self,
        stored: FileRows<'_, RowLayout>,
    ) -> Result<<Self::Shares as ShareBackend>::Rows, BackendError>
    where
        Self::Shares: ShareBackend,
    {
        self.shares().open_rows(stored)
    }

    /// Runs [`RingBackend::encode`].
    ///
    /// # Errors
    /// Errors of the operation.
    fn encode_plain(
        &self,
        tables: &<Self::Rings as RingBackend>::Tables,
        rows: usize,
        columns: usize,
        fill: &FillPolynomial<'_>,
    ) -> Result<<Self::Rings as RingBackend>::Plain, BackendError>
    where
        Self::Rings: RingBackend,
    {
        self.rings().encode(tables, rows, columns, fill)
    }
}

impl<C> Backend for C
where
    C: Composed,
    C::Rings: Backend,
{
    type Matrix = <C::Rings as Backend>::Matrix;
    type Folded = <C::Rings as Backend>::Folded;

    fn name(&self) -> String {
        self.rings().name()
    }

    fn id(&self) -> BackendId {
        self.rings().id()
    }

    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        self.rings().each(count, work);
    }

    fn upload(&self, layout: PanelLayout, bytes: &[u8]) -> Result<Self::Matrix, BackendError> {
        self.run(Operation::Upload(layout), || self.rings().upload(layout, bytes))
    }

    fn open(&self, stored: FileRows<'_, PanelLayout>) -> Result<Self::Matrix, BackendError> {
        let part = stored.part()?;
        self.run(Operation::Open(part), || self.open_matrix(stored))
    }

    fn layout(&self, matrix: &Self::Matrix) -> PanelLayout {
        self.rings().layout(matrix)
    }

    fn scalar_fold(&self, matrix: &Self::Matrix, queries: &[u32]) -> Result<Self::Folded, BackendError> {
        let operation = Operation::ScalarFold { layout: self.layout(matrix), words: queries.len() };
        self.run(operation, || self.rings().scalar_fold(matrix, queries))
    }

    fn scalar_fold_from(
        &self,
        matrix: &Self::Matrix,
        queries: &dyn QueryWords,
    ) -> Result<Self::Folded, BackendError> {
        let operation = Operation::ScalarFold { layout: self.layout(matrix), words: queries.count() };
        self.run(operation, || self.rings().scalar_fold_from(matrix, queries))
    }

    fn words(&self, folded: Self::Folded) -> Result<Vec<u32>, BackendError> {
        self.run(Operation::Words, || self.rings().words(folded))
    }

    fn read_words<T>(&self, folded: Self::Folded, read: impl FnOnce(&[u32]) -> T) -> Result<T, BackendError> {
        self.run(Operation::Words, || self.rings().read_words(folded, read))
    }

    fn folded(&self, queries: usize, words: Vec<u32>) -> Result<Self::Folded, BackendError> {
        self.run(Operation::Folded { queries }, || self.rings().folded(queries, words))
    }

    fn module_fold(&self, matrix: &Self::Matrix, a: RingMatrix<'_>) -> Result<Vec<u32>, BackendError> {
        let operation = Operation::ModuleFold { layout: self.layout(matrix), rank: a.rank };
        self.run(operation, || self.rings().module_fold(matrix, a))
    }
}

impl<C> ShareBackend for C
where
    C: Composed,
    C::Shares: ShareBackend,
{
    type Rows = <C::Shares as ShareBackend>::Rows;

    fn upload_rows(&self, layout: RowLayout, bytes: &[u8]) -> Result<Self::Rows, BackendError> {
        self.run(Operation::UploadRows(layout), || self.shares().upload_rows(layout, bytes))
    }

    fn open_rows(&self, stored: FileRows<'_, RowLayout>) -> Result<Self::Rows, BackendError> {
        let part = stored.part()?;
        self.run(Operation::OpenRows(part), || self.open_records(stored))
    }

    fn row_layout(&self, rows: &Self::Rows) -> RowLayout {
        self.shares().row_layout(rows)
    }

    fn share_fold(
        &self,
        rows: &Self::Rows,
        first_row: usize,
        prf: PrfKind,
        keys: &[Key],
    ) -> Result<Vec<u8>, BackendError> {
        let operation = Operation::ShareFold { layout: self.row_layout(rows), keys: keys.len() };
        self.run(operation, || self.shares().share_fold(rows, first_row, prf, keys))
    }

    fn share_folds(
        &self,
        rows: &Self::Rows,
        prf: PrfKind,
        folds: &[ShareFold<'_>],
    ) -> Result<Vec<u8>, BackendError> {
        let keys = folds.iter().map(|fold| fold.keys.len()).sum();
        let operation = Operation::ShareFold { layout: self.row_layout(rows), keys };
        self.run(operation, || self.shares().share_folds(rows, prf, folds))
    }
}

impl<C> RingBackend for C
where
    C: Composed,
    C::Rings: RingBackend,
{
    type Tables = <C::Rings as RingBackend>::Tables;
    type Keys = <C::Rings as RingBackend>::Keys;
    type Plain = <C::Rings as RingBackend>::Plain;
    type Columns = <C::Rings as RingBackend>::Columns;
    type Leaves = <C::Rings as RingBackend>::Leaves;
    type Ciphertexts = <C::Rings as RingBackend>::Ciphertexts;
    type Selectors = <C::Rings as RingBackend>::Selectors;
    type Matrices = <C::Rings as RingBackend>::Matrices;
    type Fixed = <C::Rings as RingBackend>::Fixed;

    fn leaves_memory(&self) -> u64 {
        self.rings().leaves_memory()
    }

    fn tables(&self, ring: &Arc<Ring>) -> Result<Self::Tables, BackendError> {
        self.run(Operation::Tables, || self.rings().tables(ring))
    }

    fn keys(&self, tables: &Self::Tables, keys: EvaluationKeys<'_>) -> Result<Self::Keys, BackendError> {
        self.run(Operation::Keys, || self.rings().keys(tables, keys))
    }

    fn encode(
        &self,
        tables: &Self::Tables,
        rows: usize,
        columns: usize,
        fill: &FillPolynomial<'_>,
    ) -> Result<Self::Plain, BackendError> {
        self.run(Operation::Encode { rows, columns }, || self.encode_plain(tables, rows, columns, fill))
    }

    fn expand(
        &self,
        tables: &Self::Tables,
        expansion: Expansion,
        queries: &[(&Self::Keys, &[u32])],
    ) -> Result<Self::Leaves, BackendError> {
        let operation = Operation::Expand { queries: queries.len(), leaves: expansion.leaves() };
        self.run(operation, || self.rings().expand(tables, expansion, queries))
    }

    fn leaves(
        &self,
        tables: &Self::Tables,
        queries: usize,
        words: &[u32],
    ) -> Result<Self::Leaves, BackendError> {
        self.run(Operation::Ciphertexts { queries }, || self.rings().leaves(tables, queries, words))
    }

    fn expand_leaf(
        &self,
        tables: &Self::Tables,
        expansion: Expansion,
        keys: &[&Self::Keys],
        leaves: &Self::Leaves,
        leaf: usize,
    ) -> Result<Self::Leaves, BackendError> {
        let operation = Operation::ExpandLeaf { queries: keys.len(), leaves: expansion.leaves() };
        self.run(operation, || self.rings().expand_leaf(tables, expansion, keys, leaves, leaf))
    }

    fn rotate(
        &self,
        tables: &Self::Tables,
        rotations: Rotations,
        keys: &[&Self::Keys],
        leaves: &Self::Leaves,
    ) -> Result<Self::Leaves, BackendError> {
        let operation = Operation::Rotate { queries: keys.len(), rotations };
        self.run(operation, || self.rings().rotate(tables, rotations, keys, leaves))
    }

    fn poly_fold(
        &self,
        tables: &Self::Tables,
        plain: &[Self::Plain],
        leaves: &Self::Leaves,
    ) -> Result<Self::Ciphertexts, BackendError> {
        self.run(Operation::PolyFold, || self.rings().poly_fold(tables, plain, leaves))
    }

    fn sum_rotated(
        &self,
        tables: &Self::Tables,
        rotations: Rotations,
        keys: &[&Self::Keys],
        ciphertexts: Self::Ciphertexts,
    ) -> Result<Self::Ciphertexts, BackendError> {
        let operation = Operation::SumRotated { queries: keys.len(), rotations };
        self.run(operation, || self.rings().sum_rotated(tables, rotations, keys, ciphertexts))
    }

    fn add_bodies(
        &self,
        tables: &Self::Tables,
        ciphertexts: &mut Self::Ciphertexts,
        folded: &Self::Folded,
        bodies: &Bodies,
        bits: u32,
    ) -> Result<(), BackendError> {
        let operation = Operation::AddBodies { words: bodies.first.len() };
        self.run(operation, || self.rings().add_bodies(tables, ciphertexts, folded, bodies, bits))
    }

    fn selectors(
        &self,
        tables: &Self::Tables,
        keys: &[&Self::Keys],
        leaves: &Self::Leaves,
        first: usize,
        depth: usize,
        gadget: Gadget,
    ) -> Result<Self::Selectors, BackendError> {
        let operation = Operation::Selectors { queries: keys.len(), depth };
        self.run(operation, || self.rings().selectors(tables, keys, leaves, first, depth, gadget))
    }

    fn rgsw_fold(
        &self,
        tables: &Self::Tables,
        selectors: &Self::Selectors,
        ciphertexts: Self::Ciphertexts,
    ) -> Result<Self::Ciphertexts, BackendError> {
        self.run(Operation::RgswFold, || self.rings().rgsw_fold(tables, selectors, ciphertexts))
    }

    fn ciphertext_words(
        &self,
        tables: &Self::Tables,
        ciphertexts: &Self::Ciphertexts,
    ) -> Result<Vec<u32>, BackendError> {
        self.run(Operation::CiphertextWords, || self.rings().ciphertext_words(tables, ciphertexts))
    }

    fn ciphertexts(
        &self,
        tables: &Self::Tables,
        queries: usize,
        words: &[u32],
    ) -> Result<Self::Ciphertexts, BackendError> {
        self.run(Operation::Ciphertexts { queries }, || self.rings().ciphertexts(tables, queries, words))
    }

    fn mod_switch(
        &self,
        tables: &Self::Tables,
        parts: &[&Self::Ciphertexts],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        self.run(Operation::ModSwitch(bits), || self.rings().mod_switch(tables, parts, bits))
    }

    fn reinterpret(
        &self,
        tables: &Self::Tables,
        ciphertexts: &Self::Ciphertexts,
        bits: SwitchedBits,
        layout: PanelLayout,
    ) -> Result<Self::Matrices, BackendError> {
        self.run(Operation::Reinterpret(layout), || {
            self.rings().reinterpret(tables, ciphertexts, bits, layout)
        })
    }

    fn scalar_fold_own(
        &self,
        matrices: &Self::Matrices,
        queries: &[u32],
    ) -> Result<Self::Folded, BackendError> {
        let operation = Operation::ScalarFoldOwn { words: queries.len() };
        self.run(operation, || self.rings().scalar_fold_own(matrices, queries))
    }

    fn columns(&self, layout: PanelLayout, words: &[u32]) -> Result<Self::Columns, BackendError> {
        self.run(Operation::Columns(layout), || self.rings().columns(layout, words))
    }

    fn encode_fold(
        &self,
        tables: &Self::Tables,
        matrices: &Self::Matrices,
        columns: &Self::Columns,
        folded: FoldedBlocks,
        leaves: &Self::Leaves,
    ) -> Result<Self::Ciphertexts, BackendError> {
        self.run(Operation::EncodeFold(folded), || {
            self.rings().encode_fold(tables, matrices, columns, folded, leaves)
        })
    }

    fn fix_uniform(
        &self,
        tables: &Self::Tables,
        packing: FixedPacking,
        uniform: &[u32],
        plain: &[Self::Plain],
        bits: SwitchedBits,
    ) -> Result<(Self::Fixed, Vec<u8>), BackendError> {
        self.run(Operation::FixUniform(packing), || {
            self.rings().fix_uniform(tables, packing, uniform, plain, bits)
        })
    }

    fn pack_fixed(
        &self,
        tables: &Self::Tables,
        fixed: &Self::Fixed,
        plain: &[Self::Plain],
        queries: &[&[u32]],
        ends: PackedEnds<'_, Self::Folded>,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        let operation = Operation::PackFixed { queries: queries.len() };
        self.run(operation, || self.rings().pack_fixed(tables, fixed, plain, queries, ends))
    }
}
