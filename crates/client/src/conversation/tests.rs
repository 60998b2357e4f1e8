//! Conversations with scripted servers, without sockets and without real waiting: which requests
//! are sent, in which order, how often, and after which pauses.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use spirea_protocols::Party;
use spirea_protocols::signature::PrivateKey;
use spirea_wire::{Code, KeysRequest, Version};

use super::*;
use crate::fixture::*;
use crate::session::tests as honest;
use crate::{Client, Clock, Description, HintCache, MemoryCache, Policy, Session};

mod aside;
mod hints;
mod lent;
mod pair;

/// Script of a server: returns the parts of the response to a request.
type Script<'s> = dyn FnMut(usize, &Request) -> Vec<Received> + 's;

/// Returns a response with this body.
fn replied((status, body): Reply) -> Vec<Received> {
    vec![Received::Head(Head { status, ..Head::default() }), Received::Piece(body.into())]
}

fn broken() -> Vec<Received> {
    vec![Received::Failed(TransportError::Broken("it broke".into()))]
}

/// A stage for conversations, whose clock advances only when they wait.
struct Stage {
    now: Arc<Mutex<Duration>>,
    /// Requests that were sent, each with its server.
    sent: Vec<(usize, Request)>,
    /// Length of each pause.
    pauses: Vec<Duration>,
    /// Bytes of bodies that were read.
    read: usize,
}

impl Stage {
    fn new() -> Self {
        Self { now: Arc::default(), sent: Vec::new(), pauses: Vec::new(), read: 0 }
    }

    fn clock(&self) -> Clock {
        let now = Arc::clone(&self.now);
        Clock::new(move || *now.lock())
    }

    /// Runs a conversation to its end.
    fn play<T>(
        &mut self,
        mut conversation: Conversation<'_, T>,
        script: &mut Script<'_>,
    ) -> Result<T, ClientError> {
        let mut responses: Vec<Vec<Received>> = vec![Vec::new(); 2];
        loop {
            match conversation.step() {
                Step::Send { server, request } => {
                    let mut response = script(server, &request);
                    self.sent.push((server, request));
                    conversation.received(server, response.remove(0));
                    responses[server] = response;
                }
                Step::Read { server } => {
                    let rest = &mut responses[server];
                    let piece = if rest.is_empty() { Received::Piece(Bytes::new()) } else { rest.remove(0) };
                    if let Received::Piece(piece) = &piece {
                        self.read += piece.len();
                    }
                    conversation.received(server, piece);
                }
                Step::Wait { at_most } => {
                    let pause = at_most.expect("everything that was sent has been answered");
                    self.pauses.push(pause);
                    *self.now.lock() += pause;
                }
                Step::Done(result) => return result,
            }
        }
    }

    /// Returns the requests: for each, the server and the end of the path.
    fn paths(&self) -> Vec<(usize, &str)> {
        self.sent.iter().map(|(server, request)| (*server, path(request))).collect()
    }

    fn bodies(&self, wanted: &str) -> Vec<&Bytes> {
        let of = |(_, request): &'_ (usize, Request)| path(request) == wanted;
        self.sent.iter().filter(|sent| of(sent)).map(|(_, request)| &request.body).collect()
    }
}

/// Returns the last segment of a request's path, without the query string.
fn path(request: &Request) -> &str {
    request.url.rsplit('/').next().unwrap().split('?').next().unwrap()
}

fn header<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    request.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| &value[..])
}

/// Returns the addresses of a single server with a single address.
fn alone() -> Vec<Vec<String>> {
    vec![vec!["http://a".into()]]
}

/// Creates a client with keys that has version [`OLD`] and has not sent anything yet.
fn keyed(stage: &Stage) -> Client {
    let description = Description::parse("test", config(OLD).encode().into()).unwrap();
    client(stage, &alone(), Session::over(description, Box::new(Keyed)).unwrap())
}

fn client(stage: &Stage, addresses: &[Vec<String>], session: Session) -> Client {
    let (policy, clock) = (Policy::default(), stage.clock());
    let servers = Servers::new(addresses, "test", &policy, clock.clone()).unwrap();
    Client::over(servers, Box::new(MemoryCache::default()), policy, clock, session)
}

fn connect(stage: &Stage, policy: Policy) -> Conversation<'static, Client> {
    Client::connect(&alone(), "test", Box::new(MemoryCache::default()), policy, stage.clock()).unwrap()
}

#[test]
fn an_honest_server_is_asked_for_each_thing_once() {
    let mut stage = Stage::new();
    let mut server = honest::Server::of("onion");
    let mut script = |_: usize, request: &Request| {
        replied(match path(request) {
            "config" => (200, server.config(OLD).encode()),
            "keys" => {
                let blake3 = server.register(request.body.to_vec());
                (200, spirea_wire::KeysResponse { blake3 }.encode())
            }
            _ => {
                let request = server.read(&request.body);
                let answer = server.answer(&request).expect("the keys are known");
                (200, honest::response(answer, OLD, OLD).to_vec())
            }
        })
    };
    let mut client = stage.play(connect(&stage, Policy::default()), &mut script).unwrap();
    let rows = [3, 4];
    let lookups = stage.play(client.look_up_indices(&rows), &mut script).unwrap();
    let values = lookups.values.into_iter().map(|value| value.unwrap().into_fields());
    assert!(values.eq(rows.map(|row| vec![honest::value(row)])));
    assert_eq!(stage.paths(), [(0, "config"), (0, "keys"), (0, "query"), (0, "query")]);
    assert!(stage.pauses.is_empty());
    assert_eq!(lookups.timings.requests, 2);
}

#[test]
fn the_address_that_failed_is_named_where_there_are_several() {
    let addresses = [vec!["http://a".into(), "http://b".into()]];
    let failed_at = |policy: Policy, script: &mut Script<'_>| {
        let mut stage = Stage::new();
        let cache = Box::new(MemoryCache::default());
        let connection = Client::connect(&addresses, "test", cache, policy, stage.clock()).unwrap();
        let error = stage.play(connection, script).map(drop).unwrap_err();
        let last = stage.sent.last().map(|(_, request)| request.url.clone()).unwrap();
        let url = error.url().expect("the address is named").to_owned();
        assert!(last.starts_with(&url), "{last} was asked last, not {url}");
        (url, error.to_string())
    };
    let once = || Policy { attempts: 1, ..Policy::default() };
    let (url, said) = failed_at(once(), &mut |_, _| broken());
    assert_eq!(url, "http://b");
    assert!(said.starts_with("http://b: the connection broke"), "{said}");
    // Both addresses request a longer pause than the policy allows.
    let late = failed_at(Policy::default(), &mut |_, _| {
        let retry_after = Some("3600".into());
        let (status, body) = refusal(503, Code::Loading);
        vec![Received::Head(Head { status, retry_after, ..Head::default() }), Received::Piece(body.into())]
    });
    assert_eq!(late.0, "http://b");
    // The first address refuses for good, and the second is not tried.
    assert_eq!(failed_at(once(), &mut |_, _| replied(refusal(404, Code::UnknownDatabase))).0, "http://a");
}

#[test]
fn keys_that_a_server_with_several_addresses_forgot_are_sent_again() {
    let mut stage = Stage::new();
    let addresses = [vec!["http://a".into(), "http://b".into()]];
    let description = Description::parse("test", config(OLD).encode().into()).unwrap();
    let session = Session::over(description, Box::new(Keyed)).unwrap();
    let mut client = client(&stage, &addresses, session);
    let result = stage.play(client.look_up_indices(&[3]), &mut |_, request| {
        replied(if path(request) == "query" { unknown() } else { willing(path(request)) })
    });
    assert!(matches!(result, Err(ClientError::KeysForgotten)));
    assert_eq!(stage.paths(), [(0, "keys"), (0, "query"), (0, "query")]);
}

#[test]
fn a_server_that_forgets_keys_for_ever_gets_them_twice() {
    let mut stage = Stage::new();
    let mut client = keyed(&stage);
    let result = stage.play(client.look_up_indices(&[3]), &mut |_, request| {
        replied(if path(request) == "query" { unknown() } else { willing(path(request)) })
    });
    assert!(matches!(result, Err(ClientError::KeysForgotten)));
    assert_eq!(stage.paths(), [(0, "keys"), (0, "query"), (0, "query")]);
    let [refused, again] = stage.bodies("query")[..] else { panic!("it is asked twice") };
    assert_eq!(request_with_keys(again).0, request_with_keys(refused).0);
}

/// Runs look-ups against replicas that share nothing; `choose` selects the replica for each
/// request. Returns the number of uploads and of requests with keys.
fn asked_of_replicas(look_ups: usize, mut choose: impl FnMut(&Request) -> usize) -> (usize, usize) {
    let mut stage = Stage::new();
    let mut client = keyed(&stage);
    let (mut have_keys, mut uploads, mut with_keys) = ([false; 5], 0, 0);
    for _ in 0..look_ups {
        let result = stage.play(client.look_up_indices(&[3]), &mut |_, request| {
            let has_keys = &mut have_keys[choose(request)];
            if path(request) == "keys" {
                uploads += 1;
                *has_keys = true;
            } else if !request_with_keys(&request.body).1.is_empty() {
                with_keys += 1;
                *has_keys = true;
            }
            replied(if *has_keys { willing(path(request)) } else { unknown() })
        });
        assert!(result.unwrap().values[0].is_some());
    }
    (uploads, with_keys)
}

#[test]
fn replicas_that_share_nothing_answer_whichever_of_them_is_asked() {
    for replicas in [2, 3, 5] {
        let mut next = 0;
        let (uploads, with_keys) = asked_of_replicas(40, |_| {
            next += 1;
            next % replicas
        });
        assert_eq!(uploads, 1);
        assert!((1..=2 * replicas).contains(&with_keys), "{with_keys} times for {replicas} replicas");
    }
}

#[test]
fn a_balancer_that_goes_by_the_header_needs_the_keys_once() {
    let mut seen = Vec::new();
    let asked = asked_of_replicas(10, |request| {
        let affinity = header(request, "spirea-affinity").expect("every request with a body has it");
        assert!(affinity.len() == 32 && affinity.bytes().all(|byte| byte.is_ascii_hexdigit()));
        seen.push(affinity.to_owned());
        usize::from(affinity.as_bytes()[0]) % 5
    });
    assert_eq!(asked, (1, 0));
    assert!(seen.len() == 11 && seen.iter().all(|affinity| *affinity == seen[0]));
    let hash = blake3::hash(KEYS.bytes());
    assert!(!hash.to_hex().contains(&seen[0][..8]), "logs of a balancer do not name the keys");
}

#[test]
fn a_server_that_is_stale_for_ever_is_followed_once() {
    let server = honest::Server::of("onion");
    let mut stage = Stage::new();
    let mut client = client(&stage, &alone(), server.session());
    let result = stage.play(client.look_up_indices(&[3]), &mut |_, request| {
        replied(match path(request) {
            "config" => (200, server.config(NEW).encode()),
            "keys" => {
                let keys = &request.body;
                let limits = Description::parse("test", server.config(NEW).encode().into()).unwrap().limits();
                let blake3 = blake3::hash(&KeysRequest::decode(keys.clone(), &limits).unwrap().keys).into();
                (200, spirea_wire::KeysResponse { blake3 }.encode())
            }
            _ => refusal(409, Code::StaleVersion),
        })
    });
    assert!(matches!(result, Err(ClientError::StillStale)));
    assert_eq!(stage.paths(), [(0, "keys"), (0, "query"), (0, "config"), (0, "query")]);
    let queries = stage.bodies("query");
    assert_ne!(queries[0], queries[1]);
}

#[test]
fn a_server_that_always_names_a_newer_version_costs_one_configuration_a_request() {
    let mut server = honest::Server::of("onion");
    let mut stage = Stage::new();
    let mut client = client(&stage, &alone(), server.session());
    let mut number = 10;
    let values = stage.play(client.look_up_indices(&[3, 4, 5]), &mut |_, request| {
        replied(match path(request) {
            "config" => {
                number += 1;
                (200, server.config(Version::new([number; 32])).encode())
            }
            "keys" => {
                let blake3 = server.register(request.body.to_vec());
                (200, spirea_wire::KeysResponse { blake3 }.encode())
            }
            _ => {
                let request = server.read(&request.body);
                let answer = server.answer(&request).expect("the keys are known");
                (200, honest::response(answer, request.version, Version::new([99; 32])).to_vec())
            }
        })
    });
    assert_eq!(values.unwrap().values.len(), 3);
    let paths: Vec<&str> = stage.paths().into_iter().map(|(_, path)| path).collect();
    assert_eq!(paths, ["keys", "query", "config", "query", "config", "query"]);
}

#[test]
fn what_fails_for_ever_is_sent_as_often_as_allowed_after_pauses_that_double() {
    let mut stage = Stage::new();
    let mut client = keyed(&stage);
    let result = stage.play(client.look_up_indices(&[3]), &mut |_, request| match path(request) {
        "query" => broken(),
        path => replied(willing(path)),
    });
    assert!(matches!(result, Err(ClientError::Broken(_))));
    let attempts = Policy::default().attempts as usize;
    assert_eq!(stage.paths(), [&[(0, "keys")], &vec![(0, "query"); attempts][..]].concat());
    // Retries have identical bytes and the same id.
    let queries: Vec<_> = stage.sent[1..].iter().collect();
    assert!(queries.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(header(&queries[0].1, "spirea-request-id").unwrap().len(), 32);
    for (i, pause) in stage.pauses.iter().enumerate() {
        let middle = Duration::from_millis(100) * (1 << i);
        assert!((middle / 2..=middle * 3 / 2).contains(pause), "{pause:?} is not about {middle:?}");
    }
    assert_eq!(stage.pauses.len(), attempts - 1);
}

#[test]
fn a_pause_that_the_server_asks_for_is_kept_or_the_request_given_up() {
    for (seconds, is_kept) in [(7, true), (31, false)] {
        let mut stage = Stage::new();
        let mut client = keyed(&stage);
        let mut refused = false;
        let result = stage.play(client.look_up_indices(&[3]), &mut |_, request| {
            let mut reply = replied(willing(path(request)));
            if path(request) == "query" && !std::mem::replace(&mut refused, true) {
                let (status, body) = refusal(429, Code::Overloaded);
                let retry_after = Some(seconds.to_string());
                reply = vec![
                    Received::Head(Head { status, retry_after, ..Head::default() }),
                    Received::Piece(body.into()),
                ];
            }
            reply
        });
        assert_eq!(result.is_ok(), is_kept);
        let expected: &[_] = if is_kept { &[Duration::from_secs(seconds)] } else { &[] };
        assert_eq!(stage.pauses, expected);
    }
}

#[test]
fn a_server_that_is_silent_costs_each_of_its_addresses_one_wait() {
    let urls = ["http://a", "http://b", "http://c"].map(String::from).to_vec();
    for addresses in [&urls[..1], &urls] {
        let mut stage = Stage::new();
        let server = honest::Server::of("onion");
        let mut client = client(&stage, &[addresses.to_vec()], server.session());
        let now = Arc::clone(&stage.now);
        let result = stage.play(client.look_up_indices(&[3]), &mut |_, _| {
            *now.lock() += Policy::default().patience;
            vec![Received::Failed(TransportError::TimedOut("nothing came".into()))]
        });
        let error = result.map(drop).unwrap_err();
        assert!(matches!(error.cause(), ClientError::TimedOut(_)), "{error}");
        let asked: Vec<_> = stage.sent.iter().map(|(_, request)| &request.url[..8]).collect();
        assert_eq!(asked, addresses);
        assert!(stage.pauses.is_empty());
    }
}

#[test]
fn a_response_without_an_end_is_read_no_further_than_it_may_go() {
    let mut stage = Stage::new();
    let mut client = keyed(&stage);
    let piece = Bytes::from(vec![0; 1000]);
    let limit = client.description().limits().response_bytes(1) as usize;
    let result = stage.play(client.look_up_indices(&[3]), &mut |_, request| match path(request) {
        "query" => {
            let head = Received::Head(Head { status: 200, ..Head::default() });
            [head].into_iter().chain(vec![Received::Piece(piece.clone()); 2 * limit / 1000 + 2]).collect()
        }
        path => replied(willing(path)),
    });
    assert!(matches!(result, Err(ClientError::Broken(_))));
    assert!(stage.read < limit + 2000, "{} bytes of {limit}", stage.read);
    assert_eq!(stage.paths(), [(0, "keys"), (0, "query")]);
}

#[test]
fn a_client_goes_on_after_a_conversation_that_was_dropped_half_way() {
    let mut stage = Stage::new();
    let mut client = keyed(&stage);
    let mut dropped = client.look_up_indices(&[3]);
    assert!(matches!(dropped.step(), Step::Send { server: 0, .. }));
    assert!(matches!(dropped.step(), Step::Wait { at_most: None }));
    drop(dropped);
    let result = stage.play(client.look_up_indices(&[3]), &mut |_, request| replied(willing(path(request))));
    assert!(result.unwrap().values[0].is_some());
    assert_eq!(stage.paths(), [(0, "keys"), (0, "query")]);
}

#[test]
#[should_panic(expected = "not asked for")]
fn what_was_not_asked_for_is_not_taken() {
    let mut client = keyed(&Stage::new());
    client.look_up_indices(&[3]).received(0, Received::Piece(Bytes::new()));
}

#[test]
fn a_version_that_a_pinned_key_did_not_sign_is_asked_for_nothing_more() {
    let key = PrivateKey::from_bytes(&[1; 32]).public();
    let mut stage = Stage::new();
    let policy = Policy { pinned_key: Some(key), ..Policy::default() };
    let result = stage.play(connect(&stage, policy), &mut |_, _| replied((200, config(OLD).encode())));
    assert!(matches!(result.map(drop), Err(ClientError::Protocol(_))));
    assert_eq!(stage.paths(), [(0, "config")]);
}
