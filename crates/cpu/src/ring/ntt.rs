//! The negacyclic transform of one polynomial modulo one prime, in the orders of [`NttPlan`].
//!
//! [`NttPlan`]: spirea_math::NttPlan
//!
//! Layers that join halves of at least a vector work on whole vectors, with two layers for each
//! pass over memory. The other layers work on blocks of `W` vectors that are transposed in
//! registers, so no layer ever moves a word to another lane. All layers of such a block are one
//! pass.
//!
//! # Bounds
//! A product lies below 2q for any word. The forward transform's words therefore grow only if they
//! are *not* multiplied, by 2q in each layer. The inverse transform's words grow only if they are
//! sums, which are below twice the bound of their terms. [`Headroom`] defines how many multiples of
//! q a word holds and when the growing words are reduced.

mod headroom;
#[cfg(test)]
mod tests;

use spirea_math::{Modulus, ShoupWord};

use self::headroom::{EightMultiples, FourMultiples, Headroom, ManyMultiples, PRODUCT, headroom, least};
use super::lanes::{Kernel, WordLanes};
use super::modular::{Factor, Prime};
use super::tables::RingTables;

/// Transform of one polynomial modulo one prime: the parts in which its two directions differ.
trait Transform: Sized {
    /// Returns the tables and the number of the prime.
    fn modulo(&self) -> (&RingTables, usize);

    /// Transforms polynomials smaller than a block.
    fn one_by_one(self);

    /// Transforms all other polynomials.
    fn by_vectors<L: WordLanes<W>, H: Headroom, const W: usize>(self, lanes: L);

    /// Computes two layers in registers, with the factor of the coarser layer and the two of the
    /// finer layer.
    fn two_layers<L: WordLanes<W>, H: Headroom, const W: usize>(
        lanes: L,
        prime: Prime<L::Vector>,
        x: [L::Vector; 4],
        w: [Factor<L::Vector>; 3],
    ) -> [L::Vector; 4];
}

impl<T: Transform> Kernel for T {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let (tables, prime) = self.modulo();
        if tables.degree() < W * W {
            return self.one_by_one();
        }
        match headroom(tables, prime) {
            FourMultiples::WORD => self.by_vectors::<L, FourMultiples, W>(lanes),
            EightMultiples::WORD => self.by_vectors::<L, EightMultiples, W>(lanes),
            _ => self.by_vectors::<L, ManyMultiples, W>(lanes),
        }
    }
}

/// Forward transform of coefficients in `from` to values in `to`, which are arbitrary words
/// congruent to the values. It first adds `lift` to each coefficient modulo 2^32; the sums must be
/// below 4q.
pub(super) struct Forward<'a> {
    pub tables: &'a RingTables,
    pub prime: usize,
    pub from: &'a [u32],
    pub lift: u32,
    pub to: &'a mut [u32],
}

impl Transform for Forward<'_> {
    fn modulo(&self) -> (&RingTables, usize) {
        (self.tables, self.prime)
    }

    fn one_by_one(self) {
        self.to.iter_mut().zip(self.from).for_each(|(to, from)| *to = from.wrapping_add(self.lift));
        self.tables.ring().limbs()[self.prime].plan.forward(self.to);
    }

    #[inline(always)]
    fn by_vectors<L: WordLanes<W>, H: Headroom, const W: usize>(self, lanes: L) {
        let prime = Prime::new(lanes, self.tables.primes()[self.prime].q);
        let twiddles = self.tables.ring().limbs()[self.prime].plan.forward_twiddles();
        let (from, to) = (self.from.as_chunks::<W>().0, self.to.as_chunks_mut::<W>().0);
        assert!(from.len() == to.len() && to.len() * W == self.tables.degree());
        let (lift, vectors) = (lanes.splat(self.lift), to.len());

        // Begins with a single layer if the number of layers is odd, else with a pair.
        let mut groups = if vectors.trailing_zeros() % 2 == 1 {
            let half = vectors / 2;
            let w = Factor::splat(lanes, twiddles[1]);
            let ((u, y), (low, high)) = (from.split_at(half), to.split_at_mut(half));
            for ((u, y), (low, high)) in u.iter().zip(y).zip(low.iter_mut().zip(high)) {
                let (u, y) = (lanes.add(lanes.load(u), lift), lanes.add(lanes.load(y), lift));
                let u = prime.reduce(lanes, u, H::WORD, H::FIRST);
                let (x, y) = butterfly::<L, W>(lanes, prime, u, y, w);
                lanes.store(x, low);
                lanes.store(y, high);
            }
            2
        } else {
            let w = factors(lanes, twiddles, 1);
            let quarter = vectors / 4;
            for (i, quads) in quads(to).enumerate() {
                let x =
                    load(lanes, [i, i + quarter, i + 2 * quarter, i + 3 * quarter].map(|i| &from[i]), lift);
                store(lanes, Self::two_layers::<L, H, W>(lanes, prime, x, w), quads);
            }
            4
        };
        while groups < vectors / 4 {
            pass::<Self, L, H, W>(lanes, prime, twiddles, groups, to);
            groups *= 4;
        }
        finest_pass::<Self, L, H, W>(lanes, prime, twiddles, to);
        forward_blocks::<L, H, W>(lanes, prime, &self.tables.primes()[self.prime].forward_tail, to);
    }

    #[inline(always)]
    fn two_layers<L: WordLanes<W>, H: Headroom, const W: usize>(
        lanes: L,
        prime: Prime<L::Vector>,
        x: [L::Vector; 4],
        w: [Factor<L::Vector>; 3],
    ) -> [L::Vector; 4] {
        let first = |x| prime.reduce(lanes, x, H::WORD, H::FIRST);
        let second = |x| prime.reduce(lanes, x, H::WORD, H::SECOND);
        let (a, c) = butterfly::<L, W>(lanes, prime, first(x[0]), x[2], w[0]);
        let (b, d) = butterfly::<L, W>(lanes, prime, first(x[1]), x[3], w[0]);
        let (y0, y1) = butterfly::<L, W>(lanes, prime, second(a), b, w[1]);
        let (y2, y3) = butterfly::<L, W>(lanes, prime, second(c), d, w[2]);
        [y0, y1, y2, y3]
    }
}

/// Computes the layers inside vectors.
#[inline(always)]
fn forward_blocks<L: WordLanes<W>, H: Headroom, const W: usize>(
    lanes: L,
    prime: Prime<L::Vector>,
    tail: &[u32],
    to: &mut [[u32; W]],
) {
    let tail = tail.as_chunks::<W>().0.chunks_exact(2 * (W - 1));
    for (words, tail) in to.as_chunks_mut::<W>().0.iter_mut().zip(tail) {
        let mut x = load_block(lanes, words);
        // Written out, because the compiler sometimes turns a loop over layers into code that keeps
        // the block in memory.
        const { assert!(W == 4 || W == 8 || W == 16) };
        forward_layer::<L, H, W>(lanes, prime, tail, &mut x, 0);
        forward_layer::<L, H, W>(lanes, prime, tail, &mut x, 1);
        if W > 4 {
            forward_layer::<L, H, W>(lanes, prime, tail, &mut x, 2);
        }
        if W > 8 {
            forward_layer::<L, H, W>(lanes, prime, tail, &mut x, 3);
        }
        store_block(lanes, x, words);
    }
}

/// Computes layer `layer` of the layers inside vectors.
#[inline(always)]
fn forward_layer<L: WordLanes<W>, H: Headroom, const W: usize>(
    lanes: L,
    prime: Prime<L::Vector>,
    tail: &[[u32; W]],
    x: &mut [L::Vector; W],
    layer: usize,
) {
    let (groups, half) = (1 << layer, W >> (layer + 1));
    // First and second layers of a pair alternate; a pair is followed by a first layer.
    let reduced = if layer.is_multiple_of(2) { H::FIRST } else { H::SECOND };
    for group in 0..groups {
        let at = 2 * (groups - 1 + group);
        let w = Factor::load(lanes, [&tail[at], &tail[at + 1]]);
        for i in 2 * group * half..(2 * group + 1) * half {
            let u = prime.reduce(lanes, x[i], H::WORD, reduced);
            (x[i], x[i + half]) = butterfly::<L, W>(lanes, prime, u, x[i + half], w);
        }
    }
}

/// Computes the Cooley-Tukey butterfly: u + y w and u - y w, both less than 2q above u.
#[inline(always)]
fn butterfly<L: WordLanes<W>, const W: usize>(
    lanes: L,
    prime: Prime<L::Vector>,
    u: L::Vector,
    y: L::Vector,
    w: Factor<L::Vector>,
) -> (L::Vector, L::Vector) {
    let v = prime.mul_lazy(lanes, y, w);
    (lanes.add(u, v), prime.sub_lazy(lanes, u, v))
}

/// Inverse transform of values below 2q in `from` to coefficients below q in `to`. It multiplies
/// the coefficients by N `scale` and adds `shift`, which is below q. `scale` contains 1/N and any
/// other factor of the coefficients.
pub(super) struct Inverse<'a> {
    pub tables: &'a RingTables,
    pub prime: usize,
    pub from: &'a [u32],
    pub scale: ShoupWord,
    pub shift: u32,
    pub to: &'a mut [u32],
}

impl Inverse<'_> {
    fn q(&self) -> Modulus {
        self.tables.primes()[self.prime].q
    }
}

impl Transform for Inverse<'_> {
    fn modulo(&self) -> (&RingTables, usize) {
        (self.tables, self.prime)
    }

    fn one_by_one(self) {
        let (q, plan) = (self.q(), &self.tables.ring().limbs()[self.prime].plan);
        self.to.copy_from_slice(self.from);
        plan.inverse(self.to);
        // The plan has divided by N.
        let scale = q.shoup(q.mul(self.scale.value, self.tables.degree() as u32));
        for x in self.to {
            *x = q.add(q.reduce_lazy(q.mul_lazy(*x, scale)), self.shift);
        }
    }

    #[inline(always)]
    fn by_vectors<L: WordLanes<W>, H: Headroom, const W: usize>(self, lanes: L) {
        let q = self.q();
        let prime = Prime::new(lanes, q);
        let twiddles = self.tables.ring().limbs()[self.prime].plan.inverse_twiddles();
        let (from, to) = (self.from.as_chunks::<W>().0, self.to.as_chunks_mut::<W>().0);
        assert!(from.len() == to.len() && to.len() * W == self.tables.degree());
        let vectors = to.len();
        let mut groups = vectors / 4;
        inverse_blocks::<L, H, W>(lanes, prime, &self.tables.primes()[self.prime].inverse_tail, from, to);
        finest_pass::<Self, L, H, W>(lanes, prime, twiddles, to);
        while groups > 4 {
            groups /= 4;
            pass::<Self, L, H, W>(lanes, prime, twiddles, groups, to);
        }
        // The last layer, or pair of layers, includes the scale. For a word that is multiplied, the
        // scale is part of the twiddle.
        let scale = Factor::splat(lanes, self.scale);
        let last = Factor::splat(lanes, q.shoup(q.mul(self.scale.value, twiddles[1].value)));
        let shift = lanes.splat(self.shift);
        let scale = Scale { scale, last, shift };
        if groups == 2 {
            let (low, high) = to.split_at_mut(vectors / 2);
            for (low, high) in low.iter_mut().zip(high) {
                let (u, v) = (lanes.load(low), lanes.load(high));
                let (x, y) = last_butterfly::<L, H, W>(lanes, prime, u, v, scale);
                lanes.store(x, low);
                lanes.store(y, high);
            }
        } else {
            let [_, w1, w2] = factors(lanes, twiddles, 1);
            for quad in quads(to) {
                let x = load(lanes, [quad[0], quad[1], quad[2], quad[3]], lanes.splat(0));
                let (a, b) = inverse_butterfly::<L, H, W>(lanes, prime, x[0], x[1], w1, H::BETWEEN);
                let (c, d) = inverse_butterfly::<L, H, W>(lanes, prime, x[2], x[3], w2, H::BETWEEN);
                let (y0, y2) = last_butterfly::<L, H, W>(lanes, prime, a, c, scale);
                let (y1, y3) = last_butterfly::<L, H, W>(lanes, prime, b, d, scale);
                store(lanes, [y0, y1, y2, y3], quad);
            }
        }
    }

    #[inline(always)]
    fn two_layers<L: WordLanes<W>, H: Headroom, const W: usize>(
        lanes: L,
        prime: Prime<L::Vector>,
        x: [L::Vector; 4],
        w: [Factor<L::Vector>; 3],
    ) -> [L::Vector; 4] {
        let (a, b) = inverse_butterfly::<L, H, W>(lanes, prime, x[0], x[1], w[1], H::BETWEEN);
        let (c, d) = inverse_butterfly::<L, H, W>(lanes, prime, x[2], x[3], w[2], H::BETWEEN);
        let of_sums = least(2 * H::BETWEEN, H::TERM);
        let (y0, y2) = inverse_butterfly::<L, H, W>(lanes, prime, a, c, w[0], of_sums);
        let (y1, y3) = inverse_butterfly::<L, H, W>(lanes, prime, b, d, w[0], PRODUCT);
        let y0 = prime.reduce(lanes, y0, least(2 * of_sums, H::TERM), H::BETWEEN);
        let y1 = prime.reduce(lanes, y1, least(2 * PRODUCT, H::TERM), H::BETWEEN);
        [y0, y1, y2, y3]
    }
}

/// Computes the layers inside vectors.
#[inline(always)]
fn inverse_blocks<L: WordLanes<W>, H: Headroom, const W: usize>(
    lanes: L,
    prime: Prime<L::Vector>,
    tail: &[u32],
    from: &[[u32; W]],
    to: &mut [[u32; W]],
) {
    let tail = tail.as_chunks::<W>().0.chunks_exact(2 * (W - 1));
    let blocks = from.as_chunks::<W>().0.iter().zip(to.as_chunks_mut::<W>().0);
    for ((from, to), tail) in blocks.zip(tail) {
        let mut x = load_block(lanes, from);
        const { assert!(W == 4 || W == 8 || W == 16) };
        if W > 8 {
            inverse_layer::<L, H, W>(lanes, prime, tail, &mut x, 3);
        }
        if W > 4 {
            inverse_layer::<L, H, W>(lanes, prime, tail, &mut x, 2);
        }
        inverse_layer::<L, H, W>(lanes, prime, tail, &mut x, 1);
        inverse_layer::<L, H, W>(lanes, prime, tail, &mut x, 0);
        for (i, x) in x.iter_mut().enumerate() {
            *x = prime.reduce(lanes, *x, H::BLOCK[W.ilog2() as usize][i], H::BETWEEN);
        }
        store_block(lanes, x, to);
    }
}

/// Computes layer `layer` of the layers inside vectors, counted as in the forward transform.
#[inline(always)]
fn inverse_layer<L: WordLanes<W>, H: Headroom, const W: usize>(
    lanes: L,
    prime: Prime<L::Vector>,
    tail: &[[u32; W]],
    x: &mut [L::Vector; W],
    layer: usize,
) {
    let (groups, half) = (1 << layer, W >> (layer + 1));
    for group in 0..groups {
        let at = 2 * (groups - 1 + group);
        let w = Factor::load(lanes, [&tail[at], &tail[at + 1]]);
        for i in 2 * group * half..(2 * group + 1) * half {
            let bound = H::BLOCK[half.ilog2() as usize][i];
            (x[i], x[i + half]) = inverse_butterfly::<L, H, W>(lanes, prime, x[i], x[i + half], w, bound);
        }
    }
}

/// Computes the Gentleman-Sande butterfly of words below `bound` q: u + v, reduced to below 2
/// `bound` q or [`Headroom::TERM`] q, whichever is less, and (u - v) w, below 2q.
#[inline(always)]
fn inverse_butterfly<L: WordLanes<W>, H: Headroom, const W: usize>(
    lanes: L,
    prime: Prime<L::Vector>,
    u: L::Vector,
    v: L::Vector,
    w: Factor<L::Vector>,
    bound: u32,
) -> (L::Vector, L::Vector) {
    let sum = prime.reduce(lanes, lanes.add(u, v), 2 * bound, H::TERM);
    (sum, prime.mul_lazy(lanes, prime.difference(lanes, u, v, H::TERM), w))
}

/// Computes a pair of layers in place; the coarser layer has `groups` groups.
#[inline(always)]
fn pass<T: Transform, L: WordLanes<W>, H: Headroom, const W: usize>(
    lanes: L,
    prime: Prime<L::Vector>,
    twiddles: &[ShoupWord],
    groups: usize,
    to: &mut [[u32; W]],
) {
    let of_group = to.len() / groups;
    for (group, words) in to.chunks_exact_mut(of_group).enumerate() {
        let w = factors(lanes, twiddles, groups + group);
        for quad in quads(words) {
            let x = load(lanes, [quad[0], quad[1], quad[2], quad[3]], lanes.splat(0));
            store(lanes, T::two_layers::<L, H, W>(lanes, prime, x, w), quad);
        }
    }
}

/// Computes the pair of layers on whole vectors with the finest groups: four vectors each.
#[inline(always)]
fn finest_pass<T: Transform, L: WordLanes<W>, H: Headroom, const W: usize>(
    lanes: L,
    prime: Prime<L::Vector>,
    twiddles: &[ShoupWord],
    to: &mut [[u32; W]],
) {
    let groups = to.len() / 4;
    for (group, [x0, x1, x2, x3]) in to.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let w = factors(lanes, twiddles, groups + group);
        let x = load(lanes, [x0, x1, x2, x3], lanes.splat(0));
        store(lanes, T::two_layers::<L, H, W>(lanes, prime, x, w), [x0, x1, x2, x3]);
    }
}

/// Loads a block, such that vector i has word i of every vector in memory.
#[inline(always)]
fn load_block<L: WordLanes<W>, const W: usize>(lanes: L, words: &[[u32; W]; W]) -> [L::Vector; W] {
    let mut x = [lanes.splat(0); W];
    for (x, words) in x.iter_mut().zip(words) {
        *x = lanes.load(words);
    }
    lanes.transpose(x)
}

/// Stores a block back to memory.
#[inline(always)]
fn store_block<L: WordLanes<W>, const W: usize>(lanes: L, x: [L::Vector; W], words: &mut [[u32; W]; W]) {
    for (x, words) in lanes.transpose(x).into_iter().zip(words) {
        lanes.store(x, words);
    }
}

/// Loads four vectors and adds `plus` to each.
#[inline(always)]
fn load<L: WordLanes<W>, const W: usize>(lanes: L, x: [&[u32; W]; 4], plus: L::Vector) -> [L::Vector; 4] {
    let mut y = [plus; 4];
    for (y, x) in y.iter_mut().zip(x) {
        *y = lanes.add(*y, lanes.load(x));
    }
    y
}

/// Returns the factors of a group, numbered as in the plan's table, and of its two groups in the
/// next finer layer.
#[inline(always)]
fn factors<L: WordLanes<W>, const W: usize>(
    lanes: L,
    twiddles: &[ShoupWord],
    group: usize,
) -> [Factor<L::Vector>; 3] {
    [
        Factor::splat(lanes, twiddles[group]),
        Factor::splat(lanes, twiddles[2 * group]),
        Factor::splat(lanes, twiddles[2 * group + 1]),
    ]
}

/// Stores four vectors to memory.
#[inline(always)]
fn store<L: WordLanes<W>, const W: usize>(lanes: L, y: [L::Vector; 4], words: [&mut [u32; W]; 4]) {
    for (y, words) in y.into_iter().zip(words) {
        lanes.store(y, words);
    }
}

/// Iterates over groups of four vectors that are a quarter of `words` apart.
#[inline(always)]
fn quads<T>(words: &mut [T]) -> impl Iterator<Item = [&mut T; 4]> {
    let quarter = words.len() / 4;
    let (low, high) = words.split_at_mut(2 * quarter);
    let ((x0, x1), (x2, x3)) = (low.split_at_mut(quarter), high.split_at_mut(quarter));
    x0.iter_mut().zip(x1).zip(x2.iter_mut().zip(x3)).map(|((x0, x1), (x2, x3))| [x0, x1, x2, x3])
}

/// Factors and summand of the last layer.
#[derive(Clone, Copy)]
struct Scale<V> {
    /// The factor of sums.
    scale: Factor<V>,
    /// Factor of differences, which includes the twiddle.
    last: Factor<V>,
    shift: V,
}

/// Computes the butterfly of the last layer, scaled and shifted, below q.
#[inline(always)]
fn last_butterfly<L: WordLanes<W>, H: Headroom, const W: usize>(
    lanes: L,
    prime: Prime<L::Vector>,
    u: L::Vector,
    v: L::Vector,
    scale: Scale<L::Vector>,
) -> (L::Vector, L::Vector) {
    let sum = prime.mul(lanes, lanes.add(u, v), scale.scale);
    let difference = prime.mul(lanes, prime.difference(lanes, u, v, H::TERM), scale.last);
    (prime.add(lanes, sum, scale.shift), prime.add(lanes, difference, scale.shift))
}

/// Direction of a transform.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    /// Coefficients to values.
    Forward,
    /// Values to coefficients.
    Inverse,
}

/// Transforms a polynomial, as [`Forward`] without a lift or as [`Inverse`] without a shift.
pub(super) fn transform<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    direction: Direction,
    from: &[u32],
    to: &mut [u32],
) {
    let polynomials = from.chunks_exact(tables.degree()).zip(to.chunks_exact_mut(tables.degree()));
    for (prime, (from, to)) in polynomials.enumerate() {
        let scale = tables.ring().limbs()[prime].plan.degree_inverse();
        match direction {
            Direction::Forward => lanes.run(Forward { tables, prime, from, lift: 0, to }),
            Direction::Inverse => lanes.run(Inverse { tables, prime, from, scale, shift: 0, to }),
        }
    }
}
