//! Noise of every ring step and set, measured through a backend's own steps and compared with its
//! closed form.
#![allow(clippy::print_stdout, reason = "what was measured is worth seeing")]

use std::sync::{Arc, LazyLock};

use spirea_backend::{
    Backend as _, Bodies, EvaluationKeys, FixedPacking, PackedEnds, RingBackend, SwitchedBits,
};
use spirea_cpu::CpuBackend;
use spirea_lattice::rlwe::noise::RingNoise;
use spirea_lattice::rlwe::{
    Conversion, KeyShape, OneShotQuery, RingSecret, UniformHalves, parse_query, parse_rounded_query,
};
use spirea_lattice::{LweSet, RingSet};
use spirea_math::random::{SecretRng, Seed, public_row};
use spirea_math::{Expansion, Rotations, SentChunks};

static BACKEND: LazyLock<Arc<CpuBackend>> = LazyLock::new(|| Arc::new(CpuBackend::new(2).unwrap()));

/// Maximum difference between a measured deviation and its closed form, in bits.
const TOLERANCE_BITS: f64 = 0.3;

type Tables = <CpuBackend as RingBackend>::Tables;
type Leaves = <CpuBackend as RingBackend>::Leaves;
type Keys = <CpuBackend as RingBackend>::Keys;
type Ciphertexts = <CpuBackend as RingBackend>::Ciphertexts;

/// A client and a server with one expanded query.
struct Party {
    set: RingSet,
    secret: RingSecret,
    tables: Tables,
    keys: Keys,
    leaves: Leaves,
    noise: RingNoise,
}

/// Returns the numbers of bits of the switched ciphertexts to measure: the maximum that the ring
/// allows, so that rounding is far below any noise.
fn measured(set: RingSet) -> SwitchedBits {
    let bits = (set.ring().log2_modulus() as u32 - 13).min(56);
    SwitchedBits { a: bits, b: bits }
}

impl Party {
    /// Makes a query whose leaves encrypt 0.
    fn new(set: RingSet, leaves: usize, seed: u64) -> Self {
        Self::with_leaves(set, &vec![(0, 0); leaves], seed)
    }

    /// Makes a query whose leaves encrypt scales times numbers.
    fn with_leaves(set: RingSet, leaves: &[(u128, i8)], seed: u64) -> Self {
        let expansion = Expansion::covering(leaves.len());
        Self::of(RingNoise::new(set, expansion.levels()), set, expansion, None, seed, |secret, rng| {
            parse_query(set, &secret.encrypt_leaves(expansion, leaves, rng)).unwrap()
        })
    }

    /// Makes a rounded query whose leaves encrypt 0.
    fn rounded(set: RingSet, expansion: Expansion, rotations: Option<Rotations>, seed: u64) -> Self {
        Self::of(
            RingNoise::rounded(set, expansion.levels()),
            set,
            expansion,
            rotations,
            seed,
            |secret, rng| parse_rounded_query(set, &secret.encrypt_coefficients(&[], rng)).unwrap(),
        )
    }

    /// Makes a query whose leaves are rotated chunks of zeros.
    fn rotated(set: RingSet, rotations: Rotations, seed: u64) -> Self {
        let levels = (RingSet::DEGREE / rotations.entries()).trailing_zeros();
        let expansion = Expansion::partial(levels, rotations.chunks());
        let mut party = Self::rounded(set, expansion, Some(rotations), seed);
        let keys = [&party.keys];
        party.leaves = BACKEND.rotate(&party.tables, rotations, &keys, &party.leaves).unwrap();
        party
    }

    fn of(
        noise: RingNoise,
        set: RingSet,
        expansion: Expansion,
        rotations: Option<Rotations>,
        seed: u64,
        query: impl FnOnce(&RingSecret, &mut SecretRng) -> Vec<u32>,
    ) -> Self {
        let mut rng = SecretRng::deterministic_for_tests(seed);
        let shape = KeyShape { set, levels: expansion.levels(), rotations, conversion: Conversion::Rgsw };
        let secret = RingSecret::sample(set, &mut rng);
        let words = shape.parse(&secret.evaluation_keys(&shape, &mut rng)).unwrap();
        let tables = BACKEND.tables(set.ring()).unwrap();
        let keys = EvaluationKeys {
            expansion_gadget: set.expansion_gadget(),
            expansion: &words.expansion,
            rotations: &words.rotations,
            conversion_gadget: set.conversion_gadget(),
            conversion: &words.conversion,
        };
        let keys = BACKEND.keys(&tables, keys).unwrap();
        let query = query(&secret, &mut rng);
        let leaves = BACKEND.expand(&tables, expansion, &[(&keys, &query)]).unwrap();
        Self { set, secret, tables, keys, leaves, noise }
    }

    /// Returns the leaves' sums of products with plaintext polynomials.
    fn fold(
        &self,
        rows: usize,
        columns: usize,
        fill: &(dyn Fn(usize, usize, &mut [i32]) + Sync),
    ) -> Ciphertexts {
        let plain = BACKEND.encode(&self.tables, rows, columns, fill).unwrap();
        BACKEND.poly_fold(&self.tables, &[plain], &self.leaves).unwrap()
    }

    /// Returns deviation (relative to q) and kurtosis of the phases of ciphertexts of 0.
    fn measure(&self, ciphertexts: &Ciphertexts) -> (f64, f64) {
        let measured = measured(self.set);
        let bytes = BACKEND.mod_switch(&self.tables, &[ciphertexts], measured).unwrap().concat();
        let (mut squares, mut fourths, mut count) = (0.0, 0.0, 0.0);
        for ciphertext in bytes.chunks_exact(measured.bytes(RingSet::DEGREE)) {
            for &phase in self.secret.phases(ciphertext, measured.a, measured.b).unwrap().iter() {
                let error = phase as i64 as f64 / 2f64.powi(64);
                squares += error.powi(2);
                fourths += error.powi(4);
                count += 1.0;
            }
        }
        (f64::sqrt(squares / count), fourths * count / (squares * squares))
    }

    /// Compares the measured deviation with `variance`, which is absolute and not relative to q,
    /// and the kurtosis with a Gaussian's.
    fn check(&self, step: &str, ciphertexts: &Ciphertexts, variance: f64) {
        let kurtosis = self.check_deviation(step, ciphertexts, variance);
        assert!((kurtosis - 3.0).abs() < 0.6, "{} {step}: kurtosis {kurtosis}", self.set.name());
    }

    /// Compares the measured deviation with `variance`, which is absolute and not relative to q;
    /// returns the kurtosis.
    fn check_deviation(&self, step: &str, ciphertexts: &Ciphertexts, variance: f64) -> f64 {
        let (deviation, kurtosis) = self.measure(ciphertexts);
        let predicted = variance.sqrt() / self.set.ring().modulus() as f64;
        let bits = (deviation / predicted).log2();
        let log2 = (deviation * self.set.ring().modulus() as f64).log2();
        println!(
            "{:>9} {step:<24} 2^{log2:.2}, {bits:+.3} bits from its closed form, kurtosis {kurtosis:.2}",
            self.set.name()
        );
        assert!(bits.abs() < TOLERANCE_BITS, "{} {step}: {bits} bits off", self.set.name());
        kurtosis
    }
}

/// Factor by which a leaf is multiplied, so that its noise exceeds the rounding of the measured
/// ciphertexts.
const GAIN: i32 = 1 << 28;

/// Sets the plaintext to the constant [`GAIN`] for the leaf with the row's number, else to 0.
fn pick(row: usize, column: usize, coefficients: &mut [i32]) {
    coefficients.fill(0);
    coefficients[0] = if row == column { GAIN } else { 0 };
}

/// Returns a function that fills uniform centred coefficients of `bits` bits.
fn uniform(bits: u32) -> impl Fn(usize, usize, &mut [i32]) + Sync {
    move |row, column, coefficients| {
        let mut words = vec![0; coefficients.len()];
        public_row(&Seed::new([17; 32]), ((row as u64) << 32) | column as u64, &mut words);
        for (coefficient, word) in coefficients.iter_mut().zip(words) {
            *coefficient = word as i32 >> (32 - bits);
        }
    }
}

#[test]
fn leaves_and_folds_have_their_noise() {
    for set in RingSet::ALL {
        // Leaves of one expansion share their first substitutions, so many leaves of the whole tree
        // are needed.
        let columns = 320;
        let party = Party::new(set, columns, 1);
        let noise = party.noise;
        let picked = party.fold(64, columns, &|row, column, c| pick(row * 5, column, c));
        // The noise of early levels concentrates in few coefficients of a leaf, so it is not
        // Gaussian before the leaf is multiplied.
        party.check_deviation("expand", &picked, noise.leaf() * f64::from(GAIN).powi(2));
        let bits = set.plaintext_bits();
        let mean_square = 4f64.powi(bits as i32) / 12.0;
        let folded = party.fold(4, columns, &uniform(bits));
        party.check("poly_fold", &folded, noise.fold(columns, mean_square));
    }
}

/// Selectors of a rotated query are leaves of eight or more levels.
#[test]
fn leaves_of_rounded_queries_have_their_noise() {
    for set in [RingSet::Fast, RingSet::Brief, RingSet::Small] {
        let party = Party::rounded(set, Expansion::covering(320), None, 6);
        let picked = party.fold(64, 320, &|row, column, c| pick(row * 5, column, c));
        party.check_deviation("expand, rounded", &picked, party.noise.leaf() * f64::from(GAIN).powi(2));
    }
}

#[test]
fn all_columns_of_a_secret_pack_with_their_noise() {
    for set in [LweSet::Module1280, LweSet::Module1536] {
        let party = Party::new(RingSet::Fast, set.degree(), 2);
        let packed = party.fold(2, set.degree(), &uniform(RingSet::Fast.plaintext_bits()));
        party.check("pack, 11 levels", &packed, party.noise.pack(set));
    }
}

#[test]
fn rotated_secrets_pack_with_their_noise() {
    // Covers the usual split of the shapes, and a rank and a split with more substitutions of a
    // leaf.
    for (set, rotations) in [
        (RingSet::Fast, Rotations::new(256, 5, 8)),
        (RingSet::Brief, Rotations::new(256, 5, 8)),
        (RingSet::Small, Rotations::new(256, 5, 8)),
        (RingSet::Fast, Rotations::new(256, 6, 32)),
    ] {
        let party = Party::rotated(set, rotations, 5);
        let packed = party.fold(rotations.big(), rotations.leaves(), &hint_of_a_block(set, rotations));
        let packed = BACKEND.sum_rotated(&party.tables, rotations, &[&party.keys], packed).unwrap();
        let step = format!("pack, {} by {}", rotations.small(), rotations.big());
        party.check(&step, &packed, party.noise.pack_rotated(rotations));
    }
}

/// Returns the plaintexts of a block of N rows whose hint is uniform.
fn hint_of_a_block(set: RingSet, rotations: Rotations) -> impl Fn(usize, usize, &mut [i32]) + Sync {
    let hint = uniform(set.plaintext_bits());
    let sums: Vec<Vec<i32>> = (0..rotations.chunks())
        .map(|chunk| {
            let mut entries = vec![0; rotations.entries() * RingSet::DEGREE];
            let polynomials = entries.chunks_exact_mut(RingSet::DEGREE).enumerate();
            polynomials.for_each(|(i, polynomial)| hint(chunk, i, polynomial));
            rotations.sums(RingSet::DEGREE, entries)
        })
        .collect();
    move |big, leaf, to| {
        let (chunk, small) = (leaf / rotations.small(), leaf % rotations.small());
        rotations.plaintext(RingSet::DEGREE, &sums[chunk], big, small, to);
    }
}

/// The digits are equal for every query, so the measurement is over the noise of one query.
#[test]
fn queries_that_bring_their_keys_pack_with_the_noise_of_their_form() {
    let rotations = Rotations::new(256, 5, 8);
    for set in [RingSet::Fast, RingSet::Brief, RingSet::Small] {
        let expanded = SentChunks::Expanded(Expansion::partial(4, 5));
        let of_forms = [
            ("expanded", expanded, RingNoise::rounded(set, 4).pack_rotated(rotations)),
            ("apart", SentChunks::Apart, RingNoise::apart(set).pack_apart(rotations)),
        ];
        for (form, chunks, variance) in of_forms {
            let mut rng = SecretRng::deterministic_for_tests(7);
            let shape = OneShotQuery { set, chunks, rotations };
            let (uniform, bits) = (UniformHalves::new(shape, &Seed::new([3; 32])), measured(set));
            let tables = BACKEND.tables(set.ring()).unwrap();
            let hint = hint_of_a_block(set, rotations);
            let plain = [BACKEND.encode(&tables, rotations.big(), rotations.leaves(), &hint).unwrap()];
            let packing = FixedPacking { gadget: set.expansion_gadget(), chunks, rotations };
            let (fixed, a) = BACKEND.fix_uniform(&tables, packing, uniform.words(), &plain, bits).unwrap();
            let (query, secret) = uniform.ask(&vec![[]; chunks.ciphertexts(rotations)], &mut rng);
            let folded = BACKEND.folded(1, Vec::new()).unwrap();
            let bodies = Bodies::whole(0, 0);
            let ends = PackedEnds {
                folded: &folded,
                bodies: &bodies,
                plaintext_bits: set.plaintext_bits(),
                switched: bits,
            };
            let halves = shape.parse(&query).unwrap();
            let b = BACKEND.pack_fixed(&tables, &fixed, &plain, &[&halves], ends).unwrap().concat();
            let phases = secret.phases([&a, &b], bits.a, bits.b).unwrap();
            let squares: f64 =
                phases.iter().map(|&phase| (phase as i64 as f64 / 2f64.powi(64)).powi(2)).sum();
            let predicted = variance / (set.ring().modulus() as f64).powi(2);
            let bits = (squares / phases.len() as f64 / predicted).log2() / 2.0;
            println!("{:>9} pack, chunks {form}: {bits:+.3} bits from its closed form", set.name());
            assert!(bits.abs() < TOLERANCE_BITS, "{} {form}: {bits} bits off", set.name());
        }
    }
}

#[test]
fn every_level_of_a_tournament_adds_its_noise() {
    for set in RingSet::ALL {
        let depth = 3;
        // All bits that select are 1, which makes a gadget's dropped bits matter.
        let factors = set.selector_gadget().factors(set.ring());
        let ones: Vec<(u128, i8)> = (0..depth).flat_map(|_| factors.iter().map(|&f| (f, 1))).collect();
        let party = Party::with_leaves(set, &ones, 3);
        let noise = party.noise;
        let selectors = BACKEND
            .selectors(&party.tables, &[&party.keys], &party.leaves, 0, depth, set.selector_gadget())
            .unwrap();
        // The entries are large and known. The selection keeps only the noise of the last entry,
        // which is 0 here. The differences of the entries are uniform, so the digits are as the
        // model assumes.
        let last = (1 << depth) - 1;
        let entries = party.fold(last + 1, 1, &|row, _, coefficients: &mut [i32]| {
            coefficients.fill(0);
            if row < last {
                uniform(set.plaintext_bits().min(29))(row, 0, coefficients);
            }
        });
        let selected = BACKEND.rgsw_fold(&party.tables, &selectors, entries).unwrap();
        party.check("rgsw_fold, 3 levels", &selected, 3.0 * noise.tournament_level());
    }
}

#[test]
fn responses_are_rounded_with_their_noise() {
    for set in RingSet::ALL {
        let party = Party::new(set, 2, 4);
        let zero = party.fold(16, 1, &|_, _, coefficients: &mut [i32]| {
            coefficients.fill(0);
            coefficients[0] = 1;
        });
        let (a, b) = set.response_bits();
        let bytes = BACKEND.mod_switch(&party.tables, &[&zero], SwitchedBits { a, b }).unwrap().concat();
        let phases = party.secret.phases(&bytes[..(a + b) as usize * RingSet::DEGREE / 8], a, b).unwrap();
        let squares: f64 = phases.iter().map(|&phase| (phase as i64 as f64 / 2f64.powi(64)).powi(2)).sum();
        let predicted = party.noise.response(party.noise.leaf());
        let bits = (squares / phases.len() as f64 / predicted).log2() / 2.0;
        println!("{:>9} mod_switch to ({a}, {b}): {bits:+.3} bits from its closed form", set.name());
        assert!(bits.abs() < TOLERANCE_BITS, "{}: {bits} bits off", set.name());
    }
}
