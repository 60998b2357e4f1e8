//! Inclusion proofs of a table that is being built. The payloads are traversed twice: for the tree,
//! and for the records.

use std::str::FromStr;

use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use spirea_math::random::Seed;
use spirea_protocols::proof::{Hash, Proofs, Tree};
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::{ProtocolError, Table};

use super::draws::Draws;
use crate::progress::go_on;
use crate::{Phase, Progress, StoreError};

/// Inclusion proofs in the records of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proving {
    /// Records carry no proof.
    Omit,
    /// Each record carries a proof.
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
    /// Returns whether the records of `table` carry proofs.
    pub(crate) fn of(table: &Table) -> Self {
        match table.proofs {
            Some(_) => Self::Include,
            None => Self::Omit,
        }
    }

    /// Returns `Include` if, under the parameters that `protocol` returns, answers to queries under
    /// one set of keys combine (docs/soundness.md, "Answers that add up"). Also checks an eighth
    /// more records, because the number of buckets may exceed the estimate from the lengths of
    /// values, and the number of groups grows with it.
    pub(super) fn needed(
        records: u64,
        protocol: impl Fn(u64) -> Result<ProtocolParams, ProtocolError>,
    ) -> Self {
        let combine = |records| protocol(records).is_ok_and(|it| it.combined_answer_bits > 0.0);
        if [records, records + records / 8].into_iter().any(combine) { Self::Include } else { Self::Omit }
    }

    /// Decides on proofs for a base that replaces a base with this table and protocol. The new base
    /// has `records` records of `record_bytes` bytes. Keeps the proofs of the former base, and adds
    /// proofs if answers begin to combine. If answers combined before without proofs, the operator
    /// has chosen to omit proofs.
    pub(super) fn anew(
        table: &Table,
        protocol: &ProtocolParams,
        (records, record_bytes): (u64, usize),
    ) -> Self {
        if table.proofs.is_some() || protocol.combined_answer_bits > 0.0 {
            return Self::of(table);
        }
        Self::needed(records, |records| protocol.reshaped(Seed::default(), records, record_bytes))
    }

    /// Returns proofs of `records` records, without roots. The content must be fixed before this
    /// call, which draws the salt of the proofs.
    pub(super) fn blank(self, records: u64, draws: &Draws) -> Result<Option<Proofs>, StoreError> {
        match self {
            Self::Include => Ok(Some(Proofs::blank(records, draws.proofs()?))),
            Self::Omit => Ok(None),
        }
    }

    /// Returns the function that maps a number of records to the bytes of a proof.
    pub(crate) fn bytes_of(self) -> fn(u64) -> usize {
        match self {
            Self::Include => Proofs::bytes_of,
            Self::Omit => |_| 0,
        }
    }
}

/// Callback that receives the payloads of all records in order.
pub(super) type Taker<'t> = dyn FnMut(Vec<u8>) -> Result<(), StoreError> + 't;

/// Computes the roots of a table's proofs, if it has proofs, from the payloads that `payloads`
/// produces. Returns the tree, which sealing the records needs.
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

/// A batch of payloads, large enough for all cores to share.
#[derive(Default)]
pub(super) struct Batch {
    payloads: Vec<Vec<u8>>,
    bytes: usize,
    /// Record number of the first payload.
    first: u64,
}

impl Batch {
    /// Target size of a batch, in bytes.
    const BYTES: usize = 1 << 20;
    /// Bytes that a shorter payload counts for in the size of a batch.
    const LEAST: usize = 64;

    /// Adds the payload of the next record; returns true if the batch is full.
    pub(super) fn push(&mut self, payload: Vec<u8>) -> bool {
        self.bytes += payload.len().max(Self::LEAST);
        self.payloads.push(payload);
        self.bytes >= Self::BYTES
    }

    /// Applies `work` to each payload with the number of its record, in order, and empties the
    /// batch.
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

#[cfg(test)]
mod tests {
    use spirea_protocols::registry::Choice;
    use spirea_protocols::{Salt, TableKind};

    use super::*;

    #[test]
    fn a_base_that_grows_to_several_groups_gets_proofs() {
        const SMALL: (u64, usize) = (1000, 100);
        const LARGE: (u64, usize) = (1 << 22, 100);
        let table = |proofs| Table { proofs, ..spirea_specimens::table(TableKind::Index, SMALL.0, 92) };
        let (unproven, proven) = (table(None), table(Some(Proofs::blank(SMALL.0, Salt::new([6; 32])))));
        let protocol = |name: &str, (records, record_bytes)| {
            let choice = Choice { protocol: name.into(), ..Choice::default() };
            ProtocolParams::choose(&choice, Seed::new([1; 32]), records, record_bytes).unwrap()
        };
        let (one, several) = (protocol("hybrid", SMALL), protocol("hybrid", LARGE));
        assert_eq!(Proving::anew(&unproven, &one, SMALL), Proving::Omit);
        assert_eq!(Proving::anew(&unproven, &one, LARGE), Proving::Include);
        assert_eq!(Proving::anew(&proven, &one, SMALL), Proving::Include);
        // The operator has omitted proofs from a base of several groups.
        assert_eq!(Proving::anew(&unproven, &several, LARGE), Proving::Omit);
        assert_eq!(Proving::anew(&unproven, &protocol("simple", SMALL), LARGE), Proving::Omit);
    }
}
