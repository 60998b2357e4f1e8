//! Measures the noise of substitutions under a derived key.
//!
//! Packing by rotations needs keys for X -> X^5, X -> X^-1 and the big step X -> X^(5^h). Short
//! queries carry the first two keys, and the server derives the third: a row of the key for X ->
//! X^(5^j), substituted by X -> X^5, is a row of the key for X -> X^(5^(j+1)), plus the noise of a
//! substitution. A rotation multiplies the noise of the derived rows by digits.
//!
//! Run: `cargo run --release --package spirea-lattice --example derived_keys [STEPS]`
#![allow(clippy::print_stdout)]

use spirea_lattice::rlwe::RingSet;
use spirea_math::random::SecretRng;
use spirea_math::sample::{Gaussian, ternary};
use spirea_math::{Gadget, Ring};

/// Number of big automorphisms; a result takes one rotation less than this number.
const BIG: usize = 16;

/// Ciphertext (a, b) in coefficients, whose phase is b + a s.
#[derive(Clone)]
struct Ciphertext {
    a: Vec<u32>,
    b: Vec<u32>,
}

struct Setting {
    ring: &'static Ring,
    gadget: Gadget,
    gaussian: Gaussian,
    /// The secret, in coefficients and as values.
    secret: [Vec<u32>; 2],
}

impl Setting {
    fn new(set: RingSet, rng: &mut SecretRng) -> Self {
        let ring = set.ring();
        let coefficients: Vec<i32> = (0..ring.degree()).map(|_| ternary(rng).into()).collect();
        let secret = ring.lift(&coefficients);
        let values = transformed(ring, &secret);
        let gaussian = Gaussian::new(RingSet::SIGMA);
        Self { ring, gadget: set.expansion_gadget(), gaussian, secret: [secret, values] }
    }

    /// Encrypts a polynomial.
    fn encrypt(&self, message: &[u32], rng: &mut SecretRng) -> Ciphertext {
        let primes = self.ring.limbs().iter().map(|limb| u64::from(limb.prime().value()));
        let a: Vec<u32> = primes
            .flat_map(|prime| (0..self.ring.degree()).map(move |_| prime))
            .map(|prime| (rng.next_u64() % prime) as u32)
            .collect();
        let noise: Vec<i32> = (0..self.ring.degree()).map(|_| self.gaussian.sample(rng)).collect();
        let mut b = self.ring.lift(&noise);
        self.ring.add_assign(&mut b, message);
        self.ring.sub_assign(&mut b, &self.times_secret(&a));
        Ciphertext { a, b }
    }

    fn times_secret(&self, a: &[u32]) -> Vec<u32> {
        let mut product = transformed(self.ring, a);
        self.ring.mul_assign(&mut product, &self.secret[1]);
        self.ring.inverse(&mut product);
        product
    }

    /// Returns the message of row number `row` of the key for X -> X^`exponent`.
    fn row(&self, row: usize, exponent: usize) -> Vec<u32> {
        let mut message = self.ring.automorphism(&self.secret[0], exponent);
        self.ring.scale_assign(&mut message, self.gadget.factors(self.ring)[row]);
        message
    }

    /// Returns the image of a ciphertext under X -> X^`exponent`; `key` is the key for this
    /// substitution.
    fn substitute(&self, key: &[Ciphertext], exponent: usize, c: &Ciphertext) -> Ciphertext {
        let Self { ring, gadget, .. } = self;
        let digits = gadget.decompose(ring, &ring.automorphism(&c.a, exponent));
        let mut sum = [ring.zero(), ring.zero()];
        for (digit, row) in digits.chunks_exact(ring.words()).zip(key) {
            let digit = transformed(ring, digit);
            for (sum, half) in sum.iter_mut().zip([&row.a, &row.b]) {
                ring.mul_add(sum, &digit, &transformed(ring, half));
            }
        }
        sum.iter_mut().for_each(|sum| ring.inverse(sum));
        let [a, mut b] = sum;
        ring.add_assign(&mut b, &ring.automorphism(&c.b, exponent));
        Ciphertext { a, b }
    }

    /// Returns the mean square of a ciphertext's noise.
    fn noise(&self, c: &Ciphertext, message: &[u32]) -> f64 {
        let ring = self.ring;
        let mut phase = self.times_secret(&c.a);
        ring.add_assign(&mut phase, &c.b);
        ring.sub_assign(&mut phase, message);
        let squares = (0..ring.degree()).map(|i| (ring.centred(ring.coefficient(&phase, i)) as f64).powi(2));
        squares.sum::<f64>() / ring.degree() as f64
    }
}

fn transformed(ring: &Ring, a: &[u32]) -> Vec<u32> {
    let mut a = a.to_vec();
    ring.forward(&mut a);
    a
}

/// Prints a measured and a derived deviation as powers of 2.
fn report(what: &str, measured: f64, derived: f64) {
    println!("{what}: 2^{:.2}, by the closed form 2^{:.2}", measured.log2() / 2.0, derived.log2() / 2.0);
}

fn main() {
    let steps: usize = std::env::args().nth(1).map_or(8, |steps| steps.parse().expect("a number of steps"));
    let mut rng = SecretRng::from_os().expect("the system has randomness");
    for set in [RingSet::Fast, RingSet::Brief] {
        println!("{}:", set.name());
        measure(set, steps, &mut rng);
    }
}

/// Measures the rows of the key that `steps` - 1 substitutions derive, and a rotation under it.
fn measure(set: RingSet, steps: usize, rng: &mut SecretRng) {
    let setting = Setting::new(set, rng);
    let Setting { ring, gadget, .. } = setting;
    let (degree, doubled) = (ring.degree() as f64, 2 * ring.degree());
    // A substitution adds two errors: the digits times the noise of the rows, and the dropped bits
    // times the secret.
    let (digits, dropped) = gadget.mean_squares(ring);
    let dropped = dropped * 2.0 * degree / 3.0;
    let substitution = degree * digits * RingSet::SIGMA.powi(2) + dropped;

    let levels = gadget.levels(ring);
    let first: Vec<_> = (0..levels).map(|row| setting.encrypt(&setting.row(row, 5), rng)).collect();
    let (mut derived, mut exponent) = (first.clone(), 5);
    for _ in 1..steps {
        derived = derived.iter().map(|row| setting.substitute(&first, 5, row)).collect();
        exponent = exponent * 5 % doubled;
    }
    let rows = derived.iter().enumerate().map(|(i, row)| setting.noise(row, &setting.row(i, exponent)));
    let of_row = RingSet::SIGMA.powi(2) + (steps - 1) as f64 * substitution;
    report(&format!("rows of the key for X^(5^{steps})"), rows.sum::<f64>() / levels as f64, of_row);

    let message = ring.zero();
    let fresh = setting.encrypt(&message, rng);
    let rotated = setting.substitute(&derived, exponent, &fresh);
    let of_rotation = degree * digits * of_row + dropped;
    report("one rotation", setting.noise(&rotated, &message), of_rotation);
    let all = (BIG - 1) as f64 * of_rotation;
    let budget = ring.log2_modulus() - 9.0;
    println!("{} rotations: 2^{:.2}; half a step of a byte: 2^{budget:.2}", BIG - 1, all.log2() / 2.0);
}
