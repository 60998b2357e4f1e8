//! Two servers over HTTP.

use std::sync::Barrier;

use spirea_protocols::Party;

use super::*;
use crate::fixture::{Shares, respond, share};

/// Starts two servers, each of which gives every query the response from `replies`.
pub(super) fn pair(replies: impl Fn(Party) -> Reply + Clone + Send + Sync + 'static) -> [Server; 2] {
    Party::BOTH.map(|party| {
        let replies = replies.clone();
        Server::start(move |_, _| replies(party))
    })
}

/// Creates a client of two servers that has version [`OLD`] of both.
pub(super) fn client([zero, one]: &[Server; 2], cache: &tempfile::TempDir, timeout: Duration) -> HttpClient {
    let options = ClientOptions { cache: Some(cache.path().into()), timeout, ..ClientOptions::default() };
    let description = Description::parse("test", config(OLD).encode().into()).unwrap();
    let session = Session::over(description, Box::new(Shares)).unwrap();
    HttpClient::over(&[&zero.url, &one.url], "test", options, session).unwrap()
}

pub(super) const PATIENT: Duration = Duration::from_secs(60);

/// Returns the error at `wanted` of a look-up with two servers; checks that the message names the
/// party and its address.
fn failure(servers: &[Server; 2], timeout: Duration, wanted: Party) -> ClientError {
    let cache = tempfile::tempdir().unwrap();
    let error = look_up(&mut client(servers, &cache, timeout)).unwrap_err();
    let at = &servers[usize::from(wanted.number())].url;
    assert!(error.to_string().starts_with(&format!("{wanted} ({at}): ")), "{error}");
    match error {
        ClientError::Party { party, url, cause } if party == wanted && url == *at => *cause,
        error => panic!("{error:?}"),
    }
}

#[test]
fn each_server_gets_its_query_and_both_answers_are_combined() {
    let cache = tempfile::tempdir().unwrap();
    // Neither server answers before both have been queried.
    let both_asked = Arc::new(Barrier::new(2));
    let servers = pair(move |party| {
        both_asked.wait();
        share(party)
    });
    let timings = look_up(&mut client(&servers, &cache, PATIENT)).unwrap();
    let bodies = servers.each_ref().map(|server| {
        assert_eq!(server.paths(), ["query"]);
        server.bodies("query").remove(0)
    });
    let [zero, one] = bodies.clone().map(|body| Request::decode(body.into(), &config(OLD).limits()).unwrap());
    assert_eq!(zero.base.queries[0][0] ^ one.base.queries[0][0], 3);
    assert_eq!((zero.version, zero.base.keys), (OLD, None));
    assert_eq!(timings.requests, 1);
    assert_eq!(timings.sent_bytes, (bodies[0].len() + bodies[1].len()) as u64);
    let received = Party::BOTH.map(|party| share(party).1.len() as u64);
    assert_eq!(timings.received_bytes, received[0] + received[1]);
}

#[test]
fn a_late_server_is_named() {
    let is_named = |late| {
        let servers = pair(move |party| {
            if party == late {
                thread::sleep(PATIENT);
            }
            share(party)
        });
        let cause = failure(&servers, Duration::from_secs(3), late);
        assert!(matches!(cause, ClientError::TimedOut(_)), "{cause:?}");
    };
    thread::scope(|scope| {
        for late in Party::BOTH {
            scope.spawn(move || is_named(late));
        }
    });
}

#[test]
fn a_server_whose_answer_is_malformed_is_named() {
    for wrong in Party::BOTH {
        let servers = pair(move |party| if party == wrong { respond(vec![1]) } else { share(party) });
        let cause = failure(&servers, PATIENT, wrong);
        assert!(matches!(cause, ClientError::Wire(_)), "{cause:?}");
    }
}

#[test]
fn of_two_failures_that_of_party_0_is_told() {
    let refused = |party: Party| refusal(500 + u16::from(party.number()), Code::Internal);
    let cause = failure(&pair(refused), PATIENT, Party::Zero);
    assert!(matches!(cause, ClientError::Refused { status: 500, .. }), "{cause:?}");
}

#[test]
fn a_wrong_answer_of_either_server_is_withheld() {
    let cache = tempfile::tempdir().unwrap();
    for wrong in Party::BOTH {
        let servers = pair(move |party| {
            let (status, mut response) = share(party);
            if party == wrong {
                // Offset of the answer in its envelope.
                let answer = response.windows(8).position(|eight| eight == [0x5a; 8]).unwrap();
                response[answer + 8] ^= 1;
            }
            (status, response)
        });
        let error = look_up(&mut client(&servers, &cache, PATIENT)).unwrap_err();
        assert!(matches!(error, ClientError::Protocol(ProtocolError::Corrupted)), "{error:?}");
        assert!(error.to_string().contains("one of two servers"), "{error}");
    }
}

#[test]
fn a_database_of_one_server_is_not_asked_at_two_addresses_nor_at_none() {
    let cache = tempfile::tempdir().unwrap();
    let connect = |urls: &[&str]| {
        let options = ClientOptions { cache: Some(cache.path().into()), ..ClientOptions::default() };
        HttpClient::connect_with(urls, "test", options).map(drop).unwrap_err()
    };
    let [a, b] = pair(|_| (200, config(OLD).encode()));
    let error = connect(&[&a.url, &b.url]);
    assert!(
        matches!(&error, ClientError::BadAddress(text) if text.contains("give one address")),
        "{error:?}"
    );
    assert!(matches!(connect(&[]), ClientError::BadAddress(_)));
}

#[test]
fn the_server_of_a_protocol_with_one_is_no_party() {
    let config = Config { party: Some(0), ..config(OLD) };
    let error = Description::parse("test", config.encode().into()).unwrap_err();
    assert!(matches!(error, ClientError::WrongConfig(_)), "{error:?}");
}

#[test]
fn a_server_that_gives_no_configuration_is_named_by_its_address() {
    let cache = tempfile::tempdir().unwrap();
    let [a, b] = pair(|party| match party {
        Party::Zero => (200, config(OLD).encode()),
        Party::One => refusal(404, Code::UnknownDatabase),
    });
    let options = ClientOptions { cache: Some(cache.path().into()), ..ClientOptions::default() };
    let error = HttpClient::connect_with(&[&a.url, &b.url], "test", options).map(drop).unwrap_err();
    assert!(matches!(&error, ClientError::Server { url, .. } if *url == b.url), "{error:?}");
    assert!(matches!(error.cause(), ClientError::Refused { status: 404, .. }), "{error:?}");
}

#[test]
fn two_servers_get_all_requests_whatever_they_answer_to_the_first() {
    let cache = tempfile::tempdir().unwrap();
    // Three values, in requests of two and of one.
    let lengths = |damaged: bool| {
        let servers = Party::BOTH.map(|party| {
            Server::start(move |_, before| {
                let (_, response) = share(party);
                let limits = config(OLD).limits();
                let mut response = Response::decode(response.into(), &limits, 1).unwrap();
                if damaged && before == 0 {
                    let mut answer = response.answers[0].to_vec();
                    answer[0] ^= u8::from(party == Party::One);
                    response.answers[0] = answer.into();
                }
                response.answers.resize(2 - before, response.answers[0].clone());
                (200, response.encode())
            })
        });
        let result = client(&servers, &cache, PATIENT).get_indices(&[3, 3, 3]);
        (servers.map(|server| server.bodies("query").iter().map(Vec::len).collect::<Vec<_>>()), result)
    };
    let (honest, values) = lengths(false);
    assert_eq!((values.unwrap().len(), honest[0].len()), (3, 2));
    let (requests, result) = lengths(true);
    assert!(matches!(result, Err(ClientError::Protocol(ProtocolError::Corrupted))), "{result:?}");
    assert_eq!(requests, honest);
}
