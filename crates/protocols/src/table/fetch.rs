//! Several values in one query, as far as their records lie in bins of their own ([`crate::bins`]).

use std::any::Any;

use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::{TableClient, Wanted};
use crate::ProtocolError;
use crate::bins::Chosen;
use crate::client::Prepared;
use crate::oblivious::equal;

/// What one query brought of a value that was wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched<V> {
    /// The value.
    Value(V),
    /// The table has no such key, or the row was deleted.
    Absent,
    /// Nothing: another value was wanted of the same bin. It may be there or not.
    Dropped,
}

impl<V> Fetched<V> {
    /// The value, if it was brought.
    pub fn value(self) -> Option<V> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Dropped => None,
        }
    }
}

/// What a fetch leaves with the client: secrets, erased when dropped.
pub struct FetchState {
    /// The record of each bin.
    records: Zeroizing<Vec<u64>>,
    wanted: Vec<(Box<Wanted>, bool)>,
    state: Box<dyn Any + Send>,
}

impl TableClient {
    /// A query to each party for the values of keys, in as many bins as these lie in. Nothing of what is sent depends on
    /// the keys, not even on their number.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if the table is looked up by index.
    pub fn fetch_keys(
        &self,
        keys: &[&[u8]],
        rng: &mut SecretRng,
    ) -> Result<(Vec<Vec<u8>>, FetchState), ProtocolError> {
        self.fetch(keys.iter().map(|key| self.entry_of_key(key)).collect::<Result<_, _>>()?, rng)
    }

    /// The same for the values at indices.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if the table is looked up by key, or has no such entry.
    pub fn fetch_indices(
        &self,
        indices: &[u64],
        rng: &mut SecretRng,
    ) -> Result<(Vec<Vec<u8>>, FetchState), ProtocolError> {
        self.fetch(indices.iter().map(|&index| self.entry_of_index(index)).collect::<Result<_, _>>()?, rng)
    }

    #[allow(clippy::vec_box, reason = "a secret that moves leaves a copy behind")]
    pub(super) fn fetch(
        &self,
        wanted: Vec<Box<Wanted>>,
        rng: &mut SecretRng,
    ) -> Result<(Vec<Vec<u8>>, FetchState), ProtocolError> {
        let indices = Zeroizing::new(wanted.iter().map(|wanted| *wanted.record).collect::<Vec<u64>>());
        let Chosen { records, brought } = self.index.bins().choose(&indices, rng)?;
        let Prepared { queries, state } = self.index.query_bins(&records, rng)?;
        let wanted = wanted.into_iter().zip(brought).collect();
        Ok((queries, FetchState { records, wanted, state }))
    }

    /// What the answers of all parties brought, in the order of what was wanted.
    ///
    /// Every bin's record is verified, a dummy as any other: a server that changes answers does not learn from a refusal
    /// whether something was wanted of a bin.
    ///
    /// # Errors
    /// Those of [`TableClient::decode`], of any bin's record.
    pub fn decode_fetch(
        &self,
        fetch: FetchState,
        answers: &[&[u8]],
    ) -> Result<Vec<Fetched<Vec<u8>>>, ProtocolError> {
        let FetchState { records, wanted, state } = fetch;
        let sealed = self.index.decode_bins(state, answers)?;
        let record_bytes = self.table.record_bytes();
        if sealed.len() != records.len() * record_bytes {
            return Err(ProtocolError::Corrupted);
        }
        let sealed = records.iter().zip(sealed.chunks_exact(record_bytes));
        // All of them, whatever comes of the first.
        let payloads: Vec<_> = sealed.map(|(&index, record)| self.table.unseal(index, record)).collect();
        let payloads = payloads.into_iter().collect::<Result<Vec<&[u8]>, _>>()?;
        let value = |(wanted, brought): (Box<Wanted>, bool)| {
            if !brought {
                return Ok(Fetched::Dropped);
            }
            // All bins are read, and those that have other records are masked.
            let mut payload = Zeroizing::new(vec![0; self.table.payload_bytes]);
            for (&record, candidate) in records.iter().zip(&payloads) {
                let mask = equal(record, *wanted.record) as u8;
                payload.iter_mut().zip(*candidate).for_each(|(byte, &other)| *byte |= other & mask);
            }
            Ok(wanted.entry.find(&payload)?.map_or(Fetched::Absent, Fetched::Value))
        };
        wanted.into_iter().map(value).collect()
    }
}
