use sha2::block_api::compress256;

use super::lanes::{self, Lanes};
use super::{Prf, PrfKind};
use crate::Block;

/// SHA-256 (FIPS 180-4): `F(s, i)` is the first (i even) or second half of the digest of the 16
/// bytes of s and the 8 bytes of i / 2.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sha256;

impl Prf for Sha256 {
    const KIND: PrfKind = PrfKind::Sha256;

    #[inline]
    fn blocks<const N: usize>(self, seeds: &[Block], expanded: &mut [[Block; N]]) {
        lanes::blocks::<Self, u32, 1, 4, 8, N>(seeds, expanded);
    }
}

/// Initial state: fractional parts of the square roots of the first primes.
const INITIAL: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

impl Lanes<u32, 1, 4, 8> for Sha256 {
    #[inline]
    fn call(seeds: &[[u32; 1]; 4], call: u64) -> [[u32; 1]; 8] {
        // The padded message is a single block of the hash.
        let mut message = [0; 64];
        message[..16].copy_from_slice(bytemuck::cast_slice(seeds));
        message[16..24].copy_from_slice(&call.to_le_bytes());
        message[24] = 0x80;
        message[56..].copy_from_slice(&(8 * 24u64).to_be_bytes());
        let mut state = INITIAL;
        compress256(&mut state, &[message]);
        state.map(|word| [word.swap_bytes()])
    }
}
