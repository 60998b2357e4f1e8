//! Primes as kernels take them.

use bytemuck::{Pod, Zeroable};
use spirea_math::Modulus;

/// Maximum number of primes of a ring, limited by the registers that kernels keep for them.
pub(super) const MOST_PRIMES: usize = 4;

/// Prime with the constants of Montgomery's method (`modular.cuh`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct Prime {
    /// The prime.
    pub q: u32,
    /// q^-1 mod 2^32.
    pub inverse: u32,
    /// 2^32 mod q.
    pub one: u32,
    /// 2^64 mod q.
    pub square: u32,
}

impl Prime {
    pub(super) fn new(modulus: Modulus) -> Self {
        let q = modulus.value();
        // Each step doubles the number of correct bits; an odd q is its own inverse modulo 8.
        let inverse =
            (0..4).fold(q, |inverse, _| inverse.wrapping_mul(2u32.wrapping_sub(q.wrapping_mul(inverse))));
        let one = ((1u64 << 32) % u64::from(q)) as u32;
        Self { q, inverse, one, square: modulus.mul(one, one) }
    }
}
