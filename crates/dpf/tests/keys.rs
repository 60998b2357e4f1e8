//! Keys evaluate to the function, on every point of small domains and random points of large ones.
#![allow(missing_docs, reason = "a test")]

use proptest::prelude::*;
use spirea_dpf::prf::Aes128;
use spirea_dpf::*;
use spirea_math::random::SecretRng;

fn is_the_function<P: Prf, O: Output>(prf: P, points: u64, point: u64, value: O) {
    let mut rng = SecretRng::from_os().unwrap();
    let domain = Domain::new(points, O::KIND).unwrap();
    let keys = generate(prf, domain, point, value, &mut rng).unwrap();
    let keys = keys.map(|key| Key::from_bytes(domain, &key.to_bytes()).unwrap());
    let [zero, one] = [0, 1].map(|i: usize| evaluate_all::<P, O>(prf, &keys[i]));
    for at in 0..points {
        let (leaf, place) = (at / O::KIND.per_leaf(), (at % O::KIND.per_leaf()) as usize);
        let shares = [&zero, &one].map(|leaves| O::of(&leaves[leaf as usize], place));
        let expected = if at == point { value } else { O::default() };
        assert_eq!(shares[0].add(shares[1]), expected, "{points} points, {at} of {point}");
        if at % 37 == 0 || at == point {
            assert_eq!(evaluate::<P, O>(prf, &keys[0], at), shares[0]);
        }
    }
}

#[test]
fn every_point_of_small_domains() {
    for points in [1, 2, 3, 511, 512, 513, 1025] {
        for point in (0..points).step_by(if points > 16 { 101 } else { 1 }).chain([points - 1]) {
            is_the_function(Aes128, points, point, Bit(true));
            is_the_function(Aes128, points, point, 0xdead_beefu32);
            is_the_function(Aes128, points, point, u64::MAX - 5);
            is_the_function(Aes128, points, point, 1u128 << 127 | 1);
        }
    }
}

proptest! {
    #[test]
    fn random_points_of_large_domains(points in 1u64..=MAX_POINTS, at: prop::sample::Index, off in 0u64..MAX_POINTS) {
        let mut rng = SecretRng::from_os().unwrap();
        let point = at.index(points as usize) as u64;
        let domain = Domain::new(points, OutputKind::U32).unwrap();
        let keys = generate(Aes128, domain, point, 7u32, &mut rng).unwrap();
        for at in [point, off % points, points - 1, 0] {
            let sum = Output::add(evaluate::<_, u32>(Aes128, &keys[0], at), evaluate(Aes128, &keys[1], at));
            prop_assert_eq!(sum, if at == point { 7 } else { 0 });
        }
    }
}
