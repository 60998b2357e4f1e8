//! Keys and their end, with a server that answers correctly unless the test changes its answers.

mod attack;
mod fetch;
#[cfg(feature = "forms")]
mod forms;
mod kept;
mod next;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use spirea_backend::Residence;
use spirea_cpu::CpuBackend;
use spirea_protocols::registry::Choice;
use spirea_protocols::table::MOST_KEY_QUERIES;
use spirea_protocols::{PreparedKeys, Query, Responder};
use spirea_store::ingest::{Format, Selection};
use spirea_store::{BuildOptions, Protocol, Silent, Snapshot, build};
use spirea_wire::{Config, KeysRequest, Lengths, PartConfig, Version};

use super::*;

/// Number of rows of the tables; each row has one byte.
const ROWS: u64 = 20;

const VERSION: Version = Version::new([1; 32]);

static BACKEND: LazyLock<Arc<CpuBackend>> = LazyLock::new(|| Arc::new(CpuBackend::new(1).unwrap()));

/// A server without a transport.
pub(crate) struct Server {
    base: PartConfig,
    description: Description,
    responder: Box<dyn Responder>,
    keys: HashMap<KeysHash, PreparedKeys>,
}

pub(crate) fn value(row: u64) -> Vec<u8> {
    vec![b'a' + row as u8]
}

/// Builds a table of [`ROWS`] rows by position.
fn snapshot(choice: Choice, folder: &Path) -> Snapshot {
    let input = folder.join("rows.csv");
    let rows: String = (0..ROWS).map(|row| String::from_utf8(value(row)).unwrap() + "\n").collect();
    std::fs::write(&input, format!("value\n{rows}")).unwrap();
    let selection = Selection { values: vec!["value".into()], ..Selection::default() };
    let options = BuildOptions {
        protocol: Protocol::Named(choice),
        ..BuildOptions::new(input, Format::CSV, selection, folder.join("table"))
    };
    build(&options, &BACKEND, &Silent).unwrap()
}

fn part(snapshot: &Snapshot) -> PartConfig {
    let manifest = snapshot.manifest();
    let sizes = manifest.protocol.sizes;
    PartConfig {
        protocol_params: manifest.protocol.to_json().into(),
        table: serde_json::to_vec(&manifest.table).unwrap().into(),
        hint_bytes: sizes.hint_bytes,
        hint_blake3: manifest.hint.blake3,
        lengths: Lengths {
            query_bytes: sizes.query_bytes,
            answer_bytes: sizes.answer_bytes,
            keys_bytes: sizes.keys_bytes,
        },
        manifest: Bytes::new(),
    }
}

impl Server {
    /// Creates a server of [`ROWS`] rows by position, queried one at a time. `onion` answers
    /// fastest for a small table.
    pub(crate) fn of(protocol: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let choice = Choice { protocol: protocol.into(), ..Choice::default() };
        Self::of_snapshot(&snapshot(choice, folder.path()))
    }

    /// Creates a server of a snapshot's table.
    fn of_snapshot(snapshot: &Snapshot) -> Self {
        let opening = snapshot.manifest().protocol.openings(Residence::Copied)[0];
        let responder = snapshot.manifest().protocol.on().open(&BACKEND, snapshot.files(), opening).unwrap();
        let base = part(snapshot);
        Self { description: describe(&config(&base, VERSION)), base, responder, keys: HashMap::new() }
    }

    /// Returns the configuration of a version of the table.
    pub(crate) fn config(&self, version: Version) -> Config {
        config(&self.base, version)
    }

    /// Creates a session with the server, for a protocol without a hint.
    pub(crate) fn session(&self) -> Session {
        Session::new(self.description.clone(), &[no_hint(&self.description)]).unwrap()
    }

    /// Takes the keys of an upload.
    pub(crate) fn register(&mut self, upload: Vec<u8>) -> KeysHash {
        let KeysRequest { keys, .. } =
            KeysRequest::decode(upload.into(), &self.description.limits()).unwrap();
        self.keep(&keys)
    }

    fn keep(&mut self, keys: &[u8]) -> KeysHash {
        let prepared = self.responder.prepare_keys(keys).unwrap();
        let hash = blake3::hash(keys).into();
        self.keys.insert(hash, prepared);
        hash
    }

    /// Takes the keys of a session.
    fn register_keys(&mut self, session: &Session) {
        for keys in session.keys() {
            assert_eq!(self.register(keys.request()), *keys.blake3());
        }
    }

    /// Returns the answer to the single query of a request; `None` if the keys are not known.
    pub(crate) fn answer(&self, request: &Request) -> Option<Vec<u8>> {
        let keys = self.keys.get(&request.base.keys.unwrap())?;
        let query = Query { bytes: &request.base.queries[0], keys: Some(keys) };
        Some(self.responder.answer(&[query]).unwrap().remove(0))
    }

    pub(crate) fn read(&self, request: &[u8]) -> Request {
        Request::decode(request.to_vec().into(), &self.description.limits()).unwrap()
    }

    /// Reads a request, and keeps the keys that were sent with it.
    pub(crate) fn read_keeping(&mut self, request: &[u8]) -> Request {
        let limits = self.description.limits();
        let (request, sent) = Request::decode_with_keys(request.to_vec().into(), &limits).unwrap();
        for (_, keys) in sent {
            self.keep(&keys);
        }
        request
    }

    /// Returns a response with this answer.
    fn respond(&self, answer: Vec<u8>) -> Bytes {
        response(answer, VERSION, VERSION)
    }
}

/// Returns a response of a version with a single answer; `newest` is the newest version.
pub(crate) fn response(answer: Vec<u8>, version: Version, newest: Version) -> Bytes {
    let answers = vec![Bytes::from(answer)];
    Response { version, newest, answers, delta_answers: None, compute: Duration::ZERO }.encode().into()
}

fn config(base: &PartConfig, version: Version) -> Config {
    Config {
        name: "test".into(),
        version,
        base: base.clone(),
        delta: None,
        max_batch: 1,
        party: None,
        versions: vec![version],
        signature: Bytes::new(),
        request_bytes: 0,
    }
}

fn describe(config: &Config) -> Description {
    Description::parse("test", config.encode().into()).unwrap()
}

fn no_hint(description: &Description) -> Hint {
    description.base().hint(Vec::new()).unwrap()
}

fn named(session: &Session) -> KeysHash {
    let [keys] = session.keys()[..] else { panic!("one set of keys") };
    *keys.blake3()
}

/// Returns an answer in which every coefficient differs.
pub(crate) fn damaged(mut answer: Vec<u8>) -> Vec<u8> {
    answer.iter_mut().for_each(|byte| *byte ^= 0x55);
    answer
}

/// Change that a server makes to an honest answer.
type Change = fn(&Server, Vec<u8>) -> Bytes;

/// Looks up these rows from a server that changes some of its answers; returns the requests and the
/// result.
fn look_up(
    server: &mut Server,
    session: &mut Session,
    rows: &[u64],
    changes: &[(usize, Change)],
) -> (Vec<Request>, Result<Vec<Option<Value>>, ClientError>) {
    let mut look_up = session.look_up_indices(rows).unwrap();
    server.register_keys(session);
    let mut requests = Vec::new();
    while !look_up.is_complete() {
        let round = look_up.ask(session).unwrap();
        let request = server.read(&round.requests[0]);
        let answer = server.answer(&request).expect("the keys are those that were registered");
        let change = changes.iter().find(|(which, _)| *which == requests.len());
        let response = match change {
            Some((_, change)) => change(server, answer),
            None => server.respond(answer),
        };
        requests.push(request);
        let response = session.read(1, response).map(|response| vec![response]);
        look_up.answer(round.pending, response);
    }
    (requests, look_up.finish(Ok(())))
}

fn shape(requests: &[Request]) -> Vec<(usize, KeysHash)> {
    requests.iter().map(|request| (request.encode().len(), request.base.keys.unwrap())).collect()
}

/// Returns a time that a test sets, and the clock that tells it.
fn settable() -> (Arc<Mutex<Duration>>, Clock) {
    let time = Arc::new(Mutex::new(Duration::from_secs(100)));
    let now = Arc::clone(&time);
    (time, Clock::new(move || *now.lock()))
}

/// Creates a session with a clock.
fn begun(server: &Server, clock: &Clock) -> Session {
    let hints = [no_hint(&server.description)];
    Session::new_with(server.description.clone(), &hints, WeakPrf::Refuse, clock.clone()).unwrap()
}

#[test]
fn after_an_answer_that_does_not_verify_all_requests_are_made_under_the_keys_of_before() {
    let mut server = Server::of("onion");
    let mut session = server.session();
    let rows = [3, 4, 5, 6];
    let (honest, values) = look_up(&mut server, &mut session, &rows, &[]);
    let values: Vec<_> = values.unwrap().into_iter().map(|value| value.unwrap().into_fields()).collect();
    assert_eq!(values, rows.map(|row| vec![value(row)]));

    let wrong: [Change; 4] = [
        |server, answer| server.respond(damaged(answer)),
        |server, answer| server.respond(answer[1..].to_vec()),
        |_, _| Bytes::from_static(b"no response"),
        |_, answer| response(answer, Version::new([9; 32]), Version::new([9; 32])),
    ];
    let mut seen = HashSet::new();
    let which = [&[0][..], &[3], &[1, 2], &[0, 3]];
    for (i, (change, which)) in wrong.into_iter().zip(which).enumerate() {
        let changes: Vec<_> = which.iter().map(|&which| (which, change)).collect();
        session.look_up_indices(&rows).unwrap();
        let keys = named(&session);
        let (requests, result) = look_up(&mut server, &mut session, &rows, &changes);
        let error = result.unwrap_err();
        match i {
            0 => assert!(matches!(error, ClientError::Protocol(ProtocolError::Corrupted)), "{error:?}"),
            1 | 2 => assert!(matches!(error, ClientError::Wire(_)), "{error:?}"),
            _ => assert!(matches!(error, ClientError::WrongConfig(_)), "{error:?}"),
        }
        // The requests of this look-up do not show the refusal; only the next look-up does, because
        // it has new keys.
        let expected: Vec<_> = shape(&honest).iter().map(|&(length, _)| (length, keys)).collect();
        assert_eq!(shape(&requests), expected);
        assert!(seen.insert(keys));
    }
    assert!(look_up(&mut server, &mut session, &rows, &[]).1.is_ok());
    assert!(seen.insert(named(&session)));
}

#[test]
fn an_operator_can_shorten_the_life_of_keys() {
    const SHORT: u64 = 100;
    let mut server = Server::of("onion");
    let mut table: serde_json::Value = serde_json::from_slice(&server.base.table).unwrap();
    table["key_queries"] = SHORT.into();
    server.base.table = table.to_string().into_bytes().into();
    server.description = describe(&server.config(VERSION));
    let mut session = server.session();
    let keys = named(&session);
    session.base.ring_keys().unwrap().count_queries(SHORT - 2);
    for (query, expected) in [(SHORT - 1, true), (SHORT, true), (1, false)] {
        session.query_indices(&[1]).unwrap();
        assert_eq!(session.base.ring_keys().unwrap().queries(), query);
        assert_eq!(named(&session) == keys, expected, "query {query}");
    }
}

#[test]
fn keys_that_are_accepted_go_on_until_they_are_old() {
    let mut server = Server::of("onion");
    let mut session = server.session();
    let keys = named(&session);
    let mut asked = session.look_up_indices(&[1]).unwrap();
    // Within a look-up, the keys stay the same even if their queries are used up.
    session.base.ring_keys().unwrap().count_queries(MOST_KEY_QUERIES - 1);
    let first = asked.ask(&session).unwrap();
    assert_eq!(server.read(&first.requests[0]).base.keys, Some(keys));
    let queries = session.base.ring_keys().unwrap().queries();
    assert_eq!(queries, MOST_KEY_QUERIES);
    assert_eq!(server.read(&asked.ask(&session).unwrap().requests[0]).base.keys, Some(keys));
    server.register_keys(&session);

    // The next look-up has other keys, and the answer to this look-up is still read.
    let second = session.query_indices(&[2]).unwrap();
    assert_ne!(server.read(&second.requests[0]).base.keys, Some(keys));
    let answer = server.answer(&server.read(&first.requests[0])).unwrap();
    let response = session.read(1, server.respond(answer)).map(|response| vec![response]);
    asked.answer(first.pending, response);
    assert_eq!(asked.finish(Ok(())).unwrap()[0].as_ref().unwrap().fields(), [value(1)]);
}

#[test]
fn keys_grow_old_across_versions() {
    let server = Server::of("onion");
    let time = Arc::new(Mutex::new(Duration::from_secs(5)));
    let now = Arc::clone(&time);
    let clock = Clock::new(move || *now.lock());
    let hints = || [no_hint(&server.description)];
    let session = Session::new_with(server.description.clone(), &hints(), WeakPrf::Refuse, clock).unwrap();
    let keys = named(&session);
    *time.lock() += Keys::LONGEST_USE - Duration::from_secs(1);
    let mut session = session.follow(server.description.clone(), &hints(), WeakPrf::Refuse).unwrap();
    session.query_indices(&[1]).unwrap();
    assert_eq!(named(&session), keys);
    *time.lock() += Duration::from_secs(1);
    session.query_indices(&[1]).unwrap();
    let fresh = named(&session);
    assert_ne!(fresh, keys);
    // The age of the fresh keys counts from their own creation, not from that of the former keys.
    session.query_indices(&[1]).unwrap();
    assert_eq!(named(&session), fresh);
}

#[test]
fn a_session_with_another_version_goes_on_with_keys_but_not_with_a_secret_that_has_ended() {
    let mut server = Server::of("onion");
    let mut session = server.session();
    let follow = |session: &Session, server: &Server| {
        let hint = no_hint(&server.description);
        session.follow(server.description.clone(), &[hint], WeakPrf::Refuse).unwrap()
    };
    let keys = named(&session);
    let mut later = follow(&session, &server);
    // Both sessions have sent a query before the answer to one of them is refused.
    let [first, second] = [&mut session, &mut later].map(|session| session.query_indices(&[1]).unwrap());
    assert!([&first, &second].iter().all(|round| server.read(&round.requests[0]).base.keys == Some(keys)));
    server.register_keys(&session);
    let response = |round: &Round, change: fn(Vec<u8>) -> Vec<u8>| {
        let answer = change(server.answer(&server.read(&round.requests[0])).unwrap());
        session.read(1, server.respond(answer)).unwrap()
    };
    let responses = [response(&first, damaged), response(&second, |answer| answer)];
    let error = session.decode(first.pending, &responses[..1]).unwrap_err();
    assert!(matches!(error, ClientError::Protocol(ProtocolError::Corrupted)), "{error:?}");
    let error = later.decode(second.pending, &responses[1..]).unwrap_err();
    assert!(matches!(error, ClientError::KeysEnded), "{error:?}");

    // Within a look-up, requests name the same keys as before; after its end, new keys are drawn.
    let mut even_later = follow(&later, &server);
    assert_eq!(named(&even_later), keys);
    for session in [&mut session, &mut later, &mut even_later] {
        session.query_indices(&[1]).unwrap();
        assert_ne!(named(session), keys);
    }
}
