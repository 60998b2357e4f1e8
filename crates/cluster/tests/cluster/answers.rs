//! The answers are those of one server, bit for bit.

use bytes::Bytes;
use spirea_backend::Residence;
use spirea_math::random::SecretRng;
use spirea_protocols::registry::NAMES;
use spirea_protocols::{Party, Query};
use spirea_specimens::snapshots::BACKEND;
use spirea_store::Snapshot;
use spirea_wire::{KeysRequest, Lengths, Limits, Part, Queries, Request, Response};

use crate::fixture::{Coordinating, Place, build, each_once};

/// Asks a coordinator for some records at once, and compares its answers with those of a server of the whole.
fn answers_agree(coordinator: &Coordinating, snapshot: &Snapshot, look_ups: u64) {
    let params = &snapshot.manifest().protocol;
    let mut rng = SecretRng::deterministic_for_tests(9);
    let hint = std::fs::read(snapshot.hint_path()).unwrap();
    let client = params.client(&hint, &[], &mut rng).unwrap();
    let whole = params.openings(Residence::Mapped)[0];
    let server = params.on().open(&BACKEND, &snapshot.files(), whole).unwrap();
    let queries: Vec<Bytes> = (0..look_ups)
        .map(|index| client.query(index, &mut rng).unwrap().queries.swap_remove(0).into())
        .collect();
    let keys = client.keys().map(|keys| Bytes::copy_from_slice(keys.bytes()));
    let prepared = keys.as_ref().map(|keys| server.prepare_keys(keys).unwrap());
    let version = snapshot.version();
    let hash = keys.map(|keys| {
        let hash = *blake3::hash(&keys).as_bytes();
        let upload = KeysRequest { version, part: Part::Base, keys }.encode();
        let (status, body) = coordinator.post("/v1/databases/words/keys", &upload);
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        hash
    });
    let expected: Vec<Vec<u8>> = queries
        .iter()
        .flat_map(|bytes| server.answer(&[Query { bytes, keys: prepared.as_ref() }]).unwrap())
        .collect();
    let request = Request { version, base: Queries { keys: hash, queries }, delta: None };
    let (status, body) = coordinator.post("/v1/databases/words/query", &request.encode());
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    let sizes = params.sizes();
    let lengths = Lengths {
        query_bytes: sizes.query_bytes,
        answer_bytes: sizes.answer_bytes,
        keys_bytes: sizes.keys_bytes,
    };
    let limits = Limits { base: lengths, delta: None, max_batch: server.max_batch() };
    let response = Response::decode(body.into(), &limits, look_ups as usize).unwrap();
    assert_eq!(response.version, version);
    assert!(response.answers == expected, "{} answers otherwise", params.name());
}

fn protocol_agrees(protocol: &str) {
    let place = Place::new();
    let snapshot = build(place.path(), protocol, 1);
    let party = (snapshot.manifest().protocol.parties() > 1).then_some(Party::Zero);
    // Long batches find out how fast it is: one number of shares says as much of it as three, unless there is time.
    let long = std::env::var("SPIREA_CONFORMANCE").is_ok_and(|wanted| wanted == "long");
    let counts = if protocol == "double-pack" && !long { 2..=2 } else { 1..=3 };
    for count in counts {
        let workers = place.workers(&snapshot, count);
        let coordinator = place.coordinator(place.place(&[(&snapshot, each_once(&workers))]), party);
        coordinator.ready(&snapshot);
        answers_agree(&coordinator, &snapshot, 3);
    }
}

macro_rules! agree {
    ($($test:ident: $protocol:literal),*) => {
        $(#[test]
        fn $test() {
            protocol_agrees($protocol);
        })*

        #[test]
        fn no_protocol_is_left_out() {
            assert_eq!([$($protocol),*], NAMES);
        }
    };
}

agree! {
    simple: "simple", double: "double", exppack_simple: "exppack-simple", exppack_double: "exppack-double",
    double_pack: "double-pack", hybrid: "hybrid", onion: "onion", dpf_xor: "dpf-xor", dpf_sum: "dpf-sum"
}

#[test]
fn keys_reach_each_worker_once_and_again_when_it_has_lost_them() {
    let place = Place::new();
    let snapshot = build(place.path(), "onion", 1);
    let mut config = place.worker_config(&snapshot, 0, 1);
    config.metrics = Some(([127, 0, 0, 1], 0).into());
    // Room for one client's keys: another's displace them.
    config.keys.memory_bytes = 1;
    let worker = crate::fixture::Working::start(config);
    let coordinator = place.coordinator(place.place(&[(&snapshot, vec![vec![worker.url()]])]), None);
    coordinator.ready(&snapshot);
    answers_agree(&coordinator, &snapshot, 2);
    answers_agree(&coordinator, &snapshot, 2);
    let requests = coordinator.replica(0, 0)["requests"].as_u64().unwrap();
    answers_agree(&coordinator, &snapshot, 1);
    assert_eq!(coordinator.replica(0, 0)["requests"], requests + 1);
}
