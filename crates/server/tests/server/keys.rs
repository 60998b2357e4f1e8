//! Evaluation keys over HTTP, with a responder that accepts all keys except those it is configured
//! to refuse.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use spirea_engine::{Database, Engine, KeyRegistry};
use spirea_protocols::{KeysHash, Sizes, Version};
use spirea_server::{Amount, ClientBudget, KeyOptions, Limits, Secret, ServerConfig};
use spirea_specimens::keyed::{self, BAD, Keyed, PARAMS};
use spirea_specimens::snapshots::{BACKEND, MAPPED, columns, csv_options, try_build};
use spirea_specimens::{Hook, gate, no_hook};
use spirea_store::Silent;
use spirea_wire::{Code, KeysPiece, KeysRequest, KeysResponse, Lengths, Part, Queries, Request, Response};
use tempfile::tempdir;

use crate::fixture::{
    Reply, Running, connect, dial, engine, eventually, read, serve_config, serve_engine, texts,
};
use crate::tokens;

pub const KEYS: &str = "/v1/databases/keyed/keys";
pub const QUERY: &str = "/v1/databases/keyed/query";
const VERSION: Version = Version::new([5; 32]);

/// Creates the database `keyed`, which runs a hook before it prepares keys.
pub fn database(before_keys: Hook) -> Database {
    keyed::database("keyed", VERSION, Keyed { before_keys, ..Keyed::default() })
}

fn serve(options: &KeyOptions) -> Running {
    let engine = Arc::new(Engine::new(8, KeyRegistry::open(options).unwrap()).unwrap());
    engine.publish(database(no_hook()));
    serve_engine(&engine, Limits::default())
}

/// Returns a client's keys, which begin with `first`.
pub fn upload(first: u8) -> KeysRequest {
    let mut keys = vec![7; PARAMS.sizes.keys_bytes];
    keys[0] = first;
    KeysRequest { version: VERSION, part: Part::Base, keys: keys.into() }
}

pub fn hash(upload: &KeysRequest) -> KeysHash {
    blake3::hash(&upload.keys).into()
}

/// Returns a request of two queries that names keys.
pub fn request(keys: Option<KeysHash>) -> Request {
    Request { version: VERSION, base: Queries { keys, queries: keyed::queries(2) }, delta: None }
}

pub fn ask(server: &Running, keys: KeysHash) -> Reply {
    server.post(QUERY, &request(Some(keys)).encode())
}

/// Returns the first byte of the keys that the server used for the answer.
pub fn first(reply: Reply) -> u8 {
    assert_eq!(reply.status, 200, "{reply:?}");
    let Sizes { query_bytes, answer_bytes, keys_bytes, .. } = PARAMS.sizes;
    let base = Lengths { query_bytes, answer_bytes, keys_bytes };
    let limits = spirea_wire::Limits { base, delta: None, max_batch: 2 };
    Response::decode(reply.body.into(), &limits, 2).unwrap().answers[1][0]
}

pub fn unknown(reply: &Reply) {
    assert_eq!((reply.status, reply.refusal().code), (424, Code::UnknownKeys), "{reply:?}");
    assert!(!reply.refusal().accepted);
}

#[test]
fn registered_keys_answer_and_unknown_ones_are_told() {
    let server = serve(&KeyOptions::default());
    let config = server.get("/v1/databases/keyed/config").body;
    let config = spirea_wire::Config::decode(config.into()).unwrap();
    assert_eq!(config.base.lengths.keys_bytes, PARAMS.sizes.keys_bytes);

    let [one, two] = [1, 2].map(upload);
    unknown(&ask(&server, hash(&one)));
    unknown(&server.post(QUERY, &request(None).encode()));
    for upload in [&one, &two, &one] {
        let reply = server.post(KEYS, &upload.encode());
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(KeysResponse::decode(reply.body.into()).unwrap().blake3, hash(upload));
    }
    assert_eq!(first(ask(&server, hash(&one))), 1);
    assert_eq!(first(ask(&server, hash(&two))), 2);
    unknown(&ask(&server, KeysHash::new([9; 32])));

    let metric = |name: &str| server.metric(name).unwrap();
    for (place, lookups) in [("memory", 2.0), ("disk", 0.0), ("unknown", 2.0)] {
        assert_eq!(metric(&format!("spirea_key_lookups_total{{place=\"{place}\"}}")), lookups);
    }
    assert_eq!(metric("spirea_key_departures_total{cause=\"evicted\",place=\"memory\"}"), 0.0);
    assert_eq!(metric("spirea_unknown_keys_total{database=\"keyed\"}"), 3.0);
    assert_eq!(metric("spirea_keys{place=\"memory\"}"), 2.0);
    assert_eq!(metric("spirea_keys_bytes{place=\"memory\"}"), 2000.0);
    assert_eq!(metric("spirea_keys{place=\"disk\"}"), 0.0);
    let label = "{database=\"keyed\",endpoint=\"/v1/databases/{name}/keys\",status=\"200\"}";
    assert_eq!(metric(&format!("spirea_requests_total{label}")), 3.0);
}

#[test]
fn keys_that_come_with_queries_are_registered_and_used() {
    let server = serve(&KeyOptions::default());
    let [one, two] = [1, 2].map(upload);
    let joined = |named: &KeysRequest, sent: &KeysRequest| {
        let request = request(Some(hash(named))).encode();
        server.post(QUERY, &Request::with_keys(&request, [(Part::Base, &sent.keys[..])].into_iter()))
    };
    assert_eq!(first(joined(&one, &one)), 1);
    assert_eq!(first(ask(&server, hash(&one))), 1);
    // Keys that the queries do not name are refused before they are prepared.
    for (named, sent) in [(&one, &two), (&two, &one)] {
        let reply = joined(named, sent);
        assert_eq!((reply.status, reply.refusal().code), (400, Code::Malformed));
    }
    let bad = joined(&upload(BAD), &upload(BAD));
    assert_eq!((bad.status, bad.refusal().code, bad.refusal().accepted), (400, Code::Malformed, false));
    unknown(&ask(&server, hash(&two)));
    assert_eq!(server.metric("spirea_keys{place=\"memory\"}"), Some(1.0));
}

#[test]
fn keys_that_come_in_pieces_are_registered_when_the_last_has_come() {
    let server = serve(&KeyOptions::default());
    let one = upload(1);
    let whole = hash(&one);
    let piece = |start: usize, end: usize| {
        let (version, part, bytes) = (VERSION, Part::Base, one.keys.slice(start..end));
        server.post(KEYS, &KeysPiece { version, part, whole, start, bytes }.encode())
    };
    let end = one.keys.len();
    unknown(&piece(300, end));
    for (start, end) in [(0, 300), (300, 301), (301, end)] {
        unknown(&ask(&server, whole));
        let reply = piece(start, end);
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(KeysResponse::decode(reply.body.into()).unwrap().blake3, whole);
    }
    assert_eq!(first(ask(&server, whole)), 1);

    // The whole keys do not have the hash that the piece names.
    let two = upload(2);
    let bytes = two.keys.clone();
    let wrong =
        KeysPiece { version: VERSION, part: Part::Base, whole: KeysHash::new([9; 32]), start: 0, bytes };
    let reply = server.post(KEYS, &wrong.encode());
    assert_eq!((reply.status, reply.refusal().code), (400, Code::Malformed));
    unknown(&ask(&server, hash(&two)));
}

#[test]
fn uploads_that_are_no_keys_are_refused() {
    let server = serve(&KeyOptions::default());
    let good = upload(1).encode();
    let refused = |body: &[u8], status, code| {
        let reply = server.post(KEYS, body);
        assert_eq!((reply.status, reply.refusal().code), (status, code));
        assert!(!reply.refusal().accepted);
    };
    refused(b"", 400, Code::WrongFormat);
    refused(b"\xff", 400, Code::Malformed);
    refused(&[&[0x08, 2], &good[2..]].concat(), 400, Code::WrongFormat);
    refused(&good[..good.len() - 1], 400, Code::Malformed);
    refused(&KeysRequest { keys: upload(1).keys.slice(1..), ..upload(1) }.encode(), 400, Code::Malformed);
    refused(&upload(BAD).encode(), 400, Code::Malformed);
    refused(&[&good[..], &[0; 4096]].concat(), 413, Code::TooLarge);
    let reply = server.post_with(KEYS, "content-type: application/json\r\n", &good);
    assert_eq!((reply.status, reply.refusal().code), (415, Code::WrongContentType));

    // Sends the head alone: the server does not wait for a body that is too long.
    let mut stream = dial(server.address);
    let head = "host: x\r\nconnection: close\r\ncontent-type: application/x-protobuf\r\ncontent-length: 99999999999\r\n";
    stream
        .write_all(format!("POST {KEYS} HTTP/1.1\r\nexpect: 100-continue\r\n{head}\r\n").as_bytes())
        .unwrap();
    let reply = read(&mut stream);
    assert_eq!((reply.status, reply.refusal().code), (413, Code::TooLarge));
    assert_eq!(server.metric("spirea_keys{place=\"memory\"}"), Some(0.0));
    assert_eq!(server.post(KEYS, &good).status, 200);
}

#[test]
fn a_server_without_room_for_keys_says_so() {
    let server = serve(&KeyOptions { memory_bytes: 0, ..KeyOptions::default() });
    let reply = server.post(KEYS, &upload(1).encode());
    assert_eq!((reply.status, reply.refusal().code), (500, Code::Internal));
    assert!(reply.refusal().message.contains("room"), "{reply:?}");
}

#[test]
fn keys_survive_a_restart_of_the_server() {
    let folder = tempdir().unwrap();
    let options = |folder: &Path| KeyOptions { folder: Some(folder.into()), ..KeyOptions::default() };
    let keys = upload(3);
    {
        let server = serve(&options(folder.path()));
        assert_eq!(server.post(KEYS, &keys.encode()).status, 200);
        assert_eq!(server.metric("spirea_keys{place=\"disk\"}"), Some(1.0));
        assert_eq!(server.metric("spirea_keys_bytes{place=\"disk\"}"), Some(keys.keys.len() as f64));
    }
    let server = serve(&options(folder.path()));
    assert_eq!(first(ask(&server, hash(&keys))), 3);
    let forgetful = serve(&KeyOptions::default());
    unknown(&ask(&forgetful, hash(&keys)));
}

#[test]
fn preparing_keys_keeps_nobody_else_waiting() {
    let (hook, begins, go) = gate();
    let engine = engine(8);
    engine.publish(database(hook));
    let server = serve_engine(&engine, Limits::default());
    // There are more uploads than threads in the server's runtime.
    let mut uploads = [1, 2, 3].map(|first| {
        let body = upload(first).encode();
        let length = body.len();
        let head = "host: x\r\nconnection: close\r\ncontent-type: application/x-protobuf\r\n";
        let head = format!("POST {KEYS} HTTP/1.1\r\n{head}content-length: {length}\r\n\r\n");
        let mut stream = dial(server.address);
        stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
        stream
    });
    begins.recv().unwrap();
    let received = "spirea_received_bytes_total{database=\"keyed\"}";
    let all = 3.0 * upload(1).encode().len() as f64;
    eventually("the uploads arrive", || server.metric(received) == Some(all));
    assert_eq!(server.get("/healthz").status, 200);
    for _ in 0..3 {
        go.send(()).unwrap();
    }
    assert!(uploads.iter_mut().all(|stream| read(stream).status == 200));
}

/// Tests keys end to end with a real protocol, on a server with room for a single client's keys.
#[test]
fn clients_that_displace_each_other_s_keys_get_their_values_all_the_same() {
    let folder = tempdir().unwrap();
    let words = folder.path().join("words");
    let lines = "word\nzero\none\ntwo\n";
    let options = csv_options(&words, "exppack-simple", columns(None, &["word"]), lines);
    let snapshot = try_build(&options).unwrap();
    let options = KeyOptions {
        memory_bytes: 0,
        folder: Some(folder.path().join("keys")),
        disk: Amount { sets: 1, bytes: u64::MAX },
        ..KeyOptions::default()
    };
    let engine = Arc::new(Engine::new(8, KeyRegistry::open(&options).unwrap()).unwrap());
    engine.publish(Database::load(&snapshot, &BACKEND, MAPPED, &Silent).unwrap());
    let server = serve_engine(&engine, Limits::default());

    let mut clients = [(); 2].map(|()| connect(&server.url(), "words", folder.path()).unwrap());
    // Each client asks twice, then again after the other client: keys are sent if the server lacks
    // them. The request after a refused request carries the keys again.
    for uploads in [&[true, false][..], &[true, true, false]] {
        for client in &mut clients {
            for &sent in uploads {
                let lookups = client.look_up_indices(&[2, 0]).unwrap();
                let values = texts(lookups.values).into_iter().flatten().collect::<Vec<_>>();
                assert_eq!(values, [[b"two".to_vec()], [b"zero".to_vec()]]);
                assert_eq!(lookups.timings.keys_bytes > 0, sent);
            }
        }
    }
    // At least the steps that every query needs are timed separately.
    for step in ["scalar_fold", "expand", "poly_fold", "mod_switch"] {
        let seconds = format!("spirea_step_seconds_total{{database=\"words\",step=\"{step}\"}}");
        assert!(server.metric(&seconds).is_some_and(|seconds| seconds > 0.0), "{step}");
    }
    // The first upload of each client precedes its first query.
    assert_eq!(server.metric("spirea_unknown_keys_total{database=\"words\"}"), Some(2.0));
    assert_eq!(server.metric("spirea_keys{place=\"disk\"}"), Some(1.0));
}

/// Each token has its own share of the server's room; without tokens, each address has one.
#[test]
fn a_client_that_registers_much_displaces_its_own_keys_alone() {
    let client = ClientBudget { sets: Some(2), ..ClientBudget::default() };
    let options = KeyOptions { client, ..KeyOptions::default() };
    let folder = tempdir().unwrap();
    let file = folder.path().join("tokens.toml");
    let [other, greedy] = [(); 2].map(|()| tokens::secret());
    let scopes = "scopes = [\"query\"]";
    tokens::write(&file, &[("other", &other, scopes), ("greedy", &greedy, scopes)]);
    let engine = Arc::new(Engine::new(8, KeyRegistry::open(&options).unwrap()).unwrap());
    engine.publish(database(no_hook()));
    let server = serve_config(&engine, ServerConfig { tokens: Some(file), ..ServerConfig::default() });
    let post = |path: &str, token: &Secret, body: &[u8]| {
        let headers = format!("{}content-type: application/x-protobuf\r\n", tokens::bearer(token));
        server.post_with(path, &headers, body).status
    };
    assert_eq!(post(KEYS, &other, &upload(0).encode()), 200);
    for first in 1..=4 {
        assert_eq!(post(KEYS, &greedy, &upload(first).encode()), 200);
    }
    let asked = |first| post(QUERY, &greedy, &request(Some(hash(&upload(first)))).encode());
    let statuses = [0, 1, 2, 3, 4].map(asked);
    assert_eq!(statuses, [200, 424, 424, 200, 200]);

    let server = serve(&options);
    for first in 0..=4 {
        assert_eq!(server.post(KEYS, &upload(first).encode()).status, 200);
    }
    assert_eq!(server.metric("spirea_keys{place=\"memory\"}"), Some(2.0));
    let evicted = "spirea_key_departures_total{cause=\"evicted\",place=\"memory\"}";
    assert_eq!(server.metric(evicted), Some(3.0));
}
