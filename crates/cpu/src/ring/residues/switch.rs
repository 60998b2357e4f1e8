//! Key switching with a special prime P, the last of a ring's primes.
//!
//! Ciphertexts are values. If q has l primes, a switch of c takes (l + 1) (l + 2) transforms, for
//! example 12 for two primes. These are l inverse transforms of c to its digits, l^2 forward
//! transforms of digits modulo the other primes, 2 inverse transforms of the sums modulo P, and 2 l
//! forward transforms of the remainders that are subtracted before the division by P. The digit of
//! a prime needs no transform modulo this prime: its values are those of c.
//!
//! Keys are divided by P in advance, so that the division is one more product in each sum.

use std::array;

use spirea_backend::SwitchKey;
use spirea_math::Modulus;

use super::super::image::Image;
use super::super::lanes::{Kernel, WordLanes};
use super::super::modular::{Prime, lazy_terms};
use super::super::ntt::{Forward, Inverse};
use super::super::scratch::{Scratch, room};
use super::super::tables::{MOST_PRIMES, Monomial, RingTables};
use super::{degree_inverse, forward, inverse, own_words};

/// Maximum number of digits.
const MOST_DIGITS: usize = MOST_PRIMES - 1;

/// Writes the image of the ciphertext `from` under the substitution of a level, switched by `key`.
pub(super) fn substitute<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    level: u32,
    key: &SwitchKey,
    scratch: &mut Scratch,
    from: &[u32],
    to: &mut [u32],
) {
    let (degree, automorphism) = (tables.degree(), &tables.substitution(level).automorphism);
    let (c0, c1) = from.split_at(own_words(tables));
    let images = room(&mut scratch.images, c1.len());
    for (tiles, to) in c1.chunks_exact(degree).zip(images.chunks_exact_mut(degree)) {
        lanes.run(Permute { image: Image { automorphism, tiles }, to });
    }
    switch(lanes, tables, key, scratch, to);
    let residues = c0.chunks_exact(degree).zip(to.chunks_exact_mut(degree));
    for ((tiles, to), prime) in residues.zip(tables.primes()) {
        lanes.run(AddImage { q: prime.q, image: Image { automorphism, tiles }, to });
    }
}

/// Replaces a polynomial (values) by its sum with `image`, and `image` by the difference times the
/// monomial of a level.
pub(super) fn split<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    level: u32,
    node: &mut [u32],
    image: &mut [u32],
) {
    let residues = node.chunks_exact_mut(tables.degree()).zip(image.chunks_exact_mut(tables.degree()));
    let monomials = &tables.substitution(level).monomials;
    for ((node, image), (prime, monomial)) in residues.zip(tables.primes().iter().zip(monomials)) {
        lanes.run(Split { q: prime.q, monomial, node, image });
    }
}

/// Writes the first two polynomials of `product` plus the third one switched by `key`, all as
/// coefficients.
pub(super) fn relinearise<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    key: &SwitchKey,
    scratch: &mut Scratch,
    product: &[u32],
    to: &mut [u32],
) {
    let (sum, c2) = product.split_at(to.len());
    let values = room(&mut scratch.images, c2.len());
    values.copy_from_slice(c2);
    forward(lanes, tables, &mut scratch.terms, values);
    switch(lanes, tables, key, scratch, to);
    let of_one = own_words(tables);
    for (sum, to) in sum.chunks_exact(of_one).zip(to.chunks_exact_mut(of_one)) {
        inverse(lanes, tables, &mut scratch.terms, to);
        let residues = sum.chunks_exact(tables.degree()).zip(to.chunks_exact_mut(tables.degree()));
        for ((words, to), prime) in residues.zip(tables.primes()) {
            lanes.run(Add { q: prime.q, words, to });
        }
    }
}

/// Writes a ciphertext with the phase c s', where s' is the key's secret. The values of c are in
/// `scratch.images`.
fn switch<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    key: &SwitchKey,
    scratch: &mut Scratch,
    to: &mut [u32],
) {
    let (degree, special) = (tables.degree(), tables.primes().len() - 1);
    let of_key = 2 * special * degree;
    assert_eq!(key.words().len(), (special + 1) * of_key, "a key of this ring");
    let Scratch { nodes: [sums, _], images, residues, fields, terms } = scratch;
    let (c, digits, terms) =
        (&images[..special * degree], room(residues, special * degree), room(terms, special * degree));
    let (sums, remainders) = (room(sums, 2 * degree), room(fields, 2 * degree));

    for (prime, (from, to)) in c.chunks_exact(degree).zip(digits.chunks_exact_mut(degree)).enumerate() {
        let scale = degree_inverse(tables, prime);
        lanes.run(Inverse { tables, prime, from, scale, shift: 0, to });
    }

    let last = tables.primes()[special].q;
    let half = last.value() / 2;
    for (from, to) in digits.chunks_exact(degree).zip(terms.chunks_exact_mut(degree)) {
        lanes.run(Forward { tables, prime: special, from, lift: 0, to });
    }
    lanes.run(Sums {
        q: last,
        digits: array::from_fn(|digit| terms.get(digit * degree..(digit + 1) * degree)),
        keys: &key.words()[special * of_key..],
        corrections: None,
        to: halves(sums),
    });
    for (from, to) in sums.chunks_exact(degree).zip(remainders.chunks_exact_mut(degree)) {
        let scale = degree_inverse(tables, special);
        lanes.run(Inverse { tables, prime: special, from, scale, shift: half, to });
    }

    let [to0, to1] = halves(to);
    let residues = to0.chunks_exact_mut(degree).zip(to1.chunks_exact_mut(degree));
    for (prime, (to0, to1)) in residues.enumerate() {
        let q = tables.primes()[prime].q;
        for (digit, (from, to)) in digits.chunks_exact(degree).zip(terms.chunks_exact_mut(degree)).enumerate()
        {
            if digit != prime {
                lanes.run(Forward { tables, prime, from, lift: 0, to });
            }
        }
        // Subtracts `half` from a remainder, and adds a multiple of q that keeps the word positive.
        let lift = half.div_ceil(q.value()) * q.value() - half;
        for (from, to) in remainders.chunks_exact(degree).zip(sums.chunks_exact_mut(degree)) {
            lanes.run(Forward { tables, prime, from, lift, to });
        }
        lanes.run(Sums {
            q,
            digits: array::from_fn(|digit| {
                let values = if digit == prime { c } else { &*terms };
                values.get(digit * degree..(digit + 1) * degree)
            }),
            keys: &key.words()[prime * of_key..][..of_key],
            corrections: Some((&*sums, tables.primes()[prime].minus_inverse_of_last)),
            to: [to0, to1],
        });
    }
}

fn halves(words: &mut [u32]) -> [&mut [u32]; 2] {
    let (first, second) = words.split_at_mut(words.len() / 2);
    [first, second]
}

/// Kernel that writes the image of a polynomial modulo one prime.
struct Permute<'a> {
    image: Image<'a, 1>,
    to: &'a mut [u32],
}

impl Kernel for Permute<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        for (vector, to) in self.to.as_chunks_mut::<W>().0.iter_mut().enumerate() {
            lanes.store(self.image.load(lanes, 0, vector), to);
        }
    }
}

/// Kernel that adds the image of a polynomial modulo one prime.
struct AddImage<'a> {
    q: Modulus,
    image: Image<'a, 1>,
    to: &'a mut [u32],
}

impl Kernel for AddImage<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let prime = Prime::new(lanes, self.q);
        for (vector, to) in self.to.as_chunks_mut::<W>().0.iter_mut().enumerate() {
            lanes.store(prime.add(lanes, lanes.load(to), self.image.load(lanes, 0, vector)), to);
        }
    }
}

/// Kernel that adds words below a prime.
struct Add<'a> {
    q: Modulus,
    words: &'a [u32],
    to: &'a mut [u32],
}

impl Kernel for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let prime = Prime::new(lanes, self.q);
        for (words, to) in self.words.as_chunks::<W>().0.iter().zip(self.to.as_chunks_mut::<W>().0) {
            lanes.store(prime.add(lanes, lanes.load(words), lanes.load(to)), to);
        }
    }
}

/// Kernel that computes the children of a node modulo one prime.
struct Split<'a> {
    q: Modulus,
    monomial: &'a Monomial,
    node: &'a mut [u32],
    image: &'a mut [u32],
}

impl Kernel for Split<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let prime = Prime::new(lanes, self.q);
        let pairs = self.node.as_chunks_mut::<W>().0.iter_mut().zip(self.image.as_chunks_mut::<W>().0);
        for (vector, (node, image)) in pairs.enumerate() {
            let (x, y) = (lanes.load(node), lanes.load(image));
            let monomial = self.monomial.factor(lanes, vector);
            lanes.store(prime.add(lanes, x, y), node);
            lanes.store(prime.mul(lanes, prime.sub_lazy(lanes, x, y), monomial), image);
        }
    }
}

/// Kernel of the sums of digits times the two polynomials of keys modulo one prime, over 2^32.
struct Sums<'a> {
    q: Modulus,
    /// Values of each digit, as arbitrary words; those that exist come first.
    digits: [Option<&'a [u32]>; MOST_DIGITS],
    /// For each digit, the two polynomials of its key.
    keys: &'a [u32],
    /// Two more polynomials of arbitrary words, one for each sum, and their common factor.
    corrections: Option<(&'a [u32], u32)>,
    to: [&'a mut [u32]; 2],
}

impl Kernel for Sums<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        match (self.digits.iter().flatten().count(), self.corrections) {
            (1, None) => self.unrolled::<L, 1, false, W>(lanes),
            (2, None) => self.unrolled::<L, 2, false, W>(lanes),
            (_, None) => self.unrolled::<L, 3, false, W>(lanes),
            (1, Some(_)) => self.unrolled::<L, 1, true, W>(lanes),
            (2, Some(_)) => self.unrolled::<L, 2, true, W>(lanes),
            (_, Some(_)) => self.unrolled::<L, 3, true, W>(lanes),
        }
    }
}

// The products of three digits and of a correction fit a sum, for any words and prime.
const _: () = assert!(lazy_terms(Modulus::new((1 << 30) - 35), 1 << 32) > MOST_DIGITS);

impl Sums<'_> {
    #[inline(always)]
    fn unrolled<L: WordLanes<W>, const DIGITS: usize, const CORRECTED: bool, const W: usize>(self, lanes: L) {
        let prime = Prime::new(lanes, self.q);
        let [to0, to1] = self.to.map(|to| to.as_chunks_mut::<W>().0);
        let vectors = to0.len();
        let (corrections, factor) = self.corrections.unwrap_or_default();
        let factor = lanes.even(lanes.splat(factor));
        let of = |words: &'_ [u32], polynomial: usize| polynomial * vectors * W..words.len();
        let mut digits = [[].as_slice(); DIGITS];
        let mut keys = [[[].as_slice(); 2]; DIGITS];
        for (level, (digit, keys)) in digits.iter_mut().zip(&mut keys).enumerate() {
            *digit = &self.digits[level].expect("a digit").as_chunks::<W>().0[..vectors];
            for (i, key) in keys.iter_mut().enumerate() {
                *key = &self.keys[of(self.keys, 2 * level + i)].as_chunks::<W>().0[..vectors];
            }
        }
        let mut corrected = [[].as_slice(); 2];
        if CORRECTED {
            for (i, words) in corrected.iter_mut().enumerate() {
                *words = &corrections[of(corrections, i)].as_chunks::<W>().0[..vectors];
            }
        }
        for (vector, (to0, to1)) in to0.iter_mut().zip(to1).enumerate() {
            let mut sums = [[lanes.zeros(); 2]; 2];
            for level in 0..DIGITS {
                let digit = lanes.load(&digits[level][vector]);
                let digit = [lanes.even(digit), lanes.odd(digit)];
                for (sums, key) in sums.iter_mut().zip(&keys[level]) {
                    let key = lanes.load(&key[vector]);
                    sums[0] = lanes.add_wide(sums[0], lanes.mul_wide(digit[0], lanes.even(key)));
                    sums[1] = lanes.add_wide(sums[1], lanes.mul_wide(digit[1], lanes.odd(key)));
                }
            }
            if CORRECTED {
                for (sums, words) in sums.iter_mut().zip(&corrected) {
                    let words = lanes.load(&words[vector]);
                    sums[0] = lanes.add_wide(sums[0], lanes.mul_wide(lanes.even(words), factor));
                    sums[1] = lanes.add_wide(sums[1], lanes.mul_wide(lanes.odd(words), factor));
                }
            }
            lanes.store(prime.montgomery(lanes, sums[0][0], sums[0][1]), to0);
            lanes.store(prime.montgomery(lanes, sums[1][0], sums[1][1]), to1);
        }
    }
}
