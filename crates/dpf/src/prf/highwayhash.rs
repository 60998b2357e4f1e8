use bytemuck::{Pod, Zeroable};

use super::lanes::{self, Lanes, load, store};
use super::{Prf, PrfKind};
use crate::Block;

/// HighwayHash with 256 bits of output (Alakuijala, Cox and Wassenberg, "Fast keyed
/// hash/pseudo-random function using SIMD multiply and permute", 2016): `F(s, i)` is the lower (i
/// even) or upper half of the hash of the 8 bytes of i / 2, under the key that consists of s twice.
#[derive(Clone, Copy, Debug, Default)]
pub struct HighwayHash;

impl Prf for HighwayHash {
    const KIND: PrfKind = PrfKind::HighwayHash;

    #[inline(always)]
    fn blocks<const N: usize>(self, seeds: &[Block], expanded: &mut [[Block; N]]) {
        lanes::blocks::<Self, u64, LANES, 2, 4, N>(seeds, expanded);
    }
}

const LANES: usize = 8;

/// Bytes of a message, which is shorter than a packet of 32.
const BYTES: u64 = 8;

/// Digits of pi. In each row, a bit of the first word is set if at most one of the other three
/// words has that bit.
const MULTIPLIERS: [[u64; 4]; 2] = [
    [0xdbe6_d5d5_fe4c_ce2f, 0xa409_3822_299f_31d0, 0x1319_8a2e_0370_7344, 0x243f_6a88_85a3_08d3],
    [0x3bd3_9e10_cb0e_f593, 0xc0ac_f169_b5f1_8a8c, 0xbe54_66cf_34e9_0c6c, 0x4528_21e6_38d0_1377],
];

impl Lanes<u64, LANES, 2, 4> for HighwayHash {
    #[inline(always)]
    fn call(seeds: &[[u64; LANES]; 2], call: u64) -> [[u64; LANES]; 4] {
        let mut states = [[0; LANES]; 16];
        for lane in 0..LANES {
            store(&mut states, lane, State::keyed(load(seeds, lane)).absorb(call).into_words());
        }
        for _ in 0..10 {
            for lane in 0..LANES {
                let state = State::from_words(load(&states, lane)).permute();
                store(&mut states, lane, state.into_words());
            }
        }
        let mut hashes = [[0; LANES]; 4];
        for lane in 0..LANES {
            store(&mut hashes, lane, State::from_words(load(&states, lane)).reduce());
        }
        hashes
    }
}

/// State of one seed: two vectors, and two more that accumulate their products.
#[derive(Clone, Copy, Zeroable, Pod)]
#[repr(C)]
struct State {
    v: [[u64; 4]; 2],
    mul: [[u64; 4]; 2],
}

impl State {
    #[inline(always)]
    fn from_words(words: [u64; 16]) -> Self {
        bytemuck::cast(words)
    }

    #[inline(always)]
    fn into_words(self) -> [u64; 16] {
        bytemuck::cast(self)
    }

    #[inline(always)]
    fn keyed(seed: [u64; 2]) -> Self {
        let v = [
            std::array::from_fn(|i| MULTIPLIERS[0][i] ^ seed[i % 2]),
            std::array::from_fn(|i| MULTIPLIERS[1][i] ^ seed[i % 2].rotate_left(32)),
        ];
        Self { v, mul: MULTIPLIERS }
    }

    /// Absorbs the only packet, a short one: its length is mixed into the state, and its bytes are
    /// padded with zeros.
    #[inline(always)]
    fn absorb(mut self, message: u64) -> Self {
        let turned = |half: u64| u64::from((half as u32).rotate_left(BYTES as u32));
        self.v[0] = self.v[0].map(|word| word.wrapping_add(BYTES << 32 | BYTES));
        self.v[1] = self.v[1].map(|word| turned(word >> 32) << 32 | turned(word));
        self.update([message, 0, 0, 0])
    }

    /// Performs a step of the hash's finalisation: absorbs a permutation of the state as the
    /// packet.
    #[inline(always)]
    fn permute(self) -> Self {
        let packet = [2, 3, 0, 1].map(|i: usize| self.v[0][i].rotate_left(32));
        self.update(packet)
    }

    #[inline(always)]
    fn update(mut self, packet: [u64; 4]) -> Self {
        let product = |a: u64, b: u64| (a & 0xffff_ffff) * (b >> 32);
        for (i, word) in packet.into_iter().enumerate() {
            self.v[1][i] = self.v[1][i].wrapping_add(self.mul[0][i]).wrapping_add(word);
            self.mul[0][i] ^= product(self.v[1][i], self.v[0][i]);
            self.v[0][i] = self.v[0][i].wrapping_add(self.mul[1][i]);
            self.mul[1][i] ^= product(self.v[0][i], self.v[1][i]);
        }
        for (to, from) in [(0, 1), (1, 0)] {
            for pair in [0, 2] {
                let [low, high] = zipper(self.v[from][pair], self.v[from][pair + 1]);
                self.v[to][pair] = self.v[to][pair].wrapping_add(low);
                self.v[to][pair + 1] = self.v[to][pair + 1].wrapping_add(high);
            }
        }
        self
    }

    /// Returns the hash: each half is 256 bits of the state without the two highest, modulo x^128 +
    /// x^2 + x.
    #[inline(always)]
    fn reduce(self) -> [u64; 4] {
        let [a, b]: [[u64; 4]; 2] =
            [0, 1].map(|j: usize| std::array::from_fn(|i| self.v[j][i].wrapping_add(self.mul[j][i])));
        std::array::from_fn(|i| match i % 2 {
            0 => a[i] ^ b[i] << 1 ^ b[i] << 2,
            _ => {
                let top = b[i] & (u64::MAX >> 2);
                a[i] ^ (top << 1 | b[i - 1] >> 63) ^ (top << 2 | b[i - 1] >> 62)
            }
        })
    }
}

/// Permutes the 16 bytes of two words, which brings the best bits of products to the places where
/// multiplication mixes least.
#[inline(always)]
fn zipper(a: u64, b: u64) -> [u64; 2] {
    let byte = |word: u64, from: u32, to: u32| (word >> (8 * from) & 0xff) << (8 * to);
    let low = byte(a, 3, 0) | byte(b, 4, 1) | byte(a, 2, 2) | byte(a, 5, 3);
    let high = byte(b, 3, 0) | byte(a, 4, 1) | byte(b, 2, 2) | byte(b, 5, 3);
    [
        low | byte(b, 6, 4) | byte(a, 1, 5) | byte(b, 7, 6) | byte(a, 0, 7),
        high | byte(b, 1, 4) | byte(a, 6, 5) | byte(b, 0, 6) | byte(a, 7, 7),
    ]
}
