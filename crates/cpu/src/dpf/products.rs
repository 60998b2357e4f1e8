//! The products of bit matrices of an instruction set.

use super::bits::BitKernel;
#[cfg(any(target_arch = "x86_64", test))]
use super::bits::BitLanes as _;
#[cfg(test)]
use super::defined::DefinedProducts;
#[cfg(target_arch = "x86_64")]
use super::gfni::{Gfni256, Gfni512};
use crate::isa::Found;

/// Instruction set found on this machine that multiplies bit matrices, with its proof.
#[derive(Clone, Copy)]
pub(crate) enum BitProducts {
    #[cfg(target_arch = "x86_64")]
    Avx2(Gfni256),
    #[cfg(target_arch = "x86_64")]
    Avx512(Gfni512),
    /// The definition, on every machine.
    #[cfg(test)]
    Defined(DefinedProducts),
}

impl BitProducts {
    /// Returns the widest products that `found` allows, if the machine has them.
    pub fn detect(found: Found) -> Option<Self> {
        match found {
            Found::Portable => None,
            #[cfg(target_arch = "x86_64")]
            Found::Avx2(token) => Gfni256::detect(token).map(Self::Avx2),
            #[cfg(target_arch = "x86_64")]
            Found::Avx512(token) => Gfni512::detect(token).map(Self::Avx512),
        }
    }

    /// Runs an algorithm compiled for this instruction set.
    pub fn run(self, kernel: impl BitKernel) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(lanes) => lanes.run(kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(lanes) => lanes.run(kernel),
            #[cfg(test)]
            Self::Defined(lanes) => lanes.run(kernel),
        }
    }
}
