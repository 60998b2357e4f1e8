//! Operations on ciphertexts with a special prime: [`ResidueBackend`] for [`CpuBackend`].

mod products;
mod switch;

use spirea_backend::{BackendError, ProductRings, ResidueBackend, SwitchKey};
use spirea_math::{Modulus, ShoupWord};

use super::lanes::{Kernel, WordLanes};
use super::modular::{Factor, Prime};
use super::ntt::{Forward, Inverse};
use super::scratch::room;
use super::{RingTables, lanes_of, with_lanes};
use crate::CpuBackend;
use crate::isa::{Portable, with_token};

pub use products::ProductTables;

impl ResidueBackend for CpuBackend {
    type ProductTables = ProductTables;

    fn product_tables(&self, rings: &ProductRings) -> Result<ProductTables, BackendError> {
        ProductTables::new(rings, lanes_of(self.found))
    }

    fn forward(&self, tables: &RingTables, words: &mut [u32]) {
        let copy = &mut self.memory.scratch().terms;
        for words in polynomials(tables, words) {
            with_lanes!(self.found, lanes => forward(lanes, tables, copy, words));
        }
    }

    fn inverse(&self, tables: &RingTables, words: &mut [u32]) {
        let copy = &mut self.memory.scratch().terms;
        for words in polynomials(tables, words) {
            with_lanes!(self.found, lanes => inverse(lanes, tables, copy, words));
        }
    }

    fn double(&self, tables: &RingTables, words: &mut [u32]) {
        for words in polynomials(tables, words) {
            for (words, prime) in words.chunks_exact_mut(tables.degree()).zip(tables.primes()) {
                with_lanes!(self.found, lanes => lanes.run(Double { q: prime.q, words }));
            }
        }
    }

    fn divide_by_last(&self, tables: &RingTables, polynomial: &[u32], to: &mut [u32]) {
        let degree = tables.degree();
        assert!(polynomial.len() == tables.words() && to.len() == own_words(tables), "one polynomial");
        let (words, remainders) = polynomial.split_at(to.len());
        let last = tables.primes()[tables.primes().len() - 1].q;
        let residues = words.chunks_exact(degree).zip(to.chunks_exact_mut(degree));
        for ((words, to), prime) in residues.zip(tables.primes()) {
            let kernel = DivideByLast { q: prime.q, last, words, remainders, to };
            with_lanes!(self.found, lanes => lanes.run(kernel));
        }
    }

    fn substitute(&self, tables: &RingTables, level: u32, key: &SwitchKey, from: &[u32], to: &mut [u32]) {
        let words = 2 * own_words(tables);
        assert!(from.len() == words && to.len() == words, "ciphertexts");
        let scratch = &mut self.memory.scratch();
        with_lanes!(self.found, lanes => switch::substitute(lanes, tables, level, key, scratch, from, to));
    }

    fn split(&self, tables: &RingTables, level: u32, ciphertext: &mut [u32], image: &mut [u32]) {
        assert!(ciphertext.len() == image.len(), "ciphertexts");
        for (node, image) in polynomials(tables, ciphertext).zip(polynomials(tables, image)) {
            with_lanes!(self.found, lanes => switch::split(lanes, tables, level, node, image));
        }
    }

    fn relinearise(&self, tables: &RingTables, key: &SwitchKey, product: &[u32], to: &mut [u32]) {
        let words = own_words(tables);
        assert!(product.len() == 3 * words && to.len() == 2 * words, "ciphertexts");
        let scratch = &mut self.memory.scratch();
        with_lanes!(self.found, lanes => switch::relinearise(lanes, tables, key, scratch, product, to));
    }

    fn lift(&self, tables: &ProductTables, polynomial: &[u32], to: &mut [u32]) {
        let scratch = &mut self.memory.scratch();
        with_lanes!(self.found, lanes => tables.lift(lanes, scratch, polynomial, to));
    }

    fn inner_product(&self, tables: &ProductTables, scale: u32, left: &[u32], right: &[u32]) -> Vec<u32> {
        let scratch = &mut self.memory.scratch();
        with_lanes!(self.found, lanes => tables.inner_product(lanes, scratch, scale, left, right))
    }
}

/// Iterates over the polynomials in `words`.
fn polynomials<'a>(tables: &RingTables, words: &'a mut [u32]) -> impl Iterator<Item = &'a mut [u32]> {
    assert!(words.len().is_multiple_of(tables.words()), "whole polynomials");
    words.chunks_exact_mut(tables.words())
}

/// Returns the words of a polynomial modulo the primes before the last one.
fn own_words(tables: &RingTables) -> usize {
    tables.words() - tables.degree()
}

fn degree_inverse(tables: &RingTables, prime: usize) -> ShoupWord {
    tables.ring().limbs()[prime].plan.degree_inverse()
}

/// Transforms the residues modulo the first primes to values, in place.
fn forward<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    copy: &mut Vec<u32>,
    words: &mut [u32],
) {
    let from = room(copy, tables.degree());
    for (prime, to) in words.chunks_exact_mut(tables.degree()).enumerate() {
        from.copy_from_slice(to);
        lanes.run(Forward { tables, prime, from, lift: 0, to });
        lanes.run(Reduce { q: tables.primes()[prime].q, words: to });
    }
}

/// Transforms the values modulo the first primes to coefficients, in place.
fn inverse<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    copy: &mut Vec<u32>,
    words: &mut [u32],
) {
    let from = room(copy, tables.degree());
    for (prime, to) in words.chunks_exact_mut(tables.degree()).enumerate() {
        from.copy_from_slice(to);
        lanes.run(Inverse { tables, prime, from, scale: degree_inverse(tables, prime), shift: 0, to });
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

/// Kernel that doubles words below a prime.
struct Double<'a> {
    q: Modulus,
    words: &'a mut [u32],
}

impl Kernel for Double<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let prime = Prime::new(lanes, self.q);
        for words in self.words.as_chunks_mut::<W>().0 {
            let x = lanes.load(words);
            lanes.store(prime.add(lanes, x, x), words);
        }
    }
}

/// Kernel that divides coefficients modulo q by the prime `last`, with rounding. `remainders` are
/// their residues modulo `last`.
struct DivideByLast<'a> {
    q: Modulus,
    last: Modulus,
    words: &'a [u32],
    remainders: &'a [u32],
    to: &'a mut [u32],
}

impl Kernel for DivideByLast<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let Self { q, last, words, remainders, to } = self;
        let inverse = q.inverse(last.value() % q.value());
        let (prime, last_prime) = (Prime::new(lanes, q), Prime::new(lanes, last));
        let (positive, negative) =
            (Factor::splat(lanes, q.shoup(inverse)), Factor::splat(lanes, q.shoup(q.neg(inverse))));
        let half = lanes.splat(last.value() / 2);
        let places = to.as_chunks_mut::<W>().0.iter_mut();
        for (to, (x, remainder)) in places.zip(words.as_chunks::<W>().0.iter().zip(remainders.as_chunks().0))
        {
            // (x + half - [x + half]) / last: `last` is below 4q, so the first sum is below 3q.
            let rounded = last_prime.add(lanes, lanes.load(remainder), half);
            let x = prime.mul_lazy(lanes, lanes.add(lanes.load(x), half), positive);
            let sum = lanes.add(x, prime.mul_lazy(lanes, rounded, negative));
            lanes.store(prime.below_q(lanes, prime.reduce(lanes, sum, 4, 2)), to);
        }
    }
}
