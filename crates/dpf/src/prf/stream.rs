//! Common parts of ChaCha and Salsa20: 16 words, of which 4 are "expand 16-byte k"; rounds of
//! additions, rotations and exclusive ors; and finally the sum with the initial state.

use std::marker::PhantomData;

use super::lanes::{self, Lanes, load, store};
use super::{Prf, PrfKind};
use crate::Block;

pub(super) const LANES: usize = 8;

/// A word of the state for each seed.
pub(super) type Words = [u32; LANES];

/// "expand 16-byte k".
pub(super) const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3120_646e, 0x7962_2d36, 0x6b20_6574];

/// Parameters of a stream cipher of this form.
pub trait Cipher: Copy + Default + Send + Sync + 'static {
    /// Kinds with 20 and with 12 rounds.
    const KINDS: [PrfKind; 2];

    /// Returns the initial state of block number `call` of the keystream: the seed twice,
    /// constants, the number.
    fn initial(seeds: &[Words; 4], call: u64) -> [Words; 16];

    /// Computes two rounds for one seed.
    fn double_round(state: [u32; 16]) -> [u32; 16];
}

/// Stream cipher with 20 or 12 rounds: `F(s, i)` is the i-th group of 16 bytes of the keystream; a
/// block of the keystream has four groups.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stream<C, const ROUNDS: usize>(PhantomData<C>);

impl<C: Cipher, const ROUNDS: usize> Prf for Stream<C, ROUNDS> {
    const KIND: PrfKind = match ROUNDS {
        20 => C::KINDS[0],
        12 => C::KINDS[1],
        _ => panic!("stream ciphers have 20 or 12 rounds"),
    };

    #[inline(always)]
    fn blocks<const N: usize>(self, seeds: &[Block], expanded: &mut [[Block; N]]) {
        lanes::blocks::<Self, u32, LANES, 4, 16, N>(seeds, expanded);
    }
}

impl<C: Cipher, const ROUNDS: usize> Lanes<u32, LANES, 4, 16> for Stream<C, ROUNDS> {
    #[inline(always)]
    fn call(seeds: &[Words; 4], call: u64) -> [Words; 16] {
        keystream::<ROUNDS>(C::initial(seeds, call), C::double_round)
    }
}

/// Computes the keystream of a state.
#[inline(always)]
fn keystream<const ROUNDS: usize>(
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
