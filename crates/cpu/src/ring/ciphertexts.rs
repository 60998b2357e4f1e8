//! Ciphertexts of one query, and the end of a pipeline: addition of bodies and switching to short
//! words.

use std::borrow::Cow;

use rayon::prelude::*;
use spirea_backend::{BackendError, Bodies, SwitchedBits, check_batches};
use spirea_math::Ring;

use super::lanes::{Kernel, WordLanes};
use super::layout::{in_tiles, polynomial, push_in_order};
use super::modular::{Factor, Prime};
use super::ntt::{Forward, Inverse};
use super::pool::{Words, WorkingMemory};
use super::tables::RingTables;
use crate::parallel::Each as _;

/// Ciphertexts of one query, or their b halves alone, in order, as values below the primes, each
/// tile by tile.
#[derive(Debug)]
pub struct RingCiphertexts<const HALVES: usize = 2> {
    count: usize,
    words: Words,
}

impl<const HALVES: usize> RingCiphertexts<HALVES> {
    /// Allocates room for ciphertexts, with arbitrary content.
    pub(super) fn room(
        tables: &RingTables,
        memory: &WorkingMemory,
        count: usize,
    ) -> Result<Self, BackendError> {
        let words = count.checked_mul(HALVES * tables.words());
        Ok(Self { count, words: memory.words(words, "the ciphertexts")? })
    }

    /// Returns the number of ciphertexts.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Keeps only the first `count` ciphertexts.
    pub(super) fn keep(mut self, count: usize) -> Self {
        self.count = count;
        self
    }

    pub(super) fn words(&self, tables: &RingTables) -> &[u32] {
        &self.words.as_words()[..self.count * HALVES * tables.words()]
    }

    pub(super) fn words_mut(&mut self) -> &mut [u32] {
        self.words.as_words_mut()
    }
}

impl RingCiphertexts {
    /// Builds ciphertexts from `words`, which has for each ciphertext the words of `a`, then those
    /// of `b`, in the order of the plans.
    pub(super) fn of(
        tables: &RingTables,
        memory: &WorkingMemory,
        words: &[u32],
    ) -> Result<Self, BackendError> {
        let of_one = 2 * tables.words();
        let mut ciphertexts = Self::room(tables, memory, words.len() / of_one)?;
        let to = ciphertexts.words_mut().chunks_exact_mut(of_one);
        to.zip(words.chunks_exact(of_one)).for_each(|(to, from)| in_tiles(tables, from, to));
        Ok(ciphertexts)
    }

    /// Appends the words of each ciphertext, first those of `a`, then those of `b`, in the order of
    /// the plans.
    pub(super) fn push_in_order(&self, tables: &RingTables, words: &mut Vec<u32>) {
        push_in_order(tables, self.words(tables), words);
    }
}

/// Implements `add_bodies`.
pub(super) fn add_bodies<L: WordLanes<W>, const W: usize, const HALVES: usize>(
    lanes: L,
    tables: &RingTables,
    ciphertexts: &mut [RingCiphertexts<HALVES>],
    folded: &[u32],
    bodies: &Bodies,
    bits: u32,
) -> Result<(), BackendError> {
    let of_query = ciphertexts.first().map_or(0, RingCiphertexts::count);
    bodies.check(ciphertexts.len(), folded.len(), of_query * tables.degree())?;
    if bits > 31 {
        return Err(BackendError::Shape(format!("bodies of {bits} bits")));
    }
    let with_words = ciphertexts.iter_mut().enumerate().flat_map(|(query, ciphertexts)| {
        let words = folded[bodies.of(query)].chunks(tables.degree());
        ciphertexts.words_mut().chunks_exact_mut(HALVES * tables.words()).zip(words)
    });
    with_words.collect::<Vec<_>>().into_par_iter().each_with(&|| vec![0; tables.degree()], &|values,
                                                                                             (
        ciphertext,
        words,
    )| {
        let mut whole = Cow::Borrowed(words);
        if words.len() < tables.degree() {
            whole.to_mut().resize(tables.degree(), 0);
        }
        lanes.run(AddBodies::<HALVES> { tables, words: &whole, bits, bodies: values, ciphertext });
    });
    Ok(())
}

struct AddBodies<'a, const HALVES: usize> {
    tables: &'a RingTables,
    words: &'a [u32],
    bits: u32,
    bodies: &'a mut [u32],
    ciphertext: &'a mut [u32],
}

impl<const HALVES: usize> Kernel for AddBodies<'_, HALVES> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let Self { tables, words, bits, bodies, ciphertext } = self;
        let scale = tables.ring().modulus() >> bits;
        let mut values = vec![0; tables.degree()];
        for (index, tiles) in ciphertext.chunks_exact_mut(HALVES * tables.degree()).enumerate() {
            let q = tables.primes()[index].q;
            let scale = q.shoup((scale % u128::from(q.value())) as u32);
            for (body, &word) in bodies.iter_mut().zip(words) {
                let rounded = ((u64::from(word) + (1 << (31 - bits))) >> (32 - bits)) & ((1 << bits) - 1);
                *body = q.mul_lazy(rounded as u32, scale);
            }
            Forward { tables, prime: index, from: bodies, lift: 0, to: &mut values }.run(lanes);
            let (prime, one) = (Prime::new(lanes, q), Factor::splat(lanes, q.shoup(1)));
            let tiles = tiles.as_chunks_mut::<W>().0.as_chunks_mut::<HALVES>().0;
            for (tile, value) in tiles.iter_mut().zip(values.as_chunks::<W>().0) {
                let b = &mut tile[HALVES - 1];
                let value = prime.mul(lanes, lanes.load(value), one);
                lanes.store(prime.add(lanes, lanes.load(b), value), b);
            }
        }
    }
}

/// Implements `mod_switch`.
pub(super) fn mod_switch<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    parts: &[&Vec<RingCiphertexts>],
    bits: SwitchedBits,
) -> Result<Vec<Vec<u8>>, BackendError> {
    check_bits(&[bits.a, bits.b])?;
    let queries = parts.first().map_or(0, |part| part.len());
    parts.iter().try_for_each(|part| check_batches(queries, part.len()))?;
    let switch = Switch::new(tables.ring());
    let bytes = bits.bytes(tables.degree());
    let of_query = |query: usize| parts.iter().map(move |part| &part[query]);
    let count = |query| of_query(query).map(RingCiphertexts::count).sum::<usize>();
    let mut answers: Vec<Vec<u8>> = (0..queries).map(|query| vec![0; count(query) * bytes]).collect();
    let switched = answers.iter_mut().enumerate().flat_map(|(query, out)| {
        let words = of_query(query).flat_map(|part| part.words(tables).chunks_exact(2 * tables.words()));
        out.chunks_exact_mut(bytes).zip(words)
    });
    switched.collect::<Vec<_>>().into_par_iter().each_with(&|| vec![0; 2 * tables.words()], &|room,
                                                                                              (
        out,
        ciphertext,
    )| {
        let (out_a, out_b) = out.split_at_mut(bits.a as usize * tables.degree() / 8);
        for (i, out, bits) in [(0, out_a, bits.a), (1, out_b, bits.b)] {
            switch.polynomial(lanes, tables, room, polynomial(tables, ciphertext, i), bits, out);
        }
    });
    Ok(answers)
}

/// Implements `mod_switch` for b halves alone, to `bits` bits.
pub(super) fn switch_halves<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    halves: &[RingCiphertexts<1>],
    bits: u32,
) -> Result<Vec<Vec<u8>>, BackendError> {
    check_bits(&[bits])?;
    let (switch, bytes) = (Switch::new(tables.ring()), bits as usize * tables.degree() / 8);
    let mut answers: Vec<Vec<u8>> = halves.iter().map(|halves| vec![0; halves.count() * bytes]).collect();
    let switched = answers.iter_mut().zip(halves).flat_map(|(out, halves)| {
        out.chunks_exact_mut(bytes).zip(halves.words(tables).chunks_exact(tables.words()))
    });
    switched.collect::<Vec<_>>().into_par_iter().each_with(&|| vec![0; 2 * tables.words()], &|room,
                                                                                              (
        out,
        half,
    )| {
        switch.polynomial(lanes, tables, room, half.chunks_exact(W), bits, out)
    });
    Ok(answers)
}

fn check_bits(bits: &[u32]) -> Result<(), BackendError> {
    if bits.iter().all(|bits| (1..=MOST_BITS).contains(bits)) {
        return Ok(());
    }
    Err(BackendError::Shape(format!("switching to {bits:?} bits: 1 to {MOST_BITS}")))
}

/// Maximum bits of a switched coefficient.
const MOST_BITS: u32 = 56;
/// Bits of the fractions that represent y / q_i.
const FRACTION_BITS: u32 = 96;

/// Rounding of x 2^bits / q, where x is the sum of y_i q / q_i modulo q. The quotient is the sum of
/// y_i 2^bits / q_i, apart from multiples of 2^bits. These change nothing, like the multiples of q
/// in x.
///
/// The fractions 1 / q_i are rounded down to 96 bits, so the sum is too small by less than 4 * 2^30
/// units of 2^-96. If adding this error does not change the rounded result, the result is right.
/// Otherwise, at most once in 2^8 coefficients, the remainder decides.
struct Switch {
    modulus: u128,
    /// floor(2^96 / q_i), and q / q_i.
    primes: Vec<(u128, u128)>,
}

impl Switch {
    fn new(ring: &Ring) -> Self {
        let of = |limb: &spirea_math::ring::Limb| {
            ((1 << FRACTION_BITS) / u128::from(limb.prime().value()), limb.cofactor)
        };
        Self { modulus: ring.modulus(), primes: ring.limbs().iter().map(of).collect() }
    }

    /// Switches a polynomial, given by the values of its tiles; `room` has the size of two
    /// polynomials.
    fn polynomial<'a, L: WordLanes<W>, const W: usize>(
        &self,
        lanes: L,
        tables: &RingTables,
        room: &mut [u32],
        tiles: impl Iterator<Item = &'a [u32]>,
        bits: u32,
        out: &mut [u8],
    ) {
        let (values, residues) = room.split_at_mut(tables.words());
        values.chunks_exact_mut(W).zip(tiles).for_each(|(to, from)| to.copy_from_slice(from));
        let pieces = values.chunks_exact(tables.degree()).zip(residues.chunks_exact_mut(tables.degree()));
        for (prime, (from, to)) in pieces.enumerate() {
            let limb = &tables.ring().limbs()[prime];
            let q = limb.prime();
            let scale = q.shoup(q.mul(limb.cofactor_inverse.value, limb.plan.degree_inverse().value));
            lanes.run(Inverse { tables, prime, from, scale, shift: 0, to });
        }
        self.stream(residues, tables.degree(), bits, out);
    }

    /// Switches a polynomial's y, prime by prime, and writes the results without gaps, lowest bit
    /// first.
    fn stream(&self, y: &[u32], degree: usize, bits: u32, out: &mut [u8]) {
        let (mut pending, mut held) = (0u64, 0);
        let mut out = out.iter_mut();
        for i in 0..degree {
            let switched = self.coefficient(y[i..].iter().step_by(degree).copied(), bits);
            // At most 7 bits are left over from before.
            pending |= switched << held;
            held += bits;
            while held >= 8 {
                *out.next().expect("room for every coefficient") = pending as u8;
                (pending, held) = (pending >> 8, held - 8);
            }
        }
    }

    fn coefficient(&self, y: impl Iterator<Item = u32> + Clone, bits: u32) -> u64 {
        const LARGEST_ERROR: u128 = (super::tables::MOST_PRIMES as u128) << 30;
        let unit = FRACTION_BITS - bits;
        let fraction = self
            .primes
            .iter()
            .zip(y.clone())
            .fold(1 << (unit - 1), |sum, (prime, y)| sum + prime.0 * u128::from(y));
        let mut rounded = fraction >> unit;
        if (fraction + LARGEST_ERROR) >> unit != rounded {
            // x 2^bits - rounded q, computed modulo 2^128: its magnitude is below 2 q < 2^121.
            let x = self.primes.iter().zip(y).fold(0u128, |sum, (prime, y)| sum + prime.1 * u128::from(y));
            let rest = (x << bits).wrapping_sub(rounded.wrapping_mul(self.modulus)) as i128;
            rounded += u128::from(2 * rest >= self.modulus as i128);
        }
        rounded as u64 & ((1 << bits) - 1)
    }
}
