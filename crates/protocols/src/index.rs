//! What an index protocol is: a client half and a server half that exchange bytes.
//!
//! `client.query(index) -> (query, state)`; the bytes go over the wire; `server.answer(batch)`; bytes come
//! back; `client.decode(state, answer)`. A record here is a fixed number of opaque bytes.
//!
//! Some protocols have two servers, which must not work together: a client sends a query to each and combines
//! what both answer. A server half is the same, whether it is alone or one of two.
//!
//! Some protocols need a client's evaluation keys beside its queries. They are made once, with the client, and
//! sent once; the server brings them into the form it computes with and has them at hand for every query.

use std::any::Any;
use std::sync::Arc;

use spirea_math::random::SecretRng;

use crate::ProtocolError;
use crate::steps::RingKeys;

/// What one look-up costs on the wire, and a client once; known from the parameters alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a query, always the same, and to every server of the protocol.
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

    /// A query of nobody's, as long to answer as any other one, to find out what answering takes.
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

/// The client half of a protocol with one server.
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

    /// The evaluation keys with their secret, for clients of other versions of the database to go on with; `None`
    /// if the protocol needs none.
    fn ring_keys(&self) -> Option<&RingKeys> {
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
    fn decode(&self, state: &Self::State, answer: &[u8]) -> Result<Vec<u8>, ProtocolError>;

    /// The errors of an answer, to measure noise: for every number that is decoded on the way to the record,
    /// how far it lies from the one that it decodes to, as a share of what decoding tolerates. They are the
    /// true ones where the record decodes rightly.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the answer is not what the parameters say.
    fn errors(&self, state: &Self::State, answer: &[u8]) -> Result<Vec<f64>, ProtocolError>;
}

/// The client half of a protocol with two servers. It needs no hint and no keys, and there is no noise.
pub trait PairIndexClient: Send + Sync {
    /// What a query leaves with the client to combine its answers: secrets, erased when dropped.
    type State: Send + 'static;

    /// Records of the database.
    fn records(&self) -> u64;

    /// Sizes of queries and answers.
    fn sizes(&self) -> Sizes;

    /// The queries to party 0 and party 1 for record `index`. Either alone tells nothing of it.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if there is no such record.
    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<([Vec<u8>; 2], Self::State), ProtocolError>;

    /// The record, from the answers of party 0 and party 1 to the queries that left `state`.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if an answer is not what the parameters say.
    fn combine(&self, state: &Self::State, answers: [&[u8]; 2]) -> Result<Vec<u8>, ProtocolError>;
}

/// The client half of any protocol.
pub trait AnyIndexClient: Send + Sync {
    /// Servers that a look-up asks.
    fn parties(&self) -> usize {
        1
    }

    /// See [`IndexClient::records`].
    fn records(&self) -> u64;

    /// See [`IndexClient::sizes`].
    fn sizes(&self) -> Sizes;

    /// See [`IndexClient::evaluation_keys`].
    fn evaluation_keys(&self) -> Option<&[u8]> {
        None
    }

    /// See [`IndexClient::ring_keys`].
    fn ring_keys(&self) -> Option<&RingKeys> {
        None
    }

    /// Queries for record `index`, one to each party, with secrets of their own.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if there is no such record.
    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared, ProtocolError>;

    /// The record, from the answers of all parties, in their order, to the queries that left `state`.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if they are not as many as the parties, or one is not what the parameters
    /// say.
    ///
    /// # Panics
    /// If `state` comes from a client of another protocol.
    fn decode(&self, state: Box<dyn Any + Send>, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError>;

    /// See [`IndexClient::errors`]; empty for a protocol without noise.
    ///
    /// # Errors
    /// See [`AnyIndexClient::decode`].
    ///
    /// # Panics
    /// If `state` comes from a client of another protocol.
    fn errors(&self, state: &(dyn Any + Send), answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError>;
}

/// Queries ready to send, with what their answers need to be decoded.
pub struct Prepared {
    /// The queries' bytes, one to each party in order.
    pub queries: Vec<Vec<u8>>,
    /// The [`IndexClient::State`] or [`PairIndexClient::State`].
    pub state: Box<dyn Any + Send>,
}

/// The answers of `N` parties, if there are as many.
fn of_parties<'a, const N: usize>(answers: &[&'a [u8]]) -> Result<[&'a [u8]; N], ProtocolError> {
    let wrong = || format!("answers of {} servers where the protocol has {N}", answers.len());
    answers.try_into().map_err(|_| ProtocolError::malformed("answer", wrong()))
}

const FOREIGN_STATE: &str = "the state of a query belongs to the client that made it";

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

    fn ring_keys(&self) -> Option<&RingKeys> {
        IndexClient::ring_keys(self)
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared, ProtocolError> {
        let (query, state) = IndexClient::query(self, index, rng)?;
        Ok(Prepared { queries: vec![query], state: Box::new(state) })
    }

    fn decode(&self, state: Box<dyn Any + Send>, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        let [answer] = of_parties(answers)?;
        // A state is erased where it lies, and never moved.
        IndexClient::decode(self, state.downcast_ref().expect(FOREIGN_STATE), answer)
    }

    fn errors(&self, state: &(dyn Any + Send), answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        let [answer] = of_parties(answers)?;
        IndexClient::errors(self, state.downcast_ref().expect(FOREIGN_STATE), answer)
    }
}

/// A [`PairIndexClient`] as an [`AnyIndexClient`].
pub struct Pair<C>(pub C);

impl<C: PairIndexClient> AnyIndexClient for Pair<C> {
    fn parties(&self) -> usize {
        2
    }

    fn records(&self) -> u64 {
        self.0.records()
    }

    fn sizes(&self) -> Sizes {
        self.0.sizes()
    }

    fn query(&self, index: u64, rng: &mut SecretRng) -> Result<Prepared, ProtocolError> {
        let (queries, state) = self.0.query(index, rng)?;
        Ok(Prepared { queries: queries.into(), state: Box::new(state) })
    }

    fn decode(&self, state: Box<dyn Any + Send>, answers: &[&[u8]]) -> Result<Vec<u8>, ProtocolError> {
        self.0.combine(state.downcast_ref().expect(FOREIGN_STATE), of_parties(answers)?)
    }

    fn errors(&self, _: &(dyn Any + Send), answers: &[&[u8]]) -> Result<Vec<f64>, ProtocolError> {
        of_parties::<2>(answers).map(|_| Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database of two records, 10 and 20: the queries are an index and its mask.
    struct Masked;

    impl PairIndexClient for Masked {
        type State = u8;

        fn records(&self) -> u64 {
            2
        }

        fn sizes(&self) -> Sizes {
            Sizes { query_bytes: 1, answer_bytes: 1, hint_bytes: 0, keys_bytes: 0 }
        }

        fn query(&self, index: u64, rng: &mut SecretRng) -> Result<([Vec<u8>; 2], u8), ProtocolError> {
            let mask = rng.next_u64() as u8;
            Ok(([vec![mask], vec![mask ^ index as u8]], mask))
        }

        fn combine(&self, _: &u8, [zero, one]: [&[u8]; 2]) -> Result<Vec<u8>, ProtocolError> {
            Ok(vec![[10, 20][usize::from(zero[0] ^ one[0])]])
        }
    }

    #[test]
    fn a_pair_takes_an_answer_of_each_of_two_parties() {
        let (client, mut rng) = (Pair(Masked), SecretRng::deterministic_for_tests(1));
        for index in 0..2 {
            let Prepared { queries, state } = client.query(index, &mut rng).unwrap();
            assert_eq!((queries.len(), client.parties()), (2, 2));
            let answers: Vec<&[u8]> = queries.iter().map(Vec::as_slice).collect();
            assert!(client.errors(&*state, &answers).unwrap().is_empty());
            assert_eq!(client.decode(state, &answers).unwrap(), [10 * (index as u8 + 1)]);
        }
        for count in [0, 1, 3] {
            let state = client.query(0, &mut rng).unwrap().state;
            let answers = vec![&[0][..]; count];
            assert!(matches!(client.errors(&*state, &answers), Err(ProtocolError::Malformed { .. })));
            let error = client.decode(state, &answers).unwrap_err().to_string();
            assert!(error.contains(&format!("answers of {count} servers")), "{error}");
        }
    }
}
