//! The server half of a protocol: bytes in, bytes out.

use spirea_backend::{BackendError, Share};

use crate::keys::PreparedKeys;
use crate::partial::{Partial, contents};
use crate::query::Query;
use crate::steps::check::check_batch;
use crate::{ProtocolError, Sizes};

/// The server half: bytes in, bytes out, for queries of independent clients.
///
/// A server of one share of the database returns a [`Partial`] of a batch. A server that keeps the
/// data for combining makes answers from the partials of all shares: the same bytes as a server of
/// the whole database.
pub trait Responder: Send + Sync {
    /// Returns the sizes of queries and answers.
    fn sizes(&self) -> Sizes;

    /// Returns the maximum number of queries in one call of [`Responder::answer`] or
    /// [`Responder::partial`].
    fn max_batch(&self) -> usize;

    /// Prepares a client's evaluation keys from the bytes that it sent, for [`Query::keys`].
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the bytes do not match the parameters, or the protocol needs
    /// no keys; [`ProtocolError::Backend`] if the backend cannot hold the keys.
    fn prepare_keys(&self, _bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        Err(ProtocolError::malformed("keys", "this protocol needs none"))
    }

    /// Returns a dummy query that takes as long to answer as any other, for measuring.
    fn specimen(&self) -> Vec<u8> {
        vec![0; self.sizes().query_bytes]
    }

    /// Answers a batch, one answer for each query in order. Callers admit queries by
    /// [`Sizes::query_bytes`]; a query of another length fails the whole batch.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] for a query that does not match the parameters;
    /// [`ProtocolError::Backend`] if the computation failed, or the server does not have the whole
    /// database.
    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError>;

    /// Returns the server's share of the database.
    fn share(&self) -> Share {
        Share::WHOLE
    }

    /// Returns the number of bytes of the partial that the server of `share` returns for `queries`
    /// queries. The only partial of an undivided server consists of its answers.
    fn partial_bytes(&self, _share: Share, queries: usize) -> usize {
        Partial::HEADER_BYTES + queries * self.sizes().answer_bytes
    }

    /// Returns the number of bytes of a client's evaluation keys that [`Responder::partial`] needs;
    /// 0 if only combining needs keys.
    fn partial_keys_bytes(&self) -> usize {
        self.sizes().keys_bytes
    }

    /// Parses a batch as the servers of all shares do, without computing. If this check passes, no
    /// server of the database refuses the batch as malformed. A combining server uses it to
    /// distinguish clients' mistakes from those of share servers.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] for a query that does not match the parameters.
    fn check(&self, queries: &[Query<'_>]) -> Result<(), ProtocolError> {
        check_batch(queries, self.sizes().query_bytes, self.max_batch())
    }

    /// Computes the partial of a batch from the rows of its share.
    ///
    /// # Errors
    /// Those of [`Responder::answer`]. A server without the whole database is not an error here.
    fn partial(&self, queries: &[Query<'_>]) -> Result<Partial, ProtocolError> {
        Ok(Partial::new(self.share(), queries, &self.answer(queries)?.concat()))
    }

    /// Combines the partials of all shares into the answers to a batch: the same bytes as
    /// [`Responder::answer`] on the whole database.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] unless there is one partial of each share, for this batch and
    /// of the length that the parameters give; [`ProtocolError::Backend`] if the server keeps no
    /// data for combining; those of [`Responder::answer`].
    fn combine(&self, queries: &[Query<'_>], partials: &[Partial]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let Sizes { query_bytes, answer_bytes, .. } = self.sizes();
        check_batch(queries, query_bytes, self.max_batch())?;
        let parts = contents(queries, partials, |_| queries.len() * answer_bytes)?;
        match parts[..] {
            [(_, answers)] => Ok(answers.chunks_exact(answer_bytes).map(<[u8]>::to_vec).collect()),
            _ => Err(ProtocolError::malformed("partial", "this server's database is not divided")),
        }
    }
}

/// The rows of a share of a database: the steps before the shares are combined.
pub(crate) trait Rows: Send + Sync {
    /// Result of folding a batch, in the backend's memory.
    type Folded;

    /// Returns their share.
    fn share(&self) -> Share;

    /// Folds the rows by a batch; `None` if the share has no rows.
    fn fold(&self, queries: &[Query<'_>]) -> Result<Option<Self::Folded>, ProtocolError>;

    /// Parses a batch as a fold does, independently of the rows.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] for a query that a fold of any share would refuse.
    fn check(&self, _queries: &[Query<'_>]) -> Result<(), ProtocolError> {
        Ok(())
    }

    /// Returns the number of bytes of a client's evaluation keys that a fold needs; 0 if it needs
    /// none.
    fn keys_bytes(&self) -> usize {
        0
    }

    /// Returns the number of bytes of the folded rows of `share` for a query.
    fn folded_bytes(&self, share: Share) -> usize;

    /// Serialises a folded batch, query by query.
    fn to_bytes(&self, folded: Self::Folded) -> Result<Vec<u8>, ProtocolError>;

    /// Joins the serialised folds of all shares, which are in order and of the right length.
    fn join(&self, queries: &[Query<'_>], parts: &[(Share, &[u8])]) -> Result<Self::Folded, ProtocolError>;
}

/// A server of a share: its rows, and the steps after them. Every `Shard` is a [`Responder`].
pub(crate) trait Shard: Send + Sync {
    /// Rows of the share.
    type Rows: Rows;
    /// Parsed ciphertexts of a batch, for the steps after the rows.
    type Ciphertexts<'a>
    where
        Self: 'a;

    /// Returns the rows of the share.
    fn rows(&self) -> &Self::Rows;

    /// See [`Responder::sizes`].
    fn sizes(&self) -> Sizes;

    /// See [`Responder::max_batch`].
    fn max_batch(&self) -> usize;

    /// See [`Responder::prepare_keys`].
    fn prepare_keys(&self, _bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        Err(ProtocolError::malformed("keys", "this protocol needs none"))
    }

    /// See [`Responder::specimen`].
    fn specimen(&self) -> Vec<u8> {
        vec![0; self.sizes().query_bytes]
    }

    /// Parses the ciphertexts. Runs before the fold, so that an unreadable query costs no scan.
    fn parse<'a>(&'a self, queries: &[Query<'a>]) -> Result<Self::Ciphertexts<'a>, ProtocolError>;

    /// Makes the answers to a batch from the joined fold of all rows.
    fn finish(
        &self,
        queries: &[Query<'_>],
        ciphertexts: Self::Ciphertexts<'_>,
        folded: <Self::Rows as Rows>::Folded,
    ) -> Result<Vec<Vec<u8>>, ProtocolError>;
}

impl<S: Shard> Responder for S {
    fn sizes(&self) -> Sizes {
        Shard::sizes(self)
    }

    fn max_batch(&self) -> usize {
        Shard::max_batch(self)
    }

    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        Shard::prepare_keys(self, bytes)
    }

    fn specimen(&self) -> Vec<u8> {
        Shard::specimen(self)
    }

    /// Answers from the server's own fold, which stays in the backend's memory.
    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        check_batch(queries, Shard::sizes(self).query_bytes, Shard::max_batch(self))?;
        let ciphertexts = self.parse(queries)?;
        let share = self.rows().share();
        let whole = (share == Share::WHOLE).then(|| self.rows().fold(queries)).transpose()?.flatten();
        let Some(folded) = whole else {
            let (index, count) = (share.index(), share.count());
            return Err(refused(format!(
                "share {index} of {count} alone has no answers: combine all partials"
            )));
        };
        self.finish(queries, ciphertexts, folded)
    }

    fn share(&self) -> Share {
        self.rows().share()
    }

    fn partial_bytes(&self, share: Share, queries: usize) -> usize {
        Partial::HEADER_BYTES + queries * self.rows().folded_bytes(share)
    }

    fn partial_keys_bytes(&self) -> usize {
        self.rows().keys_bytes()
    }

    fn check(&self, queries: &[Query<'_>]) -> Result<(), ProtocolError> {
        check_batch(queries, Shard::sizes(self).query_bytes, Shard::max_batch(self))?;
        self.rows().check(queries)?;
        self.parse(queries).map(drop)
    }

    fn partial(&self, queries: &[Query<'_>]) -> Result<Partial, ProtocolError> {
        check_batch(queries, Shard::sizes(self).query_bytes, Shard::max_batch(self))?;
        let folded = self.rows().fold(queries)?;
        let content = folded.map(|folded| self.rows().to_bytes(folded)).transpose()?.unwrap_or_default();
        Ok(Partial::new(self.rows().share(), queries, &content))
    }

    fn combine(&self, queries: &[Query<'_>], partials: &[Partial]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        check_batch(queries, Shard::sizes(self).query_bytes, Shard::max_batch(self))?;
        let rows = self.rows();
        let parts = contents(queries, partials, |share| queries.len() * rows.folded_bytes(share))?;
        let ciphertexts = self.parse(queries)?;
        self.finish(queries, ciphertexts, rows.join(queries, &parts)?)
    }
}

/// Returns the data that a server keeps for combining.
///
/// # Errors
/// [`ProtocolError::Backend`] if the server keeps none, since it was opened for folding only.
pub(crate) fn kept<T>(kept: &Option<T>) -> Result<&T, ProtocolError> {
    kept.as_ref().ok_or_else(|| refused("this server folds its share alone: another one combines".into()))
}

fn refused(detail: String) -> ProtocolError {
    BackendError::Shape(detail).into()
}
