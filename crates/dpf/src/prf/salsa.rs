use super::PrfKind;
use super::stream::{CONSTANTS, Cipher, LANES, Stream, Words};

/// Salsa20 in its form for 128-bit keys ("The Salsa20 family of stream ciphers", 2008): constants
/// "expand 16-byte k", the seed twice, the nonce 0, a 64-bit block counter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Salsa;

/// Salsa20 with 20 rounds: Salsa20/20.
pub type Salsa20 = Stream<Salsa, 20>;

/// Salsa20 with 12 rounds: Salsa20/12.
pub type Salsa12 = Stream<Salsa, 12>;

impl Cipher for Salsa {
    const KINDS: [PrfKind; 2] = [PrfKind::Salsa20, PrfKind::Salsa12];

    #[inline(always)]
    fn initial(seeds: &[Words; 4], call: u64) -> [Words; 16] {
        std::array::from_fn(|i| match i {
            0 | 5 | 10 | 15 => [CONSTANTS[i / 5]; LANES],
            1..5 => seeds[i - 1],
            11..15 => seeds[i - 11],
            8 => [call as u32; LANES],
            9 => [(call >> 32) as u32; LANES],
            _ => [0; LANES],
        })
    }

    /// Computes the columns first, then the rows, each from the diagonal on.
    #[inline(always)]
    fn double_round(mut x: [u32; 16]) -> [u32; 16] {
        for i in 0..4 {
            quarter(&mut x, [0, 4, 8, 12].map(|down| (5 * i + down) % 16));
        }
        for i in 0..4 {
            quarter(&mut x, [0, 1, 2, 3].map(|along| 4 * i + (i + along) % 4));
        }
        x
    }
}

#[inline(always)]
fn quarter(x: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (to, last, before, rotation) in [(b, a, d, 7), (c, b, a, 9), (d, c, b, 13), (a, d, c, 18)] {
        x[to] ^= x[last].wrapping_add(x[before]).rotate_left(rotation);
    }
}
