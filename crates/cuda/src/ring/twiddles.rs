//! Twiddles in the order in which the transforms read them (`ntt.cuh`), and the kinds of butterfly.

use bytemuck::{Pod, Zeroable};
use spirea_math::{Modulus, ShoupWord};

use super::primes::Prime;

/// Multiplication in a butterfly. Transforms that are fused with other work use Shoup's products,
/// which take any words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Butterfly {
    /// Shoup's products of unsigned words, reduced lazily.
    Shoup,
    /// Montgomery's products of signed words.
    Montgomery,
}

impl Butterfly {
    /// All kinds of butterfly.
    pub const ALL: [Self; 2] = [Self::Shoup, Self::Montgomery];

    /// Returns a factor with its companion, which replaces the division in products.
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

/// Factor with its companion (`ntt.cuh`).
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

/// Coefficients that a thread has in registers; also the number of groups of the second pass.
pub(super) const COEFFICIENTS: usize = 16;

/// Returns the twiddles of one direction modulo one prime in the order of their use: three passes,
/// each with quadruples [8][groups] of the factors number 2 j and 2 j + 1. Layer s of a pass has
/// numbers 2^s to 2^(s + 1) - 1. Number 0, and layers that a shorter degree omits, are never read.
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
