//! Bytes that are not a key of the domain are refused, and the error names the malformed field. All
//! other bytes are a key.

use proptest::prelude::*;
use spirea_dpf::prf::Aes128;
use spirea_dpf::*;
use spirea_math::random::SecretRng;

/// Returns domains of 0, 1, 7, 8, 9 and 36 levels.
fn domains() -> impl Iterator<Item = Domain> {
    let of_levels =
        |levels: u32| Domain::new((OutputKind::U32.per_leaf() << levels) - 3, OutputKind::U32).unwrap();
    let domains = [0, 1, 7, 8, 9, 36].map(of_levels);
    assert_eq!(domains.map(|domain| domain.depth()), [0, 1, 7, 8, 9, 36]);
    domains.into_iter()
}

fn key_bytes(domain: Domain) -> Vec<u8> {
    let mut rng = SecretRng::deterministic_for_tests(7);
    let [_, key] = generate(Aes128, domain, domain.points() / 2, 9u32, &mut rng).unwrap();
    key.to_bytes()
}

fn refused(domain: Domain, bytes: &[u8], field: &str) {
    let Err(error) = Key::from_bytes(domain, bytes) else { panic!("{field} is accepted") };
    assert!(error.to_string().starts_with("malformed key: ") && error.to_string().contains(field), "{error}");
}

/// Returns the byte of control bits that has padding bits, and a mask of these bits.
fn padding(domain: Domain) -> Option<(usize, u8)> {
    let depth = domain.depth() as usize;
    (!depth.is_multiple_of(8)).then(|| (17 + 16 * depth + depth / 8, 0xff << (depth % 8)))
}

#[test]
fn wrong_lengths() {
    for domain in domains() {
        let bytes = key_bytes(domain);
        assert_eq!(bytes.len(), domain.key_bytes());
        (0..bytes.len()).for_each(|length| refused(domain, &bytes[..length], "as long as"));
        for more in [1, 16, 1000] {
            refused(domain, &[bytes.clone(), vec![0; more]].concat(), "as long as");
        }
    }
}

#[test]
fn wrong_fields() {
    for domain in domains() {
        let bytes = key_bytes(domain);
        let changed = |place: usize, change: u8| {
            let mut bytes = bytes.clone();
            bytes[place] ^= change;
            bytes
        };
        (2..=255).for_each(|party| refused(domain, &changed(0, bytes[0] ^ party), "party"));
        refused(domain, &changed(1, 1), "root");
        if let Some((place, bits)) = padding(domain) {
            for bit in (0..8).map(|i| 1 << i).filter(|bit| bits & bit != 0) {
                refused(domain, &changed(place, bit), "control bits");
            }
        }
    }
}

proptest! {
    #[test]
    fn any_other_bytes_are_a_key(which in 0usize..6, seed in any::<u64>()) {
        let domain = domains().nth(which).unwrap();
        let mut bytes = vec![0; domain.key_bytes()];
        SecretRng::deterministic_for_tests(seed).fill(&mut bytes);
        bytes[0] &= 1;
        bytes[1] &= !1;
        if let Some((place, bits)) = padding(domain) {
            bytes[place] &= !bits;
        }
        let key = Key::from_bytes(domain, &bytes).unwrap();
        prop_assert_eq!(key.to_bytes(), bytes);
        evaluate::<_, u32>(Aes128, &key, seed % domain.points());
    }
}
