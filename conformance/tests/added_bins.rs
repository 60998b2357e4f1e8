//! A lying server that adds answers of one query. The server knows the record that is queried in
//! one bin. To the answer of this bin, it adds the answer of another bin over a forged table. The
//! sum would be a valid record that names the column asked for in the other bin. All bins are under
//! one secret, so no earlier query is needed.
#![allow(clippy::print_stdout, reason = "the number of accepted answers is worth seeing")]

use spirea_conformance::{Form, with_grid};
use spirea_lattice::RingSet;
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::{Prepared, Query};

use crate::added::{
    Attack, Coefficient, IN_BINS, RECORD_BYTES, accepted, add, is_tested, planted, record_of,
};

const COLUMNS: usize = 256;
/// Number of bins. Records belong to the bins in turn, and each unit has one record.
const BINS: u64 = 2;
/// Index of the record that is queried in the first bin, which the server knows.
const KNOWN: u64 = 0;

fn parameters() -> ProtocolParams {
    let choice = Choice { protocol: "exppack-simple".into(), bins: BINS as usize, ..Choice::default() };
    let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), 100, RECORD_BYTES).unwrap();
    let shape =
        [("unit_rows", RECORD_BYTES as u64), ("columns", COLUMNS as u64), ("records", BINS * COLUMNS as u64)];
    with_grid(&params, &shape)
}

/// Moves a response's rows up by `rows`: multiplies both halves by X^-`rows`.
fn moved_up(response: &[u8], rows: usize) -> Vec<u8> {
    let coefficients: Vec<Coefficient> = Coefficient::all().collect();
    let mut moved = vec![0; response.len()];
    for half in coefficients.chunks_exact(RingSet::DEGREE) {
        for (i, from) in half.iter().enumerate() {
            let (value, to) = (from.of(response), (i + RingSet::DEGREE - rows) % RingSet::DEGREE);
            half[to].set(&mut moved, if i < rows { value.wrapping_neg() } else { value });
        }
    }
    moved
}

/// The lying server, whose forged records are in the second bin.
struct AttackOnBins(Attack);

impl AttackOnBins {
    /// Forges records for each column of the second bin. If the quotient of the factors is
    /// `ratio(column)`, they turn the known record into a record that names the column.
    fn new(ratio: impl Fn(u64) -> u32) -> Self {
        let planted = |index: u64| match index % BINS {
            1 => planted(&record_of(KNOWN), &record_of(1000 + index / BINS), ratio(index / BINS)),
            _ => vec![[0; 2]; RECORD_BYTES],
        };
        Self(Attack::of(&parameters(), KNOWN, planted))
    }

    /// Answers a query for the known record in the first bin and for a column of the second.
    /// Returns the name in the first bin's record if the client accepts it.
    fn lie(&self, column: u64, rng: &mut SecretRng) -> Option<u64> {
        let Attack { honest, planted, keys } = &self.0;
        let asked = [KNOWN, BINS * column + 1];
        let Prepared { queries, state } = honest.client.query_bins(&asked, rng).unwrap();
        let mut answer = honest.answers(std::slice::from_ref(&queries)).remove(0).remove(0);
        for (setup, keys) in planted.iter().zip(keys) {
            let query = Query { bytes: &queries[0], keys: Some(keys) };
            let forged = setup.servers[0].answer(&[query]).unwrap().remove(0);
            add(&mut answer, &moved_up(&forged, RECORD_BYTES));
        }
        let decoded = honest.client.decode_bins(state, &[&answer]).ok()?;
        let [known, other] = [0, 1].map(|bin| &decoded[bin * RECORD_BYTES..][..RECORD_BYTES]);
        assert!(other == honest.records[asked[1] as usize], "the second bin is answered honestly");
        accepted(known)
    }
}

#[test]
fn one_quotient_of_factors_of_two_bins_in_256_lets_an_added_answer_through() {
    if !is_tested(IN_BINS) {
        return;
    }
    // The client accepts the record planted in column j if the quotient is j + 1, and the factors
    // are the same in every try.
    let attack = AttackOnBins::new(|column| column as u32 + 1);
    let tries = (0..COLUMNS as u64).map(|column| {
        attack.lie(column, &mut SecretRng::deterministic_for_tests(4)).map(|name| (column, name))
    });
    let accepted: Vec<_> = tries.flatten().collect();
    let [(column, name)] = accepted[..] else { panic!("{accepted:?}") };
    assert_eq!(name, 1000 + column, "the record names the column of the second bin");
}

#[test]
fn answers_of_other_bins_are_refused() {
    if !is_tested(IN_BINS) {
        return;
    }
    /// Number of tries in the long form, and maximum number of accepted tries. About 4 accepted
    /// tries are expected.
    const TRIES: usize = 1000;
    const MOST_ACCEPTED: usize = 30;
    let share = if Form::of_environment() == Form::Long { 1 } else { 20 };
    let (attack, mut rng) = (AttackOnBins::new(|_| 1), SecretRng::from_os().unwrap());
    let lies = (0..TRIES / share).map(|attempt| attack.lie((attempt % COLUMNS) as u64, &mut rng));
    let accepted = lies.flatten().count();
    assert!(accepted <= MOST_ACCEPTED.div_ceil(share) + 2, "{accepted} accepted");
    println!("{accepted} of {} accepted", TRIES / share);
}
