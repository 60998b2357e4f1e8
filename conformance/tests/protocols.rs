//! Protocols of two folds and of rings, on the CPU backend.
#![allow(clippy::print_stdout, reason = "what was measured is worth seeing")]

use std::collections::HashSet;
use std::sync::Arc;

use spirea_backend::NaiveBackend;
use spirea_conformance::{
    Content, Count, Setup, is_drawn, is_long, look_ups_agree, malformed_queries_are_refused,
    queries_share_nothing, records_decode, setup, slices, with_grid,
};
use spirea_cpu::CpuBackend;
use spirea_dpf::PrfKind;
use spirea_lattice::RingSet;
use spirea_lattice::rlwe::{OneShotQuery, query_bytes, rounded_query_bytes};
use spirea_math::random::{SecretRng, Seed};
use spirea_math::{Rotations, SentChunks};
use spirea_protocols::choice::{KeyDelivery, QueryForm, SecurityLevel};
use spirea_protocols::dpf::Words;
use spirea_protocols::registry::{Choice, NAMES, ProtocolParams};
use spirea_protocols::{Prepared, ProtocolError, Query};

fn choose(protocol: &str, records: u64, record_bytes: usize) -> ProtocolParams {
    let choice = Choice { protocol: protocol.into(), ..Choice::default() };
    ProtocolParams::choose(&choice, Seed::new([7; 32]), records, record_bytes).unwrap()
}

/// Protocols whose queries can carry their keys.
const ONE_SHOT: [&str; 3] = ["exppack-simple", "exppack-double", "hybrid"];
/// Ring sets of queries that bring their keys.
const RINGS: [&str; 3] = ["brief", "fast", "small"];

fn choose_one_shot(
    protocol: &str,
    ring: &str,
    queries: QueryForm,
    records: u64,
    record_bytes: usize,
) -> ProtocolParams {
    let (protocol, ring) = (protocol.to_owned(), Some(ring.to_owned()));
    let choice = Choice { protocol, ring, keys: KeyDelivery::PerQuery, queries, ..Choice::default() };
    ProtocolParams::choose(&choice, Seed::new([7; 32]), records, record_bytes).unwrap()
}

/// Checks small databases of random records: records that share units, fill them, or take several
/// units. Extreme databases are in `chosen.rs`.
fn decodes(protocol: &str, shapes: &[(u64, usize)]) {
    let params = shapes.iter().map(|&(records, record_bytes)| choose(protocol, records, record_bytes));
    all_decode(&params.collect::<Vec<_>>());
}

fn all_decode(all: &[ProtocolParams]) {
    let backend = Arc::new(CpuBackend::new(2).unwrap());
    let mut rng = SecretRng::from_os().unwrap();
    for params in all {
        let (protocol, records, record_bytes) = (params.name, params.records(), params.record_bytes());
        assert_eq!(ProtocolParams::from_json(&params.to_json()).unwrap(), *params);
        let setup = setup(&backend, params, Content::Random(3));
        let margin = records_decode(&setup, &(0..records).collect::<Vec<_>>(), &mut rng);
        println!(
            "{protocol}: {records} records of {record_bytes} bytes: {margin:.2} bits of margin, failure {:?}, {:?} {:?}",
            params.failure, params.sizes, params.grid
        );
        malformed_queries_are_refused(&setup, &mut rng);
        queries_share_nothing(&setup, &mut rng);
    }
}

/// Checks databases of several groups, whose number is not a power of two.
fn selects(params: &ProtocolParams) {
    let backend = Arc::new(CpuBackend::new(2).unwrap());
    let mut rng = SecretRng::from_os().unwrap();
    let setup = setup(&backend, params, Content::Random(9));
    let records = params.records();
    let indices: Vec<u64> =
        [0, records - 1].into_iter().chain((0..6).map(|_| rng.next_u64() % records)).collect();
    let margin = records_decode(&setup, &indices, &mut rng);
    println!("{:?}: {margin:.2} bits of margin, failure {:?}", params.grid, params.failure);
}

/// Returns true if the small databases of a protocol are tested. The short form draws one of the
/// slowest protocols and one of the others; the committed vectors have a look-up of every protocol.
fn is_tested(protocol: &str) -> bool {
    const LONGEST: [&str; 3] = ["exppack-simple", "double-pack", "hybrid"];
    const OTHERS: [&str; 3] = ["double", "exppack-double", "onion"];
    if LONGEST.contains(&protocol) {
        is_drawn("small databases of protocols that take longest", &LONGEST, 1, protocol)
    } else {
        is_drawn("small databases of other protocols", &OTHERS, 1, protocol)
    }
}

#[test]
fn double_decodes() {
    if is_tested("double") {
        decodes("double", &[(40, 3), (700, 1), (5, 40)]);
    }
}

#[test]
fn exppack_simple_decodes() {
    if is_tested("exppack-simple") {
        decodes("exppack-simple", &[(20, 900), (3, 9000)]);
    }
}

#[test]
fn exppack_double_decodes() {
    if is_tested("exppack-double") {
        decodes("exppack-double", &[(20, 2), (3, 11)]);
    }
}

#[test]
fn double_pack_decodes() {
    if is_tested("double-pack") {
        decodes("double-pack", &[(12, 900), (3, 9000)]);
    }
}

#[test]
fn hybrid_decodes() {
    if !is_tested("hybrid") {
        return;
    }
    decodes("hybrid", &[(20, 900), (3, 9000)]);
    selects(&with_grid(&choose("hybrid", 5000, 900), &[("groups", 5)]));
    selects(&with_grid(&choose("hybrid", 700, 9000), &[("groups", 3)]));
}

#[test]
fn onion_decodes() {
    if !is_tested("onion") {
        return;
    }
    decodes("onion", &[(20, 4000), (3, 40_000)]);
    selects(&choose("onion", 100, 16384));
}

#[test]
fn queries_that_bring_their_keys_decode() {
    for (protocol, shapes) in
        ONE_SHOT.into_iter().zip([[(20, 900), (3, 9000)], [(20, 2), (3, 11)], [(20, 900), (3, 9000)]])
    {
        if !is_drawn(
            "protocols of queries that bring their keys",
            &ONE_SHOT,
            Count { short: 1, full: 2 },
            protocol,
        ) {
            continue;
        }
        for ring in RINGS {
            if !is_drawn("rings of queries that bring their keys", &RINGS, Count { short: 1, full: 1 }, ring)
            {
                continue;
            }
            for queries in QueryForm::ALL {
                let params =
                    shapes.map(|(records, bytes)| choose_one_shot(protocol, ring, queries, records, bytes));
                all_decode(&params);
            }
        }
    }
}

/// Compares with the oracle, which packs whole ciphertexts.
#[test]
fn queries_that_bring_their_keys_are_answered_alike_by_the_oracle() {
    let cpu = Arc::new(CpuBackend::new(2).unwrap());
    let mut rng = SecretRng::from_os().unwrap();
    let (protocols, rings) =
        if is_long() { (&ONE_SHOT[..], &RINGS[..]) } else { (&ONE_SHOT[..1], &RINGS[..1]) };
    for protocol in protocols {
        for (ring, queries) in rings.iter().flat_map(|ring| QueryForm::ALL.map(|queries| (ring, queries))) {
            let params = choose_one_shot(protocol, ring, queries, 3, 40);
            let [fast, naive] = [
                setup(&cpu, &params, Content::Random(4)),
                setup(&Arc::new(NaiveBackend), &params, Content::Random(4)),
            ];
            look_ups_agree(&fast, &naive, &[0, 2], &mut rng);
        }
    }
}

#[test]
fn dpf_xor_decodes() {
    decodes("dpf-xor", &[(1, 1), (40, 3), (1200, 40), (513, 33), (5, 9000)]);
}

#[test]
fn dpf_sum_decodes() {
    decodes("dpf-sum", &[(1, 1), (40, 3), (1200, 40), (513, 33), (5, 9000)]);
    let choice = Choice { protocol: "dpf-sum".into(), words: Words::U64, ..Choice::default() };
    selects(&ProtocolParams::choose(&choice, Seed::new([7; 32]), 900, 52).unwrap());
}

#[test]
fn every_pseudorandom_function_decodes() {
    for prf in PrfKind::ALL {
        for protocol in ["dpf-xor", "dpf-sum"] {
            let choice = Choice { protocol: protocol.into(), prf, ..Choice::default() };
            selects(&ProtocolParams::choose(&choice, Seed::new([7; 32]), 2100, 17).unwrap());
        }
    }
}

#[test]
fn every_ring_set_decodes() {
    const SETS: [&str; 5] = ["paper", "fast", "small", "onion-30", "onion-26"];
    for (protocol, ring) in [
        ("hybrid", "paper"),
        ("hybrid", "fast"),
        ("hybrid", "small"),
        ("onion", "onion-30"),
        ("onion", "onion-26"),
    ] {
        if !is_drawn("ring sets", &SETS, Count { short: 1, full: 2 }, ring) {
            continue;
        }
        let choice = Choice { protocol: protocol.into(), ring: Some(ring.into()), ..Choice::default() };
        let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), 700, 9000).unwrap();
        selects(&if protocol == "hybrid" { with_grid(&params, &[("groups", 3)]) } else { params });
    }
}

#[test]
fn conservative_sets_decode_as_the_definition_says() {
    let cpu = Arc::new(CpuBackend::new(2).unwrap());
    let mut rng = SecretRng::from_os().unwrap();
    let shapes = [
        ("double", 40, 3),
        ("exppack-simple", 3, 9000),
        ("exppack-double", 3, 11),
        ("double-pack", 3, 900),
        ("hybrid", 20, 900),
        ("onion", 40, 16384),
    ];
    let cases = shapes.map(|(protocol, ..)| protocol);
    for (protocol, records, record_bytes) in shapes {
        if !is_drawn("conservative sets", &cases, Count { short: 1, full: 2 }, protocol) {
            continue;
        }
        let choice =
            Choice { protocol: protocol.into(), security: SecurityLevel::Conservative, ..Choice::default() };
        let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), records, record_bytes).unwrap();
        let expected = if protocol == "onion" { "onion-26" } else { "module-1536" };
        assert!(params.set.starts_with(expected), "{}", params.set);
        let found = setup(&cpu, &params, Content::Random(3));
        let margin = records_decode(&found, &[0, records / 2, records - 1], &mut rng);
        println!("{protocol}: {margin:.2} bits of margin, failure {:?}", params.failure);
        malformed_queries_are_refused(&found, &mut rng);
        if is_long() || ["hybrid", "onion"].contains(&protocol) {
            let oracle = setup(&Arc::new(NaiveBackend), &params, Content::Random(3));
            look_ups_agree(&oracle, &found, &[records - 1], &mut rng);
        }
    }
    for protocol in ONE_SHOT {
        if !is_drawn("conservative sets with keys in the query", &ONE_SHOT, 1, protocol) {
            continue;
        }
        let (security, keys) = (SecurityLevel::Conservative, KeyDelivery::PerQuery);
        let choice = Choice { protocol: protocol.into(), security, keys, ..Choice::default() };
        all_decode(&[ProtocolParams::choose(&choice, Seed::new([7; 32]), 3, 11).unwrap()]);
    }
    let params = choose("hybrid", 700, 9000);
    let choice = Choice { set: Some("module-1536".into()), ..params.choice() };
    let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), 700, 9000).unwrap();
    selects(&with_grid(&params, &[("groups", 3)]));
}

/// Decodes random records of databases of 32 MiB. The number of records is 4, or the number in
/// `SPIREA_LARGE_RECORDS`.
mod random_records_of_large_databases {
    use super::*;

    fn decode(protocol: &str) {
        let wanted = std::env::var("SPIREA_LARGE_RECORDS").ok().and_then(|wanted| wanted.parse().ok());
        let backend = Arc::new(CpuBackend::new(2).unwrap());
        let mut rng = SecretRng::from_os().unwrap();
        let record_bytes: u64 =
            if protocol.contains("double") && protocol != "double-pack" { 4 } else { 256 };
        let records = (32 << 20) / record_bytes;
        let params = choose(protocol, records, record_bytes as usize);
        let setup = setup(&backend, &params, Content::Random(21));
        let indices: Vec<u64> = (0..wanted.unwrap_or(4)).map(|_| rng.next_u64() % records).collect();
        let margin = records_decode(&setup, &indices, &mut rng);
        println!("{protocol}: {} records decoded, {margin:.2} bits of margin", indices.len());
    }

    macro_rules! decode {
        ($($test:ident: $protocol:literal),*) => {
            $(#[test]
            fn $test() {
                if is_drawn("large databases", &NAMES, Count { short: 2, full: 3 }, $protocol) {
                    decode($protocol);
                }
            })*

            #[test]
            fn no_protocol_is_left_out() {
                assert_eq!([$($protocol),*], NAMES);
            }
        };
    }

    decode! {
        simple: "simple", double: "double", exppack_simple: "exppack-simple", exppack_double: "exppack-double",
        double_pack: "double-pack", hybrid: "hybrid", onion: "onion", dpf_xor: "dpf-xor", dpf_sum: "dpf-sum"
    }
}

#[test]
fn onion_decodes_at_the_limits_of_both_dimensions() {
    let wide = choose("onion", 1000, 16384);
    const CASES: [&str; 3] = ["most columns", "most groups", "largest"];
    let is_tested = |case| is_drawn("limits of onion", &CASES, Count { short: 1, full: 1 }, case);
    if is_tested("most columns") {
        selects(&with_grid(&wide, &[("columns", 512), ("groups", 2)]));
    }
    if is_tested("most groups") {
        selects(&with_grid(&wide, &[("columns", 1), ("groups", 1000)]));
    }
    if !is_tested("largest") {
        return;
    }
    // All coefficients have their maximum over the widest first dimension; `chosen.rs` tests their
    // minimum.
    let backend = Arc::new(CpuBackend::new(2).unwrap());
    let params = with_grid(&wide, &[("columns", 512), ("groups", 2)]);
    let setup = setup(&backend, &params, Content::Constant(0x7f));
    records_decode(&setup, &[0, 511, 999], &mut SecretRng::from_os().unwrap());
}

/// Checks queries of several clients, each with its own keys, in one batch.
fn clients_share_a_batch(params: &ProtocolParams, clients: usize, batch: usize) {
    let backend = Arc::new(CpuBackend::new(2).unwrap());
    let mut rng = SecretRng::from_os().unwrap();
    let Setup { servers, hint, records, .. } = setup(&backend, params, Content::Random(6));
    let server = &servers[0];
    let clients: Vec<_> = (0..clients).map(|_| params.client(&hint, &[], &mut rng).unwrap()).collect();
    let keys: Vec<_> =
        clients.iter().map(|client| server.prepare_keys(client.keys().unwrap().bytes()).unwrap()).collect();
    let indices: Vec<u64> = (0..batch).map(|_| rng.next_u64() % params.records()).collect();
    let (queries, states): (Vec<_>, Vec<_>) = indices
        .iter()
        .enumerate()
        .map(|(i, &index)| {
            let mut prepared = clients[i % clients.len()].query(index, &mut rng).unwrap();
            (prepared.queries.remove(0), prepared.state)
        })
        .unzip();
    let queries: Vec<Query<'_>> = queries
        .iter()
        .enumerate()
        .map(|(i, query)| Query { bytes: query, keys: Some(&keys[i % keys.len()]) })
        .collect();
    let answers = server.answer(&queries).unwrap();
    for (i, (state, answer)) in states.into_iter().zip(&answers).enumerate() {
        let record = clients[i % clients.len()].decode(state, &[answer]).unwrap();
        assert!(record == records[indices[i] as usize], "query {i} of the batch");
    }
    // With another client's keys, an answer decodes to noise. Noise never equals a record of eight
    // bytes by chance. It equals a record of one byte with probability 1/256, so three of eight
    // answers match with probability 2^-18.
    let right = (0..8)
        .filter(|_| {
            let mut prepared = clients[0].query(indices[0], &mut rng).unwrap();
            let query = prepared.queries.remove(0);
            let answer = server.answer(&[Query { bytes: &query, keys: Some(&keys[1]) }]).unwrap();
            // Noise that is not a byte is refused.
            let decoded = clients[0].decode(prepared.state, &slices(&answer));
            decoded.is_ok_and(|decoded| decoded == records[indices[0] as usize])
        })
        .count();
    assert!(
        right <= if params.record_bytes() < 8 { 2 } else { 0 },
        "{right} of 8 under another client's keys"
    );
}

#[test]
fn batches_of_many_clients_are_answered() {
    clients_share_a_batch(&choose("onion", 40, 4000), 3, 64);
    const PROTOCOLS: [&str; 4] = ["exppack-simple", "exppack-double", "double-pack", "hybrid"];
    for protocol in PROTOCOLS {
        if !is_drawn("batches of many clients", &PROTOCOLS, Count { short: 1, full: 1 }, protocol) {
            continue;
        }
        let record_bytes = if protocol == "exppack-double" { 1 } else { 500 };
        clients_share_a_batch(&choose(protocol, 30, record_bytes), 2, 3);
    }
}

#[test]
fn a_thousand_queries_of_one_client_share_no_secret_and_no_seed() {
    let mut rng = SecretRng::from_os().unwrap();
    for protocol in NAMES {
        let params = choose(protocol, 10, 20);
        let hint = vec![0; params.sizes.hint_bytes as usize];
        let client = params.client(&hint, &[], &mut rng).unwrap();
        let mut seen = HashSet::new();
        for _ in 0..1000 {
            let query = client.query(3, &mut rng).unwrap().queries.remove(0);
            // A query begins with bodies or with a seed of 32 bytes. Bodies under one secret would
            // agree up to noise. So neither the first bytes of a query nor the seed of its
            // ciphertext may ever repeat.
            let bodies = query.len() - query_bytes_of_ring(&params);
            for start in [0, bodies] {
                seen.insert((start, query[start..][..32].to_vec()));
            }
        }
        let places = if query_bytes_of_ring(&params) == params.sizes.query_bytes { 1 } else { 2 };
        assert_eq!(seen.len(), 1000 * places, "{protocol}");
    }
}

/// Keys have constant uniform halves, so two queries under one secret would differ there by small
/// noise only.
#[test]
fn queries_that_bring_their_keys_share_no_secret() {
    let mut rng = SecretRng::from_os().unwrap();
    let ring = RingSet::Fast.ring();
    for protocol in ONE_SHOT {
        let params = choose_one_shot(protocol, "fast", QueryForm::Short, 10, 20);
        let hint = vec![0; params.sizes.hint_bytes as usize];
        // The two clients act like two sessions: a new client draws nothing that lasts.
        let clients = [(); 2].map(|()| params.client(&hint, &[], &mut rng).unwrap());
        assert!(clients.iter().all(|client| client.keys().is_none()));
        let rotations = Rotations::fewest(256, 5, 1);
        let shape = OneShotQuery { set: RingSet::Fast, chunks: SentChunks::Apart, rotations };
        let bodies: Vec<_> = clients
            .iter()
            .cycle()
            .take(20)
            .map(|client| {
                let query = client.query(3, &mut rng).unwrap().queries.remove(0);
                let halves = shape.parse(&query[query.len() - shape.bytes()..]).unwrap();
                halves[..ring.words()].to_vec()
            })
            .collect();
        let mut pairs = 0;
        for (i, one) in bodies.iter().enumerate() {
            for other in &bodies[..i] {
                let mut difference = one.clone();
                ring.sub_assign(&mut difference, other);
                ring.inverse(&mut difference);
                let coefficients = (0..ring.degree()).map(|i| ring.centred(ring.coefficient(&difference, i)));
                let largest = coefficients.map(i128::unsigned_abs).max().unwrap();
                assert!(largest > ring.modulus() >> 8, "{protocol}: a secret that was used before");
                pairs += 1;
            }
        }
        assert_eq!(pairs, 190, "{protocol}");
    }
}

/// Returns the bytes of a query's ciphertext; 32 for a protocol without a ring.
fn query_bytes_of_ring(params: &ProtocolParams) -> usize {
    let rotated = params.key_shape.is_some_and(|shape| shape.rotations.is_some());
    params.sets.ring.map_or(32, if rotated { rounded_query_bytes } else { query_bytes })
}

#[test]
fn damaged_answers_and_queries_do_no_harm() {
    let backend = Arc::new(CpuBackend::new(2).unwrap());
    let mut rng = SecretRng::from_os().unwrap();
    for protocol in NAMES {
        let record_bytes = if protocol.ends_with("double") { 3 } else { 300 };
        let setup = setup(&backend, &choose(protocol, 20, record_bytes), Content::Random(8));
        let Prepared { queries, state } = setup.client.query(5, &mut rng).unwrap();
        let answers = setup.answers(std::slice::from_ref(&queries)).remove(0);
        let mut state = Some(state);
        for i in 0..3 {
            let mut damaged = answers.clone();
            let answer = &mut damaged[i % answers.len()];
            let at = (rng.next_u64() % answer.len() as u64) as usize;
            answer[at] ^= (rng.next_u64() % 255 + 1) as u8;
            let state = state.take().unwrap_or_else(|| setup.client.query(5, &mut rng).unwrap().state);
            // The checksum judges the decoded bytes, so decoding may return any bytes.
            match setup.client.decode(state, &slices(&damaged)) {
                Ok(record) => assert_eq!(record.len(), record_bytes),
                Err(error) => assert!(matches!(error, ProtocolError::Corrupted), "{error}"),
            }
        }
        for (server, query) in setup.servers.iter().zip(&queries) {
            for _ in 0..3 {
                let mut damaged = query.clone();
                let at = (rng.next_u64() % damaged.len() as u64) as usize;
                damaged[at] ^= 0x80;
                match server.answer(&setup.batch(&[&damaged])) {
                    Ok(answered) => assert_eq!(answered[0].len(), answers[0].len()),
                    Err(error) => assert!(error.to_string().starts_with("malformed query"), "{error}"),
                }
            }
        }
    }
}
