//! The instance's only client, and its current conversation.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use spirea_client::{
    Client, ClientError, Clock, Conversation, Description, Fetched, Fetches, Head, KeptKeys, Lender, Lookups,
    Method, Policy, Received, Request, Step, Timings, TransportError, Value, Version, WeakPrf, provide_rules,
};
use spirea_protocols::table::FieldType;
use spirea_protocols::{FileHash, KeysHash, ProtocolError};
use spirea_wasm_memory::{Message, Mismatch, pieces};
use zeroize::Zeroizing;

use crate::cache::{Change, StoredHints};
use crate::environment::{Stage, clock, progress};
use crate::errors::Failure;
use crate::rules::RULES;

/// Next action of JavaScript, with the numbers that the JavaScript half uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send the request in the output.
    Send = 1,
    /// Read the next piece of a response.
    Read = 2,
    /// Wait until something is received; if the output has a time, at most for that time.
    Wait = 3,
    /// Done: the client is connected, and the output describes its database.
    Connected = 4,
    /// Done: the output has the values.
    Values = 5,
    /// Done: the conversation failed with the error in the output.
    Failed = 6,
    /// Load the rules for forms of keys, and start again: the table's keys have a form.
    Rules = 7,
}

/// Options of a connection. Missing options have their defaults.
#[derive(Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Options {
    /// Addresses of each server.
    addresses: Vec<Vec<String>>,
    database: String,
    pinned_key: Option<String>,
    attempts: Option<u32>,
    max_pause_ms: Option<u64>,
    patience_ms: Option<u64>,
    max_hint_bytes: Option<u64>,
    accept_weak_prf: bool,
}

impl Options {
    fn policy(&self) -> Result<Policy, ClientError> {
        let default = Policy::default();
        let pinned_key = self.pinned_key.as_ref().map(|key| key.parse()).transpose();
        let pinned_key =
            pinned_key.map_err(|error: ProtocolError| ClientError::BadOption(error.to_string()))?;
        Ok(Policy {
            attempts: self.attempts.unwrap_or(default.attempts),
            max_pause: self.max_pause_ms.map_or(default.max_pause, Duration::from_millis),
            patience: self.patience_ms.map_or(default.patience, Duration::from_millis),
            max_hint_bytes: self.max_hint_bytes.unwrap_or(default.max_hint_bytes),
            pinned_key,
            weak_prf: if self.accept_weak_prf { WeakPrf::Accept } else { WeakPrf::Refuse },
            progress: Some(Box::new(|done, total| progress(Stage::Hint, done, total))),
            keys_progress: Some(Box::new(|done, total| progress(Stage::Keys, done, total))),
            values_progress: None,
        })
    }
}

/// Stored data that JavaScript passes in.
#[derive(Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase", tag = "stored")]
pub enum Stored {
    /// A hint, or its beginning, in the body.
    Hint {
        #[cfg_attr(test, ts(type = "string"))]
        hint: FileHash,
    },
    Latest {
        slot: String,
        #[cfg_attr(test, ts(type = "string"))]
        hint: FileHash,
    },
    Seen {
        pin: String,
        sequence: u64,
    },
    /// Evaluation keys, in the body.
    Keys,
    /// The record of the secret of evaluation keys, in the body.
    Secret,
}

/// The wanted values. The keys or indices are in the body, since code that parses heads does not
/// erase its memory.
#[derive(Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase", tag = "wanted")]
pub enum Wanted {
    /// The values of keys of these lengths.
    Keys { lengths: Vec<usize>, fetch: bool },
    /// The values at indices of 8 bytes each, little-endian.
    Indices { fetch: bool },
}

/// Result of a step, from the server with this index.
#[derive(Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "received", deny_unknown_fields)]
pub enum Came {
    /// Head of a response.
    Head {
        server: usize,
        status: u16,
        etag: Option<String>,
        retry_after: Option<String>,
    },
    /// The body is the piece.
    Piece {
        server: usize,
    },
    Failed {
        server: usize,
        kind: Kind,
        words: String,
    },
}

/// Reason why there is no response, as far as JavaScript can tell.
#[derive(Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Unreachable,
    UnknownHost,
    TimedOut,
    Broken,
    Untrusted,
}

/// A request to the server with this index.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct ToSend<'a> {
    server: usize,
    #[cfg_attr(test, ts(type = "\"GET\" | \"POST\""))]
    method: &'static str,
    url: &'a str,
    headers: &'a [(&'static str, String)],
}

/// Description of a database, in the version last seen.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Description"))]
#[serde(rename_all = "camelCase")]
pub struct Described<'a> {
    /// The database's name.
    name: &'a str,
    /// The version: 64 hexadecimal digits.
    version: String,
    /// The protocol's name.
    protocol: &'static str,
    /// True if values are looked up by key, false if by index.
    keyword: bool,
    /// Number of values in the table, among which a look-up is hidden.
    entries: u64,
    /// Names of a value's fields.
    fields: &'a [String],
    /// Types of the fields; empty if the table does not have them.
    #[cfg_attr(test, ts(type = "FieldType[]"))]
    types: &'a [FieldType],
    /// Number of servers that a look-up asks.
    servers: usize,
    /// Number of bins; a fetch brings one value of each bin.
    bins: usize,
    /// Bytes of the hints.
    hint_bytes: u64,
    /// Bytes of a look-up's query to each server.
    query_bytes: usize,
    /// Bytes of a look-up's answer.
    answer_bytes: usize,
    /// Bytes of the evaluation keys that the server needs; 0 if none.
    keys_bytes: usize,
    /// True if a newer version is known; the next look-up starts by switching to it.
    outdated: bool,
}

/// Values and their costs. The body has the fields, one after another.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct Found {
    values: Vec<Outcome>,
    /// Versions that answered, in hexadecimal digits, each with the number of consecutive values
    /// that it answered for.
    versions: Vec<(String, usize)>,
    #[serde(flatten)]
    costs: Costs,
}

/// Costs of look-ups in milliseconds and bytes, summed over their requests.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "Timings"))]
#[serde(rename_all = "camelCase")]
pub struct Costs {
    requests: u32,
    sent_bytes: u64,
    received_bytes: u64,
    /// Bytes of evaluation keys uploaded; 0 if the server had them already or needs none.
    keys_bytes: u64,
    /// Time to make the queries.
    query_ms: f64,
    /// Computation time that the server reports.
    server_ms: f64,
    /// Time between sending and receiving, without the server's computation.
    network_ms: f64,
    /// Time to decode the answers.
    decode_ms: f64,
    /// Time to upload evaluation keys.
    keys_ms: f64,
}

/// Lengths of a value's fields, or the reason for no value.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    Value(Vec<usize>),
    Absent,
    Dropped,
}

/// Evaluation keys to be stored.
#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Kept {
    /// Hash under which both pieces are stored.
    keys: String,
    /// Length of the record at the start of the body, in bytes. The keys follow.
    record: usize,
}

enum Course {
    Idle,
    Connecting(Conversation<'static, Client>),
    LookingUp(Conversation<'static, Lookups>),
    Fetching(Conversation<'static, Fetches>),
}

/// An instance's client.
pub struct Shim {
    pub input: Message,
    pub output: Message,
    clock: Clock,
    hints: StoredHints,
    keys: HashMap<KeysHash, Vec<u8>>,
    secrets: Vec<Zeroizing<Vec<u8>>>,
    lender: Option<Lender>,
    course: Course,
    /// Keys to be stored that JavaScript has not taken yet.
    kept: Vec<KeptKeys>,
}

impl Shim {
    pub fn new() -> Self {
        Self {
            input: Message::default(),
            output: Message::default(),
            clock: clock(),
            hints: StoredHints::default(),
            keys: HashMap::new(),
            secrets: Vec::new(),
            lender: None,
            course: Course::Idle,
            kept: Vec::new(),
        }
    }

    /// Accepts stored data, which may be damaged. Returns false if it cannot be read.
    pub fn give(&mut self) -> bool {
        self.attempt(|shim| {
            let (stored, body) = shim.input.take()?;
            match stored {
                Stored::Hint { hint } => shim.hints.give_hint(hint, body.to_vec()),
                Stored::Latest { slot, hint } => shim.hints.give_latest(slot, hint),
                Stored::Seen { pin, sequence } => shim.hints.give_seen(pin, sequence),
                Stored::Keys => {
                    shim.keys.insert(blake3::hash(&body).into(), body.to_vec());
                }
                Stored::Secret => shim.secrets.push(body),
            }
            Ok(())
        })
    }

    /// Starts to connect. Returns false if that is impossible.
    pub fn connect(&mut self) -> bool {
        self.attempt(|shim| {
            let (options, _): (Options, _) = shim.input.take()?;
            let now = shim.clock.now();
            // `secrets` and `keys` stay here until the client is connected, because connecting may
            // start again with rules.
            let kept = shim.secrets.iter().filter_map(|record| {
                let keys = shim.keys.get(&KeptKeys::keys_of(record)?)?;
                KeptKeys::read(record, keys.clone(), now)
            });
            let kept = kept.collect();
            let cache = Box::new(shim.hints.clone());
            let policy = options.policy()?;
            let Options { addresses, database, .. } = &options;
            let conversation = Client::resume(addresses, database, cache, policy, shim.clock.clone(), kept)?;
            shim.course = Course::Connecting(conversation);
            Ok(())
        })
    }

    /// Starts a look-up. Returns false if that is impossible: there must be a client that is not
    /// busy.
    pub fn look_up(&mut self) -> bool {
        self.attempt(|shim| {
            let (wanted, body) = shim.input.take()?;
            let lender = shim.lender.as_ref().ok_or(Mismatch)?;
            let looked_up = match wanted {
                Wanted::Keys { lengths, fetch } => {
                    let keys = pieces(&lengths, &body)?;
                    if fetch {
                        lender.fetch_keys(keys).map(Course::Fetching)
                    } else {
                        lender.look_up_keys(keys).map(Course::LookingUp)
                    }
                }
                Wanted::Indices { fetch } => {
                    let indices = indices(&body)?;
                    if fetch {
                        lender.fetch_indices(indices).map(Course::Fetching)
                    } else {
                        lender.look_up_indices(indices).map(Course::LookingUp)
                    }
                }
            };
            shim.course = looked_up.ok_or(Mismatch)?;
            Ok(())
        })
    }

    /// Returns the next action.
    pub fn step(&mut self) -> Next {
        match std::mem::replace(&mut self.course, Course::Idle) {
            Course::Idle => self.fail(Mismatch.into()),
            Course::Connecting(mut conversation) => match conversation.step() {
                Step::Done(Ok(client)) => {
                    self.lender = Some(Lender::new(client));
                    self.secrets.clear();
                    self.keys.clear();
                    self.describe();
                    Next::Connected
                }
                step => self.go_on(step, Course::Connecting(conversation)),
            },
            Course::LookingUp(mut conversation) => match conversation.step() {
                Step::Done(Ok(Lookups { values, versions, timings })) => {
                    drop(conversation);
                    let fetched =
                        values.into_iter().map(|value| value.map_or(Fetched::Absent, Fetched::Value));
                    self.show(fetched, &versions, timings)
                }
                step => self.go_on(step, Course::LookingUp(conversation)),
            },
            Course::Fetching(mut conversation) => match conversation.step() {
                Step::Done(Ok(Fetches { values, version, timings })) => {
                    drop(conversation);
                    let versions = vec![version; values.len()];
                    self.show(values.into_iter(), &versions, timings)
                }
                step => self.go_on(step, Course::Fetching(conversation)),
            },
        }
    }

    fn go_on<T>(&mut self, step: Step<T>, course: Course) -> Next {
        let next = match step {
            Step::Send { server, request: Request { method, url, headers, body } } => {
                let method = match method {
                    Method::Get => "GET",
                    Method::Post => "POST",
                };
                self.output.write(&ToSend { server, method, url: &url, headers: &headers }, &body);
                Next::Send
            }
            Step::Read { server } => {
                self.output.write(&server, &[]);
                Next::Read
            }
            Step::Wait { at_most } => {
                self.output.write(&at_most.map(|length| length.as_secs_f64() * 1000.0), &[]);
                Next::Wait
            }
            Step::Done(Ok(_)) => unreachable!("whoever steps takes what is done"),
            Step::Done(Err(error)) if matches!(error.cause(), ClientError::NoRules) => return Next::Rules,
            Step::Done(Err(error)) => return self.fail(error.into()),
        };
        self.course = course;
        next
    }

    /// Gives the client the rules for forms of keys, which JavaScript has loaded.
    pub fn provide_rules(&mut self) {
        provide_rules(RULES);
    }

    /// Accepts the result of a step. Returns false if it cannot be read.
    pub fn received(&mut self) -> bool {
        self.attempt(|shim| {
            let (came, body): (Came, _) = shim.input.take()?;
            let (server, received) = match came {
                Came::Head { server, status, etag, retry_after } => {
                    (server, Received::Head(Head { status, etag, retry_after }))
                }
                Came::Piece { server } => (server, Received::Piece(Bytes::copy_from_slice(&body))),
                Came::Failed { server, kind, words } => {
                    let error = match kind {
                        Kind::Unreachable => TransportError::Unreachable(words),
                        Kind::UnknownHost => TransportError::UnknownHost(words),
                        Kind::TimedOut => TransportError::TimedOut(words),
                        Kind::Broken => TransportError::Broken(words),
                        Kind::Untrusted => TransportError::Untrusted(words),
                    };
                    (server, Received::Failed(error))
                }
            };
            match &mut shim.course {
                Course::Idle => return Err(Mismatch.into()),
                Course::Connecting(conversation) => conversation.received(server, received),
                Course::LookingUp(conversation) => conversation.received(server, received),
                Course::Fetching(conversation) => conversation.received(server, received),
            }
            Ok(())
        })
    }

    /// Drops the current conversation. The client stays for the next one.
    pub fn abandon(&mut self) {
        self.course = Course::Idle;
    }

    /// Writes to the output the next change that must be stored. Returns false if there is none.
    pub fn take_change(&mut self) -> bool {
        let Some(change) = self.hints.take_change() else { return false };
        let bytes = match &change {
            Change::Piece { bytes, .. } => &bytes[..],
            _ => &[],
        };
        self.output.write(&change, bytes);
        true
    }

    /// Drops hints that are stored.
    pub fn forget_hints(&mut self) {
        self.hints.forget_bytes();
    }

    /// Prepares the evaluation keys to be stored; [`Shim::take_keys`] returns them.
    pub fn keep_keys(&mut self) {
        self.kept =
            self.lender.as_ref().and_then(|lender| lender.read(Client::kept_keys)).unwrap_or_default();
    }

    /// Writes to the output the next evaluation keys that must be stored. Returns false if there
    /// are no more.
    pub fn take_keys(&mut self) -> bool {
        let Some(kept) = self.kept.pop() else { return false };
        let record = kept.record();
        let head = Kept { keys: kept.blake3().to_string(), record: record.len() };
        let mut body = Zeroizing::new(Vec::with_capacity(record.len() + kept.keys().len()));
        body.extend_from_slice(&record);
        body.extend_from_slice(kept.keys());
        self.output.write(&head, &body);
        true
    }

    /// Writes a description of the client's database to the output.
    pub fn describe(&mut self) {
        let Self { lender, output, .. } = self;
        let read = |client: &Client| {
            output.write(&described(client.description(), client.is_outdated()), &[]);
        };
        lender.as_ref().and_then(|lender| lender.read(read));
    }

    /// Runs `act`. Returns true on success; else writes the error to the output.
    fn attempt(&mut self, act: impl FnOnce(&mut Self) -> Result<(), Failure>) -> bool {
        act(self).map_err(|failure| self.fail(failure)).is_ok()
    }

    fn fail(&mut self, failure: Failure) -> Next {
        self.output.write(&failure, &[]);
        Next::Failed
    }

    fn show(
        &mut self,
        values: impl Iterator<Item = Fetched<Value>>,
        versions: &[Version],
        timings: Timings,
    ) -> Next {
        let mut fields: Vec<Zeroizing<Vec<u8>>> = Vec::new();
        let outcome = |value: Fetched<Value>| match value {
            Fetched::Absent => Outcome::Absent,
            Fetched::Dropped => Outcome::Dropped,
            Fetched::Value(value) => {
                let start = fields.len();
                fields.extend(value.into_fields().into_iter().map(Zeroizing::new));
                Outcome::Value(fields[start..].iter().map(|field| field.len()).collect())
            }
        };
        let values = values.map(outcome).collect();
        let mut body = Zeroizing::new(Vec::with_capacity(fields.iter().map(|field| field.len()).sum()));
        fields.iter().for_each(|field| body.extend_from_slice(field));
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let found = Found {
            values,
            versions: versions
                .chunk_by(|one, next| one == next)
                .map(|run| (run[0].to_string(), run.len()))
                .collect(),
            costs: Costs {
                requests: timings.requests,
                sent_bytes: timings.sent_bytes,
                received_bytes: timings.received_bytes,
                keys_bytes: timings.keys_bytes,
                query_ms: ms(timings.query),
                server_ms: ms(timings.server),
                network_ms: ms(timings.network),
                decode_ms: ms(timings.decode),
                keys_ms: ms(timings.keys),
            },
        };
        self.output.write(&found, &body);
        Next::Values
    }
}

/// Splits a body into indices.
fn indices(body: &[u8]) -> Result<Zeroizing<Vec<u64>>, Mismatch> {
    match body.as_chunks() {
        (indices, []) => Ok(Zeroizing::new(indices.iter().map(|index| u64::from_le_bytes(*index)).collect())),
        _ => Err(Mismatch),
    }
}

fn described(description: &Description, outdated: bool) -> Described<'_> {
    let (table, params) = (description.table(), description.params());
    let sum = |of: fn(spirea_wire::Lengths) -> usize| description.limits().parts().map(of).sum();
    Described {
        name: description.name(),
        version: description.version().to_string(),
        protocol: params.name,
        keyword: table.kind == spirea_protocols::TableKind::Keyword,
        entries: table.entries,
        fields: &table.fields,
        types: &table.types,
        servers: params.parties,
        bins: params.bins,
        hint_bytes: description.parts().map(|part| part.hint_bytes()).sum(),
        query_bytes: sum(|part| part.query_bytes),
        answer_bytes: sum(|part| part.answer_bytes),
        keys_bytes: sum(|part| part.keys_bytes),
        outdated,
    }
}

#[cfg(test)]
mod tests;
