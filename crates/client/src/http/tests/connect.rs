//! Connecting to two servers: their descriptions, and the check that they belong together.

use spirea_protocols::{Party, Salt};

use super::pair::{PATIENT, client, pair};
use super::*;
use crate::fixture::{described, described_under, share};

fn connect(urls: &[&str]) -> Result<HttpClient, ClientError> {
    connect_under(WeakPrf::Refuse, urls)
}

fn connect_under(weak_prf: WeakPrf, urls: &[&str]) -> Result<HttpClient, ClientError> {
    let cache = tempfile::tempdir().unwrap();
    let options = ClientOptions { cache: Some(cache.path().into()), weak_prf, ..ClientOptions::default() };
    HttpClient::connect_with(urls, "test", options)
}

/// Checks the error of connecting to both servers, in either order.
fn refused([a, b]: &[Server; 2], check: impl Fn(&ClientError) -> bool) {
    for urls in [[&a.url[..], &b.url], [&b.url, &a.url]] {
        let error = connect(&urls).map(drop).unwrap_err();
        assert!(check(&error), "{error:?}");
    }
}

#[test]
fn two_servers_are_told_apart_in_any_order() {
    let [a, b] = pair(|party| {
        let mut config = described(party, OLD);
        config.max_batch -= usize::from(party.number());
        (200, config.encode())
    });
    for urls in [[&a.url[..], &b.url], [&b.url, &a.url]] {
        let client = connect(&urls).unwrap();
        assert_eq!(client.description().party(), Some(Party::Zero));
        // The limit of a request is the smaller of the two servers' limits.
        assert_eq!(client.description().limits().max_batch, 1);
    }
}

#[test]
fn two_servers_need_two_addresses() {
    let [a, _] = pair(|party| (200, described(party, OLD).encode()));
    let error = connect(&[&a.url]).map(drop).unwrap_err();
    assert!(
        matches!(&error, ClientError::BadAddress(text) if text.contains("give both addresses")),
        "{error:?}"
    );
}

#[test]
fn one_party_cannot_be_both() {
    for party in Party::BOTH {
        let other = Party::BOTH[usize::from(1 - party.number())];
        let servers = pair(move |_| (200, described(party, OLD).encode()));
        let said = [format!("are of {party}:"), format!("the address of {other}")];
        refused(
            &servers,
            |error| matches!(error, ClientError::BadAddress(text) if said.iter().all(|part| text.contains(part))),
        );
    }
}

#[test]
fn servers_of_different_snapshots_are_not_asked() {
    let versions = [OLD, NEW];
    let servers = pair(move |party| (200, described(party, versions[usize::from(party.number())]).encode()));
    refused(&servers, |error| {
        let text = error.to_string();
        assert!(text.contains("party 0 serves version 01010101…, party 1 serves 02020202…"), "{text}");
        matches!(error, ClientError::DifferentSnapshots { versions: found } if *found == versions)
    });

    // Snapshots also differ if only their tables differ.
    let servers = pair(|party| {
        let salted = Table { salt: Salt::new([party.number(); 32]), ..table() };
        let table = serde_json::to_vec(&salted).unwrap().into();
        let described = described(party, OLD);
        (200, Config { base: PartConfig { table, ..described.base }, ..described }.encode())
    });
    refused(
        &servers,
        |error| matches!(error, ClientError::DifferentSnapshots { versions } if *versions == [OLD; 2]),
    );
}

#[test]
fn while_one_server_is_updated_both_are_asked_for_the_version_that_both_have() {
    let old = format!("config?version={OLD}");
    for updated in Party::BOTH {
        let named = old.clone();
        let servers = Party::BOTH.map(|party| {
            let named = named.clone();
            Server::start(move |path, _| {
                let (version, versions) = match party == updated {
                    true if path != named => (NEW, vec![NEW, OLD]),
                    updated => (OLD, if updated { vec![NEW, OLD] } else { vec![OLD] }),
                };
                match path.starts_with("config") {
                    true => (200, Config { versions, ..described(party, version) }.encode()),
                    false => refusal(404, Code::NoSuchEndpoint),
                }
            })
        });
        let client = connect(&[&servers[0].url, &servers[1].url]).unwrap();
        assert_eq!(client.description().version(), &OLD);
        assert!(servers.iter().all(|server| server.paths() == ["config", &old[..]]));
    }
}

#[test]
fn a_server_that_has_another_version_by_now_is_told_from_the_other() {
    for code in [Code::StaleVersion, Code::Malformed] {
        for updated in Party::BOTH {
            let version = move |party| if party == updated { NEW } else { OLD };
            let servers = Party::BOTH.map(|party| {
                Server::start(move |path, _| match path {
                    "config" => (200, described(party, version(party)).encode()),
                    _ if party == updated => refusal(409, code),
                    _ => share(party),
                })
            });
            let cache = tempfile::tempdir().unwrap();
            let error = look_up(&mut client(&servers, &cache, PATIENT)).unwrap_err();
            let expected = Party::BOTH.map(version);
            assert!(
                matches!(&error, ClientError::DifferentSnapshots { versions } if *versions == expected),
                "{error:?}"
            );
        }
    }
}

#[test]
fn a_weak_function_is_the_client_s_choice() {
    for prf in PrfKind::ALL {
        let [a, b] = pair(move |party| (200, described_under(prf, party, OLD).encode()));
        let urls = [&a.url[..], &b.url];
        match connect(&urls) {
            Ok(_) => assert!(!prf.needs_consent(), "{prf}"),
            Err(error) => {
                assert!(
                    prf.needs_consent()
                        && matches!(error, ClientError::WeakPrf { prf: named } if named == prf),
                    "{error:?}"
                );
                let text = error.to_string();
                for part in [prf.name(), prf.trust(), "--accept-weak-prf"] {
                    assert!(text.contains(part), "{part:?} is missing from {text:?}");
                }
            }
        }
        let client = connect_under(WeakPrf::Accept, &urls).unwrap();
        assert_eq!(client.description().params().prf(), Some(prf));
    }
}

#[test]
fn a_new_version_does_not_bring_a_weak_function() {
    let servers = Party::BOTH.map(|party| {
        Server::start(move |path, _| match path {
            "config" => (200, described_under(PrfKind::SipHash24, party, NEW).encode()),
            _ => refusal(409, Code::StaleVersion),
        })
    });
    let cache = tempfile::tempdir().unwrap();
    let error = look_up(&mut client(&servers, &cache, PATIENT)).unwrap_err();
    assert!(matches!(error, ClientError::WeakPrf { prf: PrfKind::SipHash24 }), "{error:?}");
    for server in &servers {
        assert_eq!(server.paths(), ["query", "config"]);
    }
}

#[test]
fn an_address_of_the_other_party_gets_no_queries() {
    for (party, is_right) in [(Party::Zero, true), (Party::One, false)] {
        // This server describes itself, but is down when it gets a query.
        let down = Server::start(|path, _| match path {
            "config" => (200, described(Party::Zero, OLD).encode()),
            _ => refusal(503, Code::Stopping),
        });
        let other = Server::start(|path, _| match path {
            "config" => (200, described(Party::One, OLD).encode()),
            _ => share(Party::One),
        });
        let replica = Server::start(move |path, _| match path {
            "config" => (200, described(party, OLD).encode()),
            _ => share(party),
        });
        let cache = tempfile::tempdir().unwrap();
        let options = ClientOptions {
            cache: Some(cache.path().into()),
            replicas: vec![vec![replica.url.clone()]],
            ..ClientOptions::default()
        };
        let mut client = HttpClient::connect_with(&[&down.url, &other.url], "test", options).unwrap();
        for _ in 0..2 {
            let error = client.get_indices(&[3]).unwrap_err();
            let is_told =
                matches!(error.cause(), ClientError::BadAddress(text) if text.contains(&replica.url));
            assert_eq!(is_told, !is_right, "{error:?}");
        }
        // A correct replica is checked only once.
        let paths: &[&str] = if is_right { &["config", "query", "query"] } else { &["config", "config"] };
        assert_eq!(replica.paths(), paths);
    }
}
