//! The server half: one of the two.

use std::sync::Arc;

use spirea_backend::ShareBackend;
use spirea_dpf::{Domain, Key, Party};

use super::params::{Params, Shares};
use crate::parameters::Parameters;
use crate::responder::{Query, Responder};
use crate::steps::check::check_batch;
use crate::{ProtocolError, Sizes};

/// One of the two servers, over a backend.
pub struct Server<S, B: ShareBackend> {
    params: Params<S>,
    party: Party,
    backend: Arc<B>,
    rows: B::Rows,
}

impl<S: Shares, B: ShareBackend> Server<S, B> {
    /// Server `party` of `rows`.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid or the rows have another layout.
    pub fn new(
        params: Params<S>,
        party: Party,
        backend: Arc<B>,
        rows: B::Rows,
    ) -> Result<Self, ProtocolError> {
        params.validate()?;
        if backend.row_layout(&rows) != params.layout() {
            return Err(ProtocolError::malformed("parameters", "the rows have another layout"));
        }
        Ok(Self { params, party, backend, rows })
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

impl<S: Shares, B: ShareBackend> Responder for Server<S, B> {
    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn max_batch(&self) -> usize {
        self.params.max_batch()
    }

    /// A key of this party with zeros in place of random words.
    fn specimen(&self) -> Vec<u8> {
        let mut key = vec![0; self.sizes().query_bytes];
        key[0] = self.party.number();
        key
    }

    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let Sizes { query_bytes, answer_bytes, .. } = self.sizes();
        check_batch(queries, query_bytes, self.max_batch())?;
        let domain = self.params.domain();
        let keys = queries.iter().map(|query| parse_key(domain, self.party, query.bytes));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let answers = self.backend.share_fold(&self.rows, 0, self.params.prf, &keys)?;
        Ok(answers.chunks_exact(answer_bytes).map(<[u8]>::to_vec).collect())
    }
}
