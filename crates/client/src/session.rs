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

/// The most bytes of a request's queries, unless a single query has more.
const MAX_REQUEST_BYTES: u64 = 64 << 20;

/// The reason for which a row behind the base's last may steer the client.
const ROW_IS_TOLD: &str = "the application is told whether base or delta has the row";

/// A value: its fields, in the order in which the table names them.
#[derive(Clone, PartialEq, Eq)]
pub struct Value(Vec<Vec<u8>>);

impl Value {
    pub(crate) fn new(fields: Vec<Vec<u8>>) -> Self {
        Self(fields)
    }

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
///
/// It holds no generator: every look-up draws from the operating system, so that two processes or
/// machines that go on from the same memory have nothing in common in what they send, and whoever
/// reads that memory later finds nothing of other look-ups in it.
///
/// Where the protocol has evaluation keys, these and their secret end with the first answer that
/// does not verify, and after [`Table::key_queries`](spirea_protocols::Table::key_queries) queries
/// or [`Keys::LONGEST_USE`]. The next look-up begins with new ones, which the server must have
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
    /// When the keys were made, by the session's clock.
    made: Duration,
}

impl Asker {
    /// Over the index protocol's client, whose keys are one of `known`'s or were made `now`.
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

    /// With some of the `known` keys if they fit, or else with new ones, which are known from then
    /// on.
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

    /// Its keys, for others to go on with.
    fn known(&self) -> Option<Known> {
        let (keys, blake3) = (self.ring_keys()?.clone(), self.keys?);
        Some(Known { keys, blake3, made: self.made })
    }

    /// True if the next look-up needs other keys.
    fn is_over(&self, now: Duration) -> bool {
        self.ring_keys().is_some_and(ClientKeys::have_ended) || self.is_used_up(now)
    }

    /// Tells if the keys are too old or have had their number of queries. This follows from no
    /// answer.
    fn is_used_up(&self, now: Duration) -> bool {
        self.ring_keys().is_some_and(|keys| {
            let age = now.saturating_sub(self.made);
            keys.queries() >= self.client.table().key_queries() || age >= Keys::LONGEST_USE
        })
    }

    /// True if it is time to make the keys that follow these. No answer affects this.
    pub(crate) fn is_nearly_used_up(&self, now: Duration) -> bool {
        let most = self.client.table().key_queries();
        self.ring_keys().is_some_and(|keys| is_nearly_used_up(keys.queries(), most, self.made, now))
    }

    pub(crate) fn ring_keys(&self) -> Option<&ClientKeys> {
        self.client.index().keys()
    }

    /// Its client half.
    pub(crate) fn client(&self) -> &TableClient {
        &self.client
    }

    /// The hash of its keys.
    pub(crate) fn keys(&self) -> Option<KeysHash> {
        self.keys
    }

    /// Values in the answers of all servers.
    fn decode<'a>(
        &self,
        state: LookupState,
        answers: impl Iterator<Item = &'a Bytes>,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, ProtocolError> {
        let value = self.client.decode(state, &answers.map(|answer| &answer[..]).collect::<Vec<_>>())?;
        Ok(value.map(Zeroizing::new))
    }
}

/// Requests to send, and what their responses need to be decoded.
pub struct Round<P = Pending> {
    /// The bodies of the requests, one to each server in the order of their parties.
    pub requests: Vec<Vec<u8>>,
    /// For [`Session::decode`], or [`Session::decode_fetch`].
    pub pending: P,
}

/// State of a round that stays with the client: secrets, erased when dropped.
pub struct Pending {
    /// The asker: the session may have new keys when the answers come.
    base: Arc<Asker>,
    delta: Option<Arc<Asker>>,
    look_ups: Vec<Asked>,
    version: Version,
}

/// Secrets of the query for one value.
struct Asked {
    base: LookupState,
    delta: Option<LookupState>,
    /// A row that the base does not have.
    beyond_base: bool,
    /// The key's form is known for certain.
    is_known: bool,
}

/// Value in verified answers.
enum Found {
    Value(Value),
    Absent,
    /// There is no such key in the form that this software gave it.
    Unknown,
    /// The table has no such row, and its delta adds none.
    NoSuchEntry,
}

impl Pending {
    /// Values that were asked for.
    pub fn count(&self) -> usize {
        self.look_ups.len()
    }

    /// The version that they were asked of, which alone may answer.
    pub fn version(&self) -> &Version {
        &self.version
    }
}

/// The ring keys of a version's parts.
fn ring_keys<'s>(base: &'s Asker, delta: Option<&'s Arc<Asker>>) -> impl Iterator<Item = &'s ClientKeys> {
    [base].into_iter().chain(delta.map(|delta| &**delta)).filter_map(Asker::ring_keys)
}

/// Decides on a look-up by whether all its answers verified, at once for all threads that share the
/// keys. If they did not, the keys end before anything is said.
///
/// # Errors
/// [`ClientError::KeysEnded`] if an answer to another look-up was refused before.
pub(crate) fn settle<'k>(
    keys: impl Iterator<Item = &'k ClientKeys>,
    verified: bool,
) -> Result<(), ClientError> {
    let mut settled: Vec<&ClientKeys> = Vec::new();
    let mut ended = false;
    // All of them, whatever comes of the first. Base and delta may share theirs, which end once.
    for keys in keys {
        if settled.iter().all(|settled| !settled.are(keys)) {
            ended |= if verified { keys.accept() } else { keys.refuse() }.is_err();
            settled.push(keys);
        }
    }
    if ended { Err(ClientError::KeysEnded) } else { Ok(()) }
}

/// Decodes the responses of all servers.
#[derive(Debug)]
pub struct Answered {
    /// The values, in the order of the request; `None` for a key that the table does not have.
    pub values: Vec<Option<Value>>,
    /// Time that the server computed for the whole batch, as it says; of two servers, the longer.
    pub compute: Duration,
}

impl Session {
    /// A session with a database whose pseudorandom function, if it has one, needs nobody's
    /// consent, by the system's clock.
    ///
    /// # Errors
    /// See [`Session::new_with`].
    #[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
    pub fn new(description: Description, hints: &[Hint]) -> Result<Self, ClientError> {
        Self::new_with(description, hints, WeakPrf::Refuse, Clock::system())
    }

    /// A session with a database, with the hints of its parts in their order. Its keys grow old by
    /// `clock`.
    ///
    /// # Errors
    /// [`ClientError::WeakPrf`] if its function needs a consent that was not given,
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

    /// [`Session::new_with`] that goes on with keys of another session where they fit.
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
            let shapes = description.parts().filter_map(|part| part.params().key_shape());
            let keys = ClientKeys::restore(saved, shapes, &mut SecretRng::from_os()?);
            known.extend(keys.map(|keys| Known { keys, blake3, made }));
        }
        Self::open(description, hints, weak_prf, known, clock)
    }

    /// The session's evaluation keys with their secrets, for another session to
    /// [`resume`](Self::resume) with; none that have ended. A session that goes on with keys while
    /// another does too must learn when they end: let only one at a time have them.
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

    /// A session with another version of the database, which goes on with this one's evaluation
    /// keys where they fit: the server may have them already. Keys that have ended come along
    /// without their secret, for what is left of the look-up that ended them.
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

    /// A session with a version that has no delta, over the index protocol's client.
    #[cfg(test)]
    pub(crate) fn over(
        description: Description,
        index: Box<dyn AnyIndexClient>,
    ) -> Result<Self, ClientError> {
        let clock = Clock::system();
        let base = Arc::new(Asker::new(description.base(), index, &[], clock.now())?);
        Ok(Self { description, base, delta: None, clock, next: NextKeys::default() })
    }

    /// The client of the base.
    pub(crate) fn base(&self) -> &Arc<Asker> {
        &self.base
    }

    /// The client of the delta, if the version has one.
    pub(crate) fn delta(&self) -> Option<&Arc<Asker>> {
        self.delta.as_ref()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn next(&self) -> &NextKeys {
        &self.next
    }

    /// Sets the keys with which the session goes on when the present ones are used up or ended by
    /// an answer.
    pub fn go_on_with(&mut self, next: NextKeys) {
        self.next = next;
    }

    pub(crate) fn askers(&self) -> impl Iterator<Item = &Arc<Asker>> {
        [&self.base].into_iter().chain(&self.delta)
    }

    fn ring_keys(&self) -> impl Iterator<Item = &ClientKeys> {
        self.askers().filter_map(|asker| asker.ring_keys())
    }

    /// The database.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The evaluation keys that the server must have before it can answer, each once; none if the
    /// protocol needs none. They are this client's own, and the same for all requests of a look-up.
    /// Ask once it has begun: it may have begun with new ones.
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

    /// The most look-ups in one request.
    pub fn max_batch(&self) -> usize {
        let limits = self.description.limits();
        let bytes: u64 = limits.parts().map(|part| part.query_bytes as u64).sum();
        usize::try_from(MAX_REQUEST_BYTES / bytes.max(1)).unwrap_or(usize::MAX).clamp(1, limits.max_batch)
    }

    /// A look-up of the values of keys in one request, 1 to [`Session::max_batch`] of them. Every
    /// query has secrets of its own, also for a key that was asked for before.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] if the table is looked up by index or the keys are too many,
    /// [`ClientError::NoEntropy`] if the system gives no randomness.
    pub fn query_keys(&mut self, keys: &[&[u8]]) -> Result<Round, ClientError> {
        self.renew_keys()?;
        self.round(Wanted::Keys(keys))
    }

    /// A look-up of the values at indices in one request, 1 to [`Session::max_batch`] of them.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] if the table is looked up by key or has no such index, or the
    /// indices are too many; [`ClientError::NoEntropy`] if the system gives no randomness. Whether
    /// a version with a delta has an index beyond its base, its answers tell.
    pub fn query_indices(&mut self, indices: &[u64]) -> Result<Round, ClientError> {
        self.renew_keys()?;
        self.round(Wanted::Indices(indices))
    }

    /// Returns true if any of the present keys is over, so that the next look-up begins with new
    /// ones.
    pub(crate) fn needs_keys(&self) -> bool {
        let now = self.clock.now();
        self.askers().any(|asker| asker.is_over(now))
    }

    /// Goes on with other ring secrets, and keys made of them, if any of the present ones is over.
    pub(crate) fn renew_keys(&mut self) -> Result<(), ClientError> {
        if self.needs_keys() { self.replace_keys() } else { Ok(()) }
    }

    /// Tells if a list of look-ups goes on with new keys: it does when the present ones are used
    /// up, and not when an answer ended them.
    pub(crate) fn has_used_up_keys(&self) -> bool {
        let now = self.clock.now();
        self.askers().any(|asker| asker.is_used_up(now))
    }

    /// Goes on with the next ring secrets and keys, or draws and makes new ones.
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

    /// Requests of a look-up.
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
                // The base is asked whatever it has, so that the server does not learn where the
                // answer is.
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

    /// Reads one server's response to its request for the values of `count` keys or indices. One
    /// that is none ends the session's keys.
    ///
    /// # Errors
    /// [`ClientError::Wire`] if it is not the response, [`ClientError::WrongConfig`] if it is of
    /// another version.
    pub fn read(&self, count: usize, response: Bytes) -> Result<Response, ClientError> {
        let read = Response::decode(response, &self.description.limits(), count).map_err(ClientError::from);
        let response = read.and_then(|response| match response.version == *self.description.version() {
            true => Ok(response),
            false => Err(ClientError::WrongConfig("another version answered than was asked".into())),
        });
        response.inspect_err(|_| self.ring_keys().for_each(ClientKeys::end))
    }

    /// The values, from the responses of all servers, in the order of their parties, to the
    /// requests that left `pending`. One that does not verify ends the keys that they were asked
    /// for under, of all sessions that have them.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] if an answer is missing, fails its checksum or is not what the
    /// table says; [`ClientError::KeysEnded`] if the keys had ended before. None means that a key
    /// is absent.
    pub fn decode(&self, pending: Pending, responses: &[Response]) -> Result<Answered, ClientError> {
        pending.decode(responses)
    }
}

impl Pending {
    /// See [`Session::decode`].
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
            // Only the fields that the application gets are copied: what they were decoded from is
            // erased here.
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
        // All of them, whatever comes of the first, and the keys end before anything is said.
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
