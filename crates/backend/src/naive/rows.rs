//! Folds by shares, by definition.

use spirea_dpf::{Bit, Key, Output, OutputKind, Prf, PrfKind, PrfVisitor, evaluate_all};

use super::{NaiveBackend, read};
use crate::{BackendError, Batch, FileLayout, FileRows, RowLayout, ShareBackend, ShareFold};

/// Rows of bytes.
#[derive(Clone, Debug)]
pub struct NaiveRows {
    layout: RowLayout,
    bytes: Vec<u8>,
}

impl NaiveRows {
    /// Returns the record of number `row`: its row in every part.
    fn record(&self, row: usize) -> Vec<u8> {
        let part = |part| &self.bytes[self.layout.range(part, row..row + 1)];
        (0..self.layout.parts()).flat_map(part).copied().collect()
    }
}

/// Visitor that computes the answer to a key.
struct Answer<'a> {
    rows: &'a NaiveRows,
    batch: &'a Batch,
    key: &'a Key,
}

impl PrfVisitor for Answer<'_> {
    type Output = Vec<u8>;

    fn visit<P: Prf>(self, prf: P) -> Vec<u8> {
        match self.batch.domain.output() {
            OutputKind::Bit => self.fold(prf, 1, |Bit(share), row, sum| {
                sum[0] ^= if share { row[0] } else { 0 };
            }),
            OutputKind::U32 => self.fold(prf, 4, |share: u32, row, sum| {
                let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("a word"));
                let total = word(sum).wrapping_add(share.wrapping_mul(word(row)));
                sum.copy_from_slice(&total.to_le_bytes());
            }),
            _ => self.fold(prf, 8, |share: u64, row, sum| {
                let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("a word"));
                let total = word(sum).wrapping_add(share.wrapping_mul(word(row)));
                sum.copy_from_slice(&total.to_le_bytes());
            }),
        }
    }
}

impl Answer<'_> {
    /// Returns the sum of all rows; `add` multiplies a word by its row's share and adds the product
    /// to a word of the sum.
    fn fold<P: Prf, O: Output>(&self, prf: P, word: usize, add: impl Fn(O, &[u8], &mut [u8])) -> Vec<u8> {
        let (leaves, per_leaf) = (evaluate_all::<P, O>(prf, self.key), O::KIND.per_leaf() as usize);
        let mut sum = vec![0; self.rows.layout.answer_bytes()];
        for (x, row) in self.batch.rows.clone().enumerate() {
            let (share, record) = (O::of(&leaves[x / per_leaf], x % per_leaf), self.rows.record(row));
            let words = record.chunks_exact(word).zip(sum.chunks_exact_mut(word));
            words.for_each(|(row, sum)| add(share, row, sum));
        }
        sum
    }
}

impl ShareBackend for NaiveBackend {
    type Rows = NaiveRows;

    fn upload_rows(&self, layout: RowLayout, bytes: &[u8]) -> Result<NaiveRows, BackendError> {
        layout.check_length(bytes.len() as u64)?;
        Ok(NaiveRows { layout, bytes: bytes.to_vec() })
    }

    fn open_rows(&self, stored: FileRows<'_, RowLayout>) -> Result<NaiveRows, BackendError> {
        self.upload_rows(stored.part()?, &read(&stored)?)
    }

    fn row_layout(&self, rows: &NaiveRows) -> RowLayout {
        rows.layout
    }

    fn share_fold(
        &self,
        rows: &NaiveRows,
        first_row: usize,
        prf: PrfKind,
        keys: &[Key],
    ) -> Result<Vec<u8>, BackendError> {
        let batch = rows.layout.check_keys(first_row, keys)?;
        Ok(keys.iter().flat_map(|key| prf.visit(Answer { rows, batch: &batch, key })).collect())
    }

    /// Computes the folds one after another.
    fn share_folds(
        &self,
        rows: &NaiveRows,
        prf: PrfKind,
        folds: &[ShareFold<'_>],
    ) -> Result<Vec<u8>, BackendError> {
        let answers = folds.iter().map(|fold| self.share_fold(rows, fold.first_row, prf, fold.keys));
        Ok(answers.collect::<Result<Vec<_>, _>>()?.concat())
    }
}
