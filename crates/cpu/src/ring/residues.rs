//! Operations on single polynomials: [`ResidueBackend`] for [`CpuBackend`].

use std::sync::Arc;

use spirea_backend::{BackendError, ResidueBackend};
use spirea_math::{Modulus, Ring};

use super::lanes::{Kernel, WordLanes};
use super::modular::{Factor, Prime, lazy_terms, montgomery_one};
use super::{Direction, RingTables, lanes_of, transform, with_lanes};
use crate::CpuBackend;
use crate::isa::{Portable, with_token};

/// Vectors of a polynomial whose sums are kept at a time. The sums stay in the first cache, and the
/// terms are read in pieces of a few cache lines.
const TILE: usize = 16;

impl ResidueBackend for CpuBackend {
    type ResidueTables = RingTables;

    fn residue_tables(&self, ring: &Arc<Ring>) -> Result<RingTables, BackendError> {
        RingTables::new(ring, lanes_of(self.found))
    }

    fn forward(&self, tables: &RingTables, words: &mut [u32]) {
        self.transform_in_place(tables, Direction::Forward, words);
        for words in words.chunks_exact_mut(tables.words()) {
            for (words, prime) in words.chunks_exact_mut(tables.degree()).zip(tables.primes()) {
                with_lanes!(self.found, lanes => lanes.run(Reduce { q: prime.q, words }));
            }
        }
    }

    fn inverse(&self, tables: &RingTables, words: &mut [u32]) {
        self.transform_in_place(tables, Direction::Inverse, words);
    }

    fn sum_of_products(&self, tables: &RingTables, pairs: &[(&[u32], &[u32])]) -> Vec<u32> {
        assert!(pairs.iter().all(|(a, b)| a.len() == tables.words() && b.len() == tables.words()));
        let mut sums = tables.ring().zero();
        for (i, (sums, prime)) in sums.chunks_exact_mut(tables.degree()).zip(tables.primes()).enumerate() {
            let kernel = SumOfProducts { q: prime.q, pairs, start: i * tables.degree(), sums };
            with_lanes!(self.found, lanes => lanes.run(kernel));
        }
        sums
    }
}

impl CpuBackend {
    fn transform_in_place(&self, tables: &RingTables, direction: Direction, words: &mut [u32]) {
        assert!(words.len().is_multiple_of(tables.words()), "whole polynomials");
        for to in words.chunks_exact_mut(tables.words()) {
            let from = to.to_vec();
            transform(self.found, tables, direction, &from, to);
        }
    }
}

/// Kernel that reduces any words to below a prime.
struct Reduce<'a> {
    q: Modulus,
    words: &'a mut [u32],
}

impl Kernel for Reduce<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let (prime, one) = (Prime::new(lanes, self.q), Factor::splat(lanes, self.q.shoup(1)));
        for words in self.words.as_chunks_mut::<W>().0 {
            lanes.store(prime.mul(lanes, lanes.load(words), one), words);
        }
    }
}

/// Kernel that computes the sum of products of pairs modulo one prime, whose residues begin at
/// `start`.
struct SumOfProducts<'a> {
    q: Modulus,
    pairs: &'a [(&'a [u32], &'a [u32])],
    start: usize,
    sums: &'a mut [u32],
}

impl Kernel for SumOfProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let prime = Prime::new(lanes, self.q);
        // Montgomery's reduction divides by 2^32.
        let scale = Factor::splat(lanes, self.q.shoup(montgomery_one(self.q)));
        let most = lazy_terms(self.q, self.q.value().into());
        for (tile, totals) in self.sums.as_chunks_mut::<W>().0.chunks_mut(TILE).enumerate() {
            let place = self.start + tile * TILE * W..self.start + (tile * TILE + totals.len()) * W;
            for pairs in self.pairs.chunks(most) {
                let mut sums = [[lanes.zeros(); 2]; TILE];
                for (a, b) in pairs {
                    let (a, b) = (a[place.clone()].as_chunks::<W>().0, b[place.clone()].as_chunks::<W>().0);
                    for ([even, odd], (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
                        let (a, b) = (lanes.load(a), lanes.load(b));
                        *even = lanes.add_wide(*even, lanes.mul_wide(lanes.even(a), lanes.even(b)));
                        *odd = lanes.add_wide(*odd, lanes.mul_wide(lanes.odd(a), lanes.odd(b)));
                    }
                }
                for (total, [even, odd]) in totals.iter_mut().zip(sums) {
                    let sum = prime.mul(lanes, prime.montgomery(lanes, even, odd), scale);
                    lanes.store(prime.add(lanes, lanes.load(total), sum), total);
                }
            }
        }
    }
}
