//! The server half of a protocol: bytes in, bytes out.

use spirea_backend::{BackendError, Share};

use crate::keys::PreparedKeys;
use crate::partial::{Partial, contents};
use crate::query::Query;
use crate::steps::check::check_batch;
use crate::{ProtocolError, Sizes};

/// The server half: bytes in, bytes out, for queries of clients that know nothing of each other.
///
/// A server of one share of the database gives a [`Partial`] of a batch; one that keeps what combining takes makes the
/// answers of the partials of all shares: the same bytes as those of a server of the whole.
pub trait Responder: Send + Sync {
    /// Sizes of queries and answers.
    fn sizes(&self) -> Sizes;

    /// The most queries that [`Responder::answer`] and [`Responder::partial`] take at once.
    fn max_batch(&self) -> usize;

    /// A client's evaluation keys, from the bytes that it sent, for [`Query::keys`].
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if they are not what the parameters say, or the protocol needs none;
    /// [`ProtocolError::Backend`] if the backend cannot hold them.
    fn prepare_keys(&self, _bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        Err(ProtocolError::malformed("keys", "this protocol needs none"))
    }

    /// A dummy query, which takes as long to answer as any other, to find out what answering takes.
    fn specimen(&self) -> Vec<u8> {
        vec![0; self.sizes().query_bytes]
    }

    /// Answers a batch, one answer for each query in order. Queries have been admitted by
    /// [`Sizes::query_bytes`]; one of another length fails the whole batch.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] for a query that is not what the parameters say,
    /// [`ProtocolError::Backend`] if the computation failed, or the server has not the whole database.
    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError>;

    /// The share of the database that it has.
    fn share(&self) -> Share {
        Share::WHOLE
    }

    /// Bytes of the partial that the server of `share` gives of so many queries. A server that is not divided has its
    /// answers as its only partial.
    fn partial_bytes(&self, _share: Share, queries: usize) -> usize {
        Partial::HEADER_BYTES + queries * self.sizes().answer_bytes
    }

    /// Bytes of the evaluation keys that [`Responder::partial`] needs of a client; 0 where only combining needs any.
    fn partial_keys_bytes(&self) -> usize {
        self.sizes().keys_bytes
    }

    /// Reads a batch as the servers of all shares do, and computes nothing. No server of the database refuses a batch as
    /// malformed that this admits: one that combines tells clients' mistakes from those of servers of shares by it.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] for a query that is not what the parameters say.
    fn check(&self, queries: &[Query<'_>]) -> Result<(), ProtocolError> {
        check_batch(queries, self.sizes().query_bytes, self.max_batch())
    }

    /// What the rows of its share make of a batch.
    ///
    /// # Errors
    /// Those of [`Responder::answer`], but for a server of a share.
    fn partial(&self, queries: &[Query<'_>]) -> Result<Partial, ProtocolError> {
        Ok(Partial::new(self.share(), queries, &self.answer(queries)?.concat()))
    }

    /// The answers to a batch, of what all shares make of it: the bytes of [`Responder::answer`] of the whole database.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if there is not one partial of each share, of this batch, as long as the parameters
    /// say; [`ProtocolError::Backend`] if the server keeps nothing to combine with; those of [`Responder::answer`].
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

/// The rows of a share of a database: the steps before shares meet.
pub(crate) trait Rows: Send + Sync {
    /// What they make of a batch, where the backend left it.
    type Folded;

    /// Which they are.
    fn share(&self) -> Share;

    /// What they make of a batch; `None` if the share has none.
    fn fold(&self, queries: &[Query<'_>]) -> Result<Option<Self::Folded>, ProtocolError>;

    /// Reads a batch as a fold does, whichever rows these are.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] for a query that a fold of any share would refuse.
    fn check(&self, _queries: &[Query<'_>]) -> Result<(), ProtocolError> {
        Ok(())
    }

    /// Bytes of the evaluation keys that a fold needs of a client; 0 if it needs none.
    fn keys_bytes(&self) -> usize {
        0
    }

    /// Bytes of what the rows of `share` make of a query.
    fn folded_bytes(&self, share: Share) -> usize;

    /// The bytes of what they make of a batch, query by query.
    fn to_bytes(&self, folded: Self::Folded) -> Result<Vec<u8>, ProtocolError>;

    /// What all rows make of a batch, of the bytes of each share's, in order and of the right length.
    fn join(&self, queries: &[Query<'_>], parts: &[(Share, &[u8])]) -> Result<Self::Folded, ProtocolError>;
}

/// A server of a share: its rows, and the steps behind them. Whatever it is, it is a [`Responder`].
pub(crate) trait Shard: Send + Sync {
    /// What it has of the database.
    type Rows: Rows;
    /// The ciphertexts of a batch, where the steps behind the rows take any.
    type Ciphertexts<'a>
    where
        Self: 'a;

    /// What it has of the database.
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

    /// Parses the ciphertexts. It comes before the fold: a query that cannot be read costs no scan.
    fn parse<'a>(&'a self, queries: &[Query<'a>]) -> Result<Self::Ciphertexts<'a>, ProtocolError>;

    /// The answers, of what all rows make of a batch.
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

    /// Combines the only partial there is, which stays where the backend left it.
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

/// What a server keeps to combine with.
///
/// # Errors
/// [`ProtocolError::Backend`] if it keeps nothing: it was opened to fold alone.
pub(crate) fn kept<T>(kept: &Option<T>) -> Result<&T, ProtocolError> {
    kept.as_ref().ok_or_else(|| refused("this server folds its share alone: another one combines".into()))
}

fn refused(detail: String) -> ProtocolError {
    BackendError::Shape(detail).into()
}
