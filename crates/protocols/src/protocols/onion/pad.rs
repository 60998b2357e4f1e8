//! The public pad of the stored polynomials.
//!
//! The failure bound is a probability over the pad. The pad makes plaintexts uniform for all
//! records, so a contributor of records cannot choose polynomials that add up the noise of an
//! expansion. Its seed is drawn after the content is fixed. The pad hides nothing and is public.

use spirea_math::random::{Seed, public_row};
use zeroize::Zeroizing;

/// The pad of a database's units.
pub(super) struct Pad {
    key: Seed,
    bits: u32,
}

impl Pad {
    /// Creates the pad of coefficients of `bits` bits under a seed.
    pub fn new(seed: &Seed, bits: u32) -> Self {
        let key = blake3::derive_key("spirea v1: public pad of polynomials", seed.as_bytes());
        Self { key: Seed::new(key), bits }
    }

    /// Returns the pad of each coefficient of unit number `unit` of the file: the words of that row
    /// of the key's public stream, each truncated to its low `bits` bits. Time and memory accesses
    /// do not depend on the unit.
    pub fn of_unit(&self, unit: usize, coefficients: usize) -> impl Iterator<Item = u64> + use<> {
        let mut words = Zeroizing::new(vec![0; coefficients]);
        public_row(&self.key, unit as u64, &mut words);
        let mask = self.mask();
        (0..coefficients).map(move |i| u64::from(words[i]) & mask)
    }

    /// Returns a mask of all bits of a coefficient.
    pub fn mask(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_seeds_have_pads_of_their_own_with_all_bits_in_use() {
        for bits in [24, 30, 32] {
            let of = |seed: u8, unit| {
                Pad::new(&Seed::new([seed; 32]), bits).of_unit(unit, 64).collect::<Vec<u64>>()
            };
            assert_eq!(of(1, 3), of(1, 3));
            assert!(of(1, 3) != of(1, 4) && of(1, 3) != of(2, 3));
            assert!(of(1, 3).iter().all(|&word| word < 1 << bits));
            assert_eq!(of(1, 3).iter().fold(0, |all, word| all | word), (1 << bits) - 1);
            // The key is derived, so knowing the seed does not let anyone choose the stream.
            let mut raw = vec![0; 64];
            public_row(&Seed::new([1; 32]), 3, &mut raw);
            assert!(of(1, 3).iter().zip(raw).any(|(&word, raw)| word != u64::from(raw) & ((1 << bits) - 1)));
        }
    }
}
