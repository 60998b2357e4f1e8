//! Several values in one query, if their records lie in different bins ([`crate::bins`]).

use std::any::Any;

use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::{TableClient, Wanted};
use crate::ProtocolError;
use crate::bins::Chosen;
use crate::client::Prepared;
use crate::oblivious::equal;

/// Result of one query for a wanted value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched<V> {
    /// The value.
    Value(V),
    /// The table has no such key, or the row is deleted.
    Absent,
    /// The bin was used for another wanted value. This value may exist or not.
    Dropped,
}

impl<V> Fetched<V> {
    /// Returns the value, if it was retrieved.
    pub fn value(self) -> Option<V> {
        match self {
            Self::Value(value) => Some(value),
            Self::Absent | Self::Dropped => None,
        }
    }
}

/// Client's state of a fetch: secrets, erased when dropped.
pub struct FetchState {
    /// Record queried in each bin.
    records: Zeroizing<Vec<u64>>,
    wanted: Vec<(Box<Wanted>, bool)>,
    /// Record of `records` that holds each wanted value, if it is brought.
    holders: Zeroizing<Vec<u64>>,
    state: Box<dyn Any + Send>,
}

impl TableClient {
    /// Makes a query for each party for the values of keys, at most one for each bin. The queries
    /// depend neither on the keys nor on their number.
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

    /// Makes queries like [`TableClient::fetch_keys`] for the values at indices.
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
        let copies = self.table.copies;
        // Reserved at once: a vector that grows leaves its secrets behind.
        let mut indices = Zeroizing::new(Vec::with_capacity(wanted.len() * copies.number()));
        wanted.iter().for_each(|wanted| indices.extend_from_slice(&wanted.records));
        let Chosen { records, holders, brought } = self.index.bins().choose_copies(&indices, copies, rng)?;
        let Prepared { queries, state } = self.index.query_bins(&records, rng)?;
        let wanted = wanted.into_iter().zip(brought).collect();
        Ok((queries, FetchState { records, wanted, holders, state }))
    }

    /// Decodes the answers of all parties, in the order of the wanted values.
    ///
    /// Every bin's record is verified, including dummies, so that a server that modifies answers
    /// does not learn from a refusal whether a bin had a wanted value.
    ///
    /// # Errors
    /// Those of [`TableClient::decode`], for any bin's record.
    pub fn decode_fetch(
        &self,
        fetch: FetchState,
        answers: &[&[u8]],
    ) -> Result<Vec<Fetched<Vec<u8>>>, ProtocolError> {
        let FetchState { records, wanted, holders, state } = fetch;
        let sealed = self.index.decode_bins(state, answers)?;
        let record_bytes = self.table.record_bytes();
        if sealed.len() != records.len() * record_bytes {
            return Err(ProtocolError::Corrupted);
        }
        let sealed = records.iter().zip(sealed.chunks_exact(record_bytes));
        // Unseals all records, even if the first fails.
        let payloads: Vec<_> = sealed.map(|(&index, record)| self.table.unseal(index, record)).collect();
        let payloads = payloads.into_iter().collect::<Result<Vec<&[u8]>, _>>()?;
        let value = |((wanted, brought), &holder): ((Box<Wanted>, bool), &u64)| {
            if !brought {
                return Ok(Fetched::Dropped);
            }
            // Every bin is read; records other than the wanted one are masked.
            let mut payload = Zeroizing::new(vec![0; self.table.payload_bytes]);
            for (&record, candidate) in records.iter().zip(&payloads) {
                let mask = equal(record, holder) as u8;
                payload.iter_mut().zip(*candidate).for_each(|(byte, &other)| *byte |= other & mask);
            }
            Ok(wanted.entry.find(&payload)?.map_or(Fetched::Absent, Fetched::Value))
        };
        wanted.into_iter().zip(holders.iter()).map(value).collect()
    }
}
