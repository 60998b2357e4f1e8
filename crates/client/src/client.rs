use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use spirea_protocols::Table;
use spirea_protocols::table::Fetched;
use spirea_wire::{Code, KeysHash, Response, Version};

use crate::cache::HintCache;
use crate::carries::Carries;
use crate::conversation::{Conversation, Lines, Servers, fetch};
use crate::look_up::Asking;
use crate::wanted::Wanted;
use crate::{
    ClientError, Clock, Description, Fetch, KeptKeys, Keys, LookUp, NextKeys, Policy, Round, Session, Value,
};

/// Cost of look-ups, summed over their requests. Two servers are queried in parallel, so their time
/// counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Number of requests; the two requests to two servers for the same values count as one.
    pub requests: u32,
    /// Bytes sent in bodies, to all servers.
    pub sent_bytes: u64,
    /// Bytes received in bodies, from all servers.
    pub received_bytes: u64,
    /// Time for making the queries.
    pub query: Duration,
    /// Computation time that the server reports; with two servers, the longer of their times.
    pub server: Duration,
    /// Time between sending and the last server's answer, without the server's computation: the
    /// network, the server's queue, and pauses before retries.
    pub network: Duration,
    /// Time for decoding the answers.
    pub decode: Duration,
    /// Bytes of evaluation keys sent, not included in `sent_bytes`; 0 if the server had the keys or
    /// needs none.
    pub keys_bytes: u64,
    /// Time for registering keys, not included in `network`. Time for keys that travel with a query
    /// is part of `network`.
    pub keys: Duration,
}

/// Values and their cost.
#[derive(Debug, Default)]
pub struct Lookups {
    /// The values, in the order of the request; `None` for a key that the table does not have, or
    /// for a deleted row.
    pub values: Vec<Option<Value>>,
    /// For each value, the version of the database that answered.
    pub versions: Vec<Version>,
    /// Cost of the look-ups.
    pub timings: Timings,
}

/// A part of a list of look-ups: the look-ups of one request, or of several requests with at least
/// 16 look-ups together.
#[derive(Debug)]
pub struct Part<'p> {
    /// Positions of its look-ups in the list, from 0.
    pub positions: Range<usize>,
    /// The values, in order, or the reason why all of them are withheld.
    pub values: Result<Vec<Option<Value>>, ClientError>,
    /// For each look-up, the version of the database that answered.
    pub versions: Vec<Version>,
    /// The database, in the last version seen.
    pub description: &'p Description,
}

/// Receiver of each part of a list, called once all answers of the part have come. The next request
/// waits for the call, so its duration must not depend on values.
pub type Parts<'p> = dyn FnMut(Part<'_>) + Send + 'p;

/// Results of a query for several values, and its cost.
#[derive(Debug, Default)]
pub struct Fetches {
    /// The results, in the order of the request.
    pub values: Vec<Fetched<Value>>,
    /// The version of the database that answered.
    pub version: Version,
    /// Cost of the query.
    pub timings: Timings,
}

impl Fetches {
    /// Returns the number of dropped values: each lies in the bin of an earlier value.
    pub fn dropped(&self) -> usize {
        self.values.iter().filter(|value| matches!(value, Fetched::Dropped)).count()
    }
}

/// Carrier, such as a thread, of one conversation in parallel to a client's look-ups.
pub trait Aside: Send {
    /// Begins to carry a conversation. The previous one is over, or no longer wanted.
    fn begin(&mut self, conversation: Conversation<'static, NextKeys>);

    /// Takes the outcome of the conversation; `None` if there is none yet.
    fn outcome(&mut self) -> Option<Result<NextKeys, ClientError>>;
}

/// A client of one database, with the one server or the two that its protocol has. The caller
/// carries its requests: every operation is a [`Conversation`].
///
/// The client follows the database: an answer says that the server has a newer version, and the
/// next request is made for that version. A server keeps former versions for a while. When the
/// client's version is gone, the client fetches the new configuration and hint at once and makes
/// new queries, so values of one call may come from two versions.
///
/// If the protocol needs evaluation keys, the client uploads them before its first query, and again
/// with a query if the server, or the replica that it reaches, does not know them.
pub struct Client {
    servers: Servers,
    cache: Box<dyn HintCache>,
    policy: Policy,
    clock: Clock,
    session: Session,
    /// Hashes of the keys that the servers have accepted.
    keys_sent: HashSet<KeysHash>,
    carries: Carries,
    /// True if a server has announced a version newer than the session's.
    outdated: bool,
    /// Carrier of the upload of the next keys.
    aside: Option<Box<dyn Aside>>,
    /// Hash of the keys that were in use when the client last began to make the next keys; and true
    /// while the client still awaits these next keys.
    begun: Option<(KeysHash, bool)>,
}

impl Client {
    /// Connects to the database `name` of these servers, in any order. Each server has one or more
    /// addresses, such as `https://pir.example.org`. The first address of a server is used first;
    /// the others follow in turn if an address is unreachable, does not answer in time or is not
    /// ready. Fetches the configuration, and the hint unless it is in `cache`.
    ///
    /// # Errors
    /// [`ClientError::BadAddress`] for an invalid name or a server without an address. The errors
    /// of the conversation are those of
    /// [`HttpClient::connect_with`](crate::HttpClient::connect_with).
    pub fn connect(
        addresses: &[Vec<String>],
        name: &str,
        cache: Box<dyn HintCache>,
        policy: Policy,
        clock: Clock,
    ) -> Result<Conversation<'static, Self>, ClientError> {
        Self::resume(addresses, name, cache, policy, clock, Vec::new())
    }

    /// Connects as [`Client::connect`] does, reusing the evaluation keys of a former client if they
    /// fit. The server is assumed to have them until it reports otherwise.
    ///
    /// # Errors
    /// Those of [`Client::connect`].
    pub fn resume(
        addresses: &[Vec<String>],
        name: &str,
        mut cache: Box<dyn HintCache>,
        policy: Policy,
        clock: Clock,
        kept: Vec<KeptKeys>,
    ) -> Result<Conversation<'static, Self>, ClientError> {
        let mut servers = Servers::new(addresses, name, &policy, clock.clone())?;
        Ok(Conversation::new(servers.lines().clone(), async move {
            let (description, hints) = fetch(&mut servers, &mut *cache, &policy).await?;
            let sent = kept.iter().map(|kept| *kept.blake3()).collect();
            let bytes = keys_bytes(&description);
            let session = making_keys(&policy, bytes, || {
                Session::resume(description, &hints, policy.weak_prf, clock.clone(), kept)
            })?;
            Ok(Self { keys_sent: sent, ..Self::over(servers, cache, policy, clock, session) })
        }))
    }

    /// Returns the evaluation keys for another client to [`resume`](Self::resume) with: see
    /// [`Session::kept_keys`].
    pub fn kept_keys(&self) -> Vec<KeptKeys> {
        self.session.kept_keys()
    }

    /// Returns true if a server has announced a newer version, with which the next look-up begins.
    pub fn is_outdated(&self) -> bool {
        self.outdated
    }

    #[cfg(test)]
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn lines(&self) -> &Lines {
        self.servers.lines()
    }

    pub(crate) fn over(
        servers: Servers,
        cache: Box<dyn HintCache>,
        policy: Policy,
        clock: Clock,
        session: Session,
    ) -> Self {
        let (keys_sent, carries) = (HashSet::new(), Carries::default());
        let (outdated, aside, begun) = (false, None, None);
        Self { servers, cache, policy, clock, session, keys_sent, carries, outdated, aside, begun }
    }

    /// Makes the client prepare and upload its next evaluation keys through `aside`, before the
    /// present ones are used up. Without this call, the look-up that finds the present keys used up
    /// does both.
    pub fn prepare_by(&mut self, aside: Box<dyn Aside>) {
        self.aside = Some(aside);
    }

    /// Takes the next keys if they have been uploaded, and begins to make next keys if it is time.
    /// The client tries this once during the life of the present keys. If it fails, the look-up
    /// that needs new keys makes and uploads them; if that also fails, the look-up returns the
    /// error.
    pub(crate) fn prepare(&mut self) {
        let most = self.description().request_bytes();
        let Some(aside) = &mut self.aside else { return };
        if let Some((_, is_awaited @ true)) = &mut self.begun
            && let Some(outcome) = aside.outcome()
        {
            *is_awaited = false;
            if let Ok(next) = outcome {
                self.keys_sent.extend(next.keys().map(|keys| *keys.blake3()));
                self.session.go_on_with(next);
            }
        }
        let Some(present) = self.session.keys().first().map(|keys| *keys.blake3()) else { return };
        if self.begun.is_none_or(|(keys, _)| keys != present) && self.session.wants_next_keys() {
            self.begun = Some((present, true));
            let (mut servers, make) = (self.servers.beside(), self.session.next_keys());
            aside.begin(Conversation::new(servers.lines().clone(), async move {
                let next = make()?;
                let affinity = next.keys().next().map(|keys| keys.affinity());
                for keys in next.keys() {
                    upload(&mut servers, &keys, affinity.as_deref(), most).await?;
                }
                Ok(next)
            }));
        }
    }

    /// Returns the database, in the last version seen.
    pub fn description(&self) -> &Description {
        self.session.description()
    }

    /// Returns the table, in the last version seen.
    pub fn table(&self) -> &Table {
        self.description().table()
    }

    /// Looks up the values of keys. Also returns the cost. The errors of the conversation are those
    /// of [`HttpClient::look_up_keys`](crate::HttpClient::look_up_keys).
    pub fn look_up_keys<'a>(&'a mut self, keys: &'a [&'a [u8]]) -> Conversation<'a, Lookups> {
        Conversation::new(self.lines().clone(), self.values_of_keys(keys))
    }

    pub(crate) async fn values_of_keys(&mut self, keys: &[&[u8]]) -> Result<Lookups, ClientError> {
        let look_up = self.begin(|session| session.look_up_keys(keys))?;
        self.look_up(look_up).await
    }

    /// Looks up the values at indices. Also returns the cost. The errors of the conversation are
    /// those of [`HttpClient::look_up_indices`](crate::HttpClient::look_up_indices).
    pub fn look_up_indices<'a>(&'a mut self, indices: &'a [u64]) -> Conversation<'a, Lookups> {
        Conversation::new(self.lines().clone(), self.values_at(indices))
    }

    pub(crate) async fn values_at(&mut self, indices: &[u64]) -> Result<Lookups, ClientError> {
        let look_up = self.begin(|session| session.look_up_indices(indices))?;
        self.look_up(look_up).await
    }

    /// Looks up the values of a list of keys, and passes each part of them to `each`. The errors of
    /// the conversation are those of
    /// [`HttpClient::look_up_keys_in_parts`](crate::HttpClient::look_up_keys_in_parts).
    pub fn look_up_keys_in_parts<'a>(
        &'a mut self,
        keys: &'a [&'a [u8]],
        each: &'a mut Parts<'a>,
    ) -> Conversation<'a, Timings> {
        Conversation::new(self.lines().clone(), self.values_in_parts(Wanted::Keys(keys), each))
    }

    /// Looks up the values at a list of indices, as [`Client::look_up_keys_in_parts`] does for
    /// keys.
    pub fn look_up_indices_in_parts<'a>(
        &'a mut self,
        indices: &'a [u64],
        each: &'a mut Parts<'a>,
    ) -> Conversation<'a, Timings> {
        Conversation::new(self.lines().clone(), self.values_in_parts(Wanted::Indices(indices), each))
    }

    /// Fetches values of keys with a single query, at most one value from each bin of the table.
    /// Also returns the cost. Sends one request with one query, whatever the keys are. The errors
    /// of the conversation are those of [`HttpClient::fetch_keys`](crate::HttpClient::fetch_keys).
    pub fn fetch_keys<'a>(&'a mut self, keys: &'a [&'a [u8]]) -> Conversation<'a, Fetches> {
        Conversation::new(self.lines().clone(), self.fetched_keys(keys))
    }

    pub(crate) async fn fetched_keys(&mut self, keys: &[&[u8]]) -> Result<Fetches, ClientError> {
        let fetch = self.begin(|session| session.fetch_keys(keys))?;
        self.fetch(fetch).await
    }

    /// Fetches values at indices, as [`Client::fetch_keys`] does for keys. The errors of the
    /// conversation are those of [`HttpClient::fetch_indices`](crate::HttpClient::fetch_indices).
    pub fn fetch_indices<'a>(&'a mut self, indices: &'a [u64]) -> Conversation<'a, Fetches> {
        Conversation::new(self.lines().clone(), self.fetched_at(indices))
    }

    pub(crate) async fn fetched_at(&mut self, indices: &[u64]) -> Result<Fetches, ClientError> {
        let fetch = self.begin(|session| session.fetch_indices(indices))?;
        self.fetch(fetch).await
    }

    /// Begins an operation, with new keys if they are due.
    fn begin<T>(
        &mut self,
        begin: impl FnOnce(&mut Session) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        self.prepare();
        if !self.session.needs_keys() {
            return begin(&mut self.session);
        }
        let bytes = keys_bytes(self.session.description());
        making_keys(&self.policy, bytes, || begin(&mut self.session))
    }

    /// Looks up the values of a list part by part, each part as a look-up of its own. The requests
    /// do not depend on the answers: after a refused answer has ended keys, requests still name
    /// these keys until the list is done or their queries are used up. See
    /// [`HttpClient::look_up_keys_in_parts`](crate::HttpClient::look_up_keys_in_parts).
    async fn values_in_parts(
        &mut self,
        wanted: Wanted<'_>,
        each: &mut Parts<'_>,
    ) -> Result<Timings, ClientError> {
        self.begin(Session::renew_keys)?;
        let (mut timings, mut start) = (Timings::default(), 0);
        while start < wanted.len() {
            self.prepare();
            if self.session.has_used_up_keys() {
                let bytes = keys_bytes(self.session.description());
                making_keys(&self.policy, bytes, || self.session.replace_keys())?;
            }
            let part = wanted.part(start, self.session.part_len());
            let positions = start..start + part.len();
            let mut look_up = LookUp::new(part);
            let asked = self.ask_all(&mut look_up, &mut timings).await;
            let (received, is_complete) = (self.clock.now(), look_up.is_complete());
            let versions = look_up.versions().to_vec();
            let values = look_up.finish(asked);
            timings.decode += self.clock.now().saturating_sub(received);
            if !is_complete {
                return values.map(|_| timings);
            }
            start = positions.end;
            each(Part { positions, values, versions, description: self.session.description() });
        }
        Ok(timings)
    }

    async fn fetch(&mut self, mut fetch: Fetch<'_>) -> Result<Fetches, ClientError> {
        let mut timings = Timings::default();
        let asked = self.ask_all(&mut fetch, &mut timings).await;
        let version = *self.description().version();
        Ok(Fetches { values: fetch.finish(asked)?, version, timings })
    }

    async fn look_up(&mut self, mut look_up: LookUp<'_>) -> Result<Lookups, ClientError> {
        let mut timings = Timings::default();
        let asked = self.ask_all(&mut look_up, &mut timings).await;
        let received = self.clock.now();
        let versions = look_up.versions().to_vec();
        let values = look_up.finish(asked)?;
        timings.decode += self.clock.now().saturating_sub(received);
        Ok(Lookups { values, versions, timings })
    }

    /// Makes all requests of a look-up.
    async fn ask_all<A: Asking>(
        &mut self,
        look_up: &mut A,
        timings: &mut Timings,
    ) -> Result<(), ClientError> {
        let mut refreshed = false;
        while !look_up.is_complete() {
            self.tell(look_up);
            if self.outdated {
                self.follow().await?;
            }
            let Err(error) = self.request(look_up, timings).await else { continue };
            if !self.is_of_another_version(&error).await? {
                return Err(error);
            }
            if std::mem::replace(&mut refreshed, true) {
                return Err(match error {
                    ClientError::Party { party, url, .. } => {
                        ClientError::Party { party, url, cause: Box::new(ClientError::StillStale) }
                    }
                    ClientError::Server { url, .. } => {
                        ClientError::Server { url, cause: Box::new(ClientError::StillStale) }
                    }
                    _ => ClientError::StillStale,
                });
            }
            // The refused queries are dropped with their secrets; the new version gets new queries.
            self.follow().await?;
        }
        self.tell(look_up);
        self.prepare();
        Ok(())
    }

    fn tell(&self, look_up: &impl Asking) {
        if let Some(progress) = &self.policy.values_progress {
            let (answered, all) = look_up.answered();
            progress(answered as u64, all as u64);
        }
    }

    /// Switches to the version that the servers have now.
    async fn follow(&mut self) -> Result<(), ClientError> {
        let (description, hints) = fetch(&mut self.servers, &mut *self.cache, &self.policy).await?;
        let (session, weak_prf) = (&self.session, self.policy.weak_prf);
        let bytes = keys_bytes(&description);
        self.session = making_keys(&self.policy, bytes, || session.follow(description, &hints, weak_prf))?;
        self.outdated = false;
        Ok(())
    }

    /// Returns true if a server refused because it has another version by now. A version with other
    /// parameters expects other lengths, and the server reports a malformed request before it reads
    /// the version.
    async fn is_of_another_version(&mut self, error: &ClientError) -> Result<bool, ClientError> {
        let ClientError::Refused { refusal, .. } = error.cause() else { return Ok(false) };
        match refusal.code {
            Code::StaleVersion => Ok(true),
            Code::Malformed | Code::TooLarge | Code::NoKeysNeeded => {
                let current = self.servers.describe().await?;
                Ok(current.version() != self.description().version())
            }
            _ => Ok(false),
        }
    }

    /// Makes one request to each server for the values that are still missing.
    async fn request<A: Asking>(
        &mut self,
        look_up: &mut A,
        timings: &mut Timings,
    ) -> Result<(), ClientError> {
        let started = self.clock.now();
        let Round { requests, pending } = look_up.ask(&self.session)?;
        let requests: Vec<Bytes> = requests.into_iter().map(Bytes::from).collect();
        let query = self.clock.now().saturating_sub(started);

        let count = A::count(&pending);
        let Exchanged { bodies, round_trip } = self.exchange(&requests, count, timings).await?;

        let received = self.clock.now();
        let length = |bodies: &[Bytes]| bodies.iter().map(|body| body.len() as u64).sum::<u64>();
        let received_bytes = length(&bodies);
        let read = |(i, body)| self.session.read(count, body).map_err(|error| self.servers.located(i, error));
        let responses: Result<Vec<Response>, ClientError> =
            bodies.into_iter().enumerate().map(read).collect();
        let version = *self.description().version();
        let told = responses.as_deref().unwrap_or_default();
        self.outdated |= told.iter().any(|response| response.newest != version);
        // The reported time is the server's claim, so it is capped by the measured time.
        let server = told.iter().map(|response| response.compute.min(round_trip)).max().unwrap_or_default();
        look_up.answer(&self.session, pending, responses);
        timings.requests += 1;
        timings.sent_bytes += length(&requests);
        timings.received_bytes += received_bytes;
        timings.query += query;
        timings.server += server;
        timings.network += round_trip - server;
        timings.decode += self.clock.now().saturating_sub(received);
        Ok(())
    }

    /// Returns the responses to requests for `count` values, and the round-trip time of the
    /// answered requests. A server that does not know the keys reports that before it computes
    /// anything. The client then sends the same request once more, with the keys. So any replica
    /// can answer it, even one that shares nothing with the others. Some later requests carry the
    /// keys from the start ([`Carries`]).
    async fn exchange(
        &mut self,
        requests: &[Bytes],
        count: usize,
        timings: &mut Timings,
    ) -> Result<Exchanged, ClientError> {
        let limit = self.description().limits().response_bytes(count);
        let affinity = self.session.keys().first().map(Keys::affinity);
        let has_keys = affinity.is_some();
        if !(has_keys && self.carries.begin()) {
            self.send_keys(affinity.as_deref(), timings).await?;
            let sent = self.clock.now();
            match self.servers.query(requests, affinity.as_deref(), limit).await {
                Err(error) if has_keys && are_keys_unknown(&error) => self.carries.refused(),
                bodies => {
                    let round_trip = self.clock.now().saturating_sub(sent);
                    return Ok(Exchanged { bodies: bodies?, round_trip });
                }
            }
        }
        let keys = self.session.keys();
        let with_keys: Vec<Bytes> = requests.iter().map(|request| Keys::join(request, &keys)).collect();
        let length = |requests: &[Bytes]| requests.iter().map(|request| request.len() as u64).sum::<u64>();
        timings.keys_bytes += length(&with_keys) - length(requests);
        let sent = self.clock.now();
        let bodies = match self.servers.query(&with_keys, affinity.as_deref(), limit).await {
            Err(error) if are_keys_unknown(&error) => return Err(ClientError::KeysForgotten),
            bodies => bodies?,
        };
        let round_trip = self.clock.now().saturating_sub(sent);
        self.keys_sent.extend(keys.iter().map(|keys| *keys.blake3()));
        Ok(Exchanged { bodies, round_trip })
    }

    /// Registers the keys that have not been sent yet.
    async fn send_keys(&mut self, affinity: Option<&str>, timings: &mut Timings) -> Result<(), ClientError> {
        let most = self.description().request_bytes();
        for keys in self.session.keys() {
            if self.keys_sent.contains(keys.blake3()) {
                continue;
            }
            let started = self.clock.now();
            timings.keys_bytes += upload(&mut self.servers, &keys, affinity, most).await?;
            timings.keys += self.clock.now().saturating_sub(started);
            self.keys_sent.insert(*keys.blake3());
        }
        Ok(())
    }
}

/// Registers keys at all servers, in requests of at most `most` bytes. Returns the number of bytes
/// of the requests. If the pieces reach several replicas, no replica has all of the keys; a query
/// then carries them.
async fn upload(
    servers: &mut Servers,
    keys: &Keys<'_>,
    affinity: Option<&str>,
    most: u64,
) -> Result<u64, ClientError> {
    let mut sent = 0;
    for request in keys.requests(most) {
        let request = Bytes::from(request);
        sent += request.len() as u64;
        let responses = match servers.keys(&request, affinity).await {
            Err(error) if are_keys_unknown(&error) => return Ok(sent),
            responses => responses?,
        };
        for (i, response) in responses.into_iter().enumerate() {
            keys.check(response).map_err(|error| servers.located(i, error))?;
        }
    }
    Ok(sent)
}

/// Returns true if a server does not know the keys of a query and has not computed anything.
fn are_keys_unknown(error: &ClientError) -> bool {
    let ClientError::Refused { refusal, .. } = error.cause() else { return false };
    refusal.code == Code::UnknownKeys && !refusal.accepted
}

/// Returns the bytes of a database's evaluation keys.
fn keys_bytes(description: &Description) -> u64 {
    description.limits().parts().map(|part| part.keys_bytes as u64).max().unwrap_or_default()
}

/// Calls `make`, which also makes `bytes` of evaluation keys, and reports the progress to the
/// policy's callback if `bytes` is not 0.
fn making_keys<T>(policy: &Policy, bytes: u64, make: impl FnOnce() -> T) -> T {
    let tell = |done| match &policy.keys_progress {
        Some(progress) if bytes > 0 => progress(done, bytes),
        _ => (),
    };
    tell(0);
    let made = make();
    tell(bytes);
    made
}

/// Responses of all servers, in the order of their parties.
struct Exchanged {
    bodies: Vec<Bytes>,
    round_trip: Duration,
}
