//! A lying server of `exppack-double` that adds answers: to the packed rows of a query whose record
//! it knows, those of an earlier query's second vector under the same keys, over a table of its
//! own. They are bytes of the first fold's hint. The server changes one entry in every row of the
//! record, which changes the record by a multiple of one entry of the query's first secret.
//!
//! Each of a query's two factors has a test that fails without it:
//! `a_change_across_one_threshold_meets_the_first_factor` for the first vector's factor,
//! `packed_rows_of_an_earlier_query_are_refused` for the second vector's.
#![allow(clippy::print_stdout, reason = "the number of accepted answers is worth seeing")]

use std::sync::Arc;

use spirea_backend::PanelLayout;
use spirea_conformance::{Content, Form, Setup, is_drawn, records, setup_of, setup_of_liar, with_grid};
use spirea_cpu::CpuBackend;
use spirea_lattice::lwe::FIELD_ORDER;
use spirea_lattice::{LweSet, PublicMatrix, RingSet};
use spirea_math::random::SecretRng;
use spirea_protocols::Prepared;
use spirea_protocols::registry::{Choice, ProtocolParams};

use crate::added::{TWO_FOLDS, add, is_tested};

/// Bytes of a record: its name and a checksum. A short checksum helps the server.
const RECORD_BYTES: usize = 5;
const NAME_BYTES: usize = 3;
/// Columns of the first fold, and groups, which are the columns of the second fold.
const WIDTH: usize = 256;
const SEED: [u8; 32] = [7; 32];
/// The record that the server knows the client to ask for now: of the first column, and the group
/// of this number.
const KNOWN: usize = 3;
const KNOWN_NAME: u32 = (1 << (8 * NAME_BYTES)) - 1;
/// The entry of the hint's rows that the server changes.
const ENTRY: usize = 1;

/// A record that a client accepts: its checksum has a public key, as those of tables.
fn record_of(name: u32) -> Vec<u8> {
    let name = &name.to_le_bytes()[..NAME_BYTES];
    let checksum = blake3::hash(name);
    [name, &checksum.as_bytes()[..RECORD_BYTES - NAME_BYTES]].concat()
}

/// The name in a record, if its checksum is right.
fn accepted(record: &[u8]) -> Option<u32> {
    let bytes: [u8; NAME_BYTES] = *record.first_chunk()?;
    let name = bytes.iter().rfold(0, |name, &byte| name << 8 | u32::from(byte));
    (record == record_of(name)).then_some(name)
}

fn parameters() -> ProtocolParams {
    let choice = Choice { protocol: TWO_FOLDS.into(), ..Choice::default() };
    let params = ProtocolParams::choose(&choice, SEED, 1, RECORD_BYTES).unwrap();
    let (unit_rows, width) = (RECORD_BYTES as u64, WIDTH as u64);
    with_grid(
        &params,
        &[("unit_rows", unit_rows), ("groups", width), ("columns", width), ("records", width * width)],
    )
}

/// The index of the record in a column and a group.
fn index_of(column: usize, group: usize) -> usize {
    column * WIDTH + group
}

/// Distance of an entry's two bytes from the middle. Close to it, no byte goes below 0 or above 255
/// when a number of the field is added.
fn from_the_middle([low, high]: [u8; 2]) -> u8 {
    low.abs_diff(128).max(high.abs_diff(128).saturating_mul(32))
}

/// Records with the one of `name` in the known place. In its rows the entry that the server changes
/// has the least `distance`, by the choice of two other records of the group.
fn favourable_records(params: &ProtocolParams, name: u32, distance: fn([u8; 2]) -> u8) -> Vec<Vec<u8>> {
    let mut records = records(params, Content::Random(5));
    records[KNOWN] = record_of(name);
    let set = LweSet::Module1280;
    let public = PublicMatrix::new(set, SEED, WIDTH).entries();
    let entry = |column: usize, byte: u8| public[column * set.degree() + ENTRY].wrapping_mul(byte.into());
    let byte_of = |records: &[Vec<u8>], column: usize, byte: usize| records[index_of(column, KNOWN)][byte];
    for byte in 0..RECORD_BYTES {
        let others =
            [0].into_iter().chain(3..WIDTH).map(|column| entry(column, byte_of(&records, column, byte)));
        let of_others = others.fold(0, u32::wrapping_add);
        let distance_with = |[one, two]: &[u8; 2]| {
            let word = of_others.wrapping_add(entry(1, *one)).wrapping_add(entry(2, *two));
            // As the server rounds it.
            let [.., low, high] = word.wrapping_add(1 << 15).to_le_bytes();
            distance([low, high])
        };
        let choices = (0..=u16::MAX).map(u16::to_le_bytes);
        let best = choices.min_by_key(distance_with).unwrap();
        [1, 2]
            .into_iter()
            .zip(best)
            .for_each(|(column, value)| records[index_of(column, KNOWN)][byte] = value);
    }
    records
}

/// The group that a planted name names.
fn named_group(name: u32) -> usize {
    (name % FIELD_ORDER) as usize
}

/// Numbers that the server plants for a group, in both bytes of an entry of each row.
type Plants = Vec<[u8; 2]>;

/// Numbers of the field for the bytes of a record that names the group, each behind its negative.
/// All are bytes. They change the entry by a multiple of 2^32 / 257.
fn naming(group: usize, ratio: u32) -> Plants {
    let inverse = (1..FIELD_ORDER).find(|x| x * ratio % FIELD_ORDER == 1).unwrap();
    let known = record_of(KNOWN_NAME);
    let numbers = |name: u32| -> Option<Plants> {
        let pair = |(&wanted, &known): (&u8, &u8)| {
            let number = (u32::from(wanted) + FIELD_ORDER - u32::from(known)) * inverse % FIELD_ORDER;
            let negative = (FIELD_ORDER - number) % FIELD_ORDER;
            Some([negative.try_into().ok()?, number.try_into().ok()?])
        };
        record_of(name).iter().zip(&known).map(pair).collect()
    };
    let mut names = (group as u32..KNOWN_NAME).step_by(FIELD_ORDER as usize);
    names.find_map(numbers).unwrap()
}

/// Two names whose records differ by 0 or 1 in each byte, found by hashing.
fn neighbours() -> [u32; 2] {
    let steps = (1..1 << NAME_BYTES)
        .map(|bits: u32| (0..NAME_BYTES).fold(0, |sum, i| sum | (bits >> i & 1) << (8 * i)));
    let pairs = (0..KNOWN_NAME).flat_map(|name| steps.clone().map(move |step| [name, name + step]));
    let mut near = pairs.filter(|pair| {
        let [one, other] = pair.map(record_of);
        one.iter().zip(&other).all(|(one, other)| other.wrapping_sub(*one) <= 1)
    });
    near.next().unwrap()
}

struct Attack {
    honest: Setup,
    liar: Setup,
    /// Bytes of an answer that are packed.
    packed_bytes: usize,
    /// Bytes of a query that are its first vector.
    first_bytes: usize,
}

impl Attack {
    /// Plants for each group what makes the known record one that names the group, if the quotient
    /// of factors is `ratio(group)`.
    fn new(ratio: impl Fn(usize) -> u32) -> Self {
        let params = parameters();
        let records = favourable_records(&params, KNOWN_NAME, from_the_middle);
        Self::planting(params, records, |group| naming(group, ratio(group)))
    }

    /// A server of these records that adds, by an earlier query, what is planted for its group.
    fn planting(params: ProtocolParams, records: Vec<Vec<u8>>, planted: impl Fn(usize) -> Plants) -> Self {
        let backend = Arc::new(CpuBackend::new(2).unwrap());
        let degree = LweSet::Module1280.degree();
        let fixed_rows = 2 * degree * RECORD_BYTES;
        let layout = PanelLayout::covering(fixed_rows, WIDTH).unwrap();
        let honest = setup_of(&backend, &params, records);
        let liar = setup_of_liar(&backend, &params, vec![vec![0; RECORD_BYTES]; WIDTH * WIDTH], |fixed| {
            fixed.fill(0);
            for group in 0..WIDTH {
                for (i, pair) in planted(group).into_iter().enumerate() {
                    for (half, byte) in pair.into_iter().enumerate() {
                        fixed[layout.offset(2 * (degree * i + ENTRY) + half, group)] = byte;
                    }
                }
            }
        });
        let packed_bytes = fixed_rows.div_ceil(RingSet::DEGREE) * ciphertext_bytes();
        let public = honest.client.keys().unwrap().bytes();
        let liar = Setup { keys: Some(liar.servers[0].prepare_keys(public).unwrap()), ..liar };
        let json: serde_json::Value = serde_json::from_slice(&params.to_json()).unwrap();
        let first_bytes = (32 - json["dropped_bits"].as_u64().unwrap() as usize) * WIDTH / 8;
        Self { honest, liar, packed_bytes, first_bytes }
    }

    fn earlier(&self, column: usize, group: usize, rng: &mut SecretRng) -> Vec<u8> {
        self.honest.client.query(index_of(column, group) as u64, rng).unwrap().queries.remove(0)
    }

    fn answer(setup: &Setup, query: &[u8]) -> Vec<u8> {
        setup.answers(&[vec![query.to_vec()]]).remove(0).remove(0)
    }

    /// The name in the record that the client accepts, if it accepts one, for the answer that a
    /// server makes of the query.
    fn told(&self, answer: impl FnOnce(&[u8]) -> Vec<u8>, rng: &mut SecretRng) -> Option<u32> {
        let Prepared { queries, state } = self.honest.client.query(KNOWN as u64, rng).unwrap();
        accepted(&self.honest.client.decode(state, &[&answer(&queries[0])]).ok()?)
    }

    /// The honest answer, to which those of earlier queries are added.
    fn sum(&self, query: &[u8], earlier: &[Vec<u8>]) -> Vec<u8> {
        let mut answer = Self::answer(&self.honest, query);
        for query in earlier {
            let added = Self::answer(&self.liar, query);
            let packed = answer[..self.packed_bytes].chunks_exact_mut(ciphertext_bytes());
            packed.zip(added.chunks_exact(ciphertext_bytes())).for_each(|(sum, other)| add(sum, other));
        }
        answer
    }

    /// The answer to the query with the first vectors of an earlier one.
    fn with_first_of(&self, query: &[u8], earlier: &[u8]) -> Vec<u8> {
        Self::answer(&self.honest, &[&earlier[..self.first_bytes], &query[self.first_bytes..]].concat())
    }

    /// The answer to the query, with the packed rows that the second vector of an earlier one
    /// selects.
    fn with_second_of(&self, query: &[u8], earlier: &[u8]) -> Vec<u8> {
        let packed = Self::answer(&self.honest, earlier);
        let moving = Self::answer(&self.honest, query);
        [&packed[..self.packed_bytes], &moving[self.packed_bytes..]].concat()
    }
}

/// The short form draws one attack: each takes 20 seconds of a processor.
fn is_mounted(attack: &str) -> bool {
    let attacks = ["one quotient", "the first vector", "the second vector", "a threshold"];
    is_tested(TWO_FOLDS) && is_drawn("added answers of two folds", &attacks, 1, attack)
}

fn ciphertext_bytes() -> usize {
    let (a, b) = RingSet::Fast.response_bits();
    (a + b) as usize * RingSet::DEGREE / 8
}

#[test]
fn one_quotient_of_factors_in_256_makes_a_record_name_an_earlier_group() {
    if !is_mounted("one quotient") {
        return;
    }
    // Group j holds what is accepted under the quotient j + 1.
    let attack = Attack::new(|group| group as u32 + 1);
    // Of one randomness, so that all have the same factors: each group tries one quotient of them.
    let (of_earlier, of_current) =
        (|| SecretRng::deterministic_for_tests(9), || SecretRng::deterministic_for_tests(5));
    let tries = (0..WIDTH).map(|group| {
        let earlier = [attack.earlier(0, group, &mut of_earlier())];
        let told = attack.told(|query| attack.sum(query, &earlier), &mut of_current());
        told.map(|name| (group, name))
    });
    let accepted: Vec<_> = tries.flatten().collect();
    let [(group, name)] = accepted[..] else { panic!("{accepted:?}") };
    assert_eq!(named_group(name), group, "the record names the earlier query");
}

/// Returns the number of tries, and of those that may be accepted. Of an attack that succeeds once
/// in 256 times, more are accepted with probability 2^-18 in the short form, less in the long one.
/// Without the first vector's factor, about 16 of 100 are.
fn tries() -> [usize; 2] {
    if Form::of_environment() == Form::Long { [1000, 30] } else { [100, 5] }
}

/// Names that a client accepted.
struct Told {
    what: &'static str,
    /// Accepted as another record.
    others: usize,
    /// Accepted as the right record.
    unchanged: usize,
}

impl Told {
    /// Counts what the client accepts in all tries, for a record of the name `right`.
    fn count(what: &'static str, right: u32, attempt: impl FnMut(usize) -> Option<u32>) -> Self {
        let [tries, _] = tries();
        let names: Vec<u32> = (0..tries).filter_map(attempt).collect();
        let unchanged = names.iter().filter(|&&name| name == right).count();
        let others = names.len() - unchanged;
        println!("{what}: {others} of {tries} accepted as another record, {unchanged} as the right one");
        Self { what, others, unchanged }
    }

    fn changes_are_refused(&self) {
        let [_, most] = tries();
        assert!(self.others <= most, "{}: {} accepted", self.what, self.others);
    }
}

#[test]
fn answers_added_to_the_hint_are_refused_or_change_nothing() {
    if !is_mounted("the first vector") {
        return;
    }
    let (attack, mut rng) = (Attack::new(|_| 1), SecretRng::from_os().unwrap());
    // One earlier query, or several of one group: each has a factor of its own.
    for (what, queries) in [("one is added", 1), ("three are added", 3)] {
        let told = Told::count(what, KNOWN_NAME, |attempt| {
            let columns = 0..queries;
            let earlier: Vec<_> =
                columns.map(|column| attack.earlier(column, attempt % WIDTH, &mut rng)).collect();
            attack.told(|query| attack.sum(query, &earlier), &mut rng)
        });
        told.changes_are_refused();
    }
    let told = Told::count("the first vector is an earlier query's", KNOWN_NAME, |attempt| {
        let earlier = attack.earlier(attempt % WIDTH, KNOWN, &mut rng);
        attack.told(|query| attack.with_first_of(query, &earlier), &mut rng)
    });
    told.changes_are_refused();
}

/// Rows of the same group, in place of the query's own: without a factor of the second vector, all
/// would be accepted, and the server would recognise queries for one group.
#[test]
fn packed_rows_of_an_earlier_query_are_refused() {
    if !is_mounted("the second vector") {
        return;
    }
    let (attack, mut rng) = (Attack::new(|_| 1), SecretRng::from_os().unwrap());
    let told = Told::count("the second vector is an earlier query's", KNOWN_NAME, |attempt| {
        let earlier = attack.earlier(attempt % WIDTH, KNOWN, &mut rng);
        attack.told(|query| attack.with_second_of(query, &earlier), &mut rng)
    });
    told.changes_are_refused();
    let [_, most] = tries();
    assert!(told.unchanged <= most, "{} accepted", told.unchanged);
}

/// The lower byte of the hint's entry is near a threshold, so a number that the server adds there
/// changes the record by one step or not at all. If the secret's entry is 1, it does so for half of
/// the factors of the second vectors. So these factors alone do not hide whether the server plants
/// something for the group.
#[test]
fn a_change_across_one_threshold_meets_the_first_factor() {
    if !is_mounted("a threshold") {
        return;
    }
    let (params, [known, other]) = (parameters(), neighbours());
    let records = favourable_records(&params, known, |[low, _]| low);
    let attack = Attack::planting(params, records, |group| {
        let changes = record_of(known).into_iter().zip(record_of(other)).map(|(known, other)| known != other);
        changes.map(|changes| [u8::from(changes && group % 2 == 1), 0]).collect()
    });
    let mut rng = SecretRng::from_os().unwrap();
    let told = Told::count("a threshold is crossed", known, |_| {
        let earlier = attack.earlier(0, 1, &mut rng);
        attack.told(|query| attack.sum(query, &[earlier]), &mut rng)
    });
    told.changes_are_refused();
}
