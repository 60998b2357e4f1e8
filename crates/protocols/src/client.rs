//! The client half of a protocol: queries for a record, and the record from their answers.
//!
//! A protocol has one server, or two that must not work together: a client sends a query to each and combines what both
//! answer. Some protocols need a client's evaluation keys beside its queries: they are made once, with the client, and
//! sent once.

use std::any::Any;

use spirea_math::random::SecretRng;

use zeroize::Zeroizing;

use crate::bins::Bins;
use crate::keys::ClientKeys;
use crate::{ProtocolError, Sizes};

/// Queries ready to send, with what their answers need to be decoded.
pub struct Prepared<S = Box<dyn Any + Send>> {
    /// The queries' bytes, one to each party in order.
    pub queries: Vec<Vec<u8>>,
    /// What they leave with the client: secrets, erased when dropped.
    pub state: S,
}

/// The client half of a protocol.
pub trait IndexClient: Send + Sync {
    /// Servers that a look-up asks.
    const PARTIES: usize = 1;

    /// What a query leaves with the client to decode its answers: secrets, erased when dropped.
    type State: Send + 'static;

    /// Records of the database.
    fn records(&self) -> u64;

    /// The bins of the records: a query selects a record of each.
    fn bins(&self) -> Bins {
        Bins::one(self.records())
    }

    /// Sizes of queries and answers.
    fn sizes(&self) -> Sizes;

    /// The evaluation keys that servers must have before they can answer, with their secret, for clients of other
    /// versions of the database to go on with; `None` if the protocol needs none.
    fn keys(&self) -> Option<&ClientKeys> {
        None
    }

    /// Queries for record `index`, one to each party, with secrets of their own. The queries to all parties but one
    /// tell nothing of the index.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if there is no such record.
    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared<Self::State>, ProtocolError>;

    /// The record, from the answers of all parties, in their order, to the queries that left `state`.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if they are not as many as the parties, or one is not what the parameters say.
    fn decode(&self, state: &Self::State, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError>;

    /// Queries for a record of each bin, in the order of the bins, as [`IndexClient::query`]: [`Bins::choose`] chooses them.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if they are not one of each.
    fn query_bins(
        &self,
        records: &[u64],
        rng: &mut SecretRng,
    ) -> Result<Prepared<Self::State>, ProtocolError> {
        self.bins().check(records)?;
        self.query(records[0], rng)
    }

    /// The records of all bins, one after another, from the answers of all parties to the queries that left `state`.
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

    /// The errors of answers, to measure noise: for every number that is decoded on the way to the record, how far it
    /// lies from the one that it decodes to, as a share of what decoding tolerates. They are the true ones where the
    /// record decodes rightly; a protocol without noise has none.
    ///
    /// # Errors
    /// See [`IndexClient::decode`].
    fn errors(&self, state: &Self::State, answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError>;
}

/// The client half of any protocol: an [`IndexClient`] that does not tell what its queries leave.
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
        // A state is erased where it lies, and never moved.
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
