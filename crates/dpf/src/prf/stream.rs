//! What ChaCha and Salsa20 have in common: 16 words, of which 4 say "expand 16-byte k", rounds of additions,
//! rotations and exclusive ors, and at their end the sum with the beginning.

use super::lanes::{load, store};

pub(super) const LANES: usize = 8;

/// A word of the state for every seed.
pub(super) type Words = [u32; LANES];

/// "expand 16-byte k".
pub(super) const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3120_646e, 0x7962_2d36, 0x6b20_6574];

/// The keystream of a state.
#[inline(always)]
pub(super) fn keystream<const ROUNDS: usize>(
    initial: [Words; 16],
    double_round: impl Fn([u32; 16]) -> [u32; 16],
) -> [Words; 16] {
    let mut state = initial;
    for _ in 0..ROUNDS / 2 {
        for lane in 0..LANES {
            let x = double_round(load(&state, lane));
            store(&mut state, lane, x);
        }
    }
    for (word, initial) in state.as_flattened_mut().iter_mut().zip(initial.as_flattened()) {
        *word = word.wrapping_add(*initial);
    }
    state
}
