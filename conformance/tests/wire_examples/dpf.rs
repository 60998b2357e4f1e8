//! Examples of distributed point functions.

use spirea_dpf::{Bit, Domain, OutputKind, Prf, generate, prf};
use spirea_math::random::SecretRng;
use spirea_protocols::registry::ProtocolParams;

use super::{Example, listed};

/// Returns the examples by name.
pub fn examples() -> Vec<Example> {
    vec![("prf", functions()), ("dpf-key", dpf_key()), ("bins", bins())]
}

fn functions() -> Vec<String> {
    let seed = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeffu128.to_be_bytes();
    fn blocks<P: Prf>(name: &str, prf: P, seed: [u8; 16]) -> String {
        let mut blocks = [[0; 2]];
        prf.blocks(&[u128::from_le_bytes(seed)], &mut blocks);
        format!(
            "{name}, blocks 0 and 1: {}",
            blocks[0].map(|block| hex::encode(block.to_le_bytes())).join(" ")
        )
    }
    vec![
        format!("seed: {}", hex::encode(seed)),
        blocks("aes-128", prf::Aes128, seed),
        blocks("chacha20", prf::ChaCha20::default(), seed),
    ]
}

fn dpf_key() -> Vec<String> {
    let domain = Domain::new(1027, OutputKind::Bit).unwrap();
    let mut rng = SecretRng::deterministic_for_tests(0);
    let keys = generate(prf::Aes128, domain, 1025, Bit(true), &mut rng).unwrap().map(|key| key.to_bytes());
    let root = |party: usize| format!("root {party}: {}", hex::encode(&keys[party][1..17]));
    let key = |party: usize| format!("key {party}: {}", hex::encode(&keys[party]));
    vec!["prf, rows, row, shares: aes-128, 1027, 1025, bit".into(), root(0), root(1), key(0), key(1)]
}

fn bins() -> Vec<String> {
    let grid = r#"{"records":1000,"record_bytes":64,"unit_rows":64,"groups":1,"columns":1001}"#;
    let json = format!(r#"{{"protocol":"dpf-xor","prf":"aes-128","shares":"bit","grid":{grid},"bins":7}}"#);
    let params = ProtocolParams::from_json(json.as_bytes()).unwrap();
    let bins = params.client(&[], &[], &mut SecretRng::deterministic_for_tests(0)).unwrap().bins();
    let (sizes, of_bins) = (params.sizes, [0, 142, 143, 999].map(|index| bins.bin_of(index)));
    vec![
        "records, record_bytes, unit_rows, columns, bins: 1000, 64, 64, 1001, 7".into(),
        format!("rows of a bin: {}", bins.bin_records(0)),
        format!("bins of records 0, 142, 143 and 999: {}", listed(&of_bins)),
        format!("records of bin 6: {} to {}", bins.record(6, 0), bins.record(6, bins.bin_records(6) - 1)),
        format!("bit: query {}, answer {}", sizes.query_bytes, sizes.answer_bytes),
    ]
}
