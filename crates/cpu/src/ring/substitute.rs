//! Substitutions of b halves with known digits: slot by slot, sums of digits times keys.

use std::ops::Range;

use spirea_math::Modulus;

use super::image::Image;
use super::lanes::{Kernel, WordLanes};
use super::modular::{Prime, lazy_terms};
use super::tables::Monomial;

/// Destination of a substituted b half.
pub(super) trait Target {
    /// Destination modulo one prime.
    type OfPrime<'a>: HalfResults
    where
        Self: 'a;

    /// Returns the destination modulo a prime, whose values lie at `place` in a polynomial.
    fn of_prime(&mut self, prime: usize, place: Range<usize>) -> Self::OfPrime<'_>;
}

/// Destination of a b half modulo one prime.
pub(super) trait HalfResults {
    /// Takes a vector of slots: values below q.
    fn store<L: WordLanes<W>, const W: usize>(
        &mut self,
        lanes: L,
        prime: Prime<L::Vector>,
        vector: usize,
        half: L::Vector,
    );
}

/// Target that overwrites a place with arbitrary content.
pub(super) struct Stored<'a>(pub &'a mut [u32]);

impl Target for Stored<'_> {
    type OfPrime<'a>
        = Stored<'a>
    where
        Self: 'a;

    fn of_prime(&mut self, _: usize, place: Range<usize>) -> Stored<'_> {
        Stored(&mut self.0[place])
    }
}

impl HalfResults for Stored<'_> {
    #[inline(always)]
    fn store<L: WordLanes<W>, const W: usize>(
        &mut self,
        lanes: L,
        _: Prime<L::Vector>,
        vector: usize,
        half: L::Vector,
    ) {
        lanes.store(half, &mut self.0.as_chunks_mut::<W>().0[vector]);
    }
}

/// Target that adds to a place's content.
pub(super) struct Added<'a>(pub &'a mut [u32]);

impl Target for Added<'_> {
    type OfPrime<'a>
        = Added<'a>
    where
        Self: 'a;

    fn of_prime(&mut self, _: usize, place: Range<usize>) -> Added<'_> {
        Added(&mut self.0[place])
    }
}

impl HalfResults for Added<'_> {
    #[inline(always)]
    fn store<L: WordLanes<W>, const W: usize>(
        &mut self,
        lanes: L,
        prime: Prime<L::Vector>,
        vector: usize,
        half: L::Vector,
    ) {
        let to = &mut self.0.as_chunks_mut::<W>().0[vector];
        lanes.store(prime.add(lanes, lanes.load(to), half), to);
    }
}

/// Target for the children of a node: the sum with the node, and the difference times a monomial.
pub(super) struct Children<'a> {
    pub node: &'a [u32],
    pub monomials: &'a [Monomial],
    pub even: &'a mut [u32],
    pub odd: Option<&'a mut [u32]>,
}

impl Target for Children<'_> {
    type OfPrime<'a>
        = Pair<'a>
    where
        Self: 'a;

    fn of_prime(&mut self, prime: usize, place: Range<usize>) -> Pair<'_> {
        Pair {
            node: &self.node[place.clone()],
            monomial: &self.monomials[prime],
            even: &mut self.even[place.clone()],
            odd: self.odd.as_mut().map(|odd| &mut odd[place]),
        }
    }
}

/// The children modulo one prime.
pub(super) struct Pair<'a> {
    node: &'a [u32],
    monomial: &'a Monomial,
    even: &'a mut [u32],
    odd: Option<&'a mut [u32]>,
}

impl HalfResults for Pair<'_> {
    #[inline(always)]
    fn store<L: WordLanes<W>, const W: usize>(
        &mut self,
        lanes: L,
        prime: Prime<L::Vector>,
        vector: usize,
        half: L::Vector,
    ) {
        let node = lanes.load(&self.node.as_chunks::<W>().0[vector]);
        lanes.store(prime.add(lanes, node, half), &mut self.even.as_chunks_mut::<W>().0[vector]);
        if let Some(odd) = &mut self.odd {
            let monomial = self.monomial.factor(lanes, vector);
            let odd = &mut odd.as_chunks_mut::<W>().0[vector];
            lanes.store(prime.mul(lanes, prime.sub_lazy(lanes, node, half), monomial), odd);
        }
    }
}

/// Kernel that adds digits times a key's polynomials and the image of a b half, modulo one prime.
pub(super) struct Substitute<'a, R> {
    pub q: Modulus,
    /// Digits vector by vector, digit by digit: values times 2^32, below the prime.
    pub digits: &'a [u32],
    /// The key's polynomials, from this prime's values on.
    pub keys: &'a [u32],
    /// Words from one polynomial to the next.
    pub stride: usize,
    pub image: Image<'a, 1>,
    pub results: R,
}

impl<R: HalfResults> Kernel for Substitute<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        match self.digits.len() / self.image.tiles.len() {
            2 => self.unrolled::<L, 2, W>(lanes),
            3 => self.unrolled::<L, 3, W>(lanes),
            4 => self.unrolled::<L, 4, W>(lanes),
            levels => self.in_turns(lanes, levels),
        }
    }
}

impl<R: HalfResults> Substitute<'_, R> {
    /// Handles few digits, whose products fit one sum for any prime.
    #[inline(always)]
    fn unrolled<L: WordLanes<W>, const LEVELS: usize, const W: usize>(mut self, lanes: L) {
        const { assert!(LEVELS <= 4, "more products than a sum holds") };
        let (vectors, prime) = (self.image.tiles.len() / W, Prime::new(lanes, self.q));
        let mut keys = [[].as_slice(); LEVELS];
        for (key, words) in keys.iter_mut().zip(self.keys.chunks(self.stride)) {
            *key = &words.as_chunks::<W>().0[..vectors];
        }
        for (vector, digits) in self.digits.as_chunks::<W>().0.as_chunks::<LEVELS>().0.iter().enumerate() {
            let mut sums = [lanes.zeros(); 2];
            for level in 0..LEVELS {
                add_product(lanes, &mut sums, &digits[level], &keys[level][vector]);
            }
            self.finish(lanes, prime, vector, prime.montgomery(lanes, sums[0], sums[1]));
        }
    }

    /// Handles any number of digits, a few digits at a time. The products of these few digits fit a
    /// sum.
    #[inline(always)]
    fn in_turns<L: WordLanes<W>, const W: usize>(mut self, lanes: L, levels: usize) {
        let (prime, most) = (Prime::new(lanes, self.q), lazy_terms(self.q, self.q.value().into()));
        let (keys, stride) = (self.keys.as_chunks::<W>().0, self.stride / W);
        for (vector, digits) in self.digits.as_chunks::<W>().0.chunks_exact(levels).enumerate() {
            let mut product = lanes.splat(0);
            for (turn, digits) in digits.chunks(most).enumerate() {
                let mut sums = [lanes.zeros(); 2];
                for (level, digit) in digits.iter().enumerate() {
                    let key = &keys[(turn * most + level) * stride + vector];
                    add_product(lanes, &mut sums, digit, key);
                }
                product = prime.add(lanes, product, prime.montgomery(lanes, sums[0], sums[1]));
            }
            self.finish(lanes, prime, vector, product);
        }
    }

    #[inline(always)]
    fn finish<L: WordLanes<W>, const W: usize>(
        &mut self,
        lanes: L,
        prime: Prime<L::Vector>,
        vector: usize,
        product: L::Vector,
    ) {
        let half = prime.add(lanes, product, self.image.load(lanes, 0, vector));
        self.results.store(lanes, prime, vector, half);
    }
}

/// Adds a digit times a key to the sums of even and odd lanes.
#[inline(always)]
fn add_product<L: WordLanes<W>, const W: usize>(
    lanes: L,
    sums: &mut [L::Wide; 2],
    digit: &[u32; W],
    key: &[u32; W],
) {
    let (digit, key) = (lanes.load(digit), lanes.load(key));
    sums[0] = lanes.add_wide(sums[0], lanes.mul_wide(lanes.even(digit), lanes.even(key)));
    sums[1] = lanes.add_wide(sums[1], lanes.mul_wide(lanes.odd(digit), lanes.odd(key)));
}
