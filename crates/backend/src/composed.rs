//! Backends made of others: the only place that hands operations on.

use std::path::Path;
use std::sync::Arc;

use spirea_dpf::{Key, PrfKind};
use spirea_math::{Expansion, Gadget, Ring};

use crate::{
    Backend, BackendError, BackendId, Bodies, EvaluationKeys, FillPolynomial, FoldedBlocks, PanelLayout,
    Residence, RingBackend, RingMatrix, RowLayout, ShareBackend, SwitchedBits,
};

/// An operation of a backend, with its shape as far as the call states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// [`Backend::upload`].
    Upload(PanelLayout),
    /// [`Backend::open`].
    Open(PanelLayout),
    /// [`Backend::scalar_fold`].
    ScalarFold {
        /// Of the matrix.
        layout: PanelLayout,
        /// Words of all queries.
        words: usize,
    },
    /// [`Backend::words`].
    Words,
    /// [`Backend::module_fold`].
    ModuleFold {
        /// Of the matrix.
        layout: PanelLayout,
        /// Columns of blocks of the public matrix.
        rank: usize,
    },
    /// [`ShareBackend::upload_rows`].
    UploadRows(RowLayout),
    /// [`ShareBackend::open_rows`].
    OpenRows(RowLayout),
    /// [`ShareBackend::share_fold`].
    ShareFold {
        /// Of the rows.
        layout: RowLayout,
        /// How many.
        keys: usize,
    },
    /// [`RingBackend::tables`].
    Tables,
    /// [`RingBackend::keys`].
    Keys,
    /// [`RingBackend::encode`].
    Encode {
        /// Rows of polynomials.
        rows: usize,
        /// Columns of polynomials.
        columns: usize,
    },
    /// [`RingBackend::expand`].
    Expand {
        /// How many.
        queries: usize,
        /// Leaves of each.
        leaves: usize,
    },
    /// [`RingBackend::poly_fold`].
    PolyFold,
    /// [`RingBackend::add_bodies`].
    AddBodies {
        /// Words of each query.
        words: usize,
    },
    /// [`RingBackend::selectors`].
    Selectors {
        /// How many.
        queries: usize,
        /// Bits of each.
        depth: usize,
    },
    /// [`RingBackend::rgsw_fold`].
    RgswFold,
    /// [`RingBackend::mod_switch`].
    ModSwitch(SwitchedBits),
    /// [`RingBackend::reinterpret`].
    Reinterpret(PanelLayout),
    /// [`RingBackend::scalar_fold_own`].
    ScalarFoldOwn {
        /// Words of all queries.
        words: usize,
    },
    /// [`RingBackend::columns`].
    Columns(PanelLayout),
    /// [`RingBackend::encode_fold`].
    EncodeFold(FoldedBlocks),
}

impl Operation {
    /// The step that it is a part of, by the name that the documentation of steps gives it.
    pub fn step(self) -> &'static str {
        match self {
            Self::Upload(_) | Self::Reinterpret(_) => "reinterpret",
            Self::Open(_) | Self::UploadRows(_) | Self::OpenRows(_) => "open",
            Self::ScalarFold { .. } | Self::ScalarFoldOwn { .. } | Self::Words => "scalar_fold",
            Self::ModuleFold { .. } => "module_fold",
            Self::ShareFold { .. } => "share_fold",
            Self::Tables | Self::Columns(_) => "tables",
            Self::Keys => "keys",
            Self::Encode { .. } => "encode",
            Self::Expand { .. } => "expand",
            Self::PolyFold => "poly_fold",
            Self::AddBodies { .. } => "add_bodies",
            Self::Selectors { .. } => "selectors",
            Self::RgswFold => "rgsw_fold",
            Self::ModSwitch(_) => "mod_switch",
            Self::EncodeFold(_) => "encode_fold",
        }
    }
}

/// A backend made of others: which one has an operation, and what happens around it. It is a [`Backend`] and a
/// [`RingBackend`] as far as the one for rings is, and a [`ShareBackend`] as far as the one for shares is.
pub trait Composed: Send + Sync + 'static {
    /// The backend for matrices and rings.
    type Rings: Send + Sync + 'static;
    /// The backend for shares.
    type Shares: Send + Sync + 'static;

    /// The backend for matrices and rings.
    fn rings(&self) -> &Self::Rings;

    /// The backend for shares.
    fn shares(&self) -> &Self::Shares;

    /// Runs an operation, whichever backend has it.
    ///
    /// # Errors
    /// Those of the operation.
    fn run<T>(
        &self,
        operation: Operation,
        work: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError>;

    /// [`Backend::open`].
    ///
    /// # Errors
    /// Those of the operation.
    fn open_matrix(
        &self,
        layout: PanelLayout,
        path: &Path,
        residence: Residence,
    ) -> Result<<Self::Rings as Backend>::Matrix, BackendError>
    where
        Self::Rings: Backend,
    {
        self.rings().open(layout, path, residence)
    }

    /// [`ShareBackend::open_rows`].
    ///
    /// # Errors
    /// Those of the operation.
    fn open_records(
        &self,
        layout: RowLayout,
        path: &Path,
        residence: Residence,
    ) -> Result<<Self::Shares as ShareBackend>::Rows, BackendError>
    where
        Self::Shares: ShareBackend,
    {
        self.shares().open_rows(layout, path, residence)
    }

    /// [`RingBackend::encode`].
    ///
    /// # Errors
    /// Those of the operation.
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

    fn upload(&self, layout: PanelLayout, bytes: &[u8]) -> Result<Self::Matrix, BackendError> {
        self.run(Operation::Upload(layout), || self.rings().upload(layout, bytes))
    }

    fn open(
        &self,
        layout: PanelLayout,
        path: &Path,
        residence: Residence,
    ) -> Result<Self::Matrix, BackendError> {
        self.run(Operation::Open(layout), || self.open_matrix(layout, path, residence))
    }

    fn layout(&self, matrix: &Self::Matrix) -> PanelLayout {
        self.rings().layout(matrix)
    }

    fn scalar_fold(&self, matrix: &Self::Matrix, queries: &[u32]) -> Result<Self::Folded, BackendError> {
        let operation = Operation::ScalarFold { layout: self.layout(matrix), words: queries.len() };
        self.run(operation, || self.rings().scalar_fold(matrix, queries))
    }

    fn words(&self, folded: Self::Folded) -> Result<Vec<u32>, BackendError> {
        self.run(Operation::Words, || self.rings().words(folded))
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

    fn open_rows(
        &self,
        layout: RowLayout,
        path: &Path,
        residence: Residence,
    ) -> Result<Self::Rows, BackendError> {
        self.run(Operation::OpenRows(layout), || self.open_records(layout, path, residence))
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

    fn poly_fold(
        &self,
        tables: &Self::Tables,
        plain: &Self::Plain,
        leaves: &Self::Leaves,
    ) -> Result<Self::Ciphertexts, BackendError> {
        self.run(Operation::PolyFold, || self.rings().poly_fold(tables, plain, leaves))
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
}

/// Rings and matrices on one backend, shares on another.
#[derive(Clone, Debug)]
pub struct Split<R, S> {
    rings: Arc<R>,
    shares: Arc<S>,
}

impl<R, S> Split<R, S> {
    /// One backend of both.
    pub fn new(rings: Arc<R>, shares: Arc<S>) -> Self {
        Self { rings, shares }
    }
}

impl<R: Send + Sync + 'static, S: Send + Sync + 'static> Composed for Split<R, S> {
    type Rings = R;
    type Shares = S;

    fn rings(&self) -> &R {
        &self.rings
    }

    fn shares(&self) -> &S {
        &self.shares
    }

    fn run<T>(
        &self,
        _: Operation,
        work: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        work()
    }
}

#[cfg(test)]
mod tests {
    use spirea_dpf::{Domain, OutputKind, Select};
    use spirea_math::random::SecretRng;

    use super::*;
    use crate::{NaiveBackend, ProtocolBackend};

    /// A backend that has nothing but folds by shares, and counts them by the keys that it was given.
    struct Shares {
        keys: std::sync::atomic::AtomicUsize,
    }

    impl ShareBackend for Shares {
        type Rows = <NaiveBackend as ShareBackend>::Rows;

        fn upload_rows(&self, layout: RowLayout, bytes: &[u8]) -> Result<Self::Rows, BackendError> {
            NaiveBackend.upload_rows(layout, bytes)
        }

        fn open_rows(
            &self,
            layout: RowLayout,
            path: &Path,
            residence: Residence,
        ) -> Result<Self::Rows, BackendError> {
            NaiveBackend.open_rows(layout, path, residence)
        }

        fn row_layout(&self, rows: &Self::Rows) -> RowLayout {
            NaiveBackend.row_layout(rows)
        }

        fn share_fold(
            &self,
            rows: &Self::Rows,
            first_row: usize,
            prf: PrfKind,
            keys: &[Key],
        ) -> Result<Vec<u8>, BackendError> {
            self.keys.fetch_add(keys.len(), std::sync::atomic::Ordering::Relaxed);
            NaiveBackend.share_fold(rows, first_row, prf, keys)
        }
    }

    fn folded<B: ProtocolBackend>(backend: &B) -> (Vec<u32>, Vec<u8>) {
        let layout = PanelLayout::covering(32, 4).unwrap();
        let matrix = backend.upload(layout, &[3; 128]).unwrap();
        let answer = backend.words(backend.scalar_fold(&matrix, &[1, 2, 3, 4]).unwrap()).unwrap();
        let layout = RowLayout::new(8, 4, 1).unwrap();
        let rows = backend.upload_rows(layout, &(0..32).collect::<Vec<u8>>()).unwrap();
        let domain = Domain::new(8, OutputKind::Bit).unwrap();
        let mut rng = SecretRng::deterministic_for_tests(1);
        let keys = PrfKind::ChaCha12.visit(Select { domain, point: 5, rng: &mut rng }).unwrap();
        (answer, backend.share_fold(&rows, 0, PrfKind::ChaCha12, &keys[..1]).unwrap())
    }

    #[test]
    fn a_split_backend_has_rings_from_one_and_shares_from_another() {
        let shares = Arc::new(Shares { keys: 0.into() });
        let split = Split::new(Arc::new(NaiveBackend), Arc::clone(&shares));
        assert_eq!(folded(&split), folded(&NaiveBackend));
        assert_eq!(shares.keys.load(std::sync::atomic::Ordering::Relaxed), 1);
        assert_eq!((split.name(), split.id()), (NaiveBackend.name(), NaiveBackend.id()));
    }
}
