//! Products of ciphertexts by the method of Bajard, Eynard, Hasan and Zucca.
//!
//! If the method multiplies a single residue by a factor, the scale of the preceding inverse
//! transform includes this factor. Sums of residues times constants have 64 bits and are reduced
//! once; the constants carry the factor 2^32 for this reduction. Signed numbers are shifted to be
//! positive.

use std::array;

use spirea_backend::{BackendError, EXTENSION_PRIMES, PRODUCT_PRIMES, ProductRings};
use spirea_math::{Modulus, Ring};

use super::super::lanes::{Kernel, WordLanes};
use super::super::modular::{Prime, lazy_terms, montgomery_one};
use super::super::ntt::{Forward, Inverse};
use super::super::scratch::{Scratch, room};
use super::super::tables::RingTables;
use super::Reduce;

/// Bits of the power of two that corrects a lift.
const LIFT_BITS: u32 = 16;
/// Number of the extension's last prime, which corrects the conversion back to q. The primes before
/// it are the base of the conversion.
const LAST: usize = EXTENSION_PRIMES - 1;
/// Number of polynomials of a product.
const DEGREES: usize = 3;

/// Constants of products of ciphertexts.
#[derive(Debug)]
pub struct ProductTables {
    ciphertext: RingTables,
    extension: RingTables,
    lift: LiftConstants,
    quotient: QuotientConstants,
}

/// Constants of [`Lift`].
#[derive(Debug)]
struct LiftConstants {
    /// For each prime of q, the scale that turns residues into digits times 2^16.
    scales: [u32; PRODUCT_PRIMES],
    /// Factors of digits modulo 2^16.
    corrections: [u32; PRODUCT_PRIMES],
    /// For each extension prime, the factors of digits and of the correction.
    factors: [[u32; PRODUCT_PRIMES + 1]; EXTENSION_PRIMES],
    /// For each extension prime, the summand that makes the correction signed.
    shifts: [u32; EXTENSION_PRIMES],
}

/// Constants of [`Quotient`].
#[derive(Debug)]
struct QuotientConstants {
    /// For each prime of q, the scale that turns residues into digits, without the caller's scale.
    own_scales: [u32; PRODUCT_PRIMES],
    /// For each extension prime, the scale of residues, without the caller's scale.
    extension_scales: [u32; EXTENSION_PRIMES],
    /// Summand of residues modulo the last prime: it makes the excess positive.
    shift: u32,
    /// For each prime of the base, the factors of digits modulo q.
    to_base: [[u32; PRODUCT_PRIMES]; LAST],
    /// Factors modulo the last prime: of digits modulo q, then of digits of the base.
    to_last: [u32; PRODUCT_PRIMES + LAST],
    /// For each prime of q, the factors of digits of the base and of the excess.
    to_own: [[u32; LAST + 1]; PRODUCT_PRIMES],
    /// For each prime of q, the summand that makes the excess signed.
    shifts: [u32; PRODUCT_PRIMES],
}

impl ProductTables {
    pub(super) fn new(rings: &ProductRings, lanes: usize) -> Result<Self, BackendError> {
        let primes = [&rings.ciphertext, &rings.extension].map(|ring| ring.limbs().len());
        if primes != [PRODUCT_PRIMES, EXTENSION_PRIMES] {
            return Err(BackendError::Unavailable(format!(
                "the processor's kernels multiply ciphertexts of {PRODUCT_PRIMES} primes by an extension of \
                 {EXTENSION_PRIMES}, not of {} by {}",
                primes[0], primes[1]
            )));
        }
        Ok(Self {
            ciphertext: RingTables::new(&rings.ciphertext, lanes)?,
            extension: RingTables::new(&rings.extension, lanes)?,
            lift: LiftConstants::new(&rings.ciphertext, &rings.extension),
            quotient: QuotientConstants::new(&rings.ciphertext, &rings.extension),
        })
    }

    /// Returns the words of a lifted polynomial.
    fn lifted_words(&self) -> usize {
        self.ciphertext.words() + self.extension.words()
    }

    /// Iterates over the primes of q and of the extension.
    fn primes(&self) -> impl Iterator<Item = Modulus> {
        self.ciphertext.primes().iter().chain(self.extension.primes()).map(|prime| prime.q)
    }

    /// Implements [`ResidueBackend::lift`](spirea_backend::ResidueBackend::lift).
    pub(super) fn lift<L: WordLanes<W>, const W: usize>(
        &self,
        lanes: L,
        scratch: &mut Scratch,
        polynomial: &[u32],
        to: &mut [u32],
    ) {
        assert!(
            polynomial.len() == self.ciphertext.words() && to.len() == self.lifted_words(),
            "polynomials"
        );
        let degree = self.ciphertext.degree();
        let (own, extension) = to.split_at_mut(polynomial.len());
        own.copy_from_slice(polynomial);
        let digits = room(&mut scratch.residues, polynomial.len());
        for (prime, (from, to)) in
            polynomial.chunks_exact(degree).zip(digits.chunks_exact_mut(degree)).enumerate()
        {
            let (tables, q) = (&self.ciphertext, self.ciphertext.primes()[prime].q);
            let scale = q.shoup(self.lift.scales[prime]);
            lanes.run(Inverse { tables, prime, from, scale, shift: 0, to });
        }
        let residues = room(&mut scratch.fields, extension.len());
        let (first, second) = digits.split_at(degree);
        lanes.run(Lift {
            primes: array::from_fn(|k| self.extension.primes()[k].q),
            constants: &self.lift,
            digits: [first, second],
            to: thirds(residues),
        });
        for (prime, (from, to)) in
            residues.chunks_exact(degree).zip(extension.chunks_exact_mut(degree)).enumerate()
        {
            let (tables, lift) = (&self.extension, self.lift.shifts[prime]);
            lanes.run(Forward { tables, prime, from, lift, to });
            lanes.run(Reduce { q: tables.primes()[prime].q, words: to });
        }
    }

    /// Implements [`ResidueBackend::inner_product`](spirea_backend::ResidueBackend::inner_product).
    pub(super) fn inner_product<L: WordLanes<W>, const W: usize>(
        &self,
        lanes: L,
        scratch: &mut Scratch,
        scale: u32,
        left: &[u32],
        right: &[u32],
    ) -> Vec<u32> {
        let (degree, words) = (self.ciphertext.degree(), self.lifted_words());
        assert!(left.len() == right.len() && left.len().is_multiple_of(2 * words), "ciphertexts");
        let sums = room(&mut scratch.terms, DEGREES * degree);
        // For each polynomial of the product, its residues modulo q and the extension.
        let residues = room(&mut scratch.fields, DEGREES * words);
        for (i, q) in self.primes().enumerate() {
            lanes.run(InnerProduct { q, left, right, stride: words, start: i * degree, to: thirds(sums) });
            let (tables, prime, factor, shift) = match i.checked_sub(PRODUCT_PRIMES) {
                None => (&self.ciphertext, i, self.quotient.own_scales[i], 0),
                Some(k) => {
                    let shift = if k == LAST { self.quotient.shift } else { 0 };
                    (&self.extension, k, self.quotient.extension_scales[k], shift)
                }
            };
            let scale = q.shoup(q.mul(factor, scale));
            for (from, residues) in sums.chunks_exact(degree).zip(residues.chunks_exact_mut(words)) {
                let to = &mut residues[i * degree..][..degree];
                lanes.run(Inverse { tables, prime, from, scale, shift, to });
            }
        }
        let mut product = vec![0; DEGREES * self.ciphertext.words()];
        let polynomials = residues.chunks_exact(words).zip(product.chunks_exact_mut(self.ciphertext.words()));
        for (residues, to) in polynomials {
            let (first, second) = to.split_at_mut(degree);
            lanes.run(Quotient {
                own: array::from_fn(|i| self.ciphertext.primes()[i].q),
                extension: array::from_fn(|k| self.extension.primes()[k].q),
                constants: &self.quotient,
                residues: array::from_fn(|i| &residues[i * degree..][..degree]),
                to: [first, second],
            });
        }
        product
    }
}

impl LiftConstants {
    fn new(ring: &Ring, extension: &Ring) -> Self {
        let (power, modulus) = (1u64 << LIFT_BITS, ring.modulus());
        // The digits represent 2^16 a + k q for a small k. Dividing their sum by -q modulo 2^16
        // gives -k.
        let inverse = power - inverse_of_odd((modulus % u128::from(power)) as u64, power);
        let correction = |i: usize| {
            let cofactor = (ring.limbs()[i].cofactor % u128::from(power)) as u64;
            (cofactor * inverse % power) as u32
        };
        let scale = |i: usize| {
            let (q, limb) = (ring.limbs()[i].prime(), &ring.limbs()[i]);
            q.mul(q.mul(limb.cofactor_inverse.value, power as u32), limb.plan.degree_inverse().value)
        };
        let factors = |k: usize| -> [u32; PRODUCT_PRIMES + 1] {
            // The factor 2^16 is 2^32 for the reduction of sums, times 1 / 2^16.
            let p = extension.limbs()[k].prime();
            let times = |number: u128| p.mul(residue(number, p), power as u32);
            array::from_fn(|i| times(ring.limbs().get(i).map_or(modulus, |limb| limb.cofactor)))
        };
        let shift = |k: usize| {
            // The shift is -2^15 (q / 2^16), which is -q / 2.
            let p = extension.limbs()[k].prime();
            p.neg(p.mul(residue(modulus, p), p.inverse(2)))
        };
        Self {
            scales: array::from_fn(scale),
            corrections: array::from_fn(correction),
            factors: array::from_fn(factors),
            shifts: array::from_fn(shift),
        }
    }
}

impl QuotientConstants {
    fn new(ring: &Ring, extension: &Ring) -> Self {
        let prime = |k: usize| extension.limbs()[k].prime();
        let last = prime(LAST);
        let base: u128 = (0..LAST).map(|k| u128::from(prime(k).value())).product();
        let cofactor = |k: usize| base / u128::from(prime(k).value());
        // For each extension prime, the factor of a quotient's residues. Modulo the primes of the
        // base, it turns them into digits. Modulo the last prime, it divides them by the base's
        // product.
        let digit = |k: usize| {
            let number = if k == LAST { base } else { cofactor(k) };
            prime(k).inverse(residue(number, prime(k)))
        };
        let over_q = |k: usize| {
            let p = prime(k);
            p.mul(p.inverse(residue(ring.modulus(), p)), digit(k))
        };
        let of_own_digit = |k: usize, i: usize| {
            let p = prime(k);
            p.mul(p.mul(residue(ring.limbs()[i].cofactor, p), over_q(k)), montgomery_one(p))
        };
        // The excess is (sum of digits) / base - residue / base: residues modulo the last prime
        // count negatively, and the digits modulo q that are subtracted from them positively.
        let of_residue = |k: usize| if k == LAST { last.neg(over_q(k)) } else { over_q(k) };
        let half = last.value() / 2;
        Self {
            own_scales: array::from_fn(|i| {
                let (q, limb) = (ring.limbs()[i].prime(), &ring.limbs()[i]);
                let scale = q.mul(limb.cofactor_inverse.value, limb.plan.degree_inverse().value);
                q.mul(scale, montgomery_one(q))
            }),
            extension_scales: array::from_fn(|k| {
                let (p, limb) = (prime(k), &extension.limbs()[k]);
                p.mul(p.mul(of_residue(k), limb.plan.degree_inverse().value), montgomery_one(p))
            }),
            shift: half,
            to_base: array::from_fn(|k| array::from_fn(|i| prime(k).neg(of_own_digit(k, i)))),
            to_last: array::from_fn(|i| match i.checked_sub(PRODUCT_PRIMES) {
                None => of_own_digit(LAST, i),
                Some(k) => {
                    let factor = last.mul(residue(cofactor(k), last), digit(LAST));
                    last.mul(factor, montgomery_one(last))
                }
            }),
            to_own: array::from_fn(|i| {
                let q = ring.limbs()[i].prime();
                let factor = |k| if k == LAST { q.neg(residue(base, q)) } else { residue(cofactor(k), q) };
                array::from_fn(|k| q.mul(factor(k), montgomery_one(q)))
            }),
            shifts: array::from_fn(|i| {
                let q = ring.limbs()[i].prime();
                q.mul(half, residue(base, q))
            }),
        }
    }
}

/// Returns a number modulo a prime.
fn residue(number: u128, prime: Modulus) -> u32 {
    (number % u128::from(prime.value())) as u32
}

/// Returns the inverse of an odd number modulo a power of two up to 2^32.
fn inverse_of_odd(odd: u64, power: u64) -> u64 {
    // Each step of Newton's method doubles the number of right bits, 3 at first.
    (0..4).fold(odd, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)))) % power
}

fn thirds(words: &mut [u32]) -> [&mut [u32]; 3] {
    let third = words.len() / 3;
    let (first, rest) = words.split_at_mut(third);
    let (second, third) = rest.split_at_mut(third);
    [first, second, third]
}

/// Adds words times a constant to the sums of even and odd lanes.
#[inline(always)]
fn add_product<L: WordLanes<W>, const W: usize>(
    lanes: L,
    sums: [L::Wide; 2],
    words: L::Vector,
    factor: L::Vector,
) -> [L::Wide; 2] {
    let factor = lanes.even(factor);
    [
        lanes.add_wide(sums[0], lanes.mul_wide(lanes.even(words), factor)),
        lanes.add_wide(sums[1], lanes.mul_wide(lanes.odd(words), factor)),
    ]
}

/// Returns the sum of words times constants, over 2^32, below q.
#[inline(always)]
fn sum<L: WordLanes<W>, const TERMS: usize, const W: usize>(
    lanes: L,
    prime: Prime<L::Vector>,
    words: [L::Vector; TERMS],
    factors: [L::Vector; TERMS],
) -> L::Vector {
    const { assert!(TERMS <= 4, "more products than a sum holds") };
    let mut sums = [lanes.zeros(); 2];
    for i in 0..TERMS {
        sums = add_product(lanes, sums, words[i], factors[i]);
    }
    prime.montgomery(lanes, sums[0], sums[1])
}

/// Kernel that converts digits modulo the primes of q to residues modulo those of the extension,
/// without the last shift.
struct Lift<'a> {
    primes: [Modulus; EXTENSION_PRIMES],
    constants: &'a LiftConstants,
    digits: [&'a [u32]; PRODUCT_PRIMES],
    to: [&'a mut [u32]; EXTENSION_PRIMES],
}

impl Kernel for Lift<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let primes = self.primes.map(|p| Prime::new(lanes, p));
        let factors = self.constants.factors.map(|factors| factors.map(|factor| lanes.splat(factor)));
        let corrections = self.constants.corrections.map(|factor| lanes.splat(factor));
        let (half, mask) = (lanes.splat(1 << (LIFT_BITS - 1)), lanes.splat((1 << LIFT_BITS) - 1));
        let [first, second] = self.digits.map(|digits| digits.as_chunks::<W>().0);
        let [to0, to1, to2] = self.to.map(|to| to.as_chunks_mut::<W>().0);
        let to = to0.iter_mut().zip(to1).zip(to2);
        for ((a, b), ((to0, to1), to2)) in first.iter().zip(second).zip(to) {
            let (a, b) = (lanes.load(a), lanes.load(b));
            let correction = lanes.add(lanes.mul_low(a, corrections[0]), lanes.mul_low(b, corrections[1]));
            // The signed correction plus 2^15.
            let correction = lanes.and(lanes.add(correction, half), mask);
            for (k, to) in [to0, to1, to2].into_iter().enumerate() {
                lanes.store(sum(lanes, primes[k], [a, b, correction], factors[k]), to);
            }
        }
    }
}

/// Kernel of the sums of products of ciphertexts modulo one prime, over 2^32. Polynomials are
/// `stride` words apart, and residues modulo the prime begin at `start`.
struct InnerProduct<'a> {
    q: Modulus,
    left: &'a [u32],
    right: &'a [u32],
    stride: usize,
    start: usize,
    to: [&'a mut [u32]; DEGREES],
}

impl Kernel for InnerProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let Self { q, left, right, stride, start, to } = self;
        let prime = Prime::new(lanes, q);
        // The middle sum has two products of each pair.
        let most = lazy_terms(q, q.value().into()) / 2;
        let [to0, to1, to2] = to.map(|to| to.as_chunks_mut::<W>().0);
        let pairs = || left.chunks(2 * stride * most).zip(right.chunks(2 * stride * most));
        for (vector, ((to0, to1), to2)) in to0.iter_mut().zip(to1).zip(to2).enumerate() {
            let place = start + vector * W;
            let load =
                |polynomial: &[u32]| lanes.load(polynomial[place..].first_chunk::<W>().expect("a vector"));
            let mut totals = [lanes.splat(0); DEGREES];
            for (left, right) in pairs() {
                let mut sums = [[lanes.zeros(); 2]; DEGREES];
                for (left, right) in left.chunks_exact(2 * stride).zip(right.chunks_exact(2 * stride)) {
                    let (a, b) = (left.split_at(stride), right.split_at(stride));
                    let (a, b) = ([load(a.0), load(a.1)], [load(b.0), load(b.1)]);
                    let (a, b) =
                        (a.map(|a| [lanes.even(a), lanes.odd(a)]), b.map(|b| [lanes.even(b), lanes.odd(b)]));
                    for lane in 0..2 {
                        for i in 0..2 {
                            for j in 0..2 {
                                let product = lanes.mul_wide(a[i][lane], b[j][lane]);
                                sums[i + j][lane] = lanes.add_wide(sums[i + j][lane], product);
                            }
                        }
                    }
                }
                for (total, sums) in totals.iter_mut().zip(sums) {
                    *total = prime.add(lanes, *total, prime.montgomery(lanes, sums[0], sums[1]));
                }
            }
            lanes.store(totals[0], to0);
            lanes.store(totals[1], to1);
            lanes.store(totals[2], to2);
        }
    }
}

/// Kernel that computes quotients by q modulo the primes of q. `residues` are derived from the
/// product. Modulo the primes of q, they are the product's digits. Modulo the base, they are the
/// product's residues over q, times the digits' factors. Modulo the last prime, they are the
/// product's residues over -q and the base's product, plus half the prime.
struct Quotient<'a> {
    own: [Modulus; PRODUCT_PRIMES],
    extension: [Modulus; EXTENSION_PRIMES],
    constants: &'a QuotientConstants,
    residues: [&'a [u32]; PRODUCT_PRIMES + EXTENSION_PRIMES],
    to: [&'a mut [u32]; PRODUCT_PRIMES],
}

impl Kernel for Quotient<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let (own, extension) =
            (self.own.map(|q| Prime::new(lanes, q)), self.extension.map(|p| Prime::new(lanes, p)));
        let constants = self.constants;
        let to_base = constants.to_base.map(|factors| factors.map(|factor| lanes.splat(factor)));
        let to_last = constants.to_last.map(|factor| lanes.splat(factor));
        let to_own = constants.to_own.map(|factors| factors.map(|factor| lanes.splat(factor)));
        let shifts = constants.shifts.map(|shift| lanes.splat(shift));
        let residues = self.residues.map(|residues| residues.as_chunks::<W>().0);
        let [to0, to1] = self.to.map(|to| to.as_chunks_mut::<W>().0);
        for (vector, to) in to0.iter_mut().zip(to1).enumerate() {
            let [a, b, x, y, z] = residues.map(|residues| lanes.load(&residues[vector]));
            let x = extension[0].add(lanes, x, sum(lanes, extension[0], [a, b], to_base[0]));
            let y = extension[1].add(lanes, y, sum(lanes, extension[1], [a, b], to_base[1]));
            // The multiple of the base's product by which the digits x and y are off, plus half the
            // last prime (Shenoy and Kumaresan).
            let excess = sum(lanes, extension[LAST], [a, b, x, y], to_last);
            let excess = extension[LAST].add(lanes, z, excess);
            for (i, to) in [to.0, to.1].into_iter().enumerate() {
                let quotient = sum(lanes, own[i], [x, y, excess], to_own[i]);
                lanes.store(own[i].add(lanes, quotient, shifts[i]), to);
            }
        }
    }
}
