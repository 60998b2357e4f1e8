use std::time::Duration;

use bytes::Bytes;
use spirea_math::random::SecretRng;
use spirea_protocols::delta::{self, Change};
use spirea_protocols::index::AnyIndexClient;
use spirea_protocols::steps::RingKeys;
use spirea_protocols::table::LookupState;
use spirea_protocols::{ProtocolError, TableClient};
use spirea_wire::{KeysHash, Part as KeysPart, Queries, Request, Response};

use crate::{ClientError, Description, Hint, Keys, Part, WeakPrf};

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
    base: Asker,
    delta: Option<Asker>,
    rng: SecretRng,
}

/// The client of one part of a version.
struct Asker {
    client: TableClient,
    keys: Option<KeysHash>,
}

impl Asker {
    fn new(part: &Part, index: Box<dyn AnyIndexClient>) -> Result<Self, ClientError> {
        let keys = index.evaluation_keys().map(|keys| blake3::hash(keys).into());
        Ok(Self { client: TableClient::new(part.table().clone(), index)?, keys })
    }

    fn ring_keys(&self) -> Option<&RingKeys> {
        self.client.index().ring_keys()
    }

    /// What the answers of all servers say.
    fn decode<'a>(
        &self,
        state: LookupState,
        answers: impl Iterator<Item = &'a Bytes>,
    ) -> Result<Option<Vec<u8>>, ProtocolError> {
        self.client.decode(state, &answers.map(|answer| &answer[..]).collect::<Vec<_>>())
    }
}

/// Requests to send, and what their responses need to be decoded.
pub struct Round {
    /// The bodies of the requests, one to each server in the order of their parties.
    pub requests: Vec<Vec<u8>>,
    /// For [`Session::decode`].
    pub pending: Pending,
}

/// What a round leaves with the client: secrets, erased when dropped.
pub struct Pending(Vec<LookUp>);

/// What one look-up leaves.
struct LookUp {
    base: LookupState,
    delta: Option<LookupState>,
    /// A row that the base does not have.
    beyond_base: bool,
}

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
    pub fn new(description: Description, hints: &[Hint]) -> Result<Self, ClientError> {
        Self::new_with(description, hints, WeakPrf::Refuse)
    }

    /// A session with a database, with the hints of its parts in their order.
    ///
    /// # Errors
    /// [`ClientError::WeakPrf`] if its function needs a consent that was not given,
    /// [`ClientError::HintCorrupted`] if the hints belong to another description,
    /// [`ClientError::NoEntropy`] if the system gives no randomness.
    pub fn new_with(
        description: Description,
        hints: &[Hint],
        weak_prf: WeakPrf,
    ) -> Result<Self, ClientError> {
        Self::open(description, hints, weak_prf, &[])
    }

    /// A session with another version of the database, which goes on with this one's evaluation keys where they
    /// fit: the server may have them already.
    ///
    /// # Errors
    /// Those of [`Session::new_with`].
    pub fn follow(
        &self,
        description: Description,
        hints: &[Hint],
        weak_prf: WeakPrf,
    ) -> Result<Self, ClientError> {
        let known: Vec<RingKeys> = self.askers().filter_map(|asker| asker.ring_keys().cloned()).collect();
        Self::open(description, hints, weak_prf, &known)
    }

    fn open(
        description: Description,
        hints: &[Hint],
        weak_prf: WeakPrf,
        known: &[RingKeys],
    ) -> Result<Self, ClientError> {
        if hints.len() != description.parts().count() {
            return Err(ClientError::HintCorrupted);
        }
        let mut rng = SecretRng::from_os()?;
        let mut known = known.to_vec();
        let mut askers = Vec::with_capacity(hints.len());
        for (part, hint) in description.parts().zip(hints) {
            weak_prf.check(part.params())?;
            if hint.blake3 != *part.hint_blake3() {
                return Err(ClientError::HintCorrupted);
            }
            let asker = Asker::new(part, part.params().client_with(&hint.bytes, &known, &mut rng)?)?;
            // The delta goes on with the base's keys, if they fit.
            known.extend(asker.ring_keys().cloned());
            askers.push(asker);
        }
        let mut askers = askers.into_iter();
        let base = askers.next().ok_or(ClientError::HintCorrupted)?;
        Ok(Self { description, base, delta: askers.next(), rng })
    }

    /// A session with a version that has no delta, over the index protocol's client.
    #[cfg(test)]
    pub(crate) fn over(
        description: Description,
        index: Box<dyn AnyIndexClient>,
        rng: SecretRng,
    ) -> Result<Self, ClientError> {
        let base = Asker::new(description.base(), index)?;
        Ok(Self { description, base, delta: None, rng })
    }

    fn askers(&self) -> impl Iterator<Item = &Asker> {
        [&self.base].into_iter().chain(&self.delta)
    }

    /// The database.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The evaluation keys that the server must have before it can answer, each once; none if the protocol needs
    /// none. They are this client's own, and the same for all its requests.
    pub fn keys(&self) -> Vec<Keys<'_>> {
        let mut all: Vec<Keys<'_>> = Vec::new();
        for (asker, part) in self.askers().zip([KeysPart::Base, KeysPart::Delta]) {
            let (Some(bytes), Some(blake3)) = (asker.client.index().evaluation_keys(), asker.keys) else {
                continue;
            };
            if all.iter().all(|keys| keys.blake3 != blake3) {
                all.push(Keys { version: *self.description.version(), part, bytes, blake3 });
            }
        }
        all
    }

    /// The most look-ups in one request.
    pub fn max_batch(&self) -> usize {
        let limits = self.description.limits();
        let bytes: usize = limits.parts().map(|part| part.query_bytes).sum();
        (MAX_REQUEST_BYTES / bytes.max(1)).clamp(1, limits.max_batch)
    }

    /// Requests for the values of keys, 1 to [`Session::max_batch`] of them. Every query has secrets of its
    /// own, also for a key that was asked for before.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] if the table is looked up by index or the keys are too many.
    pub fn query_keys(&mut self, keys: &[&[u8]]) -> Result<Round, ClientError> {
        self.round(keys.iter().map(|key| Wanted { key, index: None }))
    }

    /// Requests for the values at indices, 1 to [`Session::max_batch`] of them.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] if the table is looked up by key or has no such index, or the indices are
    /// too many. Whether a version with a delta has an index beyond its base, its answers tell.
    pub fn query_indices(&mut self, indices: &[u64]) -> Result<Round, ClientError> {
        let keys: Vec<[u8; 8]> = indices.iter().map(|&index| delta::index_key(index)).collect();
        self.round(keys.iter().zip(indices).map(|(key, &index)| Wanted { key, index: Some(index) }))
    }

    fn round<'a>(&mut self, wanted: impl ExactSizeIterator<Item = Wanted<'a>>) -> Result<Round, ClientError> {
        let (most, count) = (self.max_batch(), wanted.len());
        if count == 0 || count > most {
            let detail = format!("a request has 1 to {most} look-ups, not {count}");
            return Err(ProtocolError::BadRequest(detail).into());
        }
        let parties = self.base.client.index().parties();
        let [mut to_base, mut to_delta] = [0; 2].map(|_| vec![Vec::with_capacity(count); parties]);
        let spread = |queries: &mut Vec<Vec<Bytes>>, of_parties: Vec<Vec<u8>>| {
            queries.iter_mut().zip(of_parties).for_each(|(queries, query)| queries.push(Bytes::from(query)));
        };
        let mut pending = Vec::with_capacity(count);
        for Wanted { key, index } in wanted {
            let records = self.base.client.table().records;
            let beyond_base = self.delta.is_some() && index.is_some_and(|index| index >= records);
            let (queries, base) = match index {
                // The base is asked whatever it has, so that the server does not learn where the answer is.
                Some(index) => {
                    self.base.client.query_index(index * u64::from(!beyond_base), &mut self.rng)?
                }
                None => self.base.client.query_key(key, &mut self.rng)?,
            };
            spread(&mut to_base, queries);
            let delta = match &self.delta {
                None => None,
                Some(asker) => {
                    let (queries, state) = asker.client.query_key(key, &mut self.rng)?;
                    spread(&mut to_delta, queries);
                    Some(state)
                }
            };
            pending.push(LookUp { base, delta, beyond_base });
        }
        let version = *self.description.version();
        let request = |(base, delta)| {
            let base = Queries { keys: self.base.keys, queries: base };
            let delta = self.delta.as_ref().map(|asker| Queries { keys: asker.keys, queries: delta });
            Request { version, base, delta }.encode()
        };
        Ok(Round {
            requests: to_base.into_iter().zip(to_delta).map(request).collect(),
            pending: Pending(pending),
        })
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
        let Pending(look_ups) = pending;
        let values = look_ups.into_iter().enumerate().map(|(i, LookUp { base, delta, beyond_base })| {
            let answers = responses.iter().filter_map(|response| response.answers.get(i));
            let in_base = self.base.decode(base, answers)?;
            let change = match self.delta.as_ref().zip(delta) {
                None => None,
                Some((asker, state)) => {
                    let of_delta = |response: &'_ Response| response.delta_answers.as_ref()?.get(i).cloned();
                    let answers: Vec<Bytes> = responses.iter().filter_map(of_delta).collect();
                    asker.decode(state, answers.iter())?
                }
            };
            let value = match change.as_deref().map(Change::from_bytes).transpose()? {
                Some(Change::Put(value)) => Some(value.to_vec()),
                Some(Change::Delete) => None,
                None if beyond_base => {
                    return Err(ProtocolError::BadRequest("the table has no such entry".into()));
                }
                None => in_base,
            };
            value.map(|value| self.base.client.table().split_fields(&value).map(Value)).transpose()
        });
        let compute = responses.iter().map(|response| response.compute).max().unwrap_or_default();
        Ok(Answered { values: values.collect::<Result<_, ProtocolError>>()?, compute })
    }
}

/// What is looked up: a key, or an index with the key under which a delta has it.
struct Wanted<'a> {
    key: &'a [u8],
    index: Option<u64>,
}
