use super::lanes::{self, Lanes};
use super::stream::{CONSTANTS, LANES, Words, keystream};
use super::{Prf, PrfKind};
use crate::Block;

/// ChaCha in Bernstein's form for 128-bit keys ("ChaCha, a variant of Salsa20", 2008): constants
/// "expand 16-byte k", the seed twice, a 64-bit block counter, the nonce 0. `F(s, i)` is the i-th 16 bytes of
/// the keystream, four to a block of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChaCha<const ROUNDS: usize>;

/// With 20 rounds, those of TLS.
pub type ChaCha20 = ChaCha<20>;

/// With 12 rounds.
pub type ChaCha12 = ChaCha<12>;

impl<const ROUNDS: usize> Prf for ChaCha<ROUNDS> {
    const KIND: PrfKind = match ROUNDS {
        20 => PrfKind::ChaCha20,
        12 => PrfKind::ChaCha12,
        _ => panic!("ChaCha has 20 or 12 rounds"),
    };

    #[inline(always)]
    fn blocks<const N: usize>(self, seeds: &[Block], expanded: &mut [[Block; N]]) {
        lanes::blocks::<Self, u32, LANES, 4, 16, N>(seeds, expanded);
    }
}

impl<const ROUNDS: usize> Lanes<u32, LANES, 4, 16> for ChaCha<ROUNDS> {
    #[inline(always)]
    fn call(seeds: &[Words; 4], call: u64) -> [Words; 16] {
        let initial = std::array::from_fn(|i| match i {
            0..4 => [CONSTANTS[i]; LANES],
            4..12 => seeds[i % 4],
            12 => [call as u32; LANES],
            13 => [(call >> 32) as u32; LANES],
            _ => [0; LANES],
        });
        keystream::<ROUNDS>(initial, double_round)
    }
}

/// Along the columns, then along the diagonals.
#[inline(always)]
fn double_round(mut x: [u32; 16]) -> [u32; 16] {
    for i in 0..4 {
        quarter(&mut x, [i, 4 + i, 8 + i, 12 + i]);
    }
    for i in 0..4 {
        quarter(&mut x, [i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4]);
    }
    x
}

#[inline(always)]
fn quarter(x: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (to, other, mixed, rotation) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        x[to] = x[to].wrapping_add(x[other]);
        x[mixed] = (x[mixed] ^ x[to]).rotate_left(rotation);
    }
}
