//! Transforms on every instruction set against the plan's, with words as large as allowed.

use std::sync::Arc;

use spirea_math::random::Seed;
use spirea_math::{Modulus, Ring};

use super::Direction;
use super::headroom::ManyMultiples;
use crate::isa::{Found, Isa};
use crate::ring::{RingTables, lanes_of, transform};

/// Returns the largest prime below a bound that has 2^16th roots of unity.
fn prime_below(bound: u32) -> Modulus {
    let is_prime = |n: u32| (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    let step = 1 << 16;
    let candidates = (1..).map(|k| bound - k * step + 1);
    Modulus::new(candidates.into_iter().find(|&n| is_prime(n)).unwrap())
}

/// Returns words below `bound`: random, all the largest, the largest alternating with zeros, and
/// the largest in the first half alone.
fn contents(degree: usize, bound: u32) -> Vec<Vec<u32>> {
    let mut random = vec![0; degree];
    spirea_math::random::public_row(&Seed::new([5; 32]), bound.into(), &mut random);
    let random = random.into_iter().map(|word| ((u64::from(word) * u64::from(bound)) >> 32) as u32).collect();
    let largest = |there: fn(usize, usize) -> bool| {
        (0..degree).map(|i| if there(i, degree) { bound - 1 } else { 0 }).collect()
    };
    vec![random, largest(|_, _| true), largest(|i, _| i % 2 == 0), largest(|i, degree| i < degree / 2)]
}

#[test]
fn words_as_large_as_they_may_be() {
    // Primes on both sides of every headroom, and one degree with too many layers for the widest
    // headroom.
    let too_many = 1 << (ManyMultiples::LAYERS + 1);
    for q in [1 << 30, 1 << 29, (1 << 29) + (1 << 28), 1 << 27, (1 << 27) + (1 << 26)].map(prime_below) {
        for degree in [32, 64, 128, 256, 512, 1024, 2048, 4096, too_many] {
            let ring = Arc::new(Ring::new(degree, &[q]));
            let expected = |direction: Direction, words: &[u32]| {
                let mut words: Vec<u32> = words.iter().map(|word| word % q.value()).collect();
                match direction {
                    Direction::Forward => ring.forward(&mut words),
                    Direction::Inverse => ring.inverse(&mut words),
                }
                words
            };
            for isa in Isa::available() {
                let found = Found::detect(isa).unwrap();
                let tables = RingTables::new(&ring, lanes_of(found)).unwrap();
                for (direction, multiples) in [(Direction::Forward, 4), (Direction::Inverse, 2)] {
                    for from in contents(degree, multiples * q.value()) {
                        let mut to = vec![0; degree];
                        transform(found, &tables, direction, &from, &mut to);
                        if matches!(direction, Direction::Forward) {
                            to.iter_mut().for_each(|word| *word %= q.value());
                        }
                        assert!(to == expected(direction, &from), "{isa:?} {direction:?} {q:?} {degree}");
                    }
                }
            }
        }
    }
}
