//! Gadget decomposition: a polynomial as a sum of small digits times public factors.
//!
//! Digits are signed, and the polynomial's lift is centred. Unsigned digits or an uncentred lift
//! would add noise coherently, and the sum would be neither small nor Gaussian.

use crate::Ring;

/// Representation of a polynomial in digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gadget {
    /// A digit for each prime: a = sum of `[a (q/q_i)^-1]_(q_i)` times q/q_i modulo q, with centred
    /// residues as digits. Exact; the digits need no recombination.
    Residues,
    /// Digits in base 2^`base_log` of the centred coefficient, without its `dropped` lowest bits:
    /// factor i is 2^(`dropped` + i `base_log`). Exact if `dropped` is 0.
    Digits {
        /// Number of digits.
        levels: u32,
        /// Bits of a digit. The highest digit takes the remaining bits.
        base_log: u32,
        /// Number of low bits that are rounded away.
        dropped: u32,
    },
}

impl Gadget {
    /// Returns the number of digits.
    pub fn levels(self, ring: &Ring) -> usize {
        match self {
            Self::Residues => ring.limbs().len(),
            Self::Digits { levels, .. } => levels as usize,
        }
    }

    /// Returns the number of forward transforms for the digits of a polynomial, counting each prime
    /// separately. A residue's values modulo its own prime are already known.
    pub fn forward_transforms(self, ring: &Ring) -> usize {
        let primes = ring.limbs().len();
        match self {
            Self::Residues => primes * (primes - 1),
            Self::Digits { levels, .. } => levels as usize * primes,
        }
    }

    /// Returns the factors, as integers in [0, q).
    pub fn factors(self, ring: &Ring) -> Vec<u128> {
        match self {
            Self::Residues => ring.limbs().iter().map(|limb| limb.cofactor).collect(),
            Self::Digits { levels, base_log, dropped } => {
                (0..levels).map(|i| (1u128 << (dropped + i * base_log)) % ring.modulus()).collect()
            }
        }
    }

    /// Returns the digits of `a` (coefficients) as coefficients, one polynomial after another.
    pub fn decompose(self, ring: &Ring, a: &[u32]) -> Vec<u32> {
        let mut digits = vec![0; self.levels(ring) * ring.words()];
        let degree = ring.degree();
        for i in 0..degree {
            match self {
                Self::Residues => {
                    for (level, limb) in ring.limbs().iter().enumerate() {
                        let prime = limb.prime();
                        let digit =
                            prime.reduce_lazy(prime.mul_lazy(a[level * degree + i], limb.cofactor_inverse));
                        let centred =
                            digit as i32 - if digit > prime.value() / 2 { prime.value() as i32 } else { 0 };
                        ring.set_coefficient(
                            &mut digits[level * ring.words()..][..ring.words()],
                            i,
                            centred.into(),
                        );
                    }
                }
                Self::Digits { levels, base_log, dropped } => {
                    let value = ring.centred(ring.coefficient(a, i));
                    // Adding half a step before the shift rounds to the nearest number, and halves
                    // upwards.
                    let mut rest = (value + ((1i128 << dropped) >> 1)) >> dropped;
                    for level in 0..levels as usize {
                        let digit =
                            if level + 1 == levels as usize { rest } else { signed_digit(rest, base_log) };
                        rest = (rest - digit) >> base_log;
                        ring.set_coefficient(&mut digits[level * ring.words()..][..ring.words()], i, digit);
                    }
                }
            }
        }
        digits
    }

    /// Returns the mean square of each digit, and of the dropped bits, for a coefficient of a
    /// uniform polynomial.
    pub fn digit_mean_squares(self, ring: &Ring) -> (Vec<f64>, f64) {
        let uniform = |width: f64| width.powi(2) / 12.0;
        match self {
            Self::Residues => {
                (ring.limbs().iter().map(|limb| uniform(limb.prime().value().into())).collect(), 0.0)
            }
            Self::Digits { levels, base_log, dropped } => {
                let highest = ring.log2_modulus() - f64::from(dropped + (levels - 1) * base_log);
                let others = (1..levels).map(|_| uniform(2f64.powi(base_log as i32)));
                let digits = others.chain([uniform(highest.exp2())]).collect();
                (digits, if dropped == 0 { 0.0 } else { uniform(2f64.powi(dropped as i32)) })
            }
        }
    }

    /// Returns the sum of the digits' mean squares, and the mean square of a coefficient's dropped
    /// bits, for a uniform polynomial.
    pub fn mean_squares(self, ring: &Ring) -> (f64, f64) {
        let (digits, dropped) = self.digit_mean_squares(ring);
        (digits.iter().sum(), dropped)
    }
}

/// Returns the low `bits` bits of a number, read as a signed number.
fn signed_digit(a: i128, bits: u32) -> i128 {
    let unused = i128::BITS - bits;
    (a << unused) >> unused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Modulus;
    use crate::random::{Seed, public_residues};

    const PRIMES: [Modulus; 3] =
        [Modulus::new(536_608_769), Modulus::new(533_463_041), Modulus::new(531_628_033)];

    fn polynomial(ring: &Ring, seed: u8) -> Vec<u32> {
        let mut a = ring.zero();
        for (i, (limb, a)) in ring.limbs().iter().zip(a.chunks_exact_mut(ring.degree())).enumerate() {
            public_residues(&Seed::new([seed; 32]), i as u64, limb.prime(), a);
        }
        // The extreme values of the range would reveal a lost carry.
        let (half, low) = ((ring.modulus() / 2) as i128, -((ring.modulus() / 2) as i128));
        for (i, value) in
            [0, 1, -1, half, low, half - 1, low + 1, 1 << 17, (1 << 17) - 1].into_iter().enumerate()
        {
            ring.set_coefficient(&mut a, i, value);
        }
        a
    }

    #[test]
    fn digits_times_factors_are_the_polynomial_up_to_what_is_dropped() {
        let ring = Ring::new(256, &PRIMES);
        let gadgets = [
            (Gadget::Residues, 0),
            (Gadget::Digits { levels: 5, base_log: 18, dropped: 0 }, 0),
            (Gadget::Digits { levels: 3, base_log: 16, dropped: 39 }, 39),
        ];
        for (gadget, dropped) in gadgets {
            let a = polynomial(&ring, 1);
            let digits = gadget.decompose(&ring, &a);
            let mut difference = a;
            for (digit, factor) in digits.chunks_exact(ring.words()).zip(gadget.factors(&ring)) {
                let mut term = digit.to_vec();
                ring.scale_assign(&mut term, factor);
                ring.sub_assign(&mut difference, &term);
            }
            for i in 0..ring.degree() {
                let error = ring.centred(ring.coefficient(&difference, i));
                assert!(
                    error.abs() <= (1i128 << dropped) >> 1,
                    "{gadget:?}: coefficient {i} is off by {error}"
                );
            }
        }
    }

    #[test]
    fn mean_squares_are_those_of_uniform_polynomials() {
        let ring = Ring::new(2048, &PRIMES);
        for gadget in [
            Gadget::Residues,
            Gadget::Digits { levels: 5, base_log: 18, dropped: 0 },
            Gadget::Digits { levels: 3, base_log: 16, dropped: 39 },
        ] {
            let digits = gadget.decompose(&ring, &polynomial(&ring, 2));
            let sum = digits.chunks_exact(ring.words()).fold(0.0, |sum, digit| {
                (0..ring.degree())
                    .fold(sum, |sum, i| sum + (ring.centred(ring.coefficient(digit, i)) as f64).powi(2))
            });
            let bits = (sum / ring.degree() as f64 / gadget.mean_squares(&ring).0).log2();
            assert!(bits.abs() < 0.15, "{gadget:?}: {bits} bits off");
        }
    }
}
