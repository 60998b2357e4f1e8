//! The client: look-ups, versions, and retries.

use std::time::{Duration, Instant};

use bytes::Bytes;
use spirea_client::{ClientError, ClientOptions, Description, HttpClient};
use spirea_protocols::{ProtocolError, TableKind};
use spirea_server::Limits;
use spirea_specimens::hooked::database;
use spirea_specimens::snapshots::{ROWS, key, value, write_snapshot};
use spirea_specimens::{Inputs, inputs, no_hook};
use spirea_wire::{Code, Config, PartConfig, Refusal};
use tempfile::tempdir;

use crate::fixture::{config, connect, engine, options, serve_engine, serve_urls, texts};
use crate::proxy::{Proxy, refusing};

fn refusal(code: Code, accepted: bool) -> Refusal {
    Refusal { code, message: "no".into(), remedy: "wait".into(), accepted, current_version: None }
}

#[test]
fn every_value_is_found_by_index_and_by_key_and_nothing_else() {
    let folder = tempdir().unwrap();
    let engine = engine(8);
    for (name, kind) in [("urls", TableKind::Keyword), ("rows", TableKind::Index)] {
        engine.publish(database(&write_snapshot(folder.path(), name, kind, 1), no_hook()));
    }
    let server = serve_engine(&engine, Limits::default());
    let expected: Vec<_> = (0..ROWS).map(|row| Some(value(row, 1))).collect();

    let mut client = connect(&server.url(), "rows", folder.path()).unwrap();
    let lookups = client.look_up_indices(&(0..ROWS).collect::<Vec<_>>()).unwrap();
    assert_eq!(texts(lookups.values), expected);
    // 300 look-ups exceed one batch.
    assert_eq!(lookups.timings.requests, 2);
    let limits = client.description().limits();
    assert!(lookups.timings.sent_bytes > ROWS * limits.base.query_bytes as u64);
    assert!(lookups.timings.received_bytes > ROWS * limits.base.answer_bytes as u64);
    assert!(lookups.timings.server > Duration::ZERO && lookups.timings.query > Duration::ZERO);
    assert_eq!(client.get_indices(&[2, 2]).unwrap().len(), 2);
    assert!(client.get_indices(&[]).unwrap().is_empty());
    for wrong in [client.get_indices(&[ROWS]).map(drop), client.get_keys(&[b"key"]).map(drop)] {
        assert!(matches!(wrong, Err(ClientError::Protocol(ProtocolError::BadRequest(_)))));
    }

    let mut client = connect(&server.url(), "urls", folder.path()).unwrap();
    assert_eq!(client.table().fields, ["text", "more"]);
    let keys: Vec<Vec<u8>> = (0..ROWS).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    assert_eq!(texts(client.get_keys(&keys).unwrap()), expected);
    let absent = client.get_keys(&[b"", b"key-300", b"key-1 ", &[0xff; 5000]]).unwrap();
    assert_eq!(texts(absent), [const { None }; 4]);
    assert!(client.get_indices(&[0]).is_err());
}

#[test]
fn a_new_version_gets_new_queries_and_no_key_is_taken_for_absent() {
    let folder = tempdir().unwrap();
    let engine = engine(8);
    let first = write_snapshot(folder.path(), "urls", TableKind::Keyword, 1);
    let [second, third, fourth] =
        [2, 3, 4].map(|edition| write_snapshot(folder.path(), "urls", TableKind::Keyword, edition));
    engine.publish(database(&first, no_hook()));
    let server = serve_engine(&engine, Limits::default());
    let proxy = Proxy::start(server.address, |_, _, response| response);
    let mut client = connect(&proxy.url(), "urls", folder.path()).unwrap();
    assert_eq!(texts(client.get_keys(&[&key(3)]).unwrap()), [Some(value(3, 1))]);
    let old = *client.description().version();

    // The version known to the client still answers; the answer announces the new version.
    engine.publish(database(&second, no_hook()));
    let mut look_up = || texts(client.get_keys(&[&key(3), b"absent"]).unwrap());
    assert_eq!([look_up(), look_up()], [1, 2].map(|edition| vec![Some(value(3, edition)), None]));
    assert_eq!(proxy.seen("/config").len(), 2);
    // A version that no longer answers is refused, and the client queries the new one at once.
    engine.publish(database(&third, no_hook()));
    engine.publish(database(&fourth, no_hook()));
    assert_eq!(look_up(), [Some(value(3, 4)), None]);
    assert_ne!(*client.description().version(), old);
    // All request bodies differ, including the refused one.
    let mut bodies: Vec<_> = proxy.seen("/query").into_iter().map(|seen| seen.body).collect();
    assert!(bodies[4][..36].ends_with(client.description().version().as_bytes()));
    bodies.iter_mut().for_each(|body| drop(body.drain(..36)));
    bodies.sort();
    bodies.dedup();
    assert_eq!((bodies.len(), proxy.seen("/config").len()), (5, 3));
}

#[test]
fn a_server_that_always_calls_queries_stale_is_not_asked_forever() {
    let folder = tempdir().unwrap();
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    let proxy = Proxy::start(server.address, |seen, _, response| match seen.path().ends_with("/query") {
        true => refusing("409 Conflict", "", &refusal(Code::StaleVersion, false)),
        false => response,
    });
    let mut client = connect(&proxy.url(), "urls", folder.path()).unwrap();
    assert!(matches!(client.get_keys(&[&key(3)]), Err(ClientError::StillStale)));
    assert_eq!(proxy.seen("/query").len(), 2);
}

#[test]
fn two_queries_for_one_key_differ() {
    let folder = tempdir().unwrap();
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    let proxy = Proxy::start(server.address, |_, _, response| response);
    let mut client = connect(&proxy.url(), "urls", folder.path()).unwrap();
    client.get_keys(&[&key(3), &key(3)]).unwrap();
    client.get_keys(&[&key(3), &key(3)]).unwrap();
    let half = client.description().limits().base.query_bytes;
    let mut queries: Vec<Vec<u8>> = Vec::new();
    for seen in proxy.seen("/query") {
        queries.push(seen.body[seen.body.len() - half..].to_vec());
        queries.push(seen.body[36..36 + half].to_vec());
    }
    queries.sort();
    queries.dedup();
    assert_eq!(queries.len(), 4);
}

#[test]
fn requests_are_sent_again_under_one_name_where_that_may_help() {
    let folder = tempdir().unwrap();
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    let proxy = Proxy::start(server.address, |seen, before, response| {
        match (seen.path().ends_with("/query"), before) {
            (true, 0) => {
                refusing("429 Too Many Requests", "retry-after: 1\r\n", &refusal(Code::Overloaded, false))
            }
            (true, 1) => refusing("503 Service Unavailable", "", &refusal(Code::Loading, false)),
            (true, 3) => refusing("500 Internal Server Error", "", &refusal(Code::Internal, true)),
            (true, 4) => refusing("429 Too Many Requests", "", &refusal(Code::Overloaded, true)),
            (true, 5) => {
                refusing("429 Too Many Requests", "retry-after: 3600\r\n", &refusal(Code::Overloaded, false))
            }
            (true, 6) => {
                b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 5\r\nconnection: close\r\n\r\n<html".to_vec()
            }
            (true, 7) => Vec::new(),
            (true, 8) => response[..response.len() / 2].to_vec(),
            _ => response,
        }
    });
    let mut client = connect(&proxy.url(), "urls", folder.path()).unwrap();
    let started = Instant::now();
    assert_eq!(texts(client.get_keys(&[&key(3)]).unwrap()), [Some(value(3, 1))]);
    assert!(started.elapsed() >= Duration::from_secs(1), "Retry-After is honoured");
    assert_eq!(proxy.seen("/query").len(), 3);
    let mut fails = |expected: fn(&ClientError) -> bool, requests: usize| {
        let error = client.get_keys(&[&key(3)]).unwrap_err();
        assert!(expected(&error), "{error:?}");
        assert!(!error.to_string().contains("key-3"));
        assert_eq!(proxy.seen("/query").len(), requests);
    };
    // The request was accepted and then failed, so the client does not retry.
    fails(|error| matches!(error, ClientError::Refused { status: 500, .. }), 4);
    fails(|error| matches!(error, ClientError::Refused { status: 429, .. }), 5);
    // An hour exceeds the client's longest wait.
    fails(|error| matches!(error, ClientError::Refused { status: 429, .. }), 6);
    // A failure between client and server, or a server that died: retries repeat the same request.
    assert_eq!(texts(client.get_keys(&[&key(3)]).unwrap()), [Some(value(3, 1))]);
    let seen = proxy.seen("/query");
    assert_eq!(seen.len(), 10);
    let names: Vec<_> = seen.iter().map(|seen| seen.header("spirea-request-id").unwrap()).collect();
    for name in &names {
        assert!(name.len() == 32 && name.bytes().all(|digit| digit.is_ascii_hexdigit()), "{name}");
    }
    // Each look-up has its own id, which its retries share, with identical bytes.
    for retries in [0..3, 6..10] {
        assert!(names[retries.clone()].iter().all(|name| *name == names[retries.start]));
        assert!(
            seen[retries.clone()].iter().all(|seen| seen.body == proxy.seen("/query")[retries.start].body)
        );
    }
    let mut different = names.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), 5);
}

#[test]
fn wrong_answers_are_errors_and_never_absent_keys() {
    let folder = tempdir().unwrap();
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    let proxy = Proxy::start(server.address, |seen, before, mut response| {
        if seen.path().ends_with("/query") {
            // Damages one byte of each answer, at an earlier position each time.
            let at = response.len() - 10 - before * 20;
            response[at] ^= 0x80;
        }
        response
    });
    let mut client = connect(&proxy.url(), "urls", folder.path()).unwrap();
    let mut wrong = 0;
    for _ in 0..20 {
        match client.get_keys(&[&key(3)]) {
            Err(ClientError::Protocol(ProtocolError::Corrupted) | ClientError::Wire(_)) => wrong += 1,
            // The damaged byte belonged to another record of the column.
            Ok(values) => assert_eq!(texts(values), [Some(value(3, 1))]),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(wrong > 0);
}

#[test]
fn damaged_configurations_are_errors() {
    let folder = tempdir().unwrap();
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    let proxy = Proxy::start(server.address, |seen, before, mut response| {
        if seen.path().ends_with("/config") {
            let body = response.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
            let length = response.len() - body;
            response[body + before * 3 % length] ^= 1;
        }
        response
    });
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..120 {
        match connect(&proxy.url(), "urls", folder.path()) {
            Err(error) => {
                let expected = matches!(
                    error,
                    ClientError::Wire(_)
                        | ClientError::WrongConfig(_)
                        | ClientError::HintCorrupted
                        | ClientError::Changing
                );
                assert!(expected, "{error}");
                refused += 1;
            }
            // Damage to the version, the seed, the salt or max_batch: a look-up either fails or is
            // correct.
            Ok(mut client) => {
                if let Ok(values) = client.get_keys(&[&key(3)]) {
                    assert_eq!(texts(values), [Some(value(3, 1))]);
                }
                taken += 1;
            }
        }
    }
    assert!(refused > taken, "{refused} damaged configurations refused, {taken} taken");
}

/// `SPIREA_CONFORMANCE=long` changes 100,000 configurations.
#[test]
fn any_bytes_are_a_configuration_that_agrees_with_itself_or_an_error() {
    let folder = tempdir().unwrap();
    let whole = config(&serve_urls(folder.path(), Limits::default(), 8, no_hook()));
    // Without a manifest, no hash reveals a change of the table or of the parameters.
    let base = PartConfig { manifest: Bytes::new(), ..whole.base.clone() };
    let unbound = Config { base, signature: Bytes::new(), ..whole.clone() };
    let corpus = [whole, unbound].map(|config| config.encode());
    for config in &corpus {
        Description::parse("urls", config.clone().into()).unwrap();
    }
    let mut made = Inputs::new(7);
    for _ in 0..inputs(2000) {
        if let Ok(description) = Description::parse("urls", made.changed(&corpus).into()) {
            let (params, table) = (description.base().params(), description.base().table());
            assert_eq!((params.records(), params.record_bytes()), (table.records, table.record_bytes()));
            assert_eq!(params.sizes.hint_bytes, description.base().hint_bytes());
            assert!(description.limits().max_batch > 0);
        }
    }
}

#[test]
fn addresses_that_lead_nowhere_are_explained() {
    let folder = tempdir().unwrap();
    let server = serve_urls(folder.path(), Limits::default(), 8, no_hook());
    let error = |url: &str, name: &str| {
        let options = ClientOptions { attempts: 2, ..options(folder.path()) };
        HttpClient::connect_with(&[url], name, options).map(drop).unwrap_err()
    };
    assert!(matches!(error("localhost:8080", "urls"), ClientError::BadAddress(_)));
    for name in ["", "../x", "Urls", &"x".repeat(129)] {
        assert!(matches!(error(&server.url(), name), ClientError::BadAddress(_)));
    }
    assert!(matches!(error("http://", "urls"), ClientError::BadAddress(_)));
    let unknown = error(&server.url(), "other");
    assert!(
        matches!(&unknown, ClientError::Refused { status: 404, refusal } if refusal.code == Code::UnknownDatabase)
    );
    // The local end of this connection keeps its port in use, and nobody listens on it.
    let taken = std::net::TcpStream::connect(server.address).unwrap();
    let closed = taken.local_addr().unwrap();
    assert!(matches!(error(&format!("http://{closed}"), "urls"), ClientError::Unreachable(_)));
    // A trailing slash does not change the address.
    connect(&format!("{}/", server.url()), "urls", folder.path()).unwrap();
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for_forever() {
    let folder = tempdir().unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let options =
        ClientOptions { timeout: Duration::from_millis(200), attempts: 2, ..options(folder.path()) };
    let url = format!("http://{}", silent.local_addr().unwrap());
    let started = Instant::now();
    let error = HttpClient::connect_with(&[&url], "urls", options).map(drop).unwrap_err();
    assert!(matches!(error, ClientError::TimedOut(_)), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(25));
}
