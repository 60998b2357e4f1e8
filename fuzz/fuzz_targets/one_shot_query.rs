//! Any bytes are the b halves of a query and of the keys that it brings, each value below its
//! prime, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spirea_lattice::RingSet;
use spirea_lattice::rlwe::OneShotQuery;
use spirea_math::Rotations;

fuzz_target!(|bytes: &[u8]| {
    for set in [RingSet::Fast, RingSet::Small] {
        let shape = OneShotQuery { set, levels: 4, rotations: Rotations::new(256, 5, 8) };
        let ring = set.ring();
        let check = |bytes: &[u8]| {
            let Ok(words) = shape.parse(bytes) else { return };
            assert_eq!(bytes.len(), shape.bytes());
            let primes = ring.limbs().iter().map(|limb| limb.prime().value()).cycle();
            for (values, prime) in words.chunks_exact(ring.degree()).zip(primes) {
                assert!(values.iter().all(|&value| value < prime));
            }
        };
        check(bytes);
        // The bytes over and over, as long as a query is.
        if !bytes.is_empty() {
            check(&bytes.iter().copied().cycle().take(shape.bytes()).collect::<Vec<u8>>());
        }
    }
});
