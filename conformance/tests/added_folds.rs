//! A lying server of `exppack-double` that adds answers: to the packed rows of a query whose record
//! it knows, those of an earlier query's second vector under the same keys, over a table of its
//! own. They are bytes of the first fold's hint. The server changes one entry in every row of the
//! record, which changes the record by a multiple of one entry of the query's first secret.
#![allow(clippy::print_stdout, reason = "the number of accepted answers is worth seeing")]

use std::sync::Arc;

use spirea_backend::PanelLayout;
use spirea_conformance::{Content, Form, Setup, records, setup_of, setup_of_liar, with_grid};
use spirea_cpu::CpuBackend;
use spirea_lattice::lwe::FIELD_ORDER;
use spirea_lattice::{LweSet, PublicMatrix, RingSet};
use spirea_math::random::SecretRng;
use spirea_protocols::Prepared;
use spirea_protocols::registry::{Choice, ProtocolParams};

use crate::added::{TWO_FOLDS, add, is_tested};

/// Bytes of a record: its name and a checksum. A short one is computed quickly, and helps the
/// server.
const RECORD_BYTES: usize = 5;
const NAME_BYTES: usize = 2;
/// Columns of the first fold, and groups, which are the columns of the second fold.
const WIDTH: usize = 256;
const SEED: [u8; 32] = [7; 32];
/// The record that the server knows the client to ask for now: of the first column, and the group
/// of this number.
const KNOWN: usize = 3;
const KNOWN_NAME: u16 = u16::MAX;
/// The entry of the hint's rows that the server changes.
const ENTRY: usize = 1;

/// A record that a client accepts: its checksum has a public key, as those of tables.
fn record_of(name: u16) -> Vec<u8> {
    let name = name.to_le_bytes();
    let checksum = blake3::hash(&name);
    [&name, &checksum.as_bytes()[..RECORD_BYTES - NAME_BYTES]].concat()
}

/// The name in a record, if its checksum is right.
fn accepted(record: &[u8]) -> Option<u16> {
    let name = u16::from_le_bytes(*record.first_chunk()?);
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

/// Records with the known one among them. In its rows the entry that the server changes has both
/// bytes in the middle, by the choice of two other records of the group: so no byte goes below 0 or
/// above 255 when a number of the field is added.
fn favourable_records(params: &ProtocolParams) -> Vec<Vec<u8>> {
    let mut records = records(params, Content::Random(5));
    records[KNOWN] = record_of(KNOWN_NAME);
    let set = LweSet::Module1280;
    let public = PublicMatrix::new(set, SEED, WIDTH).entries();
    let entry = |column: usize, byte: u8| public[column * set.degree() + ENTRY].wrapping_mul(byte.into());
    let byte_of = |records: &[Vec<u8>], column: usize, byte: usize| records[index_of(column, KNOWN)][byte];
    for byte in 0..RECORD_BYTES {
        let others =
            [0].into_iter().chain(3..WIDTH).map(|column| entry(column, byte_of(&records, column, byte)));
        let of_others = others.fold(0, u32::wrapping_add);
        let from_the_middle = |[one, two]: &[u8; 2]| {
            let word = of_others.wrapping_add(entry(1, *one)).wrapping_add(entry(2, *two));
            // As the server rounds it.
            let [.., low, high] = word.wrapping_add(1 << 15).to_le_bytes();
            low.abs_diff(128).max(high.abs_diff(128).saturating_mul(32))
        };
        let choices = (0..=u16::MAX).map(u16::to_le_bytes);
        let best = choices.min_by_key(from_the_middle).unwrap();
        [1, 2]
            .into_iter()
            .zip(best)
            .for_each(|(column, value)| records[index_of(column, KNOWN)][byte] = value);
    }
    records
}

/// The group that a planted name names.
fn named_group(name: u16) -> usize {
    usize::from(name % FIELD_ORDER as u16)
}

/// Numbers that the server plants for a group: numbers of the field for the bytes of a record that
/// names it, each behind its negative. All are bytes.
fn planted(group: usize, ratio: u32) -> Vec<[u8; 2]> {
    let inverse = (1..FIELD_ORDER).find(|x| x * ratio % FIELD_ORDER == 1).unwrap();
    let known = record_of(KNOWN_NAME);
    let numbers = |name: u16| -> Option<Vec<[u8; 2]>> {
        let pair = |(&wanted, &known): (&u8, &u8)| {
            let number = (u32::from(wanted) + FIELD_ORDER - u32::from(known)) * inverse % FIELD_ORDER;
            let negative = (FIELD_ORDER - number) % FIELD_ORDER;
            Some([negative.try_into().ok()?, number.try_into().ok()?])
        };
        record_of(name).iter().zip(&known).map(pair).collect()
    };
    let mut names = (group as u16..KNOWN_NAME).step_by(FIELD_ORDER as usize);
    names.find_map(numbers).unwrap()
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
    /// of factors is `ratio(group)`: in the upper byte of the hint's entry, and the negative in the
    /// lower byte, so that both change it by a multiple of 2^32 / 257.
    fn new(ratio: impl Fn(usize) -> u32) -> Self {
        let (backend, params) = (Arc::new(CpuBackend::new(2).unwrap()), parameters());
        let records = favourable_records(&params);
        let degree = LweSet::Module1280.degree();
        let fixed_rows = 2 * degree * RECORD_BYTES;
        let layout = PanelLayout::covering(fixed_rows, WIDTH).unwrap();
        let honest = setup_of(&backend, &params, records);
        let liar = setup_of_liar(&backend, &params, vec![vec![0; RECORD_BYTES]; WIDTH * WIDTH], |fixed| {
            fixed.fill(0);
            for group in 0..WIDTH {
                for (i, pair) in planted(group, ratio(group)).into_iter().enumerate() {
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
    fn told(&self, answer: impl FnOnce(&[u8]) -> Vec<u8>, rng: &mut SecretRng) -> Option<u16> {
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

fn ciphertext_bytes() -> usize {
    let (a, b) = RingSet::Fast.response_bits();
    (a + b) as usize * RingSet::DEGREE / 8
}

#[test]
fn one_quotient_of_factors_in_256_makes_a_record_name_an_earlier_group() {
    if !is_tested(TWO_FOLDS) {
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

#[test]
fn answers_added_to_the_hint_are_refused_or_change_nothing() {
    /// Tries in the long form, and how many of them may be accepted as another record: about 3 are.
    const TRIES: usize = 1000;
    const MOST_ACCEPTED: usize = 30;
    if !is_tested(TWO_FOLDS) {
        return;
    }
    let share = if Form::of_environment() == Form::Long { 1 } else { 20 };
    let mut rng = SecretRng::from_os().unwrap();
    let attack = Attack::new(|_| 1);
    let judge = |what: &str, attempt: &mut dyn FnMut(usize) -> Option<u16>| {
        let names: Vec<u16> = (0..TRIES / share).filter_map(attempt).collect();
        let unchanged = names.iter().filter(|&&name| name == KNOWN_NAME).count();
        let others = names.len() - unchanged;
        println!(
            "{what}: {others} of {} accepted as another record, {unchanged} as the right one",
            TRIES / share
        );
        assert!(others <= MOST_ACCEPTED.div_ceil(share) + 2, "{what}: {others} accepted");
    };
    // One earlier query, or several of one group: each has a factor of its own.
    for (what, queries) in [("one is added", 1), ("three are added", 3)] {
        judge(what, &mut |attempt| {
            let columns = 0..queries;
            let earlier: Vec<_> =
                columns.map(|column| attack.earlier(column, attempt % WIDTH, &mut rng)).collect();
            attack.told(|query| attack.sum(query, &earlier), &mut rng)
        });
    }
    judge("the first vector is an earlier query's", &mut |attempt| {
        let earlier = attack.earlier(attempt % WIDTH, KNOWN, &mut rng);
        attack.told(|query| attack.with_first_of(query, &earlier), &mut rng)
    });
    judge("the second vector is an earlier query's", &mut |attempt| {
        let earlier = attack.earlier(attempt % WIDTH, KNOWN, &mut rng);
        attack.told(|query| attack.with_second_of(query, &earlier), &mut rng)
    });
}
