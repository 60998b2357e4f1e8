//! A server that changes answers learns nothing from the requests of a look-up.

use std::collections::HashSet;

use bytes::Bytes;
use spirea_wire::{KeysHash, Limits};

use super::*;
use crate::session::tests::{Server as Honest, damaged, response, value};

const ROWS: [u64; 4] = [3, 4, 5, 6];

/// Treatment of a query, given by its number among all queries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Answered,
    /// The answer is damaged.
    Damaged,
    /// The answer is damaged, and the database has a newer version.
    DamagedAndReplaced,
    /// The server has forgotten all keys.
    KeysForgotten,
}

/// Starts a server that answers correctly unless `fates` says otherwise.
fn server(fates: &'static [(usize, Fate)]) -> (Server, Session) {
    let honest = Honest::of("onion");
    let session = honest.session();
    let honest = Mutex::new(honest);
    let replaced = fates.iter().any(|(_, fate)| *fate == Fate::DamagedAndReplaced);
    let server = Server::reading(move |path, body, before| {
        let mut honest = honest.lock();
        match path {
            "keys" => (200, KeysResponse { blake3: honest.register(body.to_vec()) }.encode()),
            "config" => (200, honest.config(NEW).encode()),
            "query" => {
                let fate = fates.iter().find(|(which, _)| *which == before);
                let fate = fate.map_or(Fate::Answered, |(_, fate)| *fate);
                if fate == Fate::KeysForgotten {
                    return unknown();
                }
                let request = honest.read_keeping(body);
                let answer = honest.answer(&request).expect("the keys are known");
                let newest = if replaced { NEW } else { request.version };
                match fate {
                    Fate::Answered => (200, response(answer, request.version, newest).to_vec()),
                    _ => (200, response(damaged(answer), request.version, newest).to_vec()),
                }
            }
            _ => refusal(404, Code::NoSuchEndpoint),
        }
    });
    (server, session)
}

/// Form of a request as a server sees it: its path, its length, and the keys that it names or
/// uploads.
type Seen<K> = (String, usize, Option<K>);

fn seen(server: &Server, limits: &Limits) -> Vec<Seen<KeysHash>> {
    let log = server.seen.lock();
    let keys = |path: &str, body: &[u8]| match path {
        "keys" => Some(blake3::hash(&KeysRequest::decode(body.to_vec().into(), limits).unwrap().keys).into()),
        "query" => Request::decode(body.to_vec().into(), limits).unwrap().base.keys,
        _ => None,
    };
    log.iter().map(|(path, body)| (path.clone(), body.len(), keys(path, body))).collect()
}

/// Replaces keys by numbers in the order of their appearance, so that two clients can be compared.
fn numbered(seen: Vec<Seen<KeysHash>>) -> Vec<Seen<usize>> {
    let mut known: Vec<KeysHash> = Vec::new();
    let mut number = |keys: KeysHash| {
        known.iter().position(|known| *known == keys).unwrap_or_else(|| {
            known.push(keys);
            known.len() - 1
        })
    };
    seen.into_iter().map(|(path, length, keys)| (path, length, keys.map(&mut number))).collect()
}

/// Returns a server's view of a look-up of [`ROWS`], whose answers are correct except for `fates`.
fn of_look_up(fates: &'static [(usize, Fate)]) -> (Vec<Seen<usize>>, Result<(), ClientError>) {
    let cache = tempfile::tempdir().unwrap();
    let (server, session) = server(fates);
    let limits = session.description().limits();
    let mut client = server.client_with(session, &cache);
    let result = client.look_up_indices(&ROWS).map(|lookups| {
        let values = lookups.values.into_iter().map(|value| value.unwrap().into_fields());
        assert!(values.eq(ROWS.map(|row| vec![value(row)])));
    });
    let of_first = seen(&server, &limits);

    // The next look-up is answered; it has new keys if this one was refused.
    let next = client.look_up_indices(&ROWS[..1]);
    assert_eq!(next.unwrap().values[0].as_ref().unwrap().fields(), [value(ROWS[0])]);
    let keys = |seen: &[Seen<KeysHash>]| -> HashSet<KeysHash> {
        seen.iter().filter_map(|(_, _, keys)| *keys).collect()
    };
    let of_next = seen(&server, &limits).split_off(of_first.len());
    let uploads = of_next.iter().filter(|(path, ..)| path == "keys").count();
    assert_eq!(keys(&of_first).is_disjoint(&keys(&of_next)), result.is_err());
    assert_eq!(uploads, usize::from(result.is_err()));
    (numbered(of_first), result)
}

#[test]
fn a_look_up_with_a_damaged_answer_makes_the_requests_of_an_honest_one() {
    let (honest, result) = of_look_up(&[]);
    result.unwrap();
    assert_eq!(honest.len(), 1 + ROWS.len());
    for fates in [&[(0, Fate::Damaged)][..], &[(3, Fate::Damaged)], &[(0, Fate::Damaged), (2, Fate::Damaged)]]
    {
        let (requests, result) = of_look_up(fates);
        assert!(matches!(result, Err(ClientError::Protocol(ProtocolError::Corrupted))), "{result:?}");
        assert_eq!(requests, honest);
    }
}

#[test]
fn keys_that_have_ended_are_sent_again_to_a_server_that_has_forgotten_them() {
    let (honest, result) = of_look_up(&[(2, Fate::KeysForgotten)]);
    result.unwrap();
    assert_eq!(honest.len(), 1 + ROWS.len() + 1);
    let (requests, result) = of_look_up(&[(0, Fate::Damaged), (2, Fate::KeysForgotten)]);
    assert!(matches!(result, Err(ClientError::Protocol(ProtocolError::Corrupted))), "{result:?}");
    assert_eq!(requests, honest);
}

#[test]
fn a_look_up_with_a_damaged_answer_goes_on_with_another_version_under_the_same_keys() {
    let (requests, result) = of_look_up(&[(0, Fate::DamagedAndReplaced)]);
    assert!(matches!(result, Err(ClientError::Protocol(ProtocolError::Corrupted))), "{result:?}");
    let paths: Vec<&str> = requests.iter().map(|(path, ..)| &path[..]).collect();
    assert_eq!(paths, ["keys", "query", "config", "query", "query", "query"]);
    assert!(requests.iter().all(|(_, _, keys)| matches!(keys, None | Some(0))), "{requests:?}");
}

#[test]
fn no_answer_is_decoded_before_the_last_has_come() {
    let mut honest = Honest::of("onion");
    let mut session = honest.session();
    let mut look_up = session.look_up_indices(&ROWS[..2]).unwrap();
    for keys in session.keys() {
        honest.register(keys.request());
    }
    // The server accepts one query per request, and sees when the next one comes.
    for _ in 0..2 {
        let round = look_up.ask(&session).unwrap();
        let request = honest.read(&round.requests[0]);
        let answer = damaged(honest.answer(&request).unwrap());
        let read = session.read(1, response(answer, request.version, request.version));
        look_up.answer(round.pending, read.map(|response| vec![response]));
        assert!(!session.needs_keys(), "an answer was decoded between two requests");
    }
    assert!(matches!(look_up.finish(Ok(())), Err(ClientError::Protocol(ProtocolError::Corrupted))));
    assert!(session.needs_keys());
}

#[test]
fn long_answers_are_decoded_sixteen_at_least_at_a_time() {
    let honest = Honest::of("onion");
    let mut session = honest.session();
    let rows = [ROWS[0]; 17];
    let mut look_up = session.look_up_indices(&rows).unwrap();
    let long = Bytes::from(vec![0; 64 << 20]);
    for answered in 1..=16 {
        let pending = look_up.ask(&session).unwrap().pending;
        let response = Response {
            version: session.description().version().to_owned(),
            newest: session.description().version().to_owned(),
            answers: vec![long.clone()],
            delta_answers: None,
            compute: Duration::ZERO,
        };
        look_up.answer(pending, Ok(vec![response]));
        // Decoding the wrong answers ends the keys.
        assert_eq!(session.needs_keys(), answered == 16, "after {answered} answers");
    }
}

/// Returns the requests of a list of 40 look-ups as a server sees them, and the parts that the
/// caller received: their lengths, or `None` for a refused part.
fn of_list(fates: &'static [(usize, Fate)]) -> (Vec<Seen<usize>>, Vec<Option<usize>>) {
    let cache = tempfile::tempdir().unwrap();
    let (server, session) = server(fates);
    let limits = session.description().limits();
    let mut client = server.client_with(session, &cache);
    let rows: Vec<u64> = ROWS.iter().copied().cycle().take(40).collect();
    let mut parts = Vec::new();
    client
        .look_up_indices_in_parts(&rows, &mut |part| {
            // The server accepts one query per request, and the next one comes when the part is
            // passed on.
            assert_eq!(part.positions.start, 16 * parts.len());
            let values = part.values.ok().map(|values| {
                let values = values.into_iter().map(|value| value.unwrap().into_fields());
                assert!(values.eq(rows[part.positions.clone()].iter().map(|row| vec![value(*row)])));
                part.positions.len()
            });
            parts.push(values);
        })
        .unwrap();
    let of_list = seen(&server, &limits);
    client.look_up_indices(&ROWS[..1]).unwrap();
    let keys =
        seen(&server, &limits).split_off(of_list.len()).iter().filter(|(path, ..)| path == "keys").count();
    assert_eq!(
        keys,
        usize::from(parts.contains(&None)),
        "the next call has new keys if an answer was refused"
    );
    (numbered(of_list), parts)
}

#[test]
fn a_list_makes_the_same_requests_whatever_its_answers_are() {
    let (honest, parts) = of_list(&[]);
    assert_eq!((honest.len(), parts), (1 + 40, vec![Some(16), Some(16), Some(8)]));
    // All values that were looked up under the keys of the refused answer are withheld.
    for (fates, expected) in [
        (&[(3, Fate::Damaged)][..], vec![None, None, None]),
        (&[(20, Fate::Damaged)], vec![Some(16), None, None]),
        (&[(39, Fate::Damaged)], vec![Some(16), Some(16), None]),
    ] {
        let (requests, parts) = of_list(fates);
        assert_eq!(parts, expected);
        assert_eq!(requests, honest);
    }
}
