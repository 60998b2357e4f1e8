//! What an index protocol is: a client half and a server half that exchange bytes.
//!
//! `client.query(index) -> (query, state)`; the bytes go over the wire; `server.answer(batch)`; bytes come
//! back; `client.decode(state, answer)`. A record here is a fixed number of opaque bytes.
//!
//! Some protocols need a client's evaluation keys beside its queries. They are made once, with the client, and
//! sent once; the server brings them into the form it computes with and has them at hand for every query.

use std::any::Any;
use std::sync::Arc;

use spirea_math::random::SecretRng;

use crate::ProtocolError;

/// What one look-up costs on the wire, and a client once; known from the parameters alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a query, always the same.
    pub query_bytes: usize,
    /// Bytes of an answer, always the same.
    pub answer_bytes: usize,
    /// Bytes of the hint that a client downloads once for a version of the database; 0 if none.
    pub hint_bytes: u64,
    /// Bytes of a client's evaluation keys; 0 if the protocol needs none.
    pub keys_bytes: usize,
}

/// Evaluation keys in the form that answers need: made once from a client's bytes by
/// [`Responder::prepare_keys`]. Clones share them.
#[derive(Clone)]
pub struct PreparedKeys {
    value: Arc<dyn Any + Send + Sync>,
    bytes: usize,
}

impl PreparedKeys {
    /// Keys that take `bytes` of memory.
    pub fn new<T: Any + Send + Sync>(value: Arc<T>, bytes: usize) -> Self {
        Self { value, bytes }
    }

    /// The keys, if they are of this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.value.downcast_ref()
    }

    /// Bytes of memory that they take.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

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

    /// Answers a batch, one answer for each query in order. Queries have been admitted by
    /// [`Sizes::query_bytes`]; one of another length fails the whole batch.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] for a query that is not what the parameters say,
    /// [`ProtocolError::Backend`] if the computation failed.
    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError>;
}

/// The client half.
pub trait IndexClient: Send + Sync {
    /// What a query leaves with the client to decode its answer: secrets, erased when dropped.
    type State: Send + 'static;

    /// Records of the database.
    fn records(&self) -> u64;

    /// Sizes of queries and answers.
    fn sizes(&self) -> Sizes;

    /// The evaluation keys' bytes that the server must have before it can answer; `None` if the protocol
    /// needs none.
    fn evaluation_keys(&self) -> Option<&[u8]> {
        None
    }

    /// A query for record `index`, with secrets of its own.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if there is no such record.
    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<(Vec<u8>, Self::State), ProtocolError>;

    /// The record, from the answer to the query that left `state`.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the answer is not what the parameters say.
    fn decode(&self, state: Self::State, answer: &[u8]) -> Result<Vec<u8>, ProtocolError>;

    /// The errors of an answer, to measure noise: for every number that is decoded on the way to the record,
    /// how far it lies from the one that it decodes to, as a share of what decoding tolerates. They are the
    /// true ones where the record decodes rightly.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the answer is not what the parameters say.
    fn errors(&self, state: &Self::State, answer: &[u8]) -> Result<Vec<f64>, ProtocolError>;
}

/// An [`IndexClient`] of any protocol.
pub trait AnyIndexClient: Send + Sync {
    /// See [`IndexClient::records`].
    fn records(&self) -> u64;

    /// See [`IndexClient::sizes`].
    fn sizes(&self) -> Sizes;

    /// See [`IndexClient::evaluation_keys`].
    fn evaluation_keys(&self) -> Option<&[u8]> {
        None
    }

    /// See [`IndexClient::query`].
    ///
    /// # Errors
    /// See [`IndexClient::query`].
    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared, ProtocolError>;

    /// See [`IndexClient::decode`].
    ///
    /// # Errors
    /// See [`IndexClient::decode`].
    ///
    /// # Panics
    /// If `state` comes from a client of another protocol.
    fn decode(&self, state: Box<dyn Any + Send>, answer: &[u8]) -> Result<Vec<u8>, ProtocolError>;

    /// See [`IndexClient::errors`].
    ///
    /// # Errors
    /// See [`IndexClient::errors`].
    ///
    /// # Panics
    /// If `state` comes from a client of another protocol.
    fn errors(&self, state: &(dyn Any + Send), answer: &[u8]) -> Result<Vec<f64>, ProtocolError>;
}

/// A query ready to send, with what its answer needs to be decoded.
pub struct Prepared {
    /// The query's bytes.
    pub query: Vec<u8>,
    /// The [`IndexClient::State`].
    pub state: Box<dyn Any + Send>,
}

impl<C: IndexClient> AnyIndexClient for C {
    fn records(&self) -> u64 {
        IndexClient::records(self)
    }

    fn sizes(&self) -> Sizes {
        IndexClient::sizes(self)
    }

    fn evaluation_keys(&self) -> Option<&[u8]> {
        IndexClient::evaluation_keys(self)
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared, ProtocolError> {
        let (query, state) = IndexClient::query(self, index, rng)?;
        Ok(Prepared { query, state: Box::new(state) })
    }

    fn decode(&self, state: Box<dyn Any + Send>, answer: &[u8]) -> Result<Vec<u8>, ProtocolError> {
        let state = state.downcast().expect("the state of a query belongs to the client that made it");
        IndexClient::decode(self, *state, answer)
    }

    fn errors(&self, state: &(dyn Any + Send), answer: &[u8]) -> Result<Vec<f64>, ProtocolError> {
        let state = state.downcast_ref().expect("the state of a query belongs to the client that made it");
        IndexClient::errors(self, state, answer)
    }
}
