//! Inclusion proofs of a table that is built: its payloads are gone through twice, for the tree and for the records.

use std::str::FromStr;

use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use spirea_protocols::Table;
use spirea_protocols::proof::{Hash, Proofs, Tree};

use super::draws::Draws;
use crate::progress::go_on;
use crate::{Phase, Progress, StoreError};

/// Inclusion proofs in the records of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proving {
    /// Records carry none.
    Omit,
    /// Each record carries one.
    Include,
}

impl FromStr for Proving {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "omit" => Ok(Self::Omit),
            "include" => Ok(Self::Include),
            _ => Err("expected include or omit".into()),
        }
    }
}

impl Proving {
    /// Returns what the records of `table` do.
    pub(crate) fn of(table: &Table) -> Self {
        match table.proofs {
            Some(_) => Self::Include,
            None => Self::Omit,
        }
    }

    /// Returns proofs of `records` records without roots. To be called when the content is fixed: it draws their salt.
    pub(super) fn blank(self, records: u64, draws: &Draws) -> Result<Option<Proofs>, StoreError> {
        match self {
            Self::Include => Ok(Some(Proofs::blank(records, draws.proofs()?))),
            Self::Omit => Ok(None),
        }
    }

    /// Returns the function from a number of records to the bytes of a proof.
    pub(crate) fn bytes_of(self) -> fn(u64) -> usize {
        match self {
            Self::Include => Proofs::bytes_of,
            Self::Omit => |_| 0,
        }
    }
}

/// Takes the payloads of all records, one after another.
pub(super) type Taker<'t> = dyn FnMut(Vec<u8>) -> Result<(), StoreError> + 't;

/// Computes the roots of a table's proofs, if it is to have any, from the payloads that `payloads` gives. The tree is
/// what sealing the records needs.
pub(super) fn prove(
    table: &mut Table,
    progress: &dyn Progress,
    payloads: impl FnOnce(&mut Taker<'_>) -> Result<(), StoreError>,
) -> Result<Option<Tree>, StoreError> {
    if table.proofs.is_none() {
        return Ok(None);
    }
    let mut leaves: Vec<Hash> = Vec::with_capacity(table.records as usize);
    let mut batch = Batch::default();
    let mut hash = |batch: &mut Batch| {
        leaves.extend(batch.take(|index, payload| table.leaf(index, payload)));
        progress.update(Phase::Prove, leaves.len() as u64, table.records);
    };
    payloads(&mut |payload| {
        if batch.push(payload) {
            go_on(progress)?;
            hash(&mut batch);
        }
        Ok(())
    })?;
    hash(&mut batch);
    Ok(table.prove(leaves))
}

/// Payloads in hand, enough for all cores to share the work on them.
#[derive(Default)]
pub(super) struct Batch {
    payloads: Vec<Vec<u8>>,
    bytes: usize,
    /// The record of the first.
    first: u64,
}

impl Batch {
    /// Bytes of payloads that are worked on at once.
    const BYTES: usize = 1 << 20;
    /// The least that a payload counts for, however short it is.
    const LEAST: usize = 64;

    /// Adds the payload of the next record; says whether there are enough now.
    pub(super) fn push(&mut self, payload: Vec<u8>) -> bool {
        self.bytes += payload.len().max(Self::LEAST);
        self.payloads.push(payload);
        self.bytes >= Self::BYTES
    }

    /// Applies `work` to each payload with the number of its record, in order, and empties the batch.
    pub(super) fn take<T: Send>(&mut self, work: impl Fn(u64, &[u8]) -> T + Sync) -> Vec<T> {
        let first = self.first;
        let of = |(i, payload): (usize, &Vec<u8>)| work(first + i as u64, payload);
        let made = self.payloads.par_iter().enumerate().with_min_len(64).map(of).collect();
        self.first += self.payloads.len() as u64;
        self.payloads.clear();
        self.bytes = 0;
        made
    }
}
