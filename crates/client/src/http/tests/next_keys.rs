//! Keys that a thread makes and uploads before the present ones are used up.

use std::time::Instant;

use spirea_protocols::ClientKeys;
use spirea_protocols::table::MOST_KEY_QUERIES;
use spirea_wire::{KeysHash, Limits};

use super::*;
use crate::session::tests::{Server as Honest, response, value};

const ROW: u64 = 3;

/// Starts a server that answers correctly and accepts keys, unless `refused` gives another reply to
/// an upload. Returns the server, a client, the client's present keys, and the limits of requests.
/// The client makes its next keys after one more query.
fn near_the_end(
    refused: fn(usize) -> Option<Reply>,
    cache: &tempfile::TempDir,
) -> (Server, HttpClient, ClientKeys, Limits) {
    let honest = Honest::of("onion");
    let session = honest.session();
    let honest = Mutex::new(honest);
    let server = Server::reading(move |path, body, before| {
        let mut honest = honest.lock();
        match path {
            "keys" => refused(before)
                .unwrap_or_else(|| (200, KeysResponse { blake3: honest.register(body.to_vec()) }.encode())),
            "query" => {
                let request = honest.read(body);
                let answer = honest.answer(&request).expect("the keys are known");
                (200, response(answer, request.version, request.version).to_vec())
            }
            _ => refusal(404, Code::NoSuchEndpoint),
        }
    });
    let limits = session.description().limits();
    let keys = session.base().ring_keys().unwrap().clone();
    keys.count_queries(MOST_KEY_QUERIES - MOST_KEY_QUERIES / 8 - 1);
    let client = server.client_with(session, cache);
    (server, client, keys, limits)
}

fn asked(client: &mut HttpClient) -> Timings {
    let lookups = client.look_up_indices(&[ROW]).unwrap();
    assert_eq!(lookups.values[0].as_ref().unwrap().fields(), [value(ROW)]);
    lookups.timings
}

/// Waits until `happened` returns true, for a long time because the machine may be slow.
fn wait_for(mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < Duration::from_secs(300), "it never happens");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the keys that each request registers or names, with the request's path.
fn keys_of(server: &Server, limits: &Limits) -> Vec<(String, KeysHash)> {
    let log = server.seen.lock();
    let of = |(path, body): &(String, Vec<u8>)| {
        let hash = match &path[..] {
            "keys" => blake3::hash(&KeysRequest::decode(body.clone().into(), limits).unwrap().keys).into(),
            _ => Request::decode(body.clone().into(), limits).unwrap().base.keys.unwrap(),
        };
        (path.clone(), hash)
    };
    log.iter().map(of).collect()
}

#[test]
fn the_first_query_under_new_keys_finds_them_registered() {
    let cache = tempfile::tempdir().unwrap();
    let (server, mut client, keys, limits) = near_the_end(|_| None, &cache);
    assert!(asked(&mut client).keys_bytes > 0);
    wait_for(|| client.has_next_keys());
    assert_eq!(server.paths(), ["keys", "query", "keys"]);
    // The present keys are used until their queries are used up.
    keys.count_queries(MOST_KEY_QUERIES / 8 - 1);
    assert_eq!(asked(&mut client).keys_bytes, 0);
    assert_eq!(asked(&mut client).keys_bytes, 0);
    let seen = keys_of(&server, &limits);
    let [(_, first), (_, next)] = [&seen[0], &seen[2]];
    assert_ne!(first, next);
    let queries: Vec<_> = seen.iter().filter(|(path, _)| path == "query").map(|(_, keys)| keys).collect();
    assert_eq!(queries, [first, first, next]);
    assert_eq!(seen.len(), 5);
}

#[test]
fn an_upload_that_fails_is_left_to_the_look_up_that_needs_it() {
    let cache = tempfile::tempdir().unwrap();
    let fails = |before| (before == 1).then(|| refusal(500, Code::Internal));
    let (server, mut client, keys, _) = near_the_end(fails, &cache);
    asked(&mut client);
    wait_for(|| server.bodies("keys").len() == 2);
    // The upload is tried only once, and no look-up fails.
    (0..3).for_each(|_| assert_eq!(asked(&mut client).keys_bytes, 0));
    keys.count_queries(MOST_KEY_QUERIES / 8);
    assert!(asked(&mut client).keys_bytes > 0);
    assert_eq!(server.bodies("keys").len(), 3);
}
