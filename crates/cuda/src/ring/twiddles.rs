//! Twiddles in the order in which the transforms read them (`ntt.cuh`), and the butterflies that they are for.

use bytemuck::{Pod, Zeroable};
use spirea_math::{Modulus, ShoupWord};

use super::primes::Prime;

/// How a butterfly multiplies. What is fused with other work has Shoup's products, which take any words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Butterfly {
    /// Shoup's products: lazy unsigned words.
    Shoup,
    /// Montgomery's products of signed words.
    Montgomery,
}

impl Butterfly {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Shoup, Self::Montgomery];

    /// A factor with what spares its product a division.
    pub(super) fn factor(self, modulus: Modulus, word: ShoupWord) -> Factor {
        match self {
            Self::Shoup => Factor { value: word.value, companion: word.quotient },
            Self::Montgomery => {
                let prime = Prime::new(modulus);
                let value = modulus.mul(word.value, prime.one);
                let centred = value.wrapping_sub(if value > prime.q / 2 { prime.q } else { 0 });
                Factor { value: centred, companion: centred.wrapping_mul(prime.inverse) }
            }
        }
    }
}

/// A factor with its companion (`ntt.cuh`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(super) struct Factor {
    pub value: u32,
    pub companion: u32,
}

impl From<ShoupWord> for Factor {
    fn from(word: ShoupWord) -> Self {
        Self { value: word.value, companion: word.quotient }
    }
}

/// Coefficients that a thread has in registers, and as many groups of the second pass.
pub(super) const COEFFICIENTS: usize = 16;

/// The twiddles of one direction modulo one prime in the order of their use: three passes, each with quadruples
/// [8][groups] of the factors number 2 j and 2 j + 1. Layer s of a pass has numbers 2^s to 2^(s + 1) - 1; number 0,
/// and layers that a shorter degree leaves out, are never read.
pub(super) fn in_order_of_use(modulus: Modulus, plan: &[ShoupWord], butterfly: Butterfly) -> Vec<Factor> {
    let mut factors = Vec::new();
    for groups in [1, COEFFICIENTS, plan.len() / COEFFICIENTS] {
        for pair in 0..COEFFICIENTS / 2 {
            for group in 0..groups {
                factors.extend([2 * pair, 2 * pair + 1].map(|number| match number {
                    0 => Factor::default(),
                    _ => {
                        let layer = number.ilog2();
                        let word = plan.get(((groups + group) << layer) + number - (1 << layer));
                        butterfly.factor(modulus, word.copied().unwrap_or_default())
                    }
                }));
            }
        }
    }
    factors
}
