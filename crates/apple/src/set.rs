//! The parameter sets and their rings.

use std::sync::{Arc, LazyLock};

use spirea_backend::CIPHERTEXT_POLYNOMIALS;
use spirea_math::{Modulus, NttPlan, Ring};

use crate::AppleError;
use crate::messages::EncryptionParameters;

/// Degree N of every set's ring.
pub const DEGREE: usize = 4096;
/// log2 N.
pub const LOG2_DEGREE: u32 = DEGREE.ilog2();
/// Primes of the ciphertext modulus q. Responses are modulo the first one.
const PRIMES: [Modulus; 2] = [Modulus::new(134_176_769), Modulus::new(268_369_921)];
/// Special prime P of key switching.
const SPECIAL_PRIME: Modulus = Modulus::new(268_361_729);
/// Additional primes, besides those of q, for products of ciphertexts: the smallest primes above
/// 2^28 that are 1 mod 2N.
const EXTENSION_PRIMES: [Modulus; 3] =
    [Modulus::new(268_460_033), Modulus::new(268_582_913), Modulus::new(268_640_257)];

/// Number of polynomials of a ciphertext.
pub const POLYNOMIALS: usize = CIPHERTEXT_POLYNOMIALS;

/// Polynomials (c_0, c_1) of a ciphertext, with phase c_0 + c_1 s.
pub type Polynomials = [Vec<u32>; POLYNOMIALS];

/// The rings of all sets. The values of a polynomial are those at the odd powers of the least
/// primitive root.
pub struct Rings {
    /// Ring of ciphertexts, modulo q.
    pub ciphertext: Arc<Ring>,
    /// Ring of responses, modulo the first prime.
    pub response: Arc<Ring>,
    /// Ring of key-switching keys, modulo q P.
    pub keys: Arc<Ring>,
    /// Ring modulo the extension primes, which products of ciphertexts need besides those of q.
    pub extension: Arc<Ring>,
}

/// The rings of all sets.
pub static RINGS: LazyLock<Rings> = LazyLock::new(|| Rings {
    ciphertext: ring(&PRIMES),
    response: ring(&PRIMES[..1]),
    keys: ring(&[PRIMES[0], PRIMES[1], SPECIAL_PRIME]),
    extension: ring(&EXTENSION_PRIMES),
});

fn ring(primes: &[Modulus]) -> Arc<Ring> {
    let plan = |&prime: &Modulus| NttPlan::with_root(prime, DEGREE, prime.least_root_of_unity(2 * DEGREE));
    Arc::new(Ring::with_plans(primes.iter().map(plan).collect()))
}

/// A parameter set of Apple's with primes of 27, 28 and 28 bits. The sets differ in the plaintext
/// modulus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Set {
    /// `n_4096_logq_27_28_28_logt_4`: t = 11, 3 bits of a database in a coefficient.
    Logt4,
    /// `n_4096_logq_27_28_28_logt_5`: t = 17, 4 bits. Apple's default.
    Logt5,
    /// `n_4096_logq_27_28_28_logt_6`: t = 37, 5 bits.
    Logt6,
}

impl Set {
    /// Every set.
    pub const ALL: [Self; 3] = [Self::Logt4, Self::Logt5, Self::Logt6];

    /// Returns Apple's name of the set.
    pub fn name(self) -> &'static str {
        match self {
            Self::Logt4 => "n_4096_logq_27_28_28_logt_4",
            Self::Logt5 => "n_4096_logq_27_28_28_logt_5",
            Self::Logt6 => "n_4096_logq_27_28_28_logt_6",
        }
    }

    /// Returns the plaintext modulus t.
    pub fn plaintext_modulus(self) -> u32 {
        match self {
            Self::Logt4 => 11,
            Self::Logt5 => 17,
            Self::Logt6 => 37,
        }
    }

    /// Returns the bits of a database in a coefficient of a plaintext.
    pub fn plaintext_bits(self) -> u32 {
        self.plaintext_modulus().ilog2()
    }

    /// Returns the bytes of a database in a plaintext.
    pub fn plaintext_bytes(self) -> usize {
        DEGREE * self.plaintext_bits() as usize / 8
    }

    /// Returns the number of low bits that a response drops from each polynomial's coefficients.
    ///
    /// `l` is the number of bits of c_0 whose rounding takes at most an eighth of the error that
    /// decryption tolerates. The rounding error of c_1 is multiplied by the secret, whose size is
    /// at most 8 sqrt(2 N / 9) with high probability.
    pub fn dropped_bits(self) -> [u32; POLYNOMIALS] {
        let l = (PRIMES[0].value() / self.plaintext_modulus()).ilog2() - 3;
        let secret = (64 * 2 * DEGREE / 9).isqrt();
        let second = l.saturating_sub(secret.next_power_of_two().ilog2());
        if second <= 1 { [l + 1, 0] } else { [l, second] }
    }

    /// Returns the set as a message.
    pub fn parameters(self) -> EncryptionParameters {
        EncryptionParameters {
            polynomial_degree: DEGREE as u64,
            plaintext_modulus: self.plaintext_modulus().into(),
            coefficient_moduli: PRIMES.iter().chain([&SPECIAL_PRIME]).map(|q| q.value().into()).collect(),
            error_std_dev: 0,
            security_level: 1,
            he_scheme: 1,
        }
    }

    /// Returns the set with these parameters.
    ///
    /// # Errors
    /// [`AppleError::Unsupported`] if there is none.
    pub fn from_parameters(parameters: &EncryptionParameters) -> Result<Self, AppleError> {
        let found = Self::ALL.into_iter().find(|set| set.parameters() == *parameters);
        found.ok_or(AppleError::Unsupported("this set of encryption parameters"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_values_is_by_the_least_roots() {
        let roots = |ring: &Ring| -> Vec<u32> {
            ring.limbs().iter().map(|limb| limb.prime().least_root_of_unity(2 * DEGREE)).collect()
        };
        assert_eq!(roots(&RINGS.keys), [24_149, 62_736, 58_939]);
        for (limb, root) in RINGS.keys.limbs().iter().zip([24_149, 62_736, 58_939]) {
            // The twiddle of the first butterflies is the square root of -1 that N / 2 steps give.
            let expected = limb.prime().pow(root, DEGREE as u64 / 2);
            assert_eq!(limb.plan.forward_twiddles()[1].value, expected);
        }
    }

    #[test]
    fn extension_primes_are_the_least_that_have_transforms() {
        let is_prime = |x: u32| (3..).step_by(2).take_while(|d| d * d <= x).all(|d| !x.is_multiple_of(d));
        let least = ((1 << 28) + 1..).step_by(2 * DEGREE).filter(|&x| is_prime(x)).take(3);
        assert!(least.eq(EXTENSION_PRIMES.map(Modulus::value)));
    }

    #[test]
    fn responses_drop_the_bits_that_apples_do() {
        let bits = Set::ALL.map(Set::dropped_bits);
        assert_eq!(bits, [[20, 12], [19, 11], [18, 10]]);
        assert_eq!(Set::ALL.map(Set::plaintext_bytes), [1536, 2048, 2560]);
    }

    #[test]
    fn a_set_is_found_by_its_parameters_and_no_other_is() {
        for set in Set::ALL {
            assert_eq!(Set::from_parameters(&set.parameters()), Ok(set));
            let weaker = EncryptionParameters { security_level: 0, ..set.parameters() };
            assert!(Set::from_parameters(&weaker).is_err());
        }
    }
}
