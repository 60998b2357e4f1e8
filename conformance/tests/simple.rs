//! SimplePIR on the oracle and on every path of the CPU backend.

use std::sync::Arc;

use proptest::prelude::*;
use spirea_backend::NaiveBackend;
use spirea_conformance::{
    Content, answers_agree, is_drawn, malformed_queries_are_refused, queries_share_nothing, records_decode,
    setup,
};
use spirea_cpu::{CpuBackend, Isa};
use spirea_lattice::LweSet;
use spirea_math::random::SecretRng;
use spirea_protocols::Protocol as _;
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::simple::Params;

fn cpu_backends() -> Vec<Arc<CpuBackend>> {
    Isa::available().into_iter().map(|isa| Arc::new(CpuBackend::with_isa(isa, 2).unwrap())).collect()
}

fn choose(set: LweSet, records: u64, record_bytes: usize) -> Params {
    let choice = Choice { set: Some(set.name().into()), ..Choice::default() };
    Params::choose(&choice, [7; 32], records, record_bytes).unwrap()
}

#[test]
fn every_record_of_small_databases_decodes_on_every_backend() {
    let mut rng = SecretRng::from_os().unwrap();
    for set in LweSet::ALL {
        if !is_drawn("LWE sets", &LweSet::ALL.map(LweSet::name), 1, set.name()) {
            continue;
        }
        // One record; several in a column; one in a column; taller than the matrix and so in
        // several columns.
        for (records, record_bytes) in [(1, 1), (300, 9), (70, 33), (5, 4096), (3, 20_000)] {
            let params = ProtocolParams::Simple(choose(set, records, record_bytes));
            let indices: Vec<u64> = (0..records).collect();
            let oracle = setup(&Arc::new(NaiveBackend), &params, Content::Random(3));
            for backend in cpu_backends() {
                let setup = setup(&backend, &params, Content::Random(3));
                answers_agree(&oracle, &setup, &mut rng);
                records_decode(&setup, &indices, &mut rng);
                malformed_queries_are_refused(&setup, &mut rng);
                queries_share_nothing(&setup, &mut rng);
            }
        }
    }
}

#[test]
fn extreme_databases_decode() {
    let mut rng = SecretRng::from_os().unwrap();
    let params = ProtocolParams::Simple(choose(LweSet::Module1280, 300, 90));
    for content in [Content::Constant(0), Content::Constant(255), Content::Alternating] {
        let setup = setup(&Arc::new(CpuBackend::new(2).unwrap()), &params, content);
        records_decode(&setup, &(0..300).collect::<Vec<_>>(), &mut rng);
    }
}

#[test]
fn records_over_several_columns_decode() {
    let mut rng = SecretRng::from_os().unwrap();
    let params = Params { rows: 64, columns: 1024, ..choose(LweSet::Module1280, 100, 630) };
    assert_eq!(params.record_columns(), 10);
    for backend in cpu_backends() {
        let setup = setup(&backend, &ProtocolParams::Simple(params.clone()), Content::Random(4));
        records_decode(&setup, &(0..100).collect::<Vec<_>>(), &mut rng);
        malformed_queries_are_refused(&setup, &mut rng);
    }
}

#[test]
fn random_records_of_a_large_database_decode() {
    let mut rng = SecretRng::from_os().unwrap();
    let params = choose(LweSet::Module1280, 250_000, 256);
    let records = params.records;
    let backend = Arc::new(CpuBackend::new(2).unwrap());
    let setup = setup(&backend, &ProtocolParams::Simple(params), Content::Random(5));
    let indices: Vec<u64> =
        [0, records - 1].into_iter().chain((0..62).map(|_| rng.next_u64() % records)).collect();
    records_decode(&setup, &indices, &mut rng);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn databases_of_any_shape_decode(records in 1u64..500, record_bytes in 1usize..600, seed: u64) {
        let mut rng = SecretRng::from_os().unwrap();
        let params = ProtocolParams::Simple(choose(LweSet::Module1280, records, record_bytes));
        for backend in cpu_backends() {
            let setup = setup(&backend, &params, Content::Random(seed));
            let indices: Vec<u64> = (0..20).map(|_| rng.next_u64() % records).collect();
            records_decode(&setup, &indices, &mut rng);
        }
    }
}
