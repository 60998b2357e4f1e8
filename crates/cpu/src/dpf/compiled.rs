//! Portable code compiled for AVX2 and AVX-512, with vectors chosen by the compiler.
#![allow(unsafe_code)]

use spirea_dpf::{Bit, Block, Key, Leaf, Level, Output, OutputKind, Prf};

use super::tree::{self, Tree, with_output};
use crate::isa::{Avx2, Avx512, enabled};

/// A pseudorandom function with the token of the instruction set that its code is compiled for.
#[derive(Clone, Copy)]
pub(crate) struct Compiled<P, T>(pub P, pub T);

macro_rules! compiled {
    ($token:ident) => {
        impl<P: Prf> Tree for Compiled<P, $token> {
            fn expand(&self, nodes: &mut [Block], count: usize, level: &Level) {
                enabled!($token,
                    fn compiled<P: Prf>(prf: P, nodes: &mut [Block], count: usize, level: &Level) {
                        tree::expand(prf, nodes, count, level);
                    }
                );
                // SAFETY: `self` proves the features.
                unsafe { compiled(self.0, nodes, count, level) }
            }

            fn leaves(&self, nodes: &[Block], key: &Key, shares: &mut [Leaf]) {
                enabled!($token,
                    fn compiled<P: Prf, O: Output>(prf: P, nodes: &[Block], key: &Key, shares: &mut [Leaf]) {
                        tree::leaves::<P, O>(prf, nodes, key, shares);
                    }
                );
                // SAFETY: `self` proves the features.
                unsafe { with_output!(key, compiled(self.0, nodes, key, shares), <P>) }
            }

            fn only_expand(&self, rounds: u64) -> u64 {
                enabled!($token,
                    fn compiled<P: Prf>(prf: P, rounds: u64) -> u64 {
                        tree::only_expand(prf, rounds)
                    }
                );
                // SAFETY: `self` proves the features.
                unsafe { compiled(self.0, rounds) }
            }
        }
    };
}

compiled!(Avx2);
compiled!(Avx512);
