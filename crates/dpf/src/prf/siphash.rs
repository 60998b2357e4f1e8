use super::lanes::{self, Lanes, load, store};
use super::{Prf, PrfKind};
use crate::Block;

/// SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, "SipHash: a fast short-input PRF",
/// INDOCRYPT 2012, in the variant of their reference code): `F(s, i)` is the tag of the 8 bytes of
/// i under the key s.
#[derive(Clone, Copy, Debug, Default)]
pub struct SipHash24;

impl Prf for SipHash24 {
    const KIND: PrfKind = PrfKind::SipHash24;

    #[inline(always)]
    fn blocks<const N: usize>(self, seeds: &[Block], expanded: &mut [[Block; N]]) {
        lanes::blocks::<Self, u64, LANES, 2, 2, N>(seeds, expanded);
    }
}

const LANES: usize = 8;

/// "somepseudorandomlygeneratedbytes".
const CONSTANTS: [u64; 4] =
    [0x736f_6d65_7073_6575, 0x646f_7261_6e64_6f6d, 0x6c79_6765_6e65_7261, 0x7465_6462_7974_6573];

impl Lanes<u64, LANES, 2, 2> for SipHash24 {
    #[inline(always)]
    fn call(seeds: &[[u64; LANES]; 2], call: u64) -> [[u64; LANES]; 2] {
        let mut tags = [[0; LANES]; 2];
        for lane in 0..LANES {
            store(&mut tags, lane, tag(load(seeds, lane), call));
        }
        tags
    }
}

/// Computes the tag. Written without a loop where rounds differ: lanes become vectors only if the
/// state stays in registers.
#[inline(always)]
fn tag(key: [u64; 2], message: u64) -> [u64; 2] {
    let mut v: [u64; 4] = std::array::from_fn(|i| CONSTANTS[i] ^ key[i % 2]);
    // SipHash with 128 bits differs from SipHash with 64 bits here, in 0xee (for 0xff) below, and
    // in the second half of the output.
    v[1] ^= 0xee;
    // The message, and a word with its length in the highest byte.
    for word in [message, 8 << 56] {
        v[3] ^= word;
        v = round(round(v));
        v[0] ^= word;
    }
    v[2] ^= 0xee;
    v = round(round(round(round(v))));
    let low = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    v = round(round(round(round(v))));
    [low, v[0] ^ v[1] ^ v[2] ^ v[3]]
}

#[inline(always)]
fn round([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    a = a.wrapping_add(b);
    c = c.wrapping_add(d);
    b = b.rotate_left(13) ^ a;
    d = d.rotate_left(16) ^ c;
    a = a.rotate_left(32).wrapping_add(d);
    c = c.wrapping_add(b);
    b = b.rotate_left(17) ^ c;
    d = d.rotate_left(21) ^ a;
    [a, b, c.rotate_left(32), d]
}
