//! Operations that follow their definitions literally: the oracle for every other backend.

mod products;
mod residues;
mod ring;
mod rows;

use std::ops::Range;
use std::sync::LazyLock;

pub use products::Tables as NaiveProductTables;
pub use ring::{Ciphertext, NaiveColumns, NaiveKeys, NaivePlain, NaiveSelectors};
pub use rows::NaiveRows;

use crate::{
    Backend, BackendError, BackendId, FileLayout, FileRows, PanelLayout, RING_DEGREE, RingMatrix,
    check_answers,
};

/// Backend of plain loops: the reference for other backends, and a backend for tests of protocols.
#[derive(Clone, Copy, Debug, Default)]
pub struct NaiveBackend;

/// Bytes in panel layout.
#[derive(Clone, Debug)]
pub struct NaiveMatrix {
    layout: PanelLayout,
    bytes: Vec<u8>,
}

impl NaiveMatrix {
    fn row(&self, row: usize) -> impl Iterator<Item = u32> + '_ {
        (0..self.layout.columns()).map(move |column| u32::from(self.bytes[self.layout.offset(row, column)]))
    }
}

impl Backend for NaiveBackend {
    type Matrix = NaiveMatrix;
    type Folded = Vec<u32>;

    fn name(&self) -> String {
        "naive".into()
    }

    /// Returns the same identifier for all naive backends, which have no state.
    fn id(&self) -> BackendId {
        static ID: LazyLock<BackendId> = LazyLock::new(BackendId::unique);
        *ID
    }

    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..count).for_each(work);
    }

    fn upload(&self, layout: PanelLayout, bytes: &[u8]) -> Result<NaiveMatrix, BackendError> {
        layout.check_length(bytes.len() as u64)?;
        Ok(NaiveMatrix { layout, bytes: bytes.to_vec() })
    }

    fn open(&self, stored: FileRows<'_, PanelLayout>) -> Result<NaiveMatrix, BackendError> {
        self.upload(stored.part()?, &read(&stored)?)
    }

    fn layout(&self, matrix: &NaiveMatrix) -> PanelLayout {
        matrix.layout
    }

    fn scalar_fold(&self, matrix: &NaiveMatrix, queries: &[u32]) -> Result<Vec<u32>, BackendError> {
        let batch = matrix.layout.batch_of(queries.len())?;
        let mut answers = Vec::with_capacity(batch * matrix.layout.rows());
        for query in queries.chunks_exact(matrix.layout.columns()) {
            for row in 0..matrix.layout.rows() {
                let products = matrix.row(row).zip(query).map(|(byte, word)| byte.wrapping_mul(*word));
                answers.push(products.fold(0, u32::wrapping_add));
            }
        }
        Ok(answers)
    }

    fn words(&self, folded: Vec<u32>) -> Result<Vec<u32>, BackendError> {
        Ok(folded)
    }

    fn folded(&self, queries: usize, words: Vec<u32>) -> Result<Vec<u32>, BackendError> {
        check_answers(queries, words.len())?;
        Ok(words)
    }

    fn module_fold(&self, matrix: &NaiveMatrix, a: RingMatrix<'_>) -> Result<Vec<u32>, BackendError> {
        a.check(matrix.layout)?;
        let width = a.rank * RING_DEGREE;
        let mut product = vec![0u32; matrix.layout.rows() * width];
        for (row, sums) in product.chunks_exact_mut(width).enumerate() {
            for (column, byte) in matrix.row(row).enumerate() {
                let (block, k) = (column / RING_DEGREE, column % RING_DEGREE);
                for (l, sum) in sums.iter_mut().enumerate() {
                    let polynomial =
                        &a.coefficients[(block * a.rank + l / RING_DEGREE) * RING_DEGREE..][..RING_DEGREE];
                    let l = l % RING_DEGREE;
                    let entry = if k >= l {
                        polynomial[k - l]
                    } else {
                        polynomial[RING_DEGREE + k - l].wrapping_neg()
                    };
                    *sum = sum.wrapping_add(byte.wrapping_mul(entry));
                }
            }
        }
        Ok(product)
    }
}

/// Reads the bytes of the rows in a file.
fn read<L: FileLayout>(stored: &FileRows<'_, L>) -> Result<Vec<u8>, BackendError> {
    stored.check_length()?;
    let ranges = stored.ranges();
    let mut bytes = vec![0; ranges.iter().map(Range::len).sum()];
    let mut rest = &mut bytes[..];
    for range in ranges {
        let (piece, others) = rest.split_at_mut(range.len());
        let read = stored.file.read_exact_at(piece, range.start as u64);
        read.map_err(|source| stored.failed(source))?;
        rest = others;
    }
    Ok(bytes)
}
