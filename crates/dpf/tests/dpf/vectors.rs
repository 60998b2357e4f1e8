//! The functions and keys agree with `scripts/dpf_vectors.py`, a second implementation that was
//! checked against published answers.

use serde::Deserialize;
use spirea_dpf::prf::PrfVisitor;
use spirea_dpf::*;
use spirea_math::random::SecretRng;

fn block(hex: &str) -> Block {
    Block::from_le_bytes(hex::decode(hex).unwrap().try_into().unwrap())
}

#[derive(Deserialize)]
struct PrfVector {
    prf: PrfKind,
    seed: String,
    blocks: Vec<String>,
}

/// The vectors of one function.
struct Blocks(Vec<(Block, Vec<Block>)>);

impl Blocks {
    /// Checks the first N blocks of `seeds` seeds: the seeds of the vectors, repeated.
    fn check<const N: usize>(&self, prf: impl Prf, seeds: usize) {
        let vectors = || self.0.iter().cycle().take(seeds);
        let given: Vec<Block> = vectors().map(|(seed, _)| *seed).collect();
        let mut expanded = vec![[0; N]; seeds];
        prf.blocks(&given, &mut expanded);
        for (blocks, (_, expected)) in expanded.iter().zip(vectors()) {
            assert_eq!(blocks, &expected[..N], "{N} blocks of {seeds} seeds");
        }
    }
}

impl PrfVisitor for Blocks {
    type Output = ();

    fn visit<P: Prf>(self, prf: P) {
        assert!(!self.0.is_empty(), "no vectors of {}", P::KIND);
        for seeds in [0, 1, 3, 8, 9, 17] {
            self.check::<1>(prf, seeds);
            self.check::<2>(prf, seeds);
            self.check::<3>(prf, seeds);
            self.check::<4>(prf, seeds);
            self.check::<8>(prf, seeds);
        }
    }
}

#[test]
fn blocks_of_every_function_in_groups_of_every_size() {
    let vectors: Vec<PrfVector> =
        serde_json::from_str(include_str!("../../../../conformance/vectors/dpf/prf.json")).unwrap();
    for kind in PrfKind::ALL {
        let of_kind = vectors.iter().filter(|vector| vector.prf == kind);
        let read =
            |vector: &PrfVector| (block(&vector.seed), vector.blocks.iter().map(|hex| block(hex)).collect());
        kind.visit(Blocks(of_kind.map(read).collect()));
    }
}

#[derive(Deserialize)]
struct KeyVector {
    prf: PrfKind,
    output: OutputKind,
    points: String,
    point: String,
    value: String,
    /// Seed of the generator of roots.
    rng: u64,
    keys: [String; 2],
    at: Vec<Shares>,
}

#[derive(Deserialize)]
struct Shares {
    at: String,
    shares: [String; 2],
}

/// Output that is parsed from a number as text.
trait Written: Output {
    fn read(text: &str) -> Self;
}

impl Written for Bit {
    fn read(text: &str) -> Self {
        Self(text == "1")
    }
}

macro_rules! written {
    ($($word:ty),*) => {$(
        impl Written for $word {
            fn read(text: &str) -> Self {
                text.parse().unwrap()
            }
        }
    )*};
}

written!(u32, u64, u128);

impl KeyVector {
    fn check<P: Prf, O: Written>(&self, prf: P) {
        let domain = Domain::new(self.points.parse().unwrap(), O::KIND).unwrap();
        let written = self.keys.each_ref().map(|hex| hex::decode(hex).unwrap());
        let keys = written.each_ref().map(|bytes| Key::from_bytes(domain, bytes).unwrap());
        for (party, key) in Party::BOTH.into_iter().zip(&keys) {
            assert_eq!(key.party(), party);
            for Shares { at, shares } in &self.at {
                let share = evaluate::<P, O>(prf, key, at.parse().unwrap());
                assert_eq!(share, O::read(&shares[party as usize]), "{} at {at}", P::KIND);
            }
        }
        let mut rng = SecretRng::deterministic_for_tests(self.rng);
        let (point, value) = (self.point.parse().unwrap(), O::read(&self.value));
        let generated = generate(prf, domain, point, value, &mut rng).unwrap();
        assert_eq!(generated.map(|key| key.to_bytes()), written);
    }
}

impl PrfVisitor for &KeyVector {
    type Output = ();

    fn visit<P: Prf>(self, prf: P) {
        match self.output {
            OutputKind::Bit => self.check::<P, Bit>(prf),
            OutputKind::U32 => self.check::<P, u32>(prf),
            OutputKind::U64 => self.check::<P, u64>(prf),
            OutputKind::U128 => self.check::<P, u128>(prf),
        }
    }
}

#[test]
fn keys_of_every_function_and_output() {
    let vectors: Vec<KeyVector> =
        serde_json::from_str(include_str!("../../../../conformance/vectors/dpf/keys.json")).unwrap();
    for kind in PrfKind::ALL {
        for output in OutputKind::ALL {
            assert!(vectors.iter().any(|vector| (vector.prf, vector.output) == (kind, output)));
        }
    }
    vectors.iter().for_each(|vector| vector.prf.visit(vector));
}
