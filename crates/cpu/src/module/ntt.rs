//! Transforms of degree 256 on 16-bit words, many rows and two blocks at a time.
//!
//! Words are signed and reduced as late as 16 bits allow. For the largest prime, q = 13313, and
//! inputs up to 128, the words after the first four layers are at most 6,797, 14,143, 22,237 and
//! 31,152, which are below 2^15. Before the fifth, the seventh and the eighth layer, the words that
//! are not multiplied are reduced to below 0.72 q (for every prime). [`OUTPUT_BOUND`] bounds the
//! result. A product's operand needs no reduction.

use spirea_backend::RING_DEGREE;
use spirea_math::NttPlan;

use super::PairLanes;
use super::primes::{Factor, PRIMES, Prime};

/// Maximum magnitude of a transformed word, for any of the primes.
pub(super) const OUTPUT_BOUND: i64 = {
    let (mut worst, mut i) = (0, 0);
    while i < PRIMES.len() {
        let bound = forward_bound(PRIMES[i].value() as i64);
        if bound > worst {
            worst = bound;
        }
        i += 1;
    }
    worst
};

/// Returns the bound on |r| of a Montgomery product with |y| up to `y`.
const fn product_bound(q: i64, y: i64) -> i64 {
    y * (q - 1) / (1 << 17) + q / 2 + 1
}

/// Returns the bound on |r| of [`reduce`] of words up to `y`: half of q, plus the effect of the
/// reciprocal's rounding to an integer.
const fn reduce_bound(q: i64, y: i64) -> i64 {
    let reciprocal = (65536 + q / 2) / q;
    let error = (reciprocal * q - 65536).abs();
    // The offset 2^15 / reciprocal is rounded down, which adds an error of at most 1/reciprocal of
    // a quotient step.
    let bound = q / 2 + y * error / 65536 + q * reciprocal / 65536 + 2;
    // A saturated operand has the largest possible quotient, which must suffice for the largest y.
    assert!(y < 1 << 15 && y - ((32767 * reciprocal) >> 16) * q <= bound, "saturation spoils a quotient");
    bound
}

/// Follows the bounds through the layers; refuses to compile if a word could exceed 16 bits.
const fn forward_bound(q: i64) -> i64 {
    let (mut bound, mut layer) = (128, 0);
    while layer < 8 {
        let kept = if layer == 4 || layer == 6 || layer == 7 { reduce_bound(q, bound) } else { bound };
        bound = kept + product_bound(q, bound);
        assert!(bound < 1 << 15, "a layer overflows");
        layer += 1;
    }
    bound
}

/// For inputs up to 3/4 of q the inverse transform's words stay below q, and their sums fit 16
/// bits.
const _: () = {
    let mut i = 0;
    while i < PRIMES.len() {
        let q = PRIMES[i].value() as i64;
        let (mut bound, mut layer) = (q * 3 / 4, 0);
        while layer < 8 {
            let (sum, product) = (reduce_bound(q, 2 * bound), product_bound(q, 2 * bound));
            bound = if sum > product { sum } else { product };
            assert!(bound < q, "an inverse layer leaves its range");
            layer += 1;
        }
        i += 1;
    }
};

/// Tables of one prime.
#[derive(Debug)]
pub(super) struct Tables {
    pub prime: Prime,
    forward: Vec<Factor>,
    inverse: Vec<Factor>,
}

impl Tables {
    pub(super) fn new(plan: &NttPlan) -> Self {
        let prime = Prime::new(plan.modulus());
        let factors =
            |words: &[spirea_math::ShoupWord]| words.iter().map(|w| prime.factor(w.value)).collect();
        Self { prime, forward: factors(plan.forward_twiddles()), inverse: factors(plan.inverse_twiddles()) }
    }
}

/// A factor in registers.
#[derive(Clone, Copy)]
struct Splat<V> {
    value: V,
    quotient: V,
}

#[inline(always)]
fn splat<L: PairLanes>(lanes: L, factor: Factor) -> Splat<L::Vector> {
    Splat { value: lanes.splat(factor.value), quotient: lanes.splat(factor.quotient) }
}

/// The constants of a prime in registers.
#[derive(Clone, Copy)]
struct Constants<V> {
    q: V,
    reciprocal: V,
    half: V,
}

#[inline(always)]
fn constants<L: PairLanes>(lanes: L, prime: &Prime) -> Constants<L::Vector> {
    Constants {
        q: lanes.splat(prime.q),
        reciprocal: lanes.splat(prime.reciprocal),
        half: lanes.splat(prime.half),
    }
}

/// Returns y times a factor, mod q.
#[inline(always)]
fn product<L: PairLanes>(lanes: L, y: L::Vector, factor: Splat<L::Vector>, q: L::Vector) -> L::Vector {
    let t = lanes.mul_low(y, factor.quotient);
    lanes.sub(lanes.mul_high(y, factor.value), lanes.mul_high(t, q))
}

/// Returns y mod q, near [-q/2, q/2]: y minus q times the quotient `(y + half) * reciprocal >> 16`.
/// Saturation keeps the largest y from wrapping; [`reduce_bound`] checks that the quotient is still
/// sufficient.
#[inline(always)]
fn reduce<L: PairLanes>(lanes: L, y: L::Vector, c: Constants<L::Vector>) -> L::Vector {
    let quotient = lanes.mul_high(lanes.add_saturating(y, c.half), c.reciprocal);
    lanes.sub(y, lanes.mul_low(quotient, c.q))
}

/// Computes the Cooley-Tukey butterfly.
#[inline(always)]
fn butterfly<L: PairLanes>(
    lanes: L,
    u: L::Vector,
    y: L::Vector,
    factor: Splat<L::Vector>,
    q: L::Vector,
) -> (L::Vector, L::Vector) {
    let r = product(lanes, y, factor, q);
    (lanes.add(u, r), lanes.sub(u, r))
}

/// Transforms coefficients up to 128 in magnitude to values up to [`OUTPUT_BOUND`], in the order of
/// [`NttPlan`].
#[inline(always)]
pub(super) fn forward<L: PairLanes>(lanes: L, tables: &Tables, from: &[L::Vector], to: &mut [L::Vector]) {
    assert!(from.len() == RING_DEGREE && to.len() == RING_DEGREE);
    let c = constants(lanes, &tables.prime);
    // The first two layers read from `from`, since four primes share their input.
    let [w1, w2, w3] = factors(lanes, tables, 1, 0);
    for i in 0..64 {
        let x = [from[i], from[i + 64], from[i + 128], from[i + 192]];
        let y = two_layers::<L, false, false>(lanes, x, [w1, w2, w3], c);
        (to[i], to[i + 64], to[i + 128], to[i + 192]) = (y[0], y[1], y[2], y[3]);
    }
    pass::<L, 16, false, false>(lanes, tables, to, c);
    pass::<L, 4, true, false>(lanes, tables, to, c);
    pass::<L, 1, true, true>(lanes, tables, to, c);
}

/// Returns the factors of group `group` of the layer with `groups` groups, and of its two groups in
/// the next layer.
#[inline(always)]
fn factors<L: PairLanes>(lanes: L, tables: &Tables, groups: usize, group: usize) -> [Splat<L::Vector>; 3] {
    let w = &tables.forward;
    [
        splat(lanes, w[groups + group]),
        splat(lanes, w[2 * (groups + group)]),
        splat(lanes, w[2 * (groups + group) + 1]),
    ]
}

/// Computes two layers in place, on words `QUARTER` apart.
#[inline(always)]
fn pass<L: PairLanes, const QUARTER: usize, const FIRST: bool, const SECOND: bool>(
    lanes: L,
    tables: &Tables,
    words: &mut [L::Vector],
    c: Constants<L::Vector>,
) {
    let groups = RING_DEGREE / (4 * QUARTER);
    for (group, words) in words.chunks_exact_mut(4 * QUARTER).enumerate() {
        let w = factors(lanes, tables, groups, group);
        for i in 0..QUARTER {
            let x = [words[i], words[i + QUARTER], words[i + 2 * QUARTER], words[i + 3 * QUARTER]];
            let y = two_layers::<L, FIRST, SECOND>(lanes, x, w, c);
            (words[i], words[i + QUARTER]) = (y[0], y[1]);
            (words[i + 2 * QUARTER], words[i + 3 * QUARTER]) = (y[2], y[3]);
        }
    }
}

/// Computes two layers in registers; `FIRST` and `SECOND` are true if that layer reduces the words
/// that it does not multiply.
#[inline(always)]
fn two_layers<L: PairLanes, const FIRST: bool, const SECOND: bool>(
    lanes: L,
    mut x: [L::Vector; 4],
    w: [Splat<L::Vector>; 3],
    c: Constants<L::Vector>,
) -> [L::Vector; 4] {
    if FIRST {
        x[0] = reduce(lanes, x[0], c);
        x[1] = reduce(lanes, x[1], c);
    }
    let (mut a, d) = butterfly(lanes, x[0], x[2], w[0], c.q);
    let (b, e) = butterfly(lanes, x[1], x[3], w[0], c.q);
    let mut d = d;
    if SECOND {
        a = reduce(lanes, a, c);
        d = reduce(lanes, d, c);
    }
    let (y0, y1) = butterfly(lanes, a, b, w[1], c.q);
    let (y2, y3) = butterfly(lanes, d, e, w[2], c.q);
    [y0, y1, y2, y3]
}

/// Transforms values up to 0.75 q in magnitude to 256 times the coefficients, below q in magnitude,
/// in place.
///
/// There is one inverse transform for many forward ones, so it reduces every sum and stays simple.
#[inline(always)]
pub(super) fn inverse<L: PairLanes>(lanes: L, tables: &Tables, words: &mut [L::Vector]) {
    assert!(words.len() == RING_DEGREE);
    let c = constants(lanes, &tables.prime);
    let mut half = 1;
    while half < RING_DEGREE {
        let groups = RING_DEGREE / (2 * half);
        for (group, words) in words.chunks_exact_mut(2 * half).enumerate() {
            let w = splat(lanes, tables.inverse[groups + group]);
            let (low, high) = words.split_at_mut(half);
            for i in 0..half {
                let (u, v) = (low[i], high[i]);
                low[i] = reduce(lanes, lanes.add(u, v), c);
                high[i] = product(lanes, lanes.sub(u, v), w, c.q);
            }
        }
        half *= 2;
    }
}
