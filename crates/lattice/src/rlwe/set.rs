//! Named parameter sets of the ring.

use std::sync::{Arc, LazyLock};

use spirea_math::{Gadget, Modulus, Ring};

use crate::Security;

/// A named, immutable set of ring parameters. There is no constructor for other parameters, so
/// every set has at least 128 bits.
///
/// All have N = 4096, a uniform ternary secret and noise of standard deviation 3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RingSet {
    /// `paper`: VIPIR's parameters, with digits of 18 bits for all gadgets. The reference.
    Paper,
    /// `fast`: the ring of `paper`, with residues as digits of the expansion, which saves half of
    /// its transforms.
    Fast,
    /// `brief`: the ring of `fast`, with two digits: the lowest third of the bits that keys
    /// multiply is dropped, so keys are a third shorter.
    Brief,
    /// `small`: two primes and shorter digits; plaintexts and leaves take two thirds of the memory.
    Small,
    /// `onion-30`: coefficients of 30 bits for OnionPIRv2.
    Onion30,
    /// `onion-32`: coefficients of 32 bits for OnionPIRv2.
    Onion32,
    /// `onion-26`: coefficients of 26 bits for OnionPIRv2, at or above ML-KEM-512 under every
    /// model.
    Onion26,
}

/// Three primes below 2^29 that are 1 mod 2^18; log q = 86.98.
static PACKING: LazyLock<Arc<Ring>> = LazyLock::new(|| ring(&[536_608_769, 533_463_041, 531_628_033]));
/// Two primes below 2^30 that are 1 mod 2^13; log q just below 60.
static SHORT: LazyLock<Arc<Ring>> = LazyLock::new(|| ring(&[1_073_692_673, 1_073_668_097]));
/// Four primes, two below 2^27 and two below 2^26, that are 1 mod 2^13; log q just below 106, the
/// maximum with 128 bits under both models.
static ONION: LazyLock<Arc<Ring>> =
    LazyLock::new(|| ring(&[134_176_769, 134_111_233, 67_084_289, 67_043_329]));
/// The three largest primes below 2^30 that are 1 mod 2^13; log q just below 90.
static CONSERVATIVE: LazyLock<Arc<Ring>> =
    LazyLock::new(|| ring(&[1_073_692_673, 1_073_668_097, 1_073_651_713]));

fn ring(primes: &[u32]) -> Arc<Ring> {
    let primes: Vec<Modulus> = primes.iter().map(|&prime| Modulus::new(prime)).collect();
    Arc::new(Ring::new(RingSet::DEGREE, &primes))
}

impl RingSet {
    /// All sets.
    pub const ALL: [Self; 7] =
        [Self::Paper, Self::Fast, Self::Brief, Self::Small, Self::Onion30, Self::Onion32, Self::Onion26];
    /// Coefficients of a polynomial, N.
    pub const DEGREE: usize = 4096;
    /// Standard deviation of the noise.
    pub const SIGMA: f64 = 3.2;

    /// Returns the set of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|set| set.name() == name)
    }

    /// Returns its name, part of a snapshot's identity.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Fast => "fast",
            Self::Brief => "brief",
            Self::Small => "small",
            Self::Onion30 => "onion-30",
            Self::Onion32 => "onion-32",
            Self::Onion26 => "onion-26",
        }
    }

    /// Returns the ring with its tables, which are computed once.
    pub fn ring(self) -> &'static Arc<Ring> {
        match self {
            Self::Paper | Self::Fast | Self::Brief => &PACKING,
            Self::Small => &SHORT,
            Self::Onion30 | Self::Onion32 => &ONION,
            Self::Onion26 => &CONSERVATIVE,
        }
    }

    /// Returns the number of bits of the largest prime.
    pub(super) fn prime_bits(self) -> u32 {
        let primes = self.ring().limbs().iter().map(|limb| limb.prime().value());
        primes.map(|prime| u32::BITS - prime.leading_zeros()).max().expect("a ring has primes")
    }

    /// Returns the number of bits in which each value of a registered key, or of a query that is
    /// expanded, is sent.
    pub(super) fn word_bits(self) -> u32 {
        match self {
            Self::Brief => self.prime_bits(),
            _ => u32::BITS,
        }
    }

    /// Returns log2 of the plaintext modulus p.
    pub fn plaintext_bits(self) -> u32 {
        match self {
            Self::Paper | Self::Fast | Self::Brief => 18,
            Self::Small => 17,
            Self::Onion30 => 30,
            Self::Onion32 => 32,
            Self::Onion26 => 26,
        }
    }

    /// Returns the scale of a plaintext: floor(q / p).
    pub fn scale(self) -> u128 {
        self.ring().modulus() >> self.plaintext_bits()
    }

    /// Returns the gadget of the expansion's substitutions.
    pub fn expansion_gadget(self) -> Gadget {
        match self {
            Self::Paper => Gadget::Digits { levels: 5, base_log: 18, dropped: 0 },
            Self::Fast => Gadget::Residues,
            // The dropped bits times the secret are a thirtieth of the digits' noise in variance.
            Self::Brief => Gadget::Digits { levels: 2, base_log: 29, dropped: 29 },
            Self::Small => Gadget::Digits { levels: 8, base_log: 7, dropped: 6 },
            // The papers use log q = 108; here q / p is 4 times smaller, so digits are smaller too.
            Self::Onion30 => Gadget::Digits { levels: 5, base_log: 19, dropped: 12 },
            Self::Onion32 => Gadget::Digits { levels: 6, base_log: 16, dropped: 10 },
            Self::Onion26 => Gadget::Digits { levels: 8, base_log: 10, dropped: 10 },
        }
    }

    /// Returns the gadget of RGSW(s), by which expanded ciphertexts become selectors.
    pub fn conversion_gadget(self) -> Gadget {
        self.expansion_gadget()
    }

    /// Returns the gadget of selectors, for the digits in a tournament's external products.
    pub fn selector_gadget(self) -> Gadget {
        match self {
            Self::Paper => Gadget::Digits { levels: 5, base_log: 18, dropped: 0 },
            Self::Fast | Self::Brief => Gadget::Digits { levels: 3, base_log: 16, dropped: 39 },
            Self::Small => Gadget::Digits { levels: 3, base_log: 9, dropped: 33 },
            Self::Onion30 | Self::Onion32 => Gadget::Digits { levels: 3, base_log: 22, dropped: 42 },
            // The dropped bits of ten levels, all with the worst sign, are a thousandth of the
            // error that decoding tolerates.
            Self::Onion26 => Gadget::Digits { levels: 3, base_log: 17, dropped: 39 },
        }
    }

    /// Returns the numbers of bits of a coefficient of `a` and of `b` in a response.
    pub fn response_bits(self) -> (u32, u32) {
        match self {
            Self::Paper | Self::Fast | Self::Brief | Self::Small => (18, 14),
            Self::Onion30 => (41, 37),
            Self::Onion32 => (43, 39),
            Self::Onion26 => (37, 33),
        }
    }

    /// Returns the number of low bits that a query omits from the coefficients of half `b`, if its
    /// numbers are rotated and its noise is not divided away. The rounding noise, doubled eight
    /// times by the expansion of selectors, stays at an eighth of a leaf's noise from
    /// substitutions. Sets whose leaves are entries have no such queries.
    pub fn dropped_bits(self) -> u32 {
        match self {
            Self::Fast | Self::Brief => 30,
            Self::Small => 8,
            Self::Paper | Self::Onion30 | Self::Onion32 | Self::Onion26 => 0,
        }
    }

    /// Returns the number of low bits that the ciphertext of a chunk omits, if each chunk of a
    /// query has its own ciphertext. No expansion doubles this rounding noise, so it may be larger
    /// than that of [`Self::dropped_bits`]; under `fast` and `small` it is not.
    pub fn chunk_dropped_bits(self) -> u32 {
        match self {
            Self::Brief => 41,
            _ => self.dropped_bits(),
        }
    }

    /// Returns the cost of attacks on it.
    pub fn security(self) -> Security {
        match self {
            Self::Paper | Self::Fast | Self::Brief => {
                Security { matzov: 159.7, bdgl16: 162.6, core_svp: 132.3 }
            }
            Self::Small => Security { matzov: 239.1, bdgl16: 245.9, core_svp: 218.4 },
            Self::Onion30 | Self::Onion32 => Security { matzov: 128.9, bdgl16: 131.1, core_svp: 99.6 },
            Self::Onion26 => Security { matzov: 153.8, bdgl16: 156.7, core_svp: 125.9 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moduli_are_no_larger_than_what_security_was_estimated_for() {
        for set in RingSet::ALL {
            let most = match set {
                RingSet::Paper | RingSet::Fast | RingSet::Brief => 87.0,
                RingSet::Small => 60.0,
                RingSet::Onion30 | RingSet::Onion32 => 106.0,
                RingSet::Onion26 => 90.0,
            };
            assert!(set.ring().log2_modulus() <= most, "{}", set.name());
        }
    }

    #[test]
    fn gadgets_reach_all_of_the_modulus() {
        for set in RingSet::ALL {
            for gadget in [set.expansion_gadget(), set.conversion_gadget(), set.selector_gadget()] {
                if let Gadget::Digits { levels, base_log, dropped } = gadget {
                    // The highest digit takes no more bits than the others.
                    let highest = set.ring().log2_modulus() - f64::from(dropped + (levels - 1) * base_log);
                    assert!(highest <= f64::from(base_log) + 0.01, "{}: {highest}", set.name());
                }
            }
        }
    }

    #[test]
    fn scales_are_quotients_of_the_moduli_rounded_down() {
        for set in RingSet::ALL {
            let (q, p) = (set.ring().modulus(), 1u128 << set.plaintext_bits());
            assert!(set.scale() * p <= q && q - set.scale() * p < p, "{}", set.name());
        }
    }

    #[test]
    fn sets_are_found_by_their_names() {
        assert!(RingSet::ALL.into_iter().all(|set| RingSet::by_name(set.name()) == Some(set)));
        assert_eq!(RingSet::by_name("toy"), None);
    }
}
