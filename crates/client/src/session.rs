use std::time::Duration;

use bytes::Bytes;
use spirea_math::random::SecretRng;
use spirea_protocols::index::AnyIndexClient;
use spirea_protocols::table::LookupState;
use spirea_protocols::{ProtocolError, TableClient};
use spirea_wire::{KeysHash, Request, Response};

use crate::{ClientError, Description, Hint, Keys, WeakPrf};

/// The most bytes of a request's queries, unless a single query has more.
const MAX_REQUEST_BYTES: usize = 64 << 20;

/// A value: its fields, in the order in which the table names them.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Vec<Vec<u8>>);

impl Value {
    /// Its fields.
    pub fn fields(&self) -> &[Vec<u8>] {
        &self.0
    }

    /// Its fields.
    pub fn into_fields(self) -> Vec<Vec<u8>> {
        self.0
    }
}

/// Shows lengths only: a value tells what was asked for.
impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Value").field(&self.0.iter().map(Vec::len).collect::<Vec<_>>()).finish()
    }
}

/// The client of one version of a database, without a transport.
pub struct Session {
    description: Description,
    client: TableClient,
    keys: Option<KeysHash>,
    rng: SecretRng,
}

/// Requests to send, and what their responses need to be decoded.
pub struct Round {
    /// The bodies of the requests, one to each server in the order of their parties.
    pub requests: Vec<Vec<u8>>,
    /// For [`Session::decode`].
    pub pending: Pending,
}

/// What a round leaves with the client: secrets, erased when dropped.
pub struct Pending(Vec<LookupState>);

/// What the responses say together.
#[derive(Debug)]
pub struct Answered {
    /// The values, in the order of the request; `None` for a key that the table does not have.
    pub values: Vec<Option<Value>>,
    /// Time that the server computed for the whole batch, as it says; of two servers, the longer.
    pub compute: Duration,
}

impl Session {
    /// A session with a database whose pseudorandom function, if it has one, needs nobody's consent.
    ///
    /// # Errors
    /// See [`Session::new_with`].
    pub fn new(description: Description, hint: &Hint) -> Result<Self, ClientError> {
        Self::new_with(description, hint, WeakPrf::Refuse)
    }

    /// A session with a database.
    ///
    /// # Errors
    /// [`ClientError::WeakPrf`] if its function needs a consent that was not given,
    /// [`ClientError::HintCorrupted`] if the hint belongs to another description,
    /// [`ClientError::NoEntropy`] if the system gives no randomness.
    pub fn new_with(description: Description, hint: &Hint, weak_prf: WeakPrf) -> Result<Self, ClientError> {
        weak_prf.check(description.params())?;
        if hint.blake3 != *description.hint_blake3() {
            return Err(ClientError::HintCorrupted);
        }
        let mut rng = SecretRng::from_os()?;
        let index = description.params().client(&hint.bytes, &mut rng)?;
        Self::over(description, index, rng)
    }

    /// A session over the index protocol's client.
    pub(crate) fn over(
        description: Description,
        index: Box<dyn AnyIndexClient>,
        rng: SecretRng,
    ) -> Result<Self, ClientError> {
        let keys = index.evaluation_keys().map(|keys| blake3::hash(keys).into());
        let client = TableClient::new(description.table().clone(), index)?;
        Ok(Self { description, client, keys, rng })
    }

    /// The database.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The evaluation keys that the server must have before it can answer; `None` if the protocol needs none.
    /// They are this session's own, and the same for all its requests.
    pub fn keys(&self) -> Option<Keys<'_>> {
        let (bytes, blake3) = (self.client.index().evaluation_keys()?, self.keys?);
        Some(Keys { bytes, blake3 })
    }

    /// The most look-ups in one request.
    pub fn max_batch(&self) -> usize {
        let limits = self.description.limits();
        (MAX_REQUEST_BYTES / limits.query_bytes.max(1)).clamp(1, limits.max_batch)
    }

    /// Requests for the values of keys, 1 to [`Session::max_batch`] of them. Every query has secrets of its
    /// own, also for a key that was asked for before.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] if the table is looked up by index or the keys are too many.
    pub fn query_keys(&mut self, keys: &[&[u8]]) -> Result<Round, ClientError> {
        self.round(keys.len(), |client, rng, i| client.query_key(keys[i], rng))
    }

    /// Requests for the values at indices, 1 to [`Session::max_batch`] of them.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] if the table is looked up by key or has no such index, or the indices are
    /// too many.
    pub fn query_indices(&mut self, indices: &[u64]) -> Result<Round, ClientError> {
        self.round(indices.len(), |client, rng, i| client.query_index(indices[i], rng))
    }

    fn round(
        &mut self,
        count: usize,
        query: impl Fn(&TableClient, &mut SecretRng, usize) -> Result<(Vec<Vec<u8>>, LookupState), ProtocolError>,
    ) -> Result<Round, ClientError> {
        let most = self.max_batch();
        if count == 0 || count > most {
            let detail = format!("a request has 1 to {most} look-ups, not {count}");
            return Err(ProtocolError::BadRequest(detail).into());
        }
        let mut queries = vec![Vec::with_capacity(count); self.client.index().parties()];
        let mut states = Vec::with_capacity(count);
        for i in 0..count {
            let (of_parties, state) = query(&self.client, &mut self.rng, i)?;
            queries.iter_mut().zip(of_parties).for_each(|(queries, query)| queries.push(Bytes::from(query)));
            states.push(state);
        }
        let version = *self.description.version();
        let request = |queries| Request { version, keys: self.keys, queries }.encode();
        Ok(Round { requests: queries.into_iter().map(request).collect(), pending: Pending(states) })
    }

    /// Reads one server's response to its request for the values of `count` keys or indices.
    ///
    /// # Errors
    /// [`ClientError::Wire`] if it is not the response, [`ClientError::WrongConfig`] if it is of another version.
    pub fn read(&self, count: usize, response: Bytes) -> Result<Response, ClientError> {
        let response = Response::decode(response, &self.description.limits(), count)?;
        if response.version != *self.description.version() {
            return Err(ClientError::WrongConfig("another version answered than was asked".into()));
        }
        Ok(response)
    }

    /// The values, from the responses of all servers, in the order of their parties, to the requests that left
    /// `pending`.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] if an answer is missing, fails its checksum or is not what the table says. None
    /// means that a key is absent.
    pub fn decode(&self, pending: Pending, responses: &[Response]) -> Result<Answered, ClientError> {
        let Pending(states) = pending;
        let values = states.into_iter().enumerate().map(|(i, state)| {
            let answers = responses.iter().filter_map(|response| response.answers.get(i));
            let value = self.client.decode(state, &answers.map(|answer| &answer[..]).collect::<Vec<_>>())?;
            value.map(|value| self.client.table().split_fields(&value).map(Value)).transpose()
        });
        let compute = responses.iter().map(|response| response.compute).max().unwrap_or_default();
        Ok(Answered { values: values.collect::<Result<_, ProtocolError>>()?, compute })
    }
}
