//! Backends composed of other backends: the list of the operations that they forward, and the macro
//! that reads it.

use std::sync::Arc;

use spirea_dpf::{Key, PrfKind};
use spirea_math::{Expansion, Gadget, Ring, Rotations};

use crate::{
    Backend, BackendError, BackendId, Bodies, EvaluationKeys, FileRows, FillPolynomial, FixedPacking,
    FoldedBlocks, Operation, PackedEnds, PanelLayout, QueryWords, RingBackend, RingMatrix, RowLayout,
    ShareBackend, ShareFold, SwitchedBits,
};

/// Backend composed of others: selects the backend for an operation and wraps its execution.
/// Implements [`Backend`] and [`RingBackend`] if [`Composed::Rings`] does, and [`ShareBackend`] if
/// [`Composed::Shares`] does.
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

/// Implements a trait for all backends that are [`Composed`](crate::Composed), by forwarding to
/// one of their parts.
///
/// The macro takes the name of the part, the trait, and the trait's members:
///
/// - `type Name;` is the type of the part;
/// - `fn name(&self, argument: Type) -> Value => operation;` is a method that returns
///   `Result<Value, BackendError>`. [`Composed::run`](crate::Composed::run) runs it as `operation`,
///   an expression of an [`Operation`](crate::Operation) that may use `self` and the arguments.
///   With `by other` before the semicolon, the method calls `other` of the composed backend instead
///   of the part's method.
/// - `also { ... }` contains members that are copied into the implementation unchanged.
///
/// A method with a default body is listed too. Otherwise the wrapper would run the default body
/// instead of the part's method.
///
/// ```
/// use std::sync::Arc;
///
/// use spirea_backend::{BackendError, Operation, Timed, forward};
///
/// trait Count: Send + Sync {
///     fn count(&self, words: &[u32]) -> Result<usize, BackendError>;
/// }
///
/// forward! {
///     Rings rings: Count {
///         fn count(&self, words: &[u32]) -> usize => Operation::Other { name: "count", step: "count" };
///     }
/// }
///
/// struct Toy;
///
/// impl Count for Toy {
///     fn count(&self, words: &[u32]) -> Result<usize, BackendError> {
///         Ok(words.len())
///     }
/// }
///
/// let timed = Timed::new(Arc::new(Toy));
/// assert_eq!(timed.count(&[1, 2, 3]).unwrap(), 3);
/// assert!(timed.observer().take().contains_key("count"));
/// ```
#[macro_export]
macro_rules! forward {
    (
        $Part:ident $part:ident: $operations:path {
            $(type $of:ident;)*
            $(
                fn $name:ident(&$self:ident $(, $argument:ident: $type:ty)* $(,)?) -> $value:ty
                    => $operation:expr $(, by $hook:ident)?;
            )*
            $(also { $($also:item)* })?
        }
    ) => {
        impl<C> $operations for C
        where
            C: $crate::Composed,
            C::$Part: $operations,
        {
            $(type $of = <C::$Part as $operations>::$of;)*
            $(
                fn $name(
                    &$self
                    $(, $argument: $type)*
                ) -> ::std::result::Result<$value, $crate::BackendError> {
                    let operation = $operation;
                    $crate::Composed::run($self, operation, || {
                        $crate::forward!(@call $self $part $name [$($hook)?] $($argument)*)
                    })
                }
            )*
            $($($also)*)?
        }
    };
    (@call $self:ident $part:ident $name:ident [] $($argument:ident)*) => {
        $crate::Composed::$part($self).$name($($argument),*)
    };
    (@call $self:ident $part:ident $name:ident [$hook:ident] $($argument:ident)*) => {
        $crate::Composed::$hook($self $(, $argument)*)
    };
}

forward! {
    Rings rings: Backend {
        type Matrix;
        type Folded;

        fn upload(&self, layout: PanelLayout, bytes: &[u8]) -> Self::Matrix => Operation::Upload(layout);
        fn open(&self, stored: FileRows<'_, PanelLayout>) -> Self::Matrix
            => Operation::Open(stored.part()?), by open_matrix;
        fn scalar_fold(&self, matrix: &Self::Matrix, queries: &[u32]) -> Self::Folded
            => Operation::ScalarFold { layout: self.layout(matrix), words: queries.len() };
        fn scalar_fold_from(&self, matrix: &Self::Matrix, queries: &dyn QueryWords) -> Self::Folded
            => Operation::ScalarFold { layout: self.layout(matrix), words: queries.count() };
        fn words(&self, folded: Self::Folded) -> Vec<u32> => Operation::Words;
        fn folded(&self, queries: usize, words: Vec<u32>) -> Self::Folded => Operation::Folded { queries };
        fn module_fold(&self, matrix: &Self::Matrix, a: RingMatrix<'_>) -> Vec<u32>
            => Operation::ModuleFold { layout: self.layout(matrix), rank: a.rank };

        also {
            fn name(&self) -> String {
                self.rings().name()
            }

            fn id(&self) -> BackendId {
                self.rings().id()
            }

            fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
                self.rings().each(count, work);
            }

            fn layout(&self, matrix: &Self::Matrix) -> PanelLayout {
                self.rings().layout(matrix)
            }

            fn read_words<T>(
                &self,
                folded: Self::Folded,
                read: impl FnOnce(&[u32]) -> T,
            ) -> Result<T, BackendError> {
                self.run(Operation::Words, || self.rings().read_words(folded, read))
            }
        }
    }
}

forward! {
    Shares shares: ShareBackend {
        type Rows;

        fn upload_rows(&self, layout: RowLayout, bytes: &[u8]) -> Self::Rows => Operation::UploadRows(layout);
        fn open_rows(&self, stored: FileRows<'_, RowLayout>) -> Self::Rows
            => Operation::OpenRows(stored.part()?), by open_records;
        fn share_fold(&self, rows: &Self::Rows, first_row: usize, prf: PrfKind, keys: &[Key]) -> Vec<u8>
            => Operation::ShareFold { layout: self.row_layout(rows), keys: keys.len() };
        fn share_folds(&self, rows: &Self::Rows, prf: PrfKind, folds: &[ShareFold<'_>]) -> Vec<u8>
            => Operation::ShareFold {
                layout: self.row_layout(rows),
                keys: folds.iter().map(|fold| fold.keys.len()).sum(),
            };

        also {
            fn row_layout(&self, rows: &Self::Rows) -> RowLayout {
                self.shares().row_layout(rows)
            }
        }
    }
}

forward! {
    Rings rings: RingBackend {
        type Tables;
        type Keys;
        type Plain;
        type Columns;
        type Leaves;
        type Ciphertexts;
        type Selectors;
        type Matrices;
        type Fixed;

        fn tables(&self, ring: &Arc<Ring>) -> Self::Tables => Operation::Tables;
        fn keys(&self, tables: &Self::Tables, keys: EvaluationKeys<'_>) -> Self::Keys => Operation::Keys;
        fn encode(
            &self, tables: &Self::Tables, rows: usize, columns: usize, fill: &FillPolynomial<'_>,
        ) -> Self::Plain
            => Operation::Encode { rows, columns }, by encode_plain;
        fn expand(
            &self, tables: &Self::Tables, expansion: Expansion, queries: &[(&Self::Keys, &[u32])],
        ) -> Self::Leaves
            => Operation::Expand { queries: queries.len(), leaves: expansion.leaves() };
        fn leaves(&self, tables: &Self::Tables, queries: usize, words: &[u32]) -> Self::Leaves
            => Operation::Ciphertexts { queries };
        fn expand_leaf(
            &self, tables: &Self::Tables, expansion: Expansion, keys: &[&Self::Keys], leaves: &Self::Leaves,
            leaf: usize,
        ) -> Self::Leaves
            => Operation::ExpandLeaf { queries: keys.len(), leaves: expansion.leaves() };
        fn rotate(
            &self, tables: &Self::Tables, rotations: Rotations, keys: &[&Self::Keys], leaves: &Self::Leaves,
        ) -> Self::Leaves
            => Operation::Rotate { queries: keys.len(), rotations };
        fn poly_fold(
            &self, tables: &Self::Tables, plain: &[Self::Plain], leaves: &Self::Leaves,
        ) -> Self::Ciphertexts
            => Operation::PolyFold;
        fn sum_rotated(
            &self, tables: &Self::Tables, rotations: Rotations, keys: &[&Self::Keys],
            ciphertexts: Self::Ciphertexts,
        ) -> Self::Ciphertexts
            => Operation::SumRotated { queries: keys.len(), rotations };
        fn add_bodies(
            &self, tables: &Self::Tables, ciphertexts: &mut Self::Ciphertexts, folded: &Self::Folded,
            bodies: &Bodies, bits: u32,
        ) -> ()
            => Operation::AddBodies { words: bodies.first.len() };
        fn selectors(
            &self, tables: &Self::Tables, keys: &[&Self::Keys], leaves: &Self::Leaves, first: usize,
            depth: usize, gadget: Gadget,
        ) -> Self::Selectors
            => Operation::Selectors { queries: keys.len(), depth };
        fn rgsw_fold(
            &self, tables: &Self::Tables, selectors: &Self::Selectors, ciphertexts: Self::Ciphertexts,
        ) -> Self::Ciphertexts
            => Operation::RgswFold;
        fn ciphertext_words(&self, tables: &Self::Tables, ciphertexts: &Self::Ciphertexts) -> Vec<u32>
            => Operation::CiphertextWords;
        fn ciphertexts(&self, tables: &Self::Tables, queries: usize, words: &[u32]) -> Self::Ciphertexts
            => Operation::Ciphertexts { queries };
        fn mod_switch(
            &self, tables: &Self::Tables, parts: &[&Self::Ciphertexts], bits: SwitchedBits,
        ) -> Vec<Vec<u8>>
            => Operation::ModSwitch(bits);
        fn reinterpret(
            &self, tables: &Self::Tables, ciphertexts: &Self::Ciphertexts, bits: SwitchedBits,
            layout: PanelLayout,
        ) -> Self::Matrices
            => Operation::Reinterpret(layout);
        fn scalar_fold_own(&self, matrices: &Self::Matrices, queries: &[u32]) -> Self::Folded
            => Operation::ScalarFoldOwn { words: queries.len() };
        fn columns(&self, layout: PanelLayout, words: &[u32]) -> Self::Columns => Operation::Columns(layout);
        fn encode_fold(
            &self, tables: &Self::Tables, matrices: &Self::Matrices, columns: &Self::Columns,
            folded: FoldedBlocks, leaves: &Self::Leaves,
        ) -> Self::Ciphertexts
            => Operation::EncodeFold(folded);
        fn fix_uniform(
            &self, tables: &Self::Tables, packing: FixedPacking, uniform: &[u32], plain: &[Self::Plain],
            bits: SwitchedBits,
        ) -> (Self::Fixed, Vec<u8>)
            => Operation::FixUniform(packing);
        fn pack_fixed(
            &self, tables: &Self::Tables, fixed: &Self::Fixed, plain: &[Self::Plain], queries: &[&[u32]],
            ends: PackedEnds<'_, Self::Folded>,
        ) -> Vec<Vec<u8>>
            => Operation::PackFixed { queries: queries.len() };

        also {
            fn leaves_memory(&self) -> u64 {
                self.rings().leaves_memory()
            }
        }
    }
}
