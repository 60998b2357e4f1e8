//! Keys evaluate to the function, on every point of small domains and random points of large ones.

use proptest::prelude::*;
use proptest::sample::select;
use spirea_dpf::*;
use spirea_math::random::SecretRng;

use crate::common::{Check, Sample};

/// The keys of `point` add up to the function at every point of the domain.
#[derive(Clone, Copy)]
struct Everywhere {
    points: u64,
    point: u64,
}

impl Check for Everywhere {
    fn check<P: Prf, O: Sample>(self, prf: P) {
        let Self { points, point } = self;
        let mut rng = SecretRng::from_os().unwrap();
        let domain = Domain::new(points, O::KIND).unwrap();
        let keys = generate(prf, domain, point, O::VALUE, &mut rng).unwrap();
        let keys = keys.map(|key| Key::from_bytes(domain, &key.to_bytes()).unwrap());
        let [zero, one] = [0, 1].map(|i: usize| evaluate_all::<P, O>(prf, &keys[i]));
        for at in 0..points {
            let (leaf, place) = (at / O::KIND.per_leaf(), (at % O::KIND.per_leaf()) as usize);
            let shares = [&zero, &one].map(|leaves| O::of(&leaves[leaf as usize], place));
            let expected = if at == point { O::VALUE } else { O::default() };
            assert_eq!(shares[0].add(shares[1]), expected, "{}: {points} points, {at} of {point}", P::KIND);
            if at % 37 == 0 || at == point {
                assert_eq!(evaluate::<P, O>(prf, &keys[0], at), shares[0]);
            }
        }
    }
}

/// Checks every function with every output on domains of these sizes, with each of `secrets` as the
/// point.
fn everywhere(kinds: &[PrfKind], sizes: &[u64], secrets: impl Fn(u64) -> Vec<u64>) {
    for &prf in kinds {
        for output in OutputKind::ALL {
            for &points in sizes {
                secrets(points).into_iter().for_each(|point| Everywhere { points, point }.of(prf, output));
            }
        }
    }
}

/// Returns the first and the last point, their neighbours, and the points on both sides of a power
/// of two.
fn spread(points: u64) -> Vec<u64> {
    let middle = points.next_power_of_two() / 2;
    let mut spread: Vec<u64> = [0, 1, middle - 1, middle, points / 3, points - 2, points - 1]
        .into_iter()
        .filter(|&point| point < points)
        .collect();
    spread.sort_unstable();
    spread.dedup();
    spread
}

#[test]
fn every_point_of_small_domains() {
    everywhere(&[PrfKind::Aes128], &[1, 2, 3, 4, 5, 16, 17, 31, 64], |points| (0..points).collect());
}

#[test]
fn every_point_of_a_domain_of_2_to_the_12() {
    everywhere(&[PrfKind::Aes128], &[1 << 12], |points| (0..points).collect());
}

#[test]
fn a_spread_of_points_of_larger_domains() {
    let sizes = [127, 128, 129, 511, 512, 513, 1025, 2047, 3000, 4095, 4096];
    everywhere(&[PrfKind::Aes128], &sizes, spread);
}

#[test]
fn every_function() {
    everywhere(&PrfKind::ALL, &[2, 3, 17, 64, 65, 129, 700], spread);
}

/// The keys of `point` add up to the function at `point`, at its neighbour, at the first and the
/// last point, and at one more point.
#[derive(Clone, Copy)]
struct Here {
    points: u64,
    point: u64,
    other: u64,
}

impl Check for Here {
    fn check<P: Prf, O: Sample>(self, prf: P) {
        let mut rng = SecretRng::from_os().unwrap();
        let domain = Domain::new(self.points, O::KIND).unwrap();
        let keys = generate(prf, domain, self.point, O::VALUE, &mut rng).unwrap();
        for at in [self.point, self.other, self.point ^ 1, self.points - 1, 0] {
            if at < self.points {
                let [zero, one] = [0, 1].map(|i: usize| evaluate::<P, O>(prf, &keys[i], at));
                let expected = if at == self.point { O::VALUE } else { O::default() };
                assert_eq!(zero.add(one), expected);
            }
        }
    }
}

proptest! {
    #[test]
    fn random_points_of_large_domains(
        prf in select(&PrfKind::ALL[..]),
        output in select(&OutputKind::ALL[..]),
        bits in 0u32..=40,
        below in any::<u64>(),
        point in any::<u64>(),
        other in any::<u64>(),
    ) {
        let points = (1 << bits) - below % (1 << bits) / 2;
        Here { points, point: point % points, other: other % points }.of(prf, output);
    }
}

#[test]
fn what_is_no_domain_or_no_point_of_one_is_refused() {
    for points in [0, MAX_POINTS + 1, u64::MAX] {
        assert_eq!(Domain::new(points, OutputKind::Bit), Err(DpfError::Points(points)));
    }
    let domain = Domain::new(10, OutputKind::Bit).unwrap();
    let mut rng = SecretRng::deterministic_for_tests(1);
    for point in [10, u64::MAX] {
        let refused = generate(prf::Aes128, domain, point, Bit(true), &mut rng);
        assert_eq!(refused.unwrap_err(), DpfError::Outside);
    }
}

/// Keys of subtrees give the same shares as the whole key at their points.
#[derive(Clone, Copy)]
struct Subtrees {
    points: u64,
}

impl Check for Subtrees {
    fn check<P: Prf, O: Sample>(self, prf: P) {
        let mut rng = SecretRng::from_os().unwrap();
        let domain = Domain::new(self.points, O::KIND).unwrap();
        let per_leaf = O::KIND.per_leaf();
        for key in generate(prf, domain, self.points / 2, O::VALUE, &mut rng).unwrap() {
            let whole = evaluate_all::<P, O>(prf, &key);
            for leaves in [1, 2, 8, 64] {
                for first in (0..domain.leaves()).step_by(leaves) {
                    let end = ((first + leaves as u64) * per_leaf).min(self.points);
                    let part = Subtree { key: &key, points: first * per_leaf..end }.visit(prf).unwrap();
                    let found = evaluate_all::<P, O>(prf, &part);
                    assert_eq!(found, whole[first as usize..][..found.len()], "{leaves} leaves from {first}");
                }
            }
            let refused = |points| Subtree { key: &key, points }.visit(prf).unwrap_err();
            assert_eq!(refused(3..3), DpfError::Outside);
            assert_eq!(refused(0..self.points + 1), DpfError::Outside);
            assert_eq!(refused(1..2), DpfError::Subtree);
            assert_eq!(refused(per_leaf..3 * per_leaf), DpfError::Subtree);
        }
    }
}

#[test]
fn subtrees_have_keys_of_their_own() {
    for output in OutputKind::ALL {
        let per_leaf = output.per_leaf();
        for points in [3 * per_leaf, 16 * per_leaf, 37 * per_leaf - 1] {
            Subtrees { points }.of(PrfKind::Aes128, output);
        }
    }
    Subtrees { points: 5000 }.of(PrfKind::ChaCha12, OutputKind::Bit);
}
