//! Evaluations of whole domains against the definition, for every function, traversal and
//! instruction set.

use spirea_cpu::{CpuBackend, Isa, Traversal};
use spirea_dpf::prf::Aes128;
use spirea_dpf::{
    Domain, Key, LEAF_BLOCKS, Leaf, OutputKind, Party, PrfKind, PrfVisitor, evaluate_all, select,
};
use spirea_math::random::SecretRng;

fn keys(prf: PrfKind, points: u64, output: OutputKind, rng: &mut SecretRng) -> [Key; 2] {
    let domain = Domain::new(points, output).unwrap();
    select(prf, domain, points / 3, rng).unwrap()
}

/// Visitor that computes the exclusive or of a key's shares by definition.
struct Digest<'a>(&'a Key);

impl PrfVisitor for Digest<'_> {
    type Output = Leaf;

    fn visit<P: spirea_dpf::Prf>(self, prf: P) -> Leaf {
        let shares = match self.0.domain().output() {
            OutputKind::Bit => evaluate_all::<P, spirea_dpf::Bit>(prf, self.0),
            OutputKind::U32 => evaluate_all::<P, u32>(prf, self.0),
            OutputKind::U64 => evaluate_all::<P, u64>(prf, self.0),
            OutputKind::U128 => evaluate_all::<P, u128>(prf, self.0),
        };
        shares.into_iter().fold([0; LEAF_BLOCKS], |sum, share| std::array::from_fn(|i| sum[i] ^ share[i]))
    }
}

#[test]
fn every_strategy_function_and_instruction_set_evaluates_the_same() {
    let mut rng = SecretRng::from_os().unwrap();
    for prf in PrfKind::ALL {
        for (output, points) in OutputKind::ALL.into_iter().zip([1_000_000, 40_001, 3, 1u64 << 12]) {
            let keys = keys(prf, points, output, &mut rng);
            let expected: Vec<Leaf> = keys.iter().map(|key| prf.visit(Digest(key))).collect();
            assert_eq!(keys[1].party(), Party::One);
            for isa in Isa::available() {
                let backend = CpuBackend::with_isa(isa, 2).unwrap();
                for strategy in Traversal::ALL {
                    let found = backend.evaluate_domain(prf, &keys, strategy);
                    assert!(found == expected, "{prf}, {output:?}, {isa}, {}", strategy.name());
                }
            }
        }
    }
}

#[test]
fn shares_of_whole_domains_are_handed_over_by_key() {
    let mut rng = SecretRng::from_os().unwrap();
    for (points, threads) in [(1, 1), (700, 2), (513, 3), (600_000, 2)] {
        let backend = CpuBackend::new(threads).unwrap();
        let domain = Domain::new(points, OutputKind::Bit).unwrap();
        let keys: Vec<Key> =
            (0..3).flat_map(|_| keys(PrfKind::Aes128, points, OutputKind::Bit, &mut rng)).collect();
        let found = parking_lot::Mutex::new(vec![Vec::new(); keys.len()]);
        backend.evaluate_shares(PrfKind::Aes128, &keys, |place, leaves| {
            let former = std::mem::replace(&mut found.lock()[place], leaves);
            assert!(former.is_empty(), "a key's shares come once");
        });
        for (key, found) in keys.iter().zip(found.into_inner()) {
            assert_eq!(found.len() as u64, domain.leaves());
            assert!(found == evaluate_all::<Aes128, spirea_dpf::Bit>(Aes128, key), "{points} points");
        }
    }
}
