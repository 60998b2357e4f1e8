//! A lying server of double packing. It adds the answers of earlier queries under the same keys to
//! an answer, or substitutes them for others (docs/soundness.md). The server folds a vector of an
//! earlier query over a forged table. It adds the result either to the inner ciphertexts, whose
//! bytes the second fold takes, or to the outer ciphertexts, which are the answer.
#![allow(clippy::print_stdout, reason = "the number of accepted answers is worth seeing")]

use std::sync::Arc;

use spirea_backend::{Backend, Bodies, PanelLayout, RingBackend};
use spirea_cpu::CpuBackend;
use spirea_lattice::RingSet;
use spirea_lattice::lwe::FIELD_ORDER;

use super::*;
use crate::bytes::extend_words;
use crate::keys::PreparedKeys;
use crate::packing::expanded::ExpandedShape;
use crate::packing::registered::{Packer, Unpacked};
use crate::query::Query;
use crate::steps::LweHint;
use crate::steps::ring::RingServer;

const DEGREE: usize = RingSet::DEGREE;
/// Columns of the first fold, and groups, which are the columns of the second fold.
const WIDTH: usize = 256;
const RECORD_BYTES: usize = 16;
/// Bytes of a record that are not always 0: its name, and a checksum of the name. In a response,
/// the upper eight bits of the coefficients of these bytes are whole bytes. A short checksum at
/// such positions helps the server.
const MARKED: [usize; 4] = [3, 7, 11, 15];
/// Record that the client asks for now, as the server knows. It lies in the first column and the
/// first group.
const KNOWN: usize = 3;
const KNOWN_NAME: usize = 200;

/// Returns the name that the server plants for a column or a group.
fn planted_name(position: usize) -> usize {
    position % 128
}

/// Returns a record that a client accepts: the key of its checksum is public, as in tables.
fn record_of(name: usize) -> [u8; RECORD_BYTES] {
    let name = [name as u8];
    let checksum = blake3::hash(&name);
    let mut record = [0; RECORD_BYTES];
    MARKED.iter().zip(name.iter().chain(checksum.as_bytes())).for_each(|(&at, &byte)| record[at] = byte);
    record
}

/// Returns the name in a record, if its checksum is right.
fn accepted(record: &[u8]) -> Option<usize> {
    let name = record[MARKED[0]].into();
    (record == record_of(name)).then_some(name)
}

fn parameters() -> Params {
    let json = serde_json::json!({
        "set": "module-1280",
        "ring": "fast",
        "seed": "07".repeat(32),
        "dropped_bits": 5,
        "grid": {
            "records": WIDTH * WIDTH * DEGREE / RECORD_BYTES,
            "record_bytes": RECORD_BYTES,
            "unit_rows": DEGREE,
            "groups": WIDTH,
            "columns": WIDTH,
        },
    });
    let params: Params = serde_json::from_value(json).unwrap();
    params.validate().unwrap();
    params
}

fn times(a: u32, b: u32) -> u32 {
    a * b % FIELD_ORDER
}

fn inverse(unit: u32) -> u32 {
    (1..FIELD_ORDER).find(|&x| times(x, unit) == 1).unwrap()
}

/// Returns the number of a factor, which no server sees.
fn number_of(factor: &BlindingFactor) -> u32 {
    inverse(factor.unblind(u64::MAX / u64::from(FIELD_ORDER)).into())
}

/// Returns the sum of two responses under one secret, coefficient by coefficient.
fn sum(mut one: Vec<u8>, other: &[u8]) -> Vec<u8> {
    let (a, b) = RingSet::Fast.response_bits();
    let widths = std::iter::repeat_n(a, DEGREE).chain(std::iter::repeat_n(b, DEGREE)).cycle();
    let bit = |bytes: &[u8], i: usize| u64::from(bytes[i / 8] >> (i % 8) & 1);
    let mut start = 0;
    for width in widths.map(|width| width as usize) {
        if start == one.len() * 8 {
            return one;
        }
        let number =
            |bytes: &[u8]| (start..start + width).rev().fold(0, |number, i| number << 1 | bit(bytes, i));
        let total = number(&one) + number(other);
        for i in start..start + width {
            one[i / 8] = one[i / 8] & !(1 << (i % 8)) | ((total >> (i - start) & 1) as u8) << (i % 8);
        }
        start += width;
    }
    one
}

/// Returns true if the tests run in their long form.
fn is_long() -> bool {
    std::env::var("SPIREA_CONFORMANCE").is_ok_and(|form| form == "long")
}

/// Returns the number of tries of an attack that succeeds once in 256 times, and the maximum number
/// of successes. In the short form, more tries succeed with probability 2^-22.
fn few_tries() -> (usize, usize) {
    if is_long() { (32, 3) } else { (4, 2) }
}

/// One of a query's encrypted unit vectors.
#[derive(Clone, Copy, Debug)]
enum Vector {
    First,
    Second,
}

/// Ciphertexts to which the server adds the answer of an earlier query's vector.
#[derive(Clone, Copy, Debug)]
enum Level {
    /// The inner ciphertexts.
    Inner,
    /// The outer ciphertexts.
    Outer,
}

const ADDITIONS: [(Level, Vector); 4] = [
    (Level::Inner, Vector::First),
    (Level::Inner, Vector::Second),
    (Level::Outer, Vector::First),
    (Level::Outer, Vector::Second),
];

impl State {
    fn factor_of(&self, vector: Vector) -> u32 {
        number_of(match vector {
            Vector::First => &self.first,
            Vector::Second => &self.second,
        })
    }

    /// Returns the quotient of factors that a server needs in order to add the answer of an earlier
    /// query's vector.
    fn quotient(&self, (level, vector): (Level, Vector), earlier: &Self) -> u32 {
        let first = self.factor_of(Vector::First);
        let own = match level {
            Level::Inner => first,
            Level::Outer => times(first, self.factor_of(Vector::Second)),
        };
        times(earlier.factor_of(vector), inverse(own))
    }
}

/// A table of numbers 0 to 256, as the sum of two tables: bytes of at most 255, and a 1 for each
/// number 256.
struct Planted {
    halves: Vec<(<CpuBackend as Backend>::Matrix, Vec<<CpuBackend as RingBackend>::Plain>)>,
    rows: usize,
}

/// A query that the server received.
struct Asked<'a> {
    words: [Vec<u32>; 2],
    unpacked: Unpacked<'a, CpuBackend>,
}

struct Server {
    params: Params,
    ring: RingServer<CpuBackend, ExpandedShape>,
    client: Client,
    keys: PreparedKeys,
    /// Blocks of the first group. In `honest`, the known record has the name [`KNOWN_NAME`]; in
    /// `by_parity`, it names the parity of a group.
    honest: Planted,
    by_parity: [Planted; 2],
}

impl Server {
    fn new(rng: &mut SecretRng) -> Self {
        let params = parameters();
        let ring = RingServer::new(Arc::new(CpuBackend::new(2).unwrap()), params.ring_shape()).unwrap();
        let client = Client::new(params.clone(), &[], rng).unwrap();
        let keys = ring.prepare_keys(client.ring.keys().bytes()).unwrap();
        let block = |name| {
            let record = record_of(name).map(u32::from);
            plant(&params, &ring, Vector::First, DEGREE, |row, column| {
                if row / RECORD_BYTES == KNOWN {
                    record[row % RECORD_BYTES]
                } else {
                    (row + column) as u32 % 256
                }
            })
        };
        let (honest, by_parity) = (block(KNOWN_NAME), [0, 1].map(|group| block(planted_name(group))));
        Self { params, ring, client, keys, honest, by_parity }
    }

    fn ask(&self, column: usize, group: usize, rng: &mut SecretRng) -> (Vec<u8>, State) {
        let per_unit = self.params.0.grid.records_per_unit();
        let index = (column * WIDTH + group) * per_unit + KNOWN;
        let Prepared { mut queries, state } = self.client.query(index as u64, rng).unwrap();
        (queries.remove(0), state)
    }

    fn read<'a>(&'a self, query: &'a [u8]) -> Asked<'a> {
        let layout = self.params.layout();
        let mut words = [vec![0; layout.first], Vec::new()];
        layout.write_first(query, 0, &mut words[0]);
        extend_words(&mut words[1], layout.split(query).second);
        let query = Query { bytes: query, keys: Some(&self.keys) };
        let ciphertext = self.ring.parse(&query, layout.split(query.bytes).ciphertext).unwrap();
        let encrypted = [(self.ring.keys_of(query.keys).unwrap(), &ciphertext[..])];
        Asked { words, unpacked: ExpandedShape::unpack(&self.ring, &encrypted).unwrap() }
    }

    /// Returns the packed ciphertexts of a vector's answer, as bytes.
    fn answer(&self, asked: &Asked<'_>, vector: Vector, planted: &Planted) -> Vec<u8> {
        let bodies = Bodies::whole(0, planted.rows);
        let answers = planted.halves.iter().map(|(matrix, plain)| {
            let folded = self.ring.backend.scalar_fold(matrix, &asked.words[vector as usize]).unwrap();
            let packed = self.ring.pack(plain, &asked.unpacked, &folded, &bodies).unwrap();
            self.ring.switch(&[packed]).unwrap().remove(0)
        });
        answers.reduce(|one, other| sum(one, &other)).unwrap()
    }

    /// Computes the second fold and packing over the inner ciphertexts of even and odd groups,
    /// times a factor.
    fn second(&self, asked: &Asked<'_>, inner: [&[u8]; 2], factor: u32) -> Vec<u8> {
        let planted = plant(&self.params, &self.ring, Vector::Second, inner[0].len(), |row, group| {
            times(inner[group % 2][row].into(), factor)
        });
        self.answer(asked, Vector::Second, &planted)
    }

    /// Folds inner ciphertexts of the current query with the second vector of an earlier query for
    /// `group`, times each of the factors. The inner ciphertexts name the parity of their group.
    /// Returns, for each factor, the name in the record if the client accepts it. `factors`
    /// receives the factor that decodes.
    fn selected<const N: usize>(
        &self,
        group: usize,
        factors: impl Fn(u32) -> [u32; N],
        rng: &mut SecretRng,
    ) -> [Option<usize>; N] {
        let [(known, state), (earlier, earlier_state)] = [0, group].map(|group| self.ask(0, group, rng));
        let [asked, earlier] = [&known, &earlier].map(|query| self.read(query));
        let [even, odd] = self.by_parity.each_ref().map(|block| self.answer(&asked, Vector::First, block));
        let [own, other] = [&state, &earlier_state].map(|state| state.factor_of(Vector::Second));
        factors(times(own, inverse(other)))
            .map(|factor| self.accepted(&state, &self.second(&earlier, [&even, &odd], factor)))
    }

    /// Returns the table whose answer makes the known record name the column or the group of an
    /// earlier query, if the factors of both queries have this quotient.
    fn planted(&self, (level, vector): (Level, Vector), quotient: u32) -> Planted {
        let known = record_of(KNOWN_NAME);
        let difference = |position: usize, byte: usize| {
            let wanted = u32::from(record_of(planted_name(position))[byte]);
            times(wanted + FIELD_ORDER - u32::from(known[byte]), inverse(quotient))
        };
        let (a, b) = RingSet::Fast.response_bits();
        let (a, b) = (a as usize, b as usize);
        // Number of rows, and the map from a row to the coefficient that it changes.
        let (rows, coefficient): (usize, &dyn Fn(usize) -> Option<usize>) = match level {
            Level::Inner => (DEGREE, &Some),
            // A row changes a coefficient of `b` if it is the byte with the coefficient's upper
            // eight bits.
            Level::Outer => (self.ring.shape.response_bytes(), &|row| {
                let bit = (row * 8).checked_sub(DEGREE * a + b - 8)?;
                bit.is_multiple_of(b).then_some(bit / b)
            }),
        };
        plant(&self.params, &self.ring, vector, rows, |row, position| match coefficient(row) {
            Some(byte) if byte / RECORD_BYTES == KNOWN => difference(position, byte % RECORD_BYTES),
            _ => 0,
        })
    }

    /// Returns the name in the record that the client accepts, if it accepts one.
    fn accepted(&self, state: &State, answer: &[u8]) -> Option<usize> {
        accepted(&self.client.decode(state, &[answer]).ok()?)
    }

    /// Returns the result of `accepted` for an answer that decodes to the bytes of this inner
    /// ciphertext. The answer itself is not computed.
    fn accepted_inner(&self, state: &State, inner: &[u8]) -> Option<usize> {
        let mut unit = Numbers::with_capacity(DEGREE);
        unit.push(&state.first, self.client.ring.phases(inner).unwrap().iter().copied());
        accepted(&unit.record(&self.params.0.grid, *state.offset, &[]).ok()?)
    }
}

fn plant(
    params: &Params,
    ring: &RingServer<CpuBackend, ExpandedShape>,
    vector: Vector,
    rows: usize,
    number: impl Fn(usize, usize) -> u32,
) -> Planted {
    let layout = PanelLayout::covering(rows, WIDTH).unwrap();
    let mut halves = [(); 2].map(|()| vec![0; layout.bytes()]);
    for row in 0..rows {
        for position in 0..WIDTH {
            let (number, at) = (number(row, position), layout.offset(row, position));
            (halves[0][at], halves[1][at]) = (number.min(255) as u8, (number / 256) as u8);
        }
    }
    let public = match vector {
        Vector::First => params.0.public_matrix(),
        Vector::Second => params.second_matrix(),
    };
    let needed =
        halves.iter().enumerate().filter(|(half, bytes)| *half == 0 || bytes.iter().any(|&byte| byte > 0));
    let halves = needed.map(|(_, bytes)| {
        let matrix = ring.backend.upload(layout, bytes).unwrap();
        let hint = LweHint::compute(&*ring.backend, &public, &matrix, |_| ()).unwrap();
        let plain = ExpandedShape::encode(ring, 0..rows / DEGREE, hint.first_rows(rows).unwrap()).unwrap();
        (matrix, plain)
    });
    Planted { halves: halves.collect(), rows }
}

/// The column and the group of an earlier query.
const EARLIER: (usize, usize) = (5, 8);

#[test]
fn a_server_that_knows_factors_makes_a_record_name_an_earlier_query() {
    let mut rng = SecretRng::deterministic_for_tests(3);
    let server = Server::new(&mut rng);
    for addition in ADDITIONS {
        let (level, vector) = addition;
        // In about two of three tries, one of the four changed bytes of an inner ciphertext exceeds
        // 255.
        let told = (0..16).find_map(|_| {
            let [(known, state), (earlier, earlier_state)] =
                [(0, 0), EARLIER].map(|(column, group)| server.ask(column, group, &mut rng));
            let planted = server.planted(addition, state.quotient(addition, &earlier_state));
            let added = server.answer(&server.read(&earlier), vector, &planted);
            let asked = server.read(&known);
            let inner = server.answer(&asked, Vector::First, &server.honest);
            let answer = match level {
                Level::Inner => server.second(&asked, [&sum(inner, &added); 2], 1),
                Level::Outer => sum(server.second(&asked, [&inner; 2], 1), &added),
            };
            server.accepted(&state, &answer)
        });
        let position = match vector {
            Vector::First => EARLIER.0,
            Vector::Second => EARLIER.1,
        };
        assert_eq!(told, Some(planted_name(position)), "{addition:?}");
    }
}

/// The inner ciphertexts of the current query, folded with the second vector of an earlier one,
/// decode if both vectors have the same factor.
#[test]
fn a_server_that_knows_factors_makes_an_earlier_query_select_the_group() {
    let mut rng = SecretRng::deterministic_for_tests(4);
    let server = Server::new(&mut rng);
    for group in [0, 1] {
        let told = server.selected(group, |quotient| [quotient, times(quotient, 2)], &mut rng);
        assert_eq!(told, [Some(planted_name(group)), None]);
    }
}

/// If the second vector had no factor, an earlier query would select the group in every try.
#[test]
fn groups_selected_by_an_earlier_query_are_refused() {
    let (tries, most_accepted) = few_tries();
    let mut rng = SecretRng::from_os().unwrap();
    let server = Server::new(&mut rng);
    let named = (0..tries).filter_map(|attempt| {
        let [told] = server.selected(attempt % 2, |_| [1], &mut rng);
        told
    });
    let accepted = named.count();
    println!("{accepted} of {tries} accepted");
    assert!(accepted <= most_accepted, "{accepted} accepted");
}

/// If both vectors of a query had the same factor, the query's own group could be added to a record
/// whose column the server knows.
#[test]
fn answers_of_a_querys_own_second_vector_are_refused() {
    let (tries, most_accepted) = few_tries();
    let mut rng = SecretRng::from_os().unwrap();
    let server = Server::new(&mut rng);
    let planted = server.planted((Level::Inner, Vector::Second), 1);
    let named = (0..tries).filter_map(|_| {
        let (query, state) = server.ask(0, EARLIER.1, &mut rng);
        let asked = server.read(&query);
        let inner = server.answer(&asked, Vector::First, &server.honest);
        assert_eq!(server.accepted_inner(&state, &inner), Some(KNOWN_NAME));
        server.accepted_inner(&state, &sum(inner, &server.answer(&asked, Vector::Second, &planted)))
    });
    let accepted = named.filter(|&name| name != KNOWN_NAME).count();
    println!("{accepted} of {tries} accepted");
    assert!(accepted <= most_accepted, "{accepted} accepted");
}

#[test]
fn added_answers_are_refused() {
    // Each known query is tried with each earlier one, and one try in 256 is accepted: about 4 of
    // 1,024 for an addition in the long form. In the short form, more than 4 of 9 tries are
    // accepted with probability below 2^-22, although sums and known queries may have equal
    // factors.
    let (queries, most_accepted) = if is_long() { (32, 30) } else { (3, 4) };
    let mut rng = SecretRng::from_os().unwrap();
    let server = Server::new(&mut rng);
    let known: Vec<_> = (0..queries)
        .map(|_| {
            let (query, state) = server.ask(0, 0, &mut rng);
            let asked = server.read(&query);
            let inner = server.answer(&asked, Vector::First, &server.honest);
            let outer = server.second(&asked, [&inner; 2], 1);
            assert_eq!(server.accepted(&state, &outer), Some(KNOWN_NAME));
            assert_eq!(server.accepted_inner(&state, &inner), Some(KNOWN_NAME));
            (state, inner, outer)
        })
        .collect();
    let (column, group) = EARLIER;
    let earlier: Vec<_> = (0..queries).map(|_| server.ask(column, group, &mut rng).0).collect();
    for addition in ADDITIONS {
        let (level, vector) = addition;
        let planted = server.planted(addition, 1);
        let added: Vec<_> =
            earlier.iter().map(|query| server.answer(&server.read(query), vector, &planted)).collect();
        // Adds the answer of one earlier query, or the answers of two earlier queries for one
        // record. Each query has separate factors. With three queries, every pair has a different
        // sum.
        for count in [1, 2] {
            let mut accepted = 0;
            for (state, inner, outer) in &known {
                for first in 0..queries {
                    let several = added.iter().cycle().skip(first).take(count);
                    let named = match level {
                        Level::Inner => server
                            .accepted_inner(state, &several.fold(inner.clone(), |all, one| sum(all, one))),
                        Level::Outer => {
                            server.accepted(state, &several.fold(outer.clone(), |all, one| sum(all, one)))
                        }
                    };
                    accepted += usize::from(named.is_some_and(|name| name != KNOWN_NAME));
                }
            }
            println!("{addition:?}, {count} earlier: {accepted} of {} accepted", queries * queries);
            assert!(accepted <= most_accepted, "{addition:?}: {accepted} accepted");
        }
    }
}
