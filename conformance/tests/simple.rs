//! SimplePIR on the oracle and on every path of the CPU backend.
#![allow(clippy::print_stdout, reason = "what was measured is worth seeing")]

use std::sync::Arc;

use proptest::prelude::*;
use spirea_backend::NaiveBackend;
use spirea_conformance::{
    Content, Setup, answers_agree, is_drawn, malformed_queries_are_refused, queries_share_nothing,
    records_decode, setup, slices, with_members,
};
use spirea_cpu::{CpuBackend, Isa};
use spirea_lattice::LweSet;
use spirea_lattice::noise::sub_gaussian_tail_log2;
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::Prepared;
use spirea_protocols::choice::HintForm;
use spirea_protocols::registry::{Choice, ProtocolParams};

fn cpu_backends() -> Vec<Arc<CpuBackend>> {
    Isa::available().into_iter().map(|isa| Arc::new(CpuBackend::with_isa(isa, 2).unwrap())).collect()
}

fn choose(set: LweSet, records: u64, record_bytes: usize) -> ProtocolParams {
    let choice = Choice { set: Some(set.name().into()), ..Choice::default() };
    ProtocolParams::choose(&choice, Seed::new([7; 32]), records, record_bytes).unwrap()
}

#[test]
fn every_record_of_small_databases_decodes_on_every_backend() {
    let mut rng = SecretRng::from_os().unwrap();
    for set in LweSet::ALL {
        if !is_drawn("LWE sets", &LweSet::ALL.map(LweSet::name), 1, set.name()) {
            continue;
        }
        // The matrix has one record, several records in a column, or one record in a column; or a
        // record is taller than the matrix and takes several columns.
        let shapes = [(1, 1), (300, 9), (70, 33), (5, 4096), (3, 20_000)];
        for ((records, record_bytes), bits) in shapes.into_iter().zip([17, 17, 20, 31, 32]) {
            let params = with_members(&choose(set, records, record_bytes), "", &[("hint_bits", bits)]);
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
    let params = choose(LweSet::Module1280, 300, 90);
    for content in [Content::Constant(0), Content::Constant(255), Content::Alternating] {
        let setup = setup(&Arc::new(CpuBackend::new(2).unwrap()), &params, content);
        records_decode(&setup, &(0..300).collect::<Vec<_>>(), &mut rng);
    }
}

#[test]
fn records_over_several_columns_decode() {
    let mut rng = SecretRng::from_os().unwrap();
    let params = with_members(&choose(LweSet::Module1280, 100, 630), "", &[("rows", 64), ("columns", 1024)]);
    assert_eq!(params.grid.parts(), 10);
    for backend in cpu_backends() {
        let setup = setup(&backend, &params, Content::Random(4));
        records_decode(&setup, &(0..100).collect::<Vec<_>>(), &mut rng);
        malformed_queries_are_refused(&setup, &mut rng);
    }
}

#[test]
fn random_records_of_a_large_database_decode() {
    let mut rng = SecretRng::from_os().unwrap();
    let params = choose(LweSet::Module1280, 250_000, 256);
    let records = params.records();
    let backend = Arc::new(CpuBackend::new(2).unwrap());
    let setup = setup(&backend, &params, Content::Random(5));
    let indices: Vec<u64> =
        [0, records - 1].into_iter().chain((0..62).map(|_| rng.next_u64() % records)).collect();
    records_decode(&setup, &indices, &mut rng);
}

/// Distribution of the rounding errors of a hint's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rounding {
    /// Every entry has the largest error, which is the most that content chosen against the public
    /// matrix could cause.
    Largest,
    /// Errors are uniform, as for content that does not depend on the matrix.
    Usual,
}

/// Returns z, the error that decoding tolerates divided by the measured standard deviation. The
/// clients' hints have errors as if rounded to `bits` bits; the hints of `setup` are whole, so that
/// these errors can be chosen. Checks that every record decodes.
fn measured_z(setup: &Setup, bits: u32, rounding: Rounding, rng: &mut SecretRng) -> f64 {
    let largest = 1u32 << (31 - bits);
    let (mut squares, mut count) = (0.0, 0.0);
    let mut noise = vec![0; setup.hint.len()];
    for index in (0..setup.params.records()).step_by(4) {
        let (words, _) = setup.hint.as_chunks::<4>();
        rng.fill(&mut noise);
        let off = words.iter().zip(noise.as_chunks::<4>().0).flat_map(|(&word, &random)| {
            let random = u32::from_le_bytes(random);
            let error = match rounding {
                Rounding::Largest if random & 1 == 0 => largest,
                Rounding::Largest => largest.wrapping_neg(),
                Rounding::Usual => (random >> bits).wrapping_sub(largest),
            };
            u32::from_le_bytes(word).wrapping_add(error).to_le_bytes()
        });
        let client = setup.params.client(&off.collect::<Vec<_>>(), &[], rng).unwrap();
        let Prepared { queries, state } = client.query(index, rng).unwrap();
        let answers = setup.answers(std::slice::from_ref(&queries)).remove(0);
        for error in client.errors(&*state, &slices(&answers)).unwrap() {
            squares += error.powi(2);
            count += 1.0;
        }
        let decoded = client.decode(state, &slices(&answers)).unwrap();
        assert!(decoded == setup.records[index as usize], "record {index} at {bits} bits, {rounding:?}");
    }
    (count / squares).sqrt()
}

/// Rounding to 16 bits suffices for uniform errors, but not if every error is the largest. Rounding
/// to the chosen number of bits suffices in both cases.
#[test]
fn content_aimed_at_the_matrix_does_not_make_rounded_hints_fail() {
    const NEEDED_LOG2: f64 = -60.0;
    let mut rng = SecretRng::from_os().unwrap();
    for set in LweSet::ALL {
        if !is_drawn("LWE sets", &LweSet::ALL.map(LweSet::name), 1, set.name()) {
            continue;
        }
        let chosen = choose(set, 250, 60);
        assert_eq!(chosen.hint_bits, 17);
        let choice = Choice { set: Some(set.name().into()), hint: HintForm::Whole, ..Choice::default() };
        let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), 250, 60).unwrap();
        let setup = setup(&Arc::new(CpuBackend::new(2).unwrap()), &params, Content::Constant(255));
        let mut failure_log2 = |bits, rounding| {
            let z = measured_z(&setup, bits, rounding, &mut rng);
            println!("{} at {bits} bits, {rounding:?}: z = {z:.2}", set.name());
            sub_gaussian_tail_log2(z)
        };
        let [largest, usual] =
            [Rounding::Largest, Rounding::Usual].map(|rounding| failure_log2(chosen.hint_bits, rounding));
        assert!(largest < NEEDED_LOG2 && usual < NEEDED_LOG2);
        // The stated bound is for a whole record, so it must not be far below the failure
        // probability measured for one byte.
        assert!(chosen.failure.unwrap().log2 > largest - 25.0);
        let [largest, usual] =
            [Rounding::Largest, Rounding::Usual].map(|rounding| failure_log2(16, rounding));
        assert!(usual < NEEDED_LOG2 && largest > NEEDED_LOG2, "{usual}, {largest}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn databases_of_any_shape_decode(records in 1u64..500, record_bytes in 1usize..600, seed: u64) {
        let mut rng = SecretRng::from_os().unwrap();
        let params = choose(LweSet::Module1280, records, record_bytes);
        for backend in cpu_backends() {
            let setup = setup(&backend, &params, Content::Random(seed));
            let indices: Vec<u64> = (0..20).map(|_| rng.next_u64() % records).collect();
            records_decode(&setup, &indices, &mut rng);
        }
    }
}
