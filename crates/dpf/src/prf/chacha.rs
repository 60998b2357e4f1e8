use super::PrfKind;
use super::stream::{CONSTANTS, Cipher, LANES, Stream, Words};

/// ChaCha in Bernstein's form for 128-bit keys ("ChaCha, a variant of Salsa20", 2008): constants
/// "expand 16-byte k", the seed twice, a 64-bit block counter, the nonce 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChaCha;

/// ChaCha with 20 rounds, as in TLS.
pub type ChaCha20 = Stream<ChaCha, 20>;

/// ChaCha with 12 rounds.
pub type ChaCha12 = Stream<ChaCha, 12>;

impl Cipher for ChaCha {
    const KINDS: [PrfKind; 2] = [PrfKind::ChaCha20, PrfKind::ChaCha12];

    #[inline(always)]
    fn initial(seeds: &[Words; 4], call: u64) -> [Words; 16] {
        std::array::from_fn(|i| match i {
            0..4 => [CONSTANTS[i]; LANES],
            4..12 => seeds[i % 4],
            12 => [call as u32; LANES],
            13 => [(call >> 32) as u32; LANES],
            _ => [0; LANES],
        })
    }

    /// Computes the columns first, then the diagonals.
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
}

#[inline(always)]
fn quarter(x: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (to, other, mixed, rotation) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        x[to] = x[to].wrapping_add(x[other]);
        x[mixed] = (x[mixed] ^ x[to]).rotate_left(rotation);
    }
}
