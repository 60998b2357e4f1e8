//! Two parties, queried in parallel and independently. No query for one party goes to the other.

use super::*;

/// Creates a client of two parties at these addresses, which has version [`OLD`] of both.
fn of_pair(stage: &Stage, addresses: [&[&str]; 2]) -> Client {
    let description = Description::parse("test", config(OLD).encode().into()).unwrap();
    let session = Session::over(description, Box::new(Shares)).unwrap();
    let addresses = addresses.map(|urls| urls.iter().map(|url| String::from(*url)).collect());
    client(stage, &addresses, session)
}

fn party(server: usize) -> Party {
    Party::BOTH[server]
}

#[test]
fn both_parties_have_their_queries_before_either_answers() {
    let stage = Stage::new();
    let mut client = of_pair(&stage, [&["http://a"], &["http://b"]]);
    let mut conversation = client.look_up_indices(&[3]);
    for wanted in 0..2 {
        assert!(matches!(conversation.step(), Step::Send { server, .. } if server == wanted));
    }
    assert!(matches!(conversation.step(), Step::Wait { at_most: None }));
    // The second response is read while the first is still awaited.
    conversation.received(1, Received::Head(Head { status: 200, ..Head::default() }));
    assert!(matches!(conversation.step(), Step::Read { server: 1 }));
    assert!(matches!(conversation.step(), Step::Wait { at_most: None }));
}

#[test]
fn a_party_that_fails_is_asked_again_and_the_other_is_not() {
    let mut stage = Stage::new();
    let mut client = of_pair(&stage, [&["http://a"], &["http://b"]]);
    let result = stage.play(client.look_up_indices(&[3]), &mut |server, _| match server {
        0 => replied(share(party(0))),
        _ => broken(),
    });
    let error = result.unwrap_err();
    assert!(matches!(error, ClientError::Party { party: Party::One, .. }), "{error:?}");
    let asked = |wanted| stage.paths().iter().filter(|(server, _)| *server == wanted).count();
    assert_eq!([asked(0), asked(1)], [1, Policy::default().attempts as usize]);
}

#[test]
fn no_address_gets_queries_for_both_parties() {
    let mut stage = Stage::new();
    let addresses = [vec!["http://a".into(), "http://b".into()], vec!["http://b".into()]];
    let cache = Box::new(MemoryCache::default());
    let connected = Client::connect(&addresses, "test", cache, Policy::default(), stage.clock()).unwrap();
    // Party 0 is at a, party 1 at b; the list of addresses wrongly names b as a replica of a.
    let of = |request: &Request| party(usize::from(request.url.starts_with("http://b/")));
    let mut script = |_: usize, request: &Request| {
        replied(match (path(request), of(request)) {
            ("config", party) => (200, described(party, OLD).encode()),
            (_, Party::Zero) => refusal(503, Code::Stopping),
            (_, party) => share(party),
        })
    };
    let mut client = stage.play(connected, &mut script).unwrap();
    let before = stage.sent.len();
    let error = stage.play(client.look_up_indices(&[3]), &mut script).unwrap_err();
    assert!(matches!(error.cause(), ClientError::BadAddress(text) if text.contains("http://b")), "{error:?}");
    let asked: Vec<_> =
        stage.sent[before..].iter().map(|(server, request)| (*server, of(request), path(request))).collect();
    let mut of_each: Vec<Vec<_>> = vec![Vec::new(); 2];
    asked.iter().for_each(|&(server, party, path)| of_each[server].push((party, path)));
    assert_eq!(of_each[0], [(Party::Zero, "query"), (Party::One, "config")]);
    assert_eq!(of_each[1], [(Party::One, "query")]);
}

#[test]
fn the_lines_stay_with_the_addresses_when_parties_come_in_another_order() {
    let mut stage = Stage::new();
    let addresses = [vec!["http://b".into()], vec!["http://a".into()]];
    let cache = Box::new(MemoryCache::default());
    let connected = Client::connect(&addresses, "test", cache, Policy::default(), stage.clock()).unwrap();
    // The first address belongs to party 1.
    let mut script = |server: usize, request: &Request| {
        let party = party(1 - server);
        assert_eq!(request.url.starts_with("http://b/"), party == Party::One);
        replied(match path(request) {
            "config" => (200, described(party, OLD).encode()),
            _ => refusal(500 + u16::from(party.number()), Code::Internal),
        })
    };
    let mut client = stage.play(connected, &mut script).unwrap();
    let error = stage.play(client.look_up_indices(&[3]), &mut script).unwrap_err();
    assert!(
        matches!(&error, ClientError::Party { party: Party::Zero, url, .. } if url == "http://a"),
        "{error:?}"
    );
    assert!(matches!(error.cause(), ClientError::Refused { status: 500, .. }));
}
