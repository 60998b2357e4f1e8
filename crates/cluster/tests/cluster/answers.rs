//! Answers of a coordinator equal those of one server, bit for bit.

use bytes::Bytes;
use spirea_backend::{Residence, Share};
use spirea_math::random::SecretRng;
use spirea_protocols::registry::NAMES;
use spirea_protocols::{Opening, Party, Query, Role};
use spirea_server::Processor;
use spirea_specimens::snapshots::BACKEND;
use spirea_store::Snapshot;
use spirea_wire::{KeysRequest, Lengths, Limits, Part, Queries, Request, Response};

use crate::fixture::{Coordinating, Place, Working, build, build_keyed, each_once, free};

/// Sends a coordinator several queries of a client in one request, and compares the answers with
/// those of a server of the whole database.
fn answers_agree(coordinator: &Coordinating, snapshot: &Snapshot, client: u64, look_ups: u64) {
    let params = &snapshot.manifest().protocol;
    let mut rng = SecretRng::deterministic_for_tests(client);
    let hint = std::fs::read(snapshot.hint_path()).unwrap();
    let client = params.client(&hint, &[], &mut rng).unwrap();
    let whole = params.openings(Residence::Mapped)[0];
    let server = params.on().open(&BACKEND, snapshot.files(), whole).unwrap();
    let queries: Vec<Bytes> = (0..look_ups)
        .map(|index| client.query(index, &mut rng).unwrap().queries.swap_remove(0).into())
        .collect();
    let keys = client.keys().map(|keys| Bytes::copy_from_slice(keys.bytes()));
    let prepared = keys.as_ref().map(|keys| server.prepare_keys(keys).unwrap());
    let version = snapshot.version();
    let hash = keys.map(|keys| {
        let hash = blake3::hash(&keys).into();
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
    let sizes = params.sizes;
    let lengths = Lengths {
        query_bytes: sizes.query_bytes,
        answer_bytes: sizes.answer_bytes,
        keys_bytes: sizes.keys_bytes,
    };
    let limits = Limits { base: lengths, delta: None, max_batch: server.max_batch() };
    let response = Response::decode(body.into(), &limits, look_ups as usize).unwrap();
    assert_eq!(response.version, version);
    assert!(response.answers == expected, "{} answers otherwise", params.name);
}

fn protocol_agrees(protocol: &str) {
    let place = Place::new();
    let snapshot =
        if protocol == "onion" { build_keyed(place.path()) } else { build(place.path(), protocol, 1) };
    let party = (snapshot.manifest().protocol.parties > 1).then_some(Party::Zero);
    // Timing long batches is slow. Only a long run tests three numbers of shares; other runs test
    // one number, which tests as much.
    let long = std::env::var("SPIREA_CONFORMANCE").is_ok_and(|wanted| wanted == "long");
    let counts = if protocol == "double-pack" && !long { 2..=2 } else { 1..=3 };
    for count in counts {
        let workers = place.workers(&snapshot, count);
        let coordinator = place.coordinator(place.place(&[(&snapshot, each_once(&workers))]), party);
        coordinator.ready(&snapshot);
        answers_agree(&coordinator, &snapshot, 9, 3);
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

/// Returns the memory, in bytes, that a client's prepared keys take at a server of a share.
fn prepared_bytes(snapshot: &Snapshot) -> u64 {
    let params = &snapshot.manifest().protocol;
    let opening = Opening { role: Role::Folds(Share::WHOLE), ..params.openings(Residence::Mapped)[0] };
    let server = Processor::new(1).unwrap().open_behind(snapshot, opening, |responder| responder).unwrap();
    let client = params.client(&[], &[], &mut SecretRng::deterministic_for_tests(1)).unwrap();
    server.responder().prepare_keys(client.keys().unwrap().bytes()).unwrap().memory_bytes() as u64
}

#[test]
fn keys_reach_a_worker_once_and_again_when_those_of_others_have_displaced_them() {
    let place = Place::new();
    let snapshot = build_keyed(place.path());
    let mut config = place.worker_config(&snapshot, 0, 1);
    config.metrics = Some(free());
    config.keys.memory_bytes = prepared_bytes(&snapshot) * 3 / 2;
    let worker = Working::start(config);
    let coordinator = place.coordinator(place.place(&[(&snapshot, vec![vec![worker.url()]])]), None);
    coordinator.ready(&snapshot);
    let counts = || {
        ["spirea_key_uploads_total{status=\"204\"}", "spirea_partial_responses_total{status=\"424\"}"]
            .map(|name| worker.metric(name))
    };
    // Workers have prepared the keys of the coordinator's dummy queries.
    let [measured, none] = counts();
    assert_eq!(none, 0.0);
    (0..3).for_each(|_| answers_agree(&coordinator, &snapshot, 1, 2));
    assert_eq!(counts(), [measured + 1.0, 0.0]);
    // There is room for one client's keys, and the coordinator does not know whose keys were
    // evicted.
    answers_agree(&coordinator, &snapshot, 2, 1);
    assert_eq!(counts(), [measured + 2.0, 0.0]);
    answers_agree(&coordinator, &snapshot, 1, 1);
    assert_eq!(counts(), [measured + 3.0, 1.0]);
    assert_eq!(coordinator.replica(0, 0)["failures"], 0);
}
