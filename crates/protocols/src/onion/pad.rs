//! The public pad of the stored polynomials.
//!
//! The failure bound is one over the pad: under it plaintexts are uniform whatever the records are, so that nobody who
//! contributes records can choose polynomials that add up the noise of an expansion. Its seed is drawn after the content
//! is fixed. It hides nothing, and everybody may know it.

use spirea_math::random::{Seed, public_row};

/// The pad of a database's units.
pub(super) struct Pad {
    key: Seed,
    bits: u32,
}

impl Pad {
    /// The pad of coefficients of `bits` bits under a seed.
    pub fn new(seed: &Seed, bits: u32) -> Self {
        Self { key: blake3::derive_key("spirea v1: public pad of polynomials", seed), bits }
    }

    /// The pad of each coefficient of unit number `unit` of the file: the words of that row of the key's public stream,
    /// each cut to its low bits. Time and memory access do not depend on the unit.
    pub fn of_unit(&self, unit: usize, coefficients: usize) -> impl Iterator<Item = u64> + use<> {
        let mut words = vec![0; coefficients];
        public_row(&self.key, unit as u64, &mut words);
        let mask = self.mask();
        words.into_iter().map(move |word| u64::from(word) & mask)
    }

    /// All bits of a coefficient.
    pub fn mask(&self) -> u64 {
        u64::MAX >> (u64::BITS - self.bits)
    }
}
