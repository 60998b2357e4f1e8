//! The algorithm over plain lanes, with the lane counts of all instruction sets, and in chunks of
//! any size.

use proptest::prelude::*;
use spirea_backend::{PanelLayout, RING_DEGREE, RingMatrix};

use super::module_fold;
use super::ntt::{self, OUTPUT_BOUND, Tables};
use super::primes::PRIMES;
use crate::isa::Portable;
use crate::oracle::{Fill, matrix, naive_module_fold, words};

#[test]
fn plain_lanes_agree_in_chunks_of_any_size() {
    for (block_rows, rank, chunk_blocks) in [(1, 1, 128), (3, 2, 1), (5, 3, 2), (20, 6, 18), (19, 1, 3)] {
        let layout = PanelLayout::covering(32, block_rows * RING_DEGREE).unwrap();
        let coefficients = words(block_rows * rank * RING_DEGREE, 2, chunk_blocks as u64);
        let a = RingMatrix { coefficients: &coefficients, block_rows, rank };
        let bytes = matrix(layout, Fill::Ends, rank as u64);
        let (quads, expected) = (bytes.as_chunks().0, naive_module_fold(layout, &bytes, a));
        assert!(module_fold(Portable::<4>, quads, layout, a, chunk_blocks) == expected);
        assert!(module_fold(Portable::<16>, quads, layout, a, chunk_blocks) == expected);
    }
}

#[test]
#[should_panic(expected = "more blocks than the primes recover")]
fn chunks_beyond_the_bound_are_refused() {
    let layout = PanelLayout::covering(32, RING_DEGREE).unwrap();
    let a = RingMatrix { coefficients: &[0; RING_DEGREE], block_rows: 1, rank: 1 };
    module_fold(Portable::<4>, vec![[0; 128]; 64].as_slice(), layout, a, super::CHUNK_BLOCKS + 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn transforms_agree_with_the_portable_plan(
        bytes in prop::collection::vec(prop_oneof![any::<i8>(), Just(i8::MIN), Just(i8::MAX)], 2 * RING_DEGREE),
    ) {
        for q in PRIMES {
            let plan = spirea_math::NttPlan::new(q, RING_DEGREE);
            let tables = Tables::new(&plan);
            let halves = bytes.split_at(RING_DEGREE);
            let from: Vec<[u32; 1]> = halves.0.iter().zip(halves.1)
                .map(|(&low, &high)| [u32::from(i16::from(low) as u16) | u32::from(i16::from(high) as u16) << 16])
                .collect();
            let mut to = vec![[0]; RING_DEGREE];
            ntt::forward(Portable::<1>, &tables, &from, &mut to);
            for (half, polynomial) in [halves.0, halves.1].into_iter().enumerate() {
                let mut expected: Vec<u32> = polynomial.iter().map(|&c| q.lift(c.into())).collect();
                plan.forward(&mut expected);
                for (word, expected) in to.iter().zip(expected) {
                    let word = i64::from((word[0] >> (16 * half)) as i16);
                    prop_assert!(word.abs() <= OUTPUT_BOUND);
                    prop_assert_eq!(q.from_signed(word), expected);
                }
            }
            // Tests the inverse transform with words up to 3/4 of q, here the reduced values.
            let mut words: Vec<[u32; 1]> = to.iter().map(|word| {
                let centred = |half: u32| {
                    let residue = q.from_signed(i64::from((word[0] >> (16 * half)) as i16));
                    u32::from(super::primes::centred(residue, q) as u16)
                };
                [centred(0) | centred(1) << 16]
            }).collect();
            ntt::inverse(Portable::<1>, &tables, &mut words);
            for (word, from) in words.iter().zip(&from) {
                for half in [0, 16] {
                    let (word, from) = ((word[0] >> half) as i16, (from[0] >> half) as i16);
                    prop_assert!(u32::from(word.unsigned_abs()) < q.value());
                    prop_assert_eq!(q.from_signed(word.into()), q.from_signed(256 * i64::from(from)));
                }
            }
        }
    }
}
