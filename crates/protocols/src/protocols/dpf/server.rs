//! The server half: one of the two.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use spirea_backend::{FileRows, Share, ShareBackend};
use spirea_dpf::{Domain, Key, Party};

use super::params::{Params, Shares};
use crate::opening::Opening;
use crate::parameters::Parameters;
use crate::query::Query;
use crate::responder::{Rows, Shard};
use crate::{ProtocolError, Sizes};

/// The rows of a share, of one of the two servers, over a backend. (Not what a key gives for a row, which is called a
/// share as well.)
pub(super) struct RecordRows<S, B: ShareBackend> {
    params: Params<S>,
    party: Party,
    backend: Arc<B>,
    share: Share,
    /// Which they are.
    own: Range<usize>,
    /// The rows, if there are any.
    rows: Option<B::Rows>,
}

impl<S: Shares, B: ShareBackend> RecordRows<S, B> {
    /// Those of a database in a file.
    pub fn open(
        params: Params<S>,
        backend: &Arc<B>,
        path: &Path,
        opening: Opening,
    ) -> Result<Self, ProtocolError> {
        let (party, share, layout) = (opening.one_of_two()?, opening.role.share(), params.layout());
        let own = share.records(layout);
        let stored = FileRows { layout, rows: own.clone(), path, residence: opening.residence };
        let rows = (!own.is_empty()).then(|| backend.open_rows(stored)).transpose()?;
        Ok(Self { params, party, backend: Arc::clone(backend), share, own, rows })
    }
}

impl<S: Shares, B: ShareBackend> Rows for RecordRows<S, B> {
    /// The answers, one after another.
    type Folded = Vec<u8>;

    fn share(&self) -> Share {
        self.share
    }

    fn fold(&self, queries: &[Query<'_>]) -> Result<Option<Vec<u8>>, ProtocolError> {
        let (domain, prf) = (self.params.domain(), self.params.prf);
        let keys = queries.iter().map(|query| parse_key(domain, self.party, query.bytes));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let met = self.params.layout().check_keys(0, &keys)?.on(&self.own, prf, &keys)?;
        let (Some(rows), Some((first, subtrees))) = (&self.rows, met) else { return Ok(None) };
        Ok(Some(self.backend.share_fold(rows, first, prf, &subtrees)?))
    }

    fn folded_bytes(&self, share: Share) -> usize {
        let layout = self.params.layout();
        if share.records(layout).is_empty() { 0 } else { layout.answer_bytes() }
    }

    fn to_bytes(&self, folded: Vec<u8>) -> Result<Vec<u8>, ProtocolError> {
        Ok(folded)
    }

    /// The sum of the answers of all shares that have rows.
    fn join(&self, queries: &[Query<'_>], parts: &[(Share, &[u8])]) -> Result<Vec<u8>, ProtocolError> {
        let output = self.params.domain().output();
        let mut sum = vec![0; queries.len() * self.params.layout().answer_bytes()];
        let answers = parts.iter().map(|(_, answers)| answers).filter(|answers| !answers.is_empty());
        answers.for_each(|answers| output.add_to(&mut sum, answers));
        Ok(sum)
    }
}

/// A party's key of a domain. Nothing is expanded of one that is not.
pub(super) fn parse_key(domain: Domain, party: Party, bytes: &[u8]) -> Result<Key, ProtocolError> {
    let key = Key::from_bytes(domain, bytes)
        .map_err(|error| ProtocolError::malformed("query", error.to_string()))?;
    if key.party() != party {
        let detail = format!("its key is for {}, and this server is {party}", key.party());
        return Err(ProtocolError::malformed("query", detail));
    }
    Ok(key)
}

/// One of the two servers, over a backend.
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

    /// A key of this party with zeros in place of random words.
    fn specimen(&self) -> Vec<u8> {
        let mut key = vec![0; self.0.params.sizes().query_bytes];
        key[0] = self.0.party.number();
        key
    }

    fn parse(&self, _: &[Query<'_>]) -> Result<(), ProtocolError> {
        Ok(())
    }

    fn finish(&self, _: &[Query<'_>], (): (), answers: Vec<u8>) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let answer_bytes = self.0.params.sizes().answer_bytes;
        Ok(answers.chunks_exact(answer_bytes).map(<[u8]>::to_vec).collect())
    }
}
