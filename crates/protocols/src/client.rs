//! The client half of a protocol: makes queries for a record, and decodes the record from the
//! answers.
//!
//! A protocol has one server, or two that must not collude; a client then sends a query to each and
//! combines both answers. Some protocols also need a client's evaluation keys: they are made once,
//! with the client, and sent once.

use std::any::Any;

use spirea_math::random::SecretRng;

use zeroize::Zeroizing;

use crate::bins::Bins;
use crate::keys::ClientKeys;
use crate::{ProtocolError, Sizes};

/// Queries ready to send, with the state that decodes their answers.
pub struct Prepared<S = Box<dyn Any + Send>> {
    /// Bytes of the queries, one for each party, in order.
    pub queries: Vec<Vec<u8>>,
    /// State for decoding: secrets, erased when dropped.
    pub state: S,
}

/// The client half of a protocol.
pub trait IndexClient: Send + Sync {
    /// Number of servers that a look-up queries.
    const PARTIES: usize = 1;

    /// State that decodes the answers to a query: secrets, erased when dropped.
    type State: Send + 'static;

    /// Returns the number of records of the database.
    fn records(&self) -> u64;

    /// Returns the bins of the records: a query selects a record of each.
    fn bins(&self) -> Bins {
        Bins::one(self.records())
    }

    /// Returns the sizes of queries and answers.
    fn sizes(&self) -> Sizes;

    /// Returns the evaluation keys that servers need before they can answer, with their secret.
    /// Clients of other versions of the database can reuse them. `None` if the protocol needs no
    /// keys.
    fn keys(&self) -> Option<&ClientKeys> {
        None
    }

    /// Makes queries for record `index`, one for each party, with fresh randomness. The queries to
    /// all parties but one together reveal nothing about the index.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if there is no such record.
    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared<Self::State>, ProtocolError>;

    /// Decodes the record from the answers of all parties, in order. `state` was returned with the
    /// queries that were answered.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the number of answers differs from the number of parties, or
    /// an answer does not have the form that the parameters give.
    fn decode(&self, state: &Self::State, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError>;

    /// Makes queries for one record of each bin, in the order of the bins, like
    /// [`IndexClient::query`]. [`Bins::choose`] chooses the records.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] unless `records` has one record of each bin.
    fn query_bins(
        &self,
        records: &[u64],
        rng: &mut SecretRng,
    ) -> Result<Prepared<Self::State>, ProtocolError> {
        self.bins().check(records)?;
        self.query(records[0], rng)
    }

    /// Decodes the records of all bins from the answers of all parties, and concatenates the
    /// records. `state` was returned with the queries that were answered.
    ///
    /// # Errors
    /// See [`IndexClient::decode`].
    fn decode_bins(
        &self,
        state: &Self::State,
        answers: &[&[u8]],
    ) -> Result<Zeroizing<Vec<u8>>, ProtocolError> {
        Ok(Zeroizing::new(self.decode(state, answers)?))
    }

    /// Returns the errors of the answers, for measuring noise, for every number decoded on the way
    /// to the record. An error is the distance of a number from its decoded value, as a fraction of
    /// the distance that decoding tolerates. These are the true errors if the record decodes
    /// correctly. A protocol without noise returns none.
    ///
    /// # Errors
    /// See [`IndexClient::decode`].
    fn errors(&self, state: &Self::State, answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError>;
}

/// The client half of any protocol: an [`IndexClient`] whose state has no static type.
pub trait AnyIndexClient: Send + Sync {
    /// See [`IndexClient::PARTIES`].
    fn parties(&self) -> usize;

    /// See [`IndexClient::records`].
    fn records(&self) -> u64;

    /// See [`IndexClient::bins`].
    fn bins(&self) -> Bins;

    /// See [`IndexClient::sizes`].
    fn sizes(&self) -> Sizes;

    /// See [`IndexClient::keys`].
    fn keys(&self) -> Option<&ClientKeys>;

    /// See [`IndexClient::query`].
    ///
    /// # Errors
    /// Those of [`IndexClient::query`].
    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared, ProtocolError>;

    /// See [`IndexClient::decode`].
    ///
    /// # Errors
    /// Those of [`IndexClient::decode`].
    ///
    /// # Panics
    /// If `state` comes from a client of another protocol.
    fn decode(&self, state: Box<dyn Any + Send>, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError>;

    /// See [`IndexClient::query_bins`].
    ///
    /// # Errors
    /// Those of [`IndexClient::query_bins`].
    fn query_bins(&self, records: &[u64], rng: &mut SecretRng) -> Result<Prepared, ProtocolError>;

    /// See [`IndexClient::decode_bins`].
    ///
    /// # Errors
    /// Those of [`IndexClient::decode`].
    ///
    /// # Panics
    /// If `state` comes from a client of another protocol.
    fn decode_bins(
        &self,
        state: Box<dyn Any + Send>,
        answers: &[&[u8]],
    ) -> Result<Zeroizing<Vec<u8>>, ProtocolError>;

    /// See [`IndexClient::errors`].
    ///
    /// # Errors
    /// Those of [`IndexClient::decode`].
    ///
    /// # Panics
    /// If `state` comes from a client of another protocol.
    fn errors(&self, state: &(dyn Any + Send), answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError>;
}

const FOREIGN_STATE: &str = "the state of a query belongs to the client that made it";

impl<C: IndexClient> AnyIndexClient for C {
    fn parties(&self) -> usize {
        C::PARTIES
    }

    fn records(&self) -> u64 {
        IndexClient::records(self)
    }

    fn bins(&self) -> Bins {
        IndexClient::bins(self)
    }

    fn sizes(&self) -> Sizes {
        IndexClient::sizes(self)
    }

    fn keys(&self) -> Option<&ClientKeys> {
        IndexClient::keys(self)
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared, ProtocolError> {
        let Prepared { queries, state } = IndexClient::query(self, index, rng)?;
        Ok(Prepared { queries, state: Box::new(state) })
    }

    fn decode(&self, state: Box<dyn Any + Send>, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        // A state is erased in place, so it must not be moved.
        IndexClient::decode(self, state.downcast_ref().expect(FOREIGN_STATE), answers)
    }

    fn query_bins(&self, records: &[u64], rng: &mut SecretRng) -> Result<Prepared, ProtocolError> {
        let Prepared { queries, state } = IndexClient::query_bins(self, records, rng)?;
        Ok(Prepared { queries, state: Box::new(state) })
    }

    fn decode_bins(
        &self,
        state: Box<dyn Any + Send>,
        answers: &[&[u8]],
    ) -> Result<Zeroizing<Vec<u8>>, ProtocolError> {
        IndexClient::decode_bins(self, state.downcast_ref().expect(FOREIGN_STATE), answers)
    }

    fn errors(&self, state: &(dyn Any + Send), answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        IndexClient::errors(self, state.downcast_ref().expect(FOREIGN_STATE), answers)
    }
}
