//! A lying server that adds answers. The server knows the record of the current query. To its
//! answer, the server adds the answer that an earlier query under the same keys gets from a forged
//! table. The sum would be a valid record that names the earlier query's column.
#![allow(clippy::print_stdout, reason = "the number of accepted answers is worth seeing")]

use std::ops::Range;
use std::sync::Arc;

use spirea_conformance::{Content, Count, Form, Setup, is_drawn, records, setup_of, with_grid};
use spirea_cpu::CpuBackend;
use spirea_lattice::RingSet;
use spirea_lattice::lwe::FIELD_ORDER;
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::{Prepared, PreparedKeys, Query};

/// Protocols that are attacked: those of one fold here, and the others in `added_folds` and
/// `added_bins`.
const PROTOCOLS: [&str; 4] = ["exppack-simple", "hybrid", TWO_FOLDS, IN_BINS];
pub const TWO_FOLDS: &str = "exppack-double";
/// The bins of `exppack-simple`, which `added_bins` attacks.
pub const IN_BINS: &str = "bins of exppack-simple";
/// Bytes of a record: the number of a column, zeros, and a checksum of both.
pub const RECORD_BYTES: usize = 64;
const CHECKSUM_BYTES: usize = 8;
const COLUMNS: usize = 256;
/// Index of the current query's record, which the server knows.
const KNOWN: u64 = 3;

/// Returns a record that a client accepts. Its checksum has a public key, like the checksums of
/// tables.
pub fn record_of(name: u64) -> Vec<u8> {
    let mut record = name.to_le_bytes().to_vec();
    record.resize(RECORD_BYTES - CHECKSUM_BYTES, 0);
    let checksum = blake3::hash(&record);
    record.extend(&checksum.as_bytes()[..CHECKSUM_BYTES]);
    record
}

/// Returns the name in a record if its checksum is valid.
pub fn accepted(record: &[u8]) -> Option<u64> {
    let name = u64::from_le_bytes(*record.first_chunk()?);
    (record == record_of(name)).then_some(name)
}

fn parameters(protocol: &str) -> ProtocolParams {
    let choice = Choice { protocol: protocol.into(), ..Choice::default() };
    let params = ProtocolParams::choose(&choice, Seed::new([7; 32]), 1, RECORD_BYTES).unwrap();
    let records = COLUMNS * RingSet::DEGREE / RECORD_BYTES;
    let grid = [("unit_rows", RingSet::DEGREE), ("groups", 1), ("columns", COLUMNS), ("records", records)];
    with_grid(&params, &grid.map(|(member, value)| (member, value as u64)))
}

/// Splits a number into two bytes whose sum is the number. Two bytes are needed because the largest
/// element of the field, 256, is not a byte.
fn bytes_of(number: u32) -> [u8; 2] {
    [number.min(255) as u8, (number / 256) as u8]
}

/// A coefficient of a response: a range of bits.
pub struct Coefficient(Range<usize>);

impl Coefficient {
    /// Returns the coefficients of both halves of a response, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        let (a, b) = RingSet::Fast.response_bits();
        let widths = std::iter::repeat_n(a, RingSet::DEGREE).chain(std::iter::repeat_n(b, RingSet::DEGREE));
        widths.scan(0, |start, width| {
            let bits = *start..*start + width as usize;
            *start = bits.end;
            Some(Self(bits))
        })
    }

    /// Returns its value in a response.
    pub fn of(&self, response: &[u8]) -> u64 {
        let bit = |i: usize| u64::from(response[i / 8] >> (i % 8) & 1);
        self.0.clone().rev().fold(0, |number, i| number << 1 | bit(i))
    }

    /// Sets its value in a response, modulo its power of two.
    pub fn set(&self, response: &mut [u8], value: u64) {
        for i in self.0.clone() {
            let bit = (value >> (i - self.0.start) & 1) as u8;
            response[i / 8] = response[i / 8] & !(1 << (i % 8)) | bit << (i % 8);
        }
    }
}

/// Adds a response to another response under the same secret, coefficient by coefficient.
pub fn add(sum: &mut [u8], other: &[u8]) {
    Coefficient::all().for_each(|coefficient| {
        coefficient.set(sum, coefficient.of(sum) + coefficient.of(other));
    });
}

/// Returns the numbers to plant. They turn the `known` record into `wanted` if the quotient of the
/// factors is `ratio`. Each number is split into two bytes whose sum is the number.
pub fn planted(known: &[u8], wanted: &[u8], ratio: u32) -> Vec<[u8; 2]> {
    let inverse = (1..FIELD_ORDER).find(|x| x * ratio % FIELD_ORDER == 1).unwrap();
    let difference =
        |(&wanted, &known): (&u8, &u8)| (u32::from(wanted) + FIELD_ORDER - u32::from(known)) * inverse;
    wanted.iter().zip(known).map(|pair| bytes_of(difference(pair) % FIELD_ORDER)).collect()
}

/// The lying server: the honest table, and two forged tables, whose answers it adds to the honest
/// answer.
pub struct Attack {
    pub honest: Setup,
    pub planted: [Setup; 2],
    pub keys: [PreparedKeys; 2],
}

impl Attack {
    /// Forges records for each column. If the quotient of the factors is `ratio(column)`, they turn
    /// the known record into a record that names the column.
    fn new(protocol: &str, ratio: impl Fn(u64) -> u32) -> Self {
        let (params, known) = (parameters(protocol), record_of(KNOWN));
        let per_column = params.grid.records_per_unit() as u64;
        // The known record's position in its unit; forged records have this position in every
        // column.
        let within = KNOWN % per_column;
        let planted = |index: u64| -> Vec<[u8; 2]> {
            let column = index / per_column;
            match index % per_column == within {
                true => planted(&known, &record_of(1000 + column), ratio(column)),
                false => vec![[0; 2]; RECORD_BYTES],
            }
        };
        Self::of(&params, KNOWN, planted)
    }

    /// Opens the tables. In the honest table, record `known` names itself. `planted` returns the
    /// numbers to plant at an index, each as two bytes: one for each forged table.
    pub fn of(params: &ProtocolParams, known: u64, planted: impl Fn(u64) -> Vec<[u8; 2]>) -> Self {
        let backend = Arc::new(CpuBackend::new(2).unwrap());
        let mut honest = records(params, Content::Random(5));
        honest[known as usize] = record_of(known);
        let table = |half: usize| -> Vec<Vec<u8>> {
            (0..params.records())
                .map(|index| planted(index).iter().map(|bytes| bytes[half]).collect())
                .collect()
        };
        let honest = setup_of(&backend, params, honest);
        let planted = [0, 1].map(|half| setup_of(&backend, params, table(half)));
        let public = honest.client.keys().unwrap().bytes();
        let keys = [0, 1].map(|half: usize| planted[half].servers[0].prepare_keys(public).unwrap());
        Self { honest, planted, keys }
    }

    /// Makes a query of the honest table's client for the record at the known record's position in
    /// another column.
    fn earlier(&self, column: u64, rng: &mut SecretRng) -> Vec<u8> {
        let per_column = self.honest.params.grid.records_per_unit() as u64;
        let index = column * per_column + KNOWN % per_column;
        self.honest.client.query(index, rng).unwrap().queries.remove(0)
    }

    /// Adds the answers to earlier queries, and returns the name in the record if the client
    /// accepts it.
    fn lie(&self, earlier: &[Vec<u8>], rng: &mut SecretRng) -> Option<u64> {
        let Prepared { queries, state } = self.honest.client.query(KNOWN, rng).unwrap();
        let mut answer = self.honest.answers(&[queries]).remove(0).remove(0);
        for (setup, keys) in self.planted.iter().zip(&self.keys) {
            let batch: Vec<_> = earlier.iter().map(|bytes| Query { bytes, keys: Some(keys) }).collect();
            for planted in setup.servers[0].answer(&batch).unwrap() {
                add(&mut answer, &planted);
            }
        }
        accepted(&self.honest.client.decode(state, &[&answer]).ok()?)
    }
}

/// The short and the full form draw one protocol, since each takes a minute.
pub fn is_tested(protocol: &str) -> bool {
    is_drawn("added answers", &PROTOCOLS, Count { short: 1, full: 1 }, protocol)
}

fn of_one_fold() -> impl Iterator<Item = &'static str> {
    ["exppack-simple", "hybrid"].into_iter().filter(|protocol| is_tested(protocol))
}

#[test]
fn one_quotient_of_factors_in_256_lets_an_added_answer_through() {
    for protocol in of_one_fold() {
        // The client accepts the record planted in column j if the quotient is j + 1.
        let attack = Attack::new(protocol, |column| column as u32 + 1);
        // All earlier queries use the same randomness and so the same factor: each column tests one
        // quotient of the same two factors.
        let randomness = || SecretRng::deterministic_for_tests(9);
        let tries = (0..COLUMNS as u64).map(|column| {
            attack
                .lie(&[attack.earlier(column, &mut randomness())], &mut SecretRng::deterministic_for_tests(4))
                .map(|name| (column, name))
        });
        let accepted: Vec<_> = tries.flatten().collect();
        let [(column, name)] = accepted[..] else { panic!("{protocol}: {accepted:?}") };
        assert_eq!(name, 1000 + column, "{protocol}: the record names the earlier query");
    }
}

#[test]
fn added_answers_are_refused() {
    /// Number of tries in the long form, and maximum number of accepted tries. About 4 accepted
    /// tries are expected.
    const TRIES: usize = 1000;
    const MOST_ACCEPTED: usize = 30;
    let share = if Form::of_environment() == Form::Long { 1 } else { 20 };
    let mut rng = SecretRng::from_os().unwrap();
    for protocol in of_one_fold() {
        let attack = Attack::new(protocol, |_| 1);
        // Counts for one earlier query and for three, each query with its own factor.
        let mut accepted = [0; 2];
        for (accepted, queries) in accepted.iter_mut().zip([1, 3]) {
            for attempt in 0..TRIES / share {
                let columns = (0..queries).map(|query| ((attempt * queries + query) % COLUMNS) as u64);
                let earlier: Vec<_> = columns.map(|column| attack.earlier(column, &mut rng)).collect();
                *accepted += usize::from(attack.lie(&earlier, &mut rng).is_some());
            }
            assert!(*accepted <= MOST_ACCEPTED.div_ceil(share) + 2, "{protocol}: {accepted} accepted");
        }
        println!("{protocol}: {accepted:?} of {} accepted", TRIES / share);
    }
}
