//! The server half, for either of the two servers.

use std::ops::Range;
use std::sync::Arc;

use spirea_backend::{FileRows, Share, ShareBackend, ShareFold, StoredFile, partial_folds};
use spirea_dpf::{Domain, Key, Party};

use super::params::{Params, Shares};
use crate::opening::Opening;
use crate::query::Query;
use crate::responder::{Rows, Shard};
use crate::{ProtocolError, Sizes};

/// The rows of a [`Share`] of the database, at one of the two servers, over a backend. (A key's
/// value for a row is called a share too.)
pub(super) struct RecordRows<S, B: ShareBackend> {
    params: Params<S>,
    party: Party,
    backend: Arc<B>,
    share: Share,
    /// Range of the rows.
    own: Range<usize>,
    /// The rows; `None` if the range is empty.
    rows: Option<B::Rows>,
}

impl<S: Shares, B: ShareBackend> RecordRows<S, B> {
    /// Opens the rows of a database in a file.
    pub fn open(
        params: Params<S>,
        backend: &Arc<B>,
        file: &StoredFile,
        opening: Opening,
    ) -> Result<Self, ProtocolError> {
        let (party, share, layout) = (opening.one_of_two()?, opening.role.share(), params.layout());
        let own = opening.role.folds(share.records(layout));
        let stored = FileRows { layout, rows: own.clone(), file, residence: opening.residence };
        let rows = (!own.is_empty()).then(|| backend.open_rows(stored)).transpose()?;
        Ok(Self { params, party, backend: Arc::clone(backend), share, own, rows })
    }
}

impl<S: Shares, B: ShareBackend> Rows for RecordRows<S, B> {
    /// For each query, the folded row of each bin that has rows of the share, in order.
    type Folded = Vec<u8>;

    fn share(&self) -> Share {
        self.share
    }

    fn fold(&self, queries: &[Query<'_>]) -> Result<Option<Vec<u8>>, ProtocolError> {
        // Parses the keys of all bins, even those without rows of this share, so that every share
        // refuses a malformed query.
        let keys = self.keys_by_bin(queries)?;
        let Some(rows) = &self.rows else { return Ok(None) };
        let (layout, met) = (self.params.layout(), self.met(self.share));
        let fold = |bin: usize| ShareFold { first_row: bin * layout.bin_rows(), keys: &keys[bin] };
        let folds: Vec<ShareFold<'_>> = met.clone().map(fold).collect();
        let folded = partial_folds(&*self.backend, layout, (&self.own, rows), self.params.prf, &folds)?;
        // Reorders from bins to queries.
        let each = layout.answer_bytes();
        let mut by_query = Vec::with_capacity(folded.len());
        for query in 0..queries.len() {
            let of_bins = folded.chunks_exact(each).skip(query).step_by(queries.len());
            of_bins.for_each(|row| by_query.extend_from_slice(row));
        }
        Ok(Some(by_query))
    }

    fn check(&self, queries: &[Query<'_>]) -> Result<(), ProtocolError> {
        self.keys_by_bin(queries).map(drop)
    }

    fn folded_bytes(&self, share: Share) -> usize {
        self.met(share).len() * self.params.layout().answer_bytes()
    }

    fn to_bytes(&self, folded: Vec<u8>) -> Result<Vec<u8>, ProtocolError> {
        Ok(folded)
    }

    /// Adds up the answers of all shares that have rows.
    fn join(&self, queries: &[Query<'_>], parts: &[(Share, &[u8])]) -> Result<Vec<u8>, ProtocolError> {
        let (output, each) = (self.params.domain().output(), self.params.layout().answer_bytes());
        let mut sum = vec![0; queries.len() * self.params.sizes().answer_bytes];
        for &(share, answers) in parts.iter().filter(|(_, answers)| !answers.is_empty()) {
            let met = self.met(share);
            let answers = answers.chunks_exact(met.len() * each);
            for (sum, answer) in sum.chunks_exact_mut(self.params.sizes().answer_bytes).zip(answers) {
                output.add_to(&mut sum[met.start * each..met.end * each], answer);
            }
        }
        Ok(sum)
    }
}

impl<S: Shares, B: ShareBackend> RecordRows<S, B> {
    /// Returns the bins in which a share has rows.
    fn met(&self, share: Share) -> Range<usize> {
        let layout = self.params.layout();
        let rows = share.records(layout);
        match rows.is_empty() {
            true => 0..0,
            false => rows.start / layout.bin_rows()..rows.end.div_ceil(layout.bin_rows()),
        }
    }

    /// Returns the keys of each bin, one for each query.
    fn keys_by_bin(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<Key>>, ProtocolError> {
        let domain = self.params.domain();
        let mut keys: Vec<_> = (0..self.params.bins).map(|_| Vec::with_capacity(queries.len())).collect();
        for query in queries {
            for (keys, bytes) in keys.iter_mut().zip(query.bytes.chunks_exact(domain.key_bytes())) {
                keys.push(parse_key(domain, self.party, bytes)?);
            }
        }
        Ok(keys)
    }
}

/// Parses a party's key of a domain. An invalid key is refused before any expansion.
fn parse_key(domain: Domain, party: Party, bytes: &[u8]) -> Result<Key, ProtocolError> {
    let key = Key::from_bytes(domain, bytes)
        .map_err(|error| ProtocolError::malformed("query", error.to_string()))?;
    if key.party() != party {
        let detail = format!("its key is for {}, and this server is {party}", key.party());
        return Err(ProtocolError::malformed("query", detail));
    }
    Ok(key)
}

/// The server half, for either of the two servers, over a backend.
pub(super) struct Server<S, B: ShareBackend>(pub RecordRows<S, B>);

impl<S: Shares, B: ShareBackend> Shard for Server<S, B> {
    type Rows = RecordRows<S, B>;
    type Ciphertexts<'a> = ();

    fn rows(&self) -> &RecordRows<S, B> {
        &self.0
    }

    fn sizes(&self) -> Sizes {
        self.0.params.sizes()
    }

    fn max_batch(&self) -> usize {
        self.0.params.max_batch()
    }

    /// Returns a query of this party's keys with zeros in place of random words.
    fn specimen(&self) -> Vec<u8> {
        let mut keys = vec![0; self.0.params.sizes().query_bytes];
        let each = self.0.params.domain().key_bytes();
        keys.iter_mut().step_by(each).for_each(|party| *party = self.0.party.number());
        keys
    }

    fn parse(&self, _: &[Query<'_>]) -> Result<(), ProtocolError> {
        Ok(())
    }

    fn finish(&self, _: &[Query<'_>], (): (), answers: Vec<u8>) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let answer_bytes = self.0.params.sizes().answer_bytes;
        Ok(answers.chunks_exact(answer_bytes).map(<[u8]>::to_vec).collect())
    }
}
