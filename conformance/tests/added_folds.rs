//! A lying server of `exppack-double` that adds answers. The server knows the record of the current
//! query. To the packed rows of its answer, the server adds packed rows from a table of its own,
//! selected by the second vector of an earlier query under the same keys. Packed rows are bytes of
//! the first fold's hint. The server changes one entry in every row of the record, which changes
//! the record by a multiple of one entry of the query's first secret.
//!
//! Each of a query's two factors has a test that fails without it:
//! `a_change_across_one_threshold_meets_the_first_factor` for the first vector's factor,
//! `packed_rows_of_an_earlier_query_are_refused` for the second vector's.
#![allow(clippy::print_stdout, reason = "the number of accepted answers is worth seeing")]

use std::sync::Arc;

use spirea_backend::PanelLayout;
use spirea_conformance::{
    Content, Count, Form, Setup, is_drawn, records, setup_of, setup_of_liar, with_grid,
};
use spirea_cpu::CpuBackend;
use spirea_lattice::lwe::FIELD_ORDER;
use spirea_lattice::{LweSet, PublicMatrix, RingSet};
use spirea_math::random::{SecretRng, Seed};
use spirea_protocols::Prepared;
use spirea_protocols::registry::{Choice, ProtocolParams};

use crate::added::{TWO_FOLDS, add, is_tested};

/// Bytes of a record: its name and a checksum. A short checksum helps the server.
const RECORD_BYTES: usize = 5;
const NAME_BYTES: usize = 3;
/// Columns of the first fold, and groups, which are the columns of the second fold.
const WIDTH: usize = 256;
const SEED: Seed = Seed::new([7; 32]);
/// Index of the current query's record, which the server knows. The record is in the first column,
/// and in the group of this number.
const KNOWN: usize = 3;
const KNOWN_NAME: u32 = (1 << (8 * NAME_BYTES)) - 1;
/// Entry that the server changes in the rows of the hint.
const ENTRY: usize = 1;

/// Returns a record that a client accepts. Its checksum has a public key, like the checksums of
/// tables.
fn record_of(name: u32) -> Vec<u8> {
    let name = &name.to_le_bytes()[..NAME_BYTES];
    let checksum = blake3::hash(name);
    [name, &checksum.as_bytes()[..RECORD_BYTES - NAME_BYTES]].concat()
}

/// Returns the name in a record if its checksum is right.
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

/// Returns the index of the record in a column and a group.
fn index_of(column: usize, group: usize) -> usize {
    column * WIDTH + group
}

/// Returns the distance of an entry's two bytes from the middle of their range. At a small
/// distance, no byte leaves the range 0 to 255 when a number of the field is added.
fn from_the_middle([low, high]: [u8; 2]) -> u8 {
    low.abs_diff(128).max(high.abs_diff(128).saturating_mul(32))
}

/// Returns records, of which the known record has the name `name`. Two other records of the group
/// are chosen so that, in each row of the known record, the entry that the server changes has the
/// least `distance`.
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
            // Rounds the entry as the server does.
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

/// Returns the group that a planted name names.
fn named_group(name: u32) -> usize {
    (name % FIELD_ORDER) as usize
}

/// Numbers that the server plants for a group, in both bytes of an entry of each row.
type Plants = Vec<[u8; 2]>;

/// Returns the numbers of the field that turn the known record into a record that names the group.
/// Each number follows its negative; both are bytes. They change the entry by a multiple of 2^32 /
/// 257.
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

/// Returns two names whose records differ by 0 or 1 in each byte, found by trying names.
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
    /// Number of bytes of packed rows at the start of an answer.
    packed_bytes: usize,
    /// Number of bytes of the first vector at the start of a query.
    first_bytes: usize,
}

impl Attack {
    /// Plants numbers for each group. If the quotient of the factors is `ratio(group)`, they turn
    /// the known record into a record that names the group.
    fn new(ratio: impl Fn(usize) -> u32) -> Self {
        let params = parameters();
        let records = favourable_records(&params, KNOWN_NAME, from_the_middle);
        Self::planting(params, records, |group| naming(group, ratio(group)))
    }

    /// Sets up an honest server of these records, and a lying server that answers an earlier query
    /// with the numbers planted for the query's group.
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

    /// Makes a query for the known record, and returns the name in the decoded record if the client
    /// accepts it. `answer` computes the server's answer from the query.
    fn told(&self, answer: impl FnOnce(&[u8]) -> Vec<u8>, rng: &mut SecretRng) -> Option<u32> {
        let Prepared { queries, state } = self.honest.client.query(KNOWN as u64, rng).unwrap();
        accepted(&self.honest.client.decode(state, &[&answer(&queries[0])]).ok()?)
    }

    /// Returns the honest answer, with the lying server's answers to earlier queries added to its
    /// packed rows.
    fn sum(&self, query: &[u8], earlier: &[Vec<u8>]) -> Vec<u8> {
        let mut answer = Self::answer(&self.honest, query);
        for query in earlier {
            let added = Self::answer(&self.liar, query);
            let packed = answer[..self.packed_bytes].chunks_exact_mut(ciphertext_bytes());
            packed.zip(added.chunks_exact(ciphertext_bytes())).for_each(|(sum, other)| add(sum, other));
        }
        answer
    }

    /// Returns the answer to the query with its first vector replaced by that of an earlier query.
    fn with_first_of(&self, query: &[u8], earlier: &[u8]) -> Vec<u8> {
        Self::answer(&self.honest, &[&earlier[..self.first_bytes], &query[self.first_bytes..]].concat())
    }

    /// Returns the answer to the query, with its packed rows replaced by those that the second
    /// vector of an earlier query selects.
    fn with_second_of(&self, query: &[u8], earlier: &[u8]) -> Vec<u8> {
        let packed = Self::answer(&self.honest, earlier);
        let moving = Self::answer(&self.honest, query);
        [&packed[..self.packed_bytes], &moving[self.packed_bytes..]].concat()
    }
}

/// The short and the full form draw one attack: each takes up to a minute of a processor.
fn is_mounted(attack: &str) -> bool {
    let attacks = ["one quotient", "the first vector", "the second vector", "a threshold"];
    is_tested(TWO_FOLDS)
        && is_drawn("added answers of two folds", &attacks, Count { short: 1, full: 1 }, attack)
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
    // The client accepts the record planted for group j if the quotient is j + 1.
    let attack = Attack::new(|group| group as u32 + 1);
    // All queries of a kind use the same randomness and so the same factors: each group tests one
    // quotient of the same two factors.
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

/// Returns the number of tries, and the maximum number of accepted ones. If an attack succeeds once
/// in 256 times, it exceeds this maximum with probability 2^-18 in the short form, and with a lower
/// probability in the long form. Without the first vector's factor, about 16 of 100 tries are
/// accepted.
fn tries() -> [usize; 2] {
    if Form::of_environment() == Form::Long { [1000, 30] } else { [100, 5] }
}

/// Counts of the tries that a client accepted.
struct Told {
    what: &'static str,
    /// Number of tries accepted as another record.
    others: usize,
    /// Number of tries accepted as the right record.
    unchanged: usize,
}

impl Told {
    /// Makes all tries and counts the accepted names; the right record has the name `right`.
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
    // Adds one earlier query, or several of one group. Each query has its own factor.
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

/// Replaces the query's packed rows by rows of the same group from an earlier query. Without a
/// factor of the second vector, all of these would be accepted, and the server would recognise
/// queries for the same group.
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
/// changes the record by one step or not at all. If the secret's entry is 1, the number changes the
/// record for half of the factors of the second vectors. So these factors alone do not hide whether
/// the server plants a number for the group.
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
