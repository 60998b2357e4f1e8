use std::collections::HashSet;
use std::time::{Duration, Instant};

use bytes::Bytes;
use spirea_protocols::Table;
use spirea_protocols::signature::Pin;
use spirea_wire::{Code, KeysHash, Response};

use super::cache::Cache;
use super::servers::Servers;
use super::{ClientOptions, download};
use crate::{ClientError, Clock, Description, LookUp, Round, Session, Value};

/// How often a configuration is fetched while the database changes in between.
const REFRESHES: u32 = 3;

/// What look-ups cost, summed over the requests that they took. Two servers are asked at the same time, and
/// time passes once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Requests; those to two servers for the same values are one.
    pub requests: u32,
    /// Bytes sent in bodies, to all servers.
    pub sent_bytes: u64,
    /// Bytes received in bodies, from all servers.
    pub received_bytes: u64,
    /// Making the queries.
    pub query: Duration,
    /// Computation on the server, as it says; of two servers, the longer.
    pub server: Duration,
    /// Everything between sending and the last server's answer that is not the server's computation: the
    /// network, waiting in the server's queue, pauses before trying again.
    pub network: Duration,
    /// Decoding the answers.
    pub decode: Duration,
    /// Bytes of evaluation keys sent, not among `sent_bytes`; 0 if the server had them or needs none.
    pub keys_bytes: u64,
    /// Uploading them, not part of `network`.
    pub keys: Duration,
}

/// Values and what they cost.
#[derive(Debug, Default)]
pub struct Lookups {
    /// The values, in the order asked for; `None` for a key that the table does not have, or a row that was
    /// deleted.
    pub values: Vec<Option<Value>>,
    /// What they cost.
    pub timings: Timings,
}

/// A client of one database over HTTP, from the one server or the two that its protocol has.
///
/// It follows the database: an answer says when the server has a newer version, and the next request is made for
/// that one. A server keeps former versions for a while; when it no longer answers the client's, the client fetches
/// the new configuration and hint at once and makes new queries. Values of one call may then come from two versions.
///
/// Where the protocol needs evaluation keys, the client uploads them before its first query, and again when the
/// server has forgotten them.
pub struct HttpClient {
    servers: Servers,
    cache: Cache,
    options: ClientOptions,
    session: Session,
    /// The keys that the servers have taken.
    keys_sent: HashSet<KeysHash>,
    /// Whether a server has said that it has a newer version than the session's.
    outdated: bool,
}

impl HttpClient {
    /// A client of the database `name` of the server at `url`, such as `https://pir.example.org`, with the
    /// default options. Fetches the configuration, and the hint unless the cache has it.
    ///
    /// # Errors
    /// See [`HttpClient::connect_with`].
    pub fn connect(url: &str, name: &str) -> Result<Self, ClientError> {
        Self::connect_with(&[url], name, ClientOptions::default())
    }

    /// A client of the database `name` that two servers answer for, at these addresses in any order. Neither
    /// learns what is asked for, unless they work together.
    ///
    /// # Errors
    /// See [`HttpClient::connect_with`].
    pub fn connect_pair(urls: [&str; 2], name: &str) -> Result<Self, ClientError> {
        Self::connect_with(&urls, name, ClientOptions::default())
    }

    /// A client of the database `name` of one server, or of the two that its protocol has, with options.
    ///
    /// # Errors
    /// [`ClientError::BadAddress`] for an address or a name that cannot be one, or if the addresses are not
    /// those of the protocol's servers, each once; errors of the transport and the cache;
    /// [`ClientError::Refused`] if a server says no, for instance that it has no such database;
    /// [`ClientError::DifferentSnapshots`] if two servers do not serve the same;
    /// [`ClientError::HintCorrupted`] if the hint is damaged on the way; [`ClientError::WeakPrf`] if the
    /// database's function needs a consent that the options do not give. What happens with one of two servers is
    /// in a [`ClientError::Server`].
    pub fn connect_with(urls: &[&str], name: &str, options: ClientOptions) -> Result<Self, ClientError> {
        let mut servers = Servers::new(urls, name, &options)?;
        let cache = Cache::open(options.cache.as_deref())?;
        let session = open_session(&mut servers, &cache, &options, None)?;
        Ok(Self::over(servers, cache, options, session))
    }

    pub(super) fn over(servers: Servers, cache: Cache, options: ClientOptions, session: Session) -> Self {
        Self { servers, cache, options, session, keys_sent: HashSet::new(), outdated: false }
    }

    /// The database, in the version that was last seen.
    pub fn description(&self) -> &Description {
        self.session.description()
    }

    /// The table, in the version that was last seen.
    pub fn table(&self) -> &Table {
        self.description().table()
    }

    /// The values of keys, in as many requests as they need.
    ///
    /// # Errors
    /// See [`HttpClient::look_up_keys`].
    pub fn get_keys(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Value>>, ClientError> {
        Ok(self.look_up_keys(keys)?.values)
    }

    /// The values at indices, in as many requests as they need; `None` for a row that was deleted.
    ///
    /// # Errors
    /// See [`HttpClient::look_up_indices`].
    pub fn get_indices(&mut self, indices: &[u64]) -> Result<Vec<Option<Value>>, ClientError> {
        Ok(self.look_up_indices(indices)?.values)
    }

    /// The values of keys, and what they cost.
    ///
    /// # Errors
    /// [`ClientError::Protocol`] if the table is looked up by index or an answer is wrong; errors of the
    /// transport; [`ClientError::Refused`] if the server says no; [`ClientError::StillStale`] if it refuses
    /// queries for the version it has just named; [`ClientError::KeysForgotten`] if it does not keep evaluation
    /// keys; [`ClientError::DifferentSnapshots`] if one of two servers has another version by now;
    /// [`ClientError::WeakPrf`] if a new version has such a function. What happens
    /// with one of two servers is in a [`ClientError::Party`] that says which. None means that a key is absent.
    pub fn look_up_keys(&mut self, keys: &[&[u8]]) -> Result<Lookups, ClientError> {
        let look_up = self.session.look_up_keys(keys)?;
        self.look_up(look_up)
    }

    /// The values at indices, and what they cost.
    ///
    /// # Errors
    /// Those of [`HttpClient::look_up_keys`]; [`ClientError::Protocol`] if the table is looked up by key or
    /// has no such index.
    pub fn look_up_indices(&mut self, indices: &[u64]) -> Result<Lookups, ClientError> {
        let look_up = self.session.look_up_indices(indices)?;
        self.look_up(look_up)
    }

    fn look_up(&mut self, mut look_up: LookUp<'_>) -> Result<Lookups, ClientError> {
        let mut timings = Timings::default();
        let asked = self.ask_all(&mut look_up, &mut timings);
        Ok(Lookups { values: look_up.finish(asked)?, timings })
    }

    /// Makes all requests of a look-up.
    fn ask_all(&mut self, look_up: &mut LookUp<'_>, timings: &mut Timings) -> Result<(), ClientError> {
        let mut refreshed = false;
        while !look_up.is_complete() {
            if self.outdated {
                self.follow()?;
            }
            let Err(error) = self.request(look_up, timings) else { continue };
            if !self.is_outdated(&error)? {
                return Err(error);
            }
            if std::mem::replace(&mut refreshed, true) {
                return Err(match error {
                    ClientError::Party { party, url, .. } => {
                        ClientError::Party { party, url, cause: Box::new(ClientError::StillStale) }
                    }
                    _ => ClientError::StillStale,
                });
            }
            // The refused queries are dropped with their secrets; the new version gets new ones.
            self.follow()?;
        }
        Ok(())
    }

    /// Goes on with the version that the servers have now.
    fn follow(&mut self) -> Result<(), ClientError> {
        self.session = open_session(&mut self.servers, &self.cache, &self.options, Some(&self.session))?;
        self.outdated = false;
        Ok(())
    }

    /// Whether a server refused because it has another version by now. One of another shape takes other
    /// lengths, and calls these malformed before it comes to the version.
    fn is_outdated(&mut self, error: &ClientError) -> Result<bool, ClientError> {
        let ClientError::Refused { refusal, .. } = error.cause() else { return Ok(false) };
        match refusal.code {
            Code::StaleVersion => Ok(true),
            Code::Malformed | Code::TooLarge | Code::NoKeysNeeded => {
                let current = self.servers.describe()?;
                Ok(current.version() != self.description().version())
            }
            _ => Ok(false),
        }
    }

    /// One request, to each server, for what is still missing.
    fn request(&mut self, look_up: &mut LookUp<'_>, timings: &mut Timings) -> Result<(), ClientError> {
        let started = Instant::now();
        let Round { requests, pending } = look_up.ask(&self.session)?;
        let query = started.elapsed();

        let count = pending.count();
        let Exchanged { bodies, round_trip } = self.exchange(&requests, count, timings)?;

        let received = Instant::now();
        let received_bytes: u64 = bodies.iter().map(|body| body.len() as u64).sum();
        let read = |(i, body)| self.session.read(count, body).map_err(|error| self.servers.located(i, error));
        let responses: Result<Vec<Response>, ClientError> =
            bodies.into_iter().enumerate().map(read).collect();
        let version = *self.description().version();
        let told = responses.as_deref().unwrap_or_default();
        self.outdated |= told.iter().any(|response| response.newest != version);
        // A server's word, which may be anything, is not allowed to exceed what was measured here.
        let server = told.iter().map(|response| response.compute.min(round_trip)).max().unwrap_or_default();
        look_up.answer(&self.session, pending, responses);
        timings.requests += 1;
        timings.sent_bytes += requests.iter().map(|request| request.len() as u64).sum::<u64>();
        timings.received_bytes += received_bytes;
        timings.query += query;
        timings.server += server;
        timings.network += round_trip - server;
        timings.decode += received.elapsed();
        Ok(())
    }

    /// The responses to requests for `count` values, and how long they took once the server had the keys. A
    /// server that has forgotten them says so before it computes anything: it gets them, and the same request,
    /// once more.
    fn exchange(
        &mut self,
        requests: &[Vec<u8>],
        count: usize,
        timings: &mut Timings,
    ) -> Result<Exchanged, ClientError> {
        let limit = self.description().limits().response_bytes(count);
        for _ in 0..2 {
            self.send_keys(timings)?;
            let sent = Instant::now();
            match self.servers.ask(|party, transport| transport.query(&requests[party], limit)) {
                Err(ClientError::Refused { refusal, .. })
                    if refusal.code == Code::UnknownKeys
                        && !refusal.accepted
                        && !self.session.keys().is_empty() =>
                {
                    self.keys_sent.clear();
                }
                bodies => return Ok(Exchanged { bodies: bodies?, round_trip: sent.elapsed() }),
            }
        }
        Err(ClientError::KeysForgotten)
    }

    fn send_keys(&mut self, timings: &mut Timings) -> Result<(), ClientError> {
        for keys in self.session.keys() {
            if self.keys_sent.contains(keys.blake3()) {
                continue;
            }
            let started = Instant::now();
            let request = keys.request();
            self.servers.ask(|_, transport| keys.check(transport.keys(&request)?))?;
            timings.keys_bytes += request.len() as u64;
            timings.keys += started.elapsed();
            self.keys_sent.insert(*keys.blake3());
        }
        Ok(())
    }
}

/// What came back from all servers, in the order of their parties.
struct Exchanged {
    bodies: Vec<Bytes>,
    round_trip: Duration,
}

fn open_session(
    servers: &mut Servers,
    cache: &Cache,
    options: &ClientOptions,
    former: Option<&Session>,
) -> Result<Session, ClientError> {
    for _ in 0..REFRESHES {
        let description = servers.describe()?;
        if let Some(key) = options.pinned_key {
            let mut pin = Pin { key, sequence: cache.seen(description.name(), &key) };
            description.accept(&mut pin)?;
            cache.saw(description.name(), &pin)?;
        }
        if let Some(hints) = download::hints(servers.first(), cache, &description, options)? {
            return match former {
                Some(session) => session.follow(description, &hints, options.weak_prf),
                None => Session::new_with(description, &hints, options.weak_prf, Clock::system()),
            };
        }
    }
    Err(ClientError::Changing)
}
