//! The protocols of two folds and of rings on the CPU backend.

use std::sync::Arc;

use spirea_conformance::{
    Content, malformed_queries_are_refused, party, queries_share_nothing, records_decode,
};
use spirea_cpu::CpuBackend;
use spirea_math::random::SecretRng;
use spirea_protocols::registry::{Choice, ProtocolParams};

fn choose(protocol: &str, records: u64, record_bytes: usize) -> ProtocolParams {
    let choice = Choice { protocol: protocol.into(), ..Choice::default() };
    ProtocolParams::choose(&choice, [7; 32], records, record_bytes).unwrap()
}

/// Small databases: records that share units, that fill them, and that take several.
fn decodes(protocol: &str, shapes: &[(u64, usize)]) {
    let backend = Arc::new(CpuBackend::new(2).unwrap());
    let mut rng = SecretRng::from_os().unwrap();
    for &(records, record_bytes) in shapes {
        let params = choose(protocol, records, record_bytes);
        assert_eq!(ProtocolParams::from_json(&params.to_json()).unwrap(), params);
        let party = party(&backend, &params, Content::Random(3));
        let margin = records_decode(&party, &(0..records).collect::<Vec<_>>(), &mut rng);
        println!(
            "{protocol}: {records} records of {record_bytes} bytes: {margin:.2} bits of margin, failure 2^{:.0}, {:?} {:?}",
            params.failure_log2(),
            params.sizes(),
            params.grid()
        );
        malformed_queries_are_refused(&party, &mut rng);
        queries_share_nothing(&party, &mut rng);
    }
    for content in [Content::Constant(0), Content::Constant(255), Content::Alternating] {
        let (records, record_bytes) = shapes[0];
        let party = party(&backend, &choose(protocol, records, record_bytes), content);
        records_decode(&party, &[0, records / 2, records - 1], &mut rng);
    }
}

/// Databases of several groups, whose number is no power of two.
fn selects(params: &ProtocolParams) {
    let backend = Arc::new(CpuBackend::new(2).unwrap());
    let mut rng = SecretRng::from_os().unwrap();
    let party = party(&backend, params, Content::Random(9));
    let records = params.records();
    let indices: Vec<u64> =
        [0, records - 1].into_iter().chain((0..6).map(|_| rng.next_u64() % records)).collect();
    let margin = records_decode(&party, &indices, &mut rng);
    println!("{:?}: {margin:.2} bits of margin, failure 2^{:.0}", params.grid(), params.failure_log2());
}

#[test]
fn double_decodes() {
    decodes("double", &[(40, 3), (700, 1), (5, 40)]);
}

#[test]
fn exppack_simple_decodes() {
    decodes("exppack-simple", &[(20, 900), (3, 9000)]);
}

#[test]
fn exppack_double_decodes() {
    decodes("exppack-double", &[(20, 2), (3, 11)]);
}

#[test]
fn double_pack_decodes() {
    decodes("double-pack", &[(12, 900), (3, 9000)]);
}

#[test]
fn hybrid_decodes() {
    decodes("hybrid", &[(20, 900), (3, 9000)]);
    let tall = |params: ProtocolParams| {
        let mut json: serde_json::Value = serde_json::from_slice(&params.to_json()).unwrap();
        json["grid"]["groups"] = 5.into();
        ProtocolParams::from_json(json.to_string().as_bytes()).unwrap()
    };
    selects(&tall(choose("hybrid", 5000, 900)));
    selects(&tall(choose("hybrid", 1100, 9000)));
}

#[test]
fn onion_decodes() {
    decodes("onion", &[(20, 4000), (3, 40_000)]);
    selects(&choose("onion", 100, 16384));
}
