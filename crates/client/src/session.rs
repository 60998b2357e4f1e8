use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use spirea_math::random::SecretRng;
use spirea_math::secret::declassify;
use spirea_protocols::delta::Change;
use spirea_protocols::table::LookupState;
use spirea_protocols::{AnyIndexClient, ClientKeys, ProtocolError, TableClient};
use spirea_wire::{KeysHash, Part, Queries, Request, Response, Version};
use zeroize::Zeroizing;

use crate::known::{Known, is_nearly_used_up, name_of};
use crate::wanted::{KEY_IS_NEWER, Wanted, WantedOne};
use crate::{ClientError, Clock, Description, Hint, KeptKeys, Keys, NextKeys, PartDescription, WeakPrf};

/// Reason why the client's control flow may depend on whether a row comes after the base's last
/// row.
const ROW_IS_TOLD: &str = "the application is told whether base or delta has the row";

/// A value: its fields, in the order in which the table names them.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Vec<Vec<u8>>);

impl Value {
    pub(crate) fn new(fields: Vec<Vec<u8>>) -> Self {
        Self(fields)
    }

    /// Returns the fields.
    pub fn fields(&self) -> &[Vec<u8>] {
        &self.0
    }

    /// Returns the fields without copying them.
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
///
/// A session holds no random generator: every look-up draws from the operating system. So two
/// processes or machines that continue from the same memory send unrelated queries. The memory also
/// reveals nothing of other look-ups to a later reader.
///
/// If the protocol has evaluation keys, the keys and their secret end with the first answer that
/// does not verify, after [`Table::key_queries`](spirea_protocols::Table::key_queries) queries, or
/// after [`Keys::LONGEST_USE`]. The next look-up begins with new keys, which the server must have
/// before it can answer.
pub struct Session {
    description: Description,
    base: Arc<Asker>,
    delta: Option<Arc<Asker>>,
    clock: Clock,
    /// Keys for the time after the present ones.
    next: NextKeys,
}

/// The client of one part of a version, with the same keys for its whole life.
pub(crate) struct Asker {
    client: TableClient,
    keys: Option<KeysHash>,
    /// Time at which the keys were made, by the session's clock.
    made: Duration,
}

impl Asker {
    /// Creates an asker with the client `index` of the index protocol. Its keys are among `known`,
    /// or were made `now`.
    fn new(
        part: &PartDescription,
        index: Box<dyn AnyIndexClient>,
        known: &[Known],
        now: Duration,
    ) -> Result<Self, ClientError> {
        let keys = index.keys().map(name_of);
        let made = known.iter().find(|known| Some(known.blake3) == keys).map_or(now, |known| known.made);
        Ok(Self { client: TableClient::new(part.table().clone(), index)?, keys, made })
    }

    /// Opens a part with some of the `known` keys if they fit. Otherwise makes new keys and adds
    /// them to `known`.
    fn open(
        part: &PartDescription,
        hint: &[u8],
        known: &mut Vec<Known>,
        clock: &Clock,
    ) -> Result<Arc<Self>, ClientError> {
        let keys: Vec<ClientKeys> = known.iter().map(|known| known.keys.clone()).collect();
        let index = part.params().client(hint, &keys, &mut SecretRng::from_os()?)?;
        let asker = Self::new(part, index, known, clock.now())?;
        known.extend(asker.known());
        Ok(Arc::new(asker))
    }

    /// Returns the keys, for other sessions to continue with.
    fn known(&self) -> Option<Known> {
        let (keys, blake3) = (self.ring_keys()?.clone(), self.keys?);
        Some(Known { keys, blake3, made: self.made })
    }

    /// Returns true if the next look-up needs other keys.
    fn is_over(&self, now: Duration) -> bool {
        self.ring_keys().is_some_and(ClientKeys::have_ended) || self.is_used_up(now)
    }

    /// Returns true if the keys are too old or have been used for their maximum number of queries.
    /// No answer affects this.
    fn is_used_up(&self, now: Duration) -> bool {
        self.ring_keys().is_some_and(|keys| {
            let age = now.saturating_sub(self.made);
            keys.queries() >= self.client.table().key_queries() || age >= Keys::LONGEST_USE
        })
    }

    /// Returns true if it is time to make the keys that follow these. No answer affects this.
    pub(crate) fn is_nearly_used_up(&self, now: Duration) -> bool {
        let most = self.client.table().key_queries();
        self.ring_keys().is_some_and(|keys| is_nearly_used_up(keys.queries(), most, self.made, now))
    }

    pub(crate) fn ring_keys(&self) -> Option<&ClientKeys> {
        self.client.index().keys()
    }

    /// Returns the table's client.
    pub(crate) fn client(&self) -> &TableClient {
        &self.client
    }

    /// Returns the hash of the keys.
    pub(crate) fn keys(&self) -> Option<KeysHash> {
        self.keys
    }

    /// Decodes the value in the answers of all servers.
    fn decode<'a>(
        &self,
        state: LookupState,
        answers: impl Iterator<Item = &'a Bytes>,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, ProtocolError> {
        let value = self.client.decode(state, &answers.map(|answer| &answer[..]).collect::<Vec<_>>())?;
        Ok(value.map(Zeroizing::new))
    }
}

/// Requests to send, and the state for decoding their responses.
pub struct Round<P = Pending> {
    /// Bodies of the requests, one for each server, in the order of the parties.
    pub requests: Vec<Vec<u8>>,
    /// State for [`Session::decode`] or [`Session::decode_fetch`].
    pub pending: P,
}

/// State of a round that stays with the client: secrets, erased when dropped.
pub struct Pending {
    /// Asker that made the queries; the session may have new keys when the answers come.
    base: Arc<Asker>,
    delta: Option<Arc<Asker>>,
    look_ups: Vec<Asked>,
    version: Version,
}

/// Secrets of the query for one value.
struct Asked {
    base: LookupState,
    delta: Option<LookupState>,
    /// True for a row that the base does not have.
    beyond_base: bool,
    /// True if the key's form is known for certain.
    is_known: bool,
}

/// Value in verified answers.
enum Found {
    Value(Value),
    Absent,
    /// The table does not have the key in the form that this software computed, but that form is
    /// uncertain.
    Unknown,
    /// The table has no such row, and its delta adds none.
    NoSuchEntry,
}

impl Pending {
    /// Returns the number of values in the request.
    pub fn count(&self) -> usize {
        self.look_ups.len()
    }

    /// Returns the version that was queried. No other version may answer.
    pub fn version(&self) -> &Version {
        &self.version
    }
}

/// Returns the ring keys of a version's parts.
fn ring_keys<'s>(base: &'s Asker, delta: Option<&'s Arc<Asker>>) -> impl Iterator<Item = &'s ClientKeys> {
    [base].into_iter().chain(delta.map(|delta| &**delta)).filter_map(Asker::ring_keys)
}

/// Settles a look-up, atomically for all threads that share its keys; `verified` is true if all
/// answers verified. If not, the keys end before the caller learns the result.
///
/// # Errors
/// [`ClientError::KeysEnded`] if an answer to another look-up was refused before.
pub(crate) fn settle<'k>(
    keys: impl Iterator<Item = &'k ClientKeys>,
    verified: bool,
) -> Result<(), ClientError> {
    let mut settled: Vec<&ClientKeys> = Vec::new();
    let mut ended = false;
    // All keys are settled, even if the first fail. Base and delta may share their keys, which end
    // once.
    for keys in keys {
        if settled.iter().all(|settled| !settled.are(keys)) {
            ended |= if verified { keys.accept() } else { keys.refuse() }.is_err();
            settled.push(keys);
        }
    }
    if ended { Err(ClientError::KeysEnded) } else { Ok(()) }
}

/// Decoded responses of all servers.
#[derive(Debug)]
pub struct Answered {
    /// The values, in the order of the request; `None` for a key that the table does not have.
    pub values: Vec<Option<Value>>,
    /// Computation time for the whole batch that the server reports; with two servers, the longer
    /// of their times.
    pub compute: Duration,
}

impl Session {
    /// Creates a session with a database by the system's clock, without consent to a weak
    /// pseudorandom function.
    ///
    /// # Errors
    /// See [`Session::new_with`].
    #[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
    pub fn new(description: Description, hints: &[Hint]) -> Result<Self, ClientError> {
        Self::new_with(description, hints, WeakPrf::Refuse, Clock::system())
    }

    /// Creates a session with a database from the hints of its parts, in the order of the parts.
    /// `clock` measures the age of its keys.
    ///
    /// # Errors
    /// [`ClientError::WeakPrf`] if the database's function needs a consent that was not given,
    /// [`ClientError::HintCorrupted`] if the hints belong to another description,
    /// [`ClientError::NoEntropy`] if the system gives no randomness.
    pub fn new_with(
        description: Description,
        hints: &[Hint],
        weak_prf: WeakPrf,
        clock: Clock,
    ) -> Result<Self, ClientError> {
        Self::resume(description, hints, weak_prf, clock, Vec::new())
    }

    /// Creates a session as [`Session::new_with`] does, reusing the keys of another session if they
    /// fit.
    ///
    /// # Errors
    /// Those of [`Session::new_with`].
    pub fn resume(
        description: Description,
        hints: &[Hint],
        weak_prf: WeakPrf,
        clock: Clock,
        kept: Vec<KeptKeys>,
    ) -> Result<Self, ClientError> {
        let mut known = Vec::new();
        for KeptKeys { saved, blake3, made } in kept {
            let shapes = description.parts().filter_map(|part| part.params().key_shape);
            let keys = ClientKeys::restore(saved, shapes, &mut SecretRng::from_os()?);
            known.extend(keys.map(|keys| Known { keys, blake3, made }));
        }
        Self::open(description, hints, weak_prf, known, clock)
    }

    /// Returns the session's evaluation keys with their secrets, without keys that have ended, for
    /// another session to [`resume`](Self::resume) with. Let only one session have the keys at a
    /// time: if two had them, each would have to learn when the other one ends them.
    pub fn kept_keys(&self) -> Vec<KeptKeys> {
        let mut kept: Vec<KeptKeys> = Vec::new();
        for Known { keys, blake3, made } in self.askers().filter_map(|asker| asker.known()) {
            if kept.iter().all(|other| other.blake3 != blake3)
                && let Some(saved) = keys.save()
            {
                kept.push(KeptKeys { saved, blake3, made });
            }
        }
        kept
    }

    /// Creates a session with another version of the database, reusing this session's evaluation
    /// keys if they fit: the server may have them already. Keys that have ended are kept without
    /// their secret, for the rest of the look-up that ended them.
    ///
    /// # Errors
    /// Those of [`Session::new_with`].
    pub fn follow(
        &self,
        description: Description,
        hints: &[Hint],
        weak_prf: WeakPrf,
    ) -> Result<Self, ClientError> {
        let known = self.askers().filter_map(|asker| asker.known()).collect();
        let session = Self::open(description, hints, weak_prf, known, self.clock.clone())?;
        Ok(Self { next: self.next.clone(), ..session })
    }

    fn open(
        description: Description,
        hints: &[Hint],
        weak_prf: WeakPrf,
        mut known: Vec<Known>,
        clock: Clock,
    ) -> Result<Self, ClientError> {
        if hints.len() != description.parts().count() {
            return Err(ClientError::HintCorrupted);
        }
        for (part, hint) in description.parts().zip(hints) {
            weak_prf.check(part.params())?;
            if hint.blake3 != *part.hint_blake3() {
                return Err(ClientError::HintCorrupted);
            }
        }
        let asker =
            |(part, hint): (&PartDescription, &Hint)| Asker::open(part, &hint.bytes, &mut known, &clock);
        let mut askers = description.parts().zip(hints).map(asker);
        let base = askers.next().unwrap_or(Err(ClientError::HintCorrupted))?;
        let delta = askers.next().transpose()?;
        drop(askers);
        Ok(Self { description, base, delta, clock, next: NextKeys::default() })
    }

    /// Creates a session with a version that has no delta, with the index protocol's client.
    #[cfg(test)]
    pub(crate) fn over(
        description: Description,
        index: Box<dyn AnyIndexClient>,
    ) -> Result<Self, ClientError> {
        let clock = Clock::system();
        let base = Arc::new(Asker::new(description.base(), index, &[], clock.now())?);
        Ok(Self { description, base, delta: None, clock, next: NextKeys::default() })
    }

    /// Returns the client of the base.
    pub(crate) fn base(&self) -> &Arc<Asker> {
        &self.base
    }

    /// Returns the client of the delta, if the version has one.
    pub(crate) fn delta(&self) -> Option<&Arc<Asker>> {
        self.delta.as_ref()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn next(&self) -> &NextKeys {
        &self.next
    }

    /// Sets the keys that the session uses when the present ones are used up or ended by an answer.
    pub fn go_on_with(&mut self, next: NextKeys) {
        self.next = next;
    }

    pub(crate) fn askers(&self) -> impl Iterator<Item = &Arc<Asker>> {
        [&self.base].into_iter().chain(&self.delta)
    }

    fn ring_keys(&self) -> impl Iterator<Item = &ClientKeys> {
        self.askers().filter_map(|asker| asker.ring_keys())
    }

    /// Returns the description of the database.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Returns the evaluation keys that the server must have before it can answer, each once; none
    /// if the protocol needs none. They belong to this client alone and are the same for all
    /// requests of a look-up. Call this after the look-up has begun, since it may have begun with
    /// new keys.
    pub fn keys(&self) -> Vec<Keys<'_>> {
        let mut all: Vec<Keys<'_>> = Vec::new();
        for (asker, part) in self.askers().zip([Part::Base, Part::Delta]) {
            let (Some(keys), Some(blake3)) = (asker.client.index().keys(), asker.keys) else {
                continue;
            };
            if all.iter().all(|known| known.blake3 != blake3) {
                all.push(Keys { version: *self.description.version(), part, bytes: keys.bytes(), blake3 });
            }
        }
        all
    }

    /// Returns the maximum number of look-ups in one request.
    pub fn max_batch(&self) -> usize {
        self.description.limits().look_ups_within(self.description.request_bytes())
    }

    /// Makes the requests of a single round for the values of keys, 1 to [`Session::max_batch`] of
    /// them. Every query has its own secrets, also for a key that was looked up before.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] if the table is looked up by index or the keys are too many,
    /// [`ClientError::NoEntropy`] if the system gives no randomness.
    pub fn query_keys(&mut self, keys: &[&[u8]]) -> Result<Round, ClientError> {
        self.renew_keys()?;
        self.round(Wanted::Keys(keys))
    }

    /// Makes the requests of a single round for the values at indices, 1 to [`Session::max_batch`]
    /// of them.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] if the table is looked up by key or has no such index, or the
    /// indices are too many; [`ClientError::NoEntropy`] if the system gives no randomness. If the
    /// version has a delta, only the answers tell whether an index beyond the base exists.
    pub fn query_indices(&mut self, indices: &[u64]) -> Result<Round, ClientError> {
        self.renew_keys()?;
        self.round(Wanted::Indices(indices))
    }

    /// Returns true if any of the present keys is over, so that the next look-up begins with new
    /// keys.
    pub(crate) fn needs_keys(&self) -> bool {
        let now = self.clock.now();
        self.askers().any(|asker| asker.is_over(now))
    }

    /// Switches to other ring secrets and their keys if any of the present keys is over.
    pub(crate) fn renew_keys(&mut self) -> Result<(), ClientError> {
        if self.needs_keys() { self.replace_keys() } else { Ok(()) }
    }

    /// Returns true if a list of look-ups must continue with new keys: if the present keys are used
    /// up, but not if an answer ended them.
    pub(crate) fn has_used_up_keys(&self) -> bool {
        let now = self.clock.now();
        self.askers().any(|asker| asker.is_used_up(now))
    }

    /// Switches to the next ring secrets and keys, or makes new ones.
    pub(crate) fn replace_keys(&mut self) -> Result<(), ClientError> {
        let mut fresh = self.next.take(self.clock.now());
        let askers = [&mut self.base].into_iter().chain(&mut self.delta);
        for (asker, part) in askers.zip(self.description.parts()) {
            if asker.ring_keys().is_some() {
                // No protocol has both keys and a hint.
                *asker = Asker::open(part, &[], &mut fresh, &self.clock)?;
            }
        }
        Ok(())
    }

    /// Makes the requests of a round.
    pub(crate) fn round(&self, wanted: Wanted<'_>) -> Result<Round, ClientError> {
        let (most, count) = (self.max_batch(), wanted.len());
        if count == 0 || count > most {
            let detail = format!("a request has 1 to {most} look-ups, not {count}");
            return Err(ProtocolError::BadRequest(detail).into());
        }
        let rng = &mut SecretRng::from_os()?;
        let parties = self.base.client.index().parties();
        let [mut to_base, mut to_delta] = [0; 2].map(|_| vec![Vec::with_capacity(count); parties]);
        let spread = |queries: &mut Vec<Vec<Bytes>>, of_parties: Vec<Vec<u8>>| {
            queries.iter_mut().zip(of_parties).for_each(|(queries, query)| queries.push(Bytes::from(query)));
        };
        let mut look_ups = Vec::with_capacity(count);
        for WantedOne { key, index, is_known } in wanted.each(self.base.client.table().key_form.as_ref()) {
            let entries = self.base.client.table().entries;
            let beyond_base = self.delta.is_some() && index.is_some_and(|index| index >= entries);
            let (queries, base) = match index {
                // The base is always queried, so that the server does not learn where the answer
                // is.
                Some(index) => self.base.client.query_index(index * u64::from(!beyond_base), rng)?,
                None => self.base.client.query_key(&key, rng)?,
            };
            spread(&mut to_base, queries);
            let delta = match &self.delta {
                None => None,
                Some(asker) => {
                    let (queries, state) = asker.client.query_key(&key, rng)?;
                    spread(&mut to_delta, queries);
                    Some(state)
                }
            };
            look_ups.push(Asked { base, delta, beyond_base, is_known });
        }
        self.ring_keys().for_each(|keys| keys.count_queries(count as u64));
        let version = *self.description.version();
        let request = |(base, delta)| {
            let base = Queries { keys: self.base.keys, queries: base };
            let delta = self.delta.as_ref().map(|asker| Queries { keys: asker.keys, queries: delta });
            Request { version, base, delta }.encode()
        };
        Ok(Round {
            requests: to_base.into_iter().zip(to_delta).map(request).collect(),
            pending: Pending { base: Arc::clone(&self.base), delta: self.delta.clone(), look_ups, version },
        })
    }

    /// Parses one server's response to its request for the values of `count` keys or indices. A
    /// malformed response ends the session's keys.
    ///
    /// # Errors
    /// [`ClientError::Wire`] if the bytes are not such a response, [`ClientError::WrongConfig`] if
    /// another version answered.
    pub fn read(&self, count: usize, response: Bytes) -> Result<Response, ClientError> {
        let read = Response::decode(response, &self.description.limits(), count).map_err(ClientError::from);
        let response = read.and_then(|response| match response.version == *self.description.version() {
            true => Ok(response),
            false => Err(ClientError::WrongConfig("another version answered than was asked".into())),
        });
        response.inspect_err(|_| self.ring_keys().for_each(ClientKeys::end))
    }

    /// Decodes the responses of all servers, in the order of the parties, to the requests that were
    /// returned with `pending`. A response that does not verify ends the keys under which it was
    /// requested, in all sessions that have them.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] if an answer is missing, fails its checksum or contradicts the
    /// table; [`ClientError::KeysEnded`] if the keys had ended before. No error means that a key is
    /// absent.
    pub fn decode(&self, pending: Pending, responses: &[Response]) -> Result<Answered, ClientError> {
        pending.decode(responses)
    }
}

impl Pending {
    /// Decodes responses: see [`Session::decode`].
    pub(crate) fn decode(self, responses: &[Response]) -> Result<Answered, ClientError> {
        let Self { base, delta, look_ups, .. } = self;
        let found = |(i, Asked { base: state, delta: change, beyond_base, is_known }): (usize, Asked)| {
            let answers = responses.iter().filter_map(|response| response.answers.get(i));
            let in_base = base.decode(state, answers);
            let in_delta = delta.as_ref().zip(change).map(|(asker, state)| {
                let of_delta = |response: &'_ Response| response.delta_answers.as_ref()?.get(i).cloned();
                let answers: Vec<Bytes> = responses.iter().filter_map(of_delta).collect();
                asker.decode(state, answers.iter())
            });
            let (in_base, change) = (in_base?, in_delta.transpose()?.flatten());
            let absent = || Ok(if is_known { Found::Absent } else { Found::Unknown });
            // Copies only the fields that the application gets; the bytes from which they were
            // decoded are erased here.
            let value = match change.as_ref().map(|change| Change::from_bytes(change)).transpose()? {
                Some(Change::Put(value)) => value,
                Some(Change::Delete) => return absent(),
                None if declassify(beyond_base, ROW_IS_TOLD) => return Ok(Found::NoSuchEntry),
                None => match &in_base {
                    Some(value) => &value[..],
                    None => return absent(),
                },
            };
            base.client.table().split_fields(value).map(|fields| Found::Value(Value(fields)))
        };
        // All answers are decoded, even if the first fails, and the keys end before the caller
        // learns the result.
        let found: Vec<Result<Found, ProtocolError>> = look_ups.into_iter().enumerate().map(found).collect();
        settle(ring_keys(&base, delta.as_ref()), found.iter().all(Result::is_ok))?;
        let values = found.into_iter().map(|found| match found? {
            Found::Value(value) => Ok(Some(value)),
            Found::Absent => Ok(None),
            Found::Unknown => Err(ProtocolError::BadRequest(KEY_IS_NEWER.into())),
            Found::NoSuchEntry => Err(ProtocolError::BadRequest("the table has no such entry".into())),
        });
        let compute = responses.iter().map(|response| response.compute).max().unwrap_or_default();
        Ok(Answered { values: values.collect::<Result<_, ProtocolError>>()?, compute })
    }
}

#[cfg(test)]
pub(crate) mod tests;
