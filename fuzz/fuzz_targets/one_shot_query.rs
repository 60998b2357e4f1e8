//! Any bytes either decode to the `b` halves of a query and of its keys, with each value below its
//! prime, or give an error. The query is short or whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spirea_lattice::RingSet;
use spirea_lattice::rlwe::OneShotQuery;
use spirea_math::{Expansion, Rotations, SentChunks};

fuzz_target!(|bytes: &[u8]| {
    let forms = [SentChunks::Expanded(Expansion::partial(4, 5)), SentChunks::Apart];
    for (set, chunks) in
        [RingSet::Fast, RingSet::Small].into_iter().flat_map(|set| forms.map(|form| (set, form)))
    {
        let shape = OneShotQuery { set, chunks, rotations: Rotations::new(256, 5, 8) };
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
        // Repeats the bytes to the length of a query.
        if !bytes.is_empty() {
            check(&bytes.iter().copied().cycle().take(shape.bytes()).collect::<Vec<u8>>());
        }
    }
});
