//! The server half of a protocol: bytes in, bytes out.

use crate::keys::PreparedKeys;
use crate::{ProtocolError, Sizes};

/// One query of a batch, with the keys of the client that sent it.
#[derive(Clone, Copy)]
pub struct Query<'a> {
    /// The query's bytes.
    pub bytes: &'a [u8],
    /// The client's evaluation keys; `None` if the protocol needs none.
    pub keys: Option<&'a PreparedKeys>,
}

/// The server half: bytes in, bytes out, for queries of clients that know nothing of each other.
pub trait Responder: Send + Sync {
    /// Sizes of queries and answers.
    fn sizes(&self) -> Sizes;

    /// The most queries that [`Responder::answer`] takes at once.
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
    /// [`ProtocolError::Backend`] if the computation failed.
    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError>;
}
