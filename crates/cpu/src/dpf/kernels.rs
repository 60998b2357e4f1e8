//! The kernels of an instruction set behind one table.

use spirea_dpf::{Leaf, Prf, PrfKind, PrfVisitor};

use super::fold::{self, Bits, Block};
use super::tree::{TargetTree, Tree};
use crate::isa::{Isa, Portable};
#[cfg(target_arch = "x86_64")]
use crate::{
    dpf::{aesni::AesNi, compiled::Compiled, vaes::Vaes, vaes512::Vaes512},
    isa::{Avx2, Avx512},
};

/// Folds of rows compiled for an instruction set: see [`fold`].
pub(crate) trait RowKernels: Send + Sync {
    /// [`fold::xor_masked`].
    fn xor_masked(&self, block: Block<'_>, bits: Bits<'_>, sums: &mut [u8]);
    /// [`fold::xor_tables`].
    fn xor_tables(&self, block: Block<'_>, bits: Bits<'_>, stride: usize, sums: &mut [u8]);
    /// [`fold::sum`] over words of 32 bits.
    fn sum32(&self, block: Block<'_>, shares: &[u8], stride: usize, sums: &mut [u8]);
    /// [`fold::sum`] over words of 64 bits.
    fn sum64(&self, block: Block<'_>, shares: &[u8], stride: usize, sums: &mut [u8]);
    /// [`fold::xor_leaves`].
    fn xor_leaves(&self, leaves: &[Leaf], sum: &mut Leaf);
    /// Multiplies and adds words of 32 bits in registers for a number of rounds; returns the number of products.
    fn multiply_adds32(&self, rounds: u64) -> u64;
}

impl RowKernels for Portable<8> {
    fn xor_masked(&self, block: Block<'_>, bits: Bits<'_>, sums: &mut [u8]) {
        fold::xor_masked(*self, block, bits, sums);
    }

    fn xor_tables(&self, block: Block<'_>, bits: Bits<'_>, stride: usize, sums: &mut [u8]) {
        fold::xor_tables(*self, block, bits, stride, sums);
    }

    fn sum32(&self, block: Block<'_>, shares: &[u8], stride: usize, sums: &mut [u8]) {
        fold::sum::<_, u32>(*self, block, shares, stride, sums);
    }

    fn sum64(&self, block: Block<'_>, shares: &[u8], stride: usize, sums: &mut [u8]) {
        fold::sum::<_, u64>(*self, block, shares, stride, sums);
    }

    fn xor_leaves(&self, leaves: &[Leaf], sum: &mut Leaf) {
        fold::xor_leaves(leaves, sum);
    }

    fn multiply_adds32(&self, rounds: u64) -> u64 {
        fold::multiply_adds32(*self, rounds)
    }
}

/// The folds of an instruction set, if this machine has it.
pub(crate) fn row_kernels(isa: Isa) -> Option<Box<dyn RowKernels>> {
    match isa {
        Isa::Portable => Some(Box::new(Portable::<8>)),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => Avx2::detect().map(|token| Box::new(token) as _),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => Avx512::detect().map(|token| Box::new(token) as _),
        #[cfg(not(target_arch = "x86_64"))]
        Isa::Avx2 | Isa::Avx512 => None,
    }
}

/// The tree of a function with an instruction set's vectors. Where AES has no instructions as wide, the widest
/// there are.
pub(crate) fn tree(isa: Isa, prf: PrfKind) -> Box<dyn Tree> {
    #[cfg(target_arch = "x86_64")]
    if prf == PrfKind::Aes128 && isa > Isa::Portable {
        let widest = Avx512::detect().filter(|_| isa == Isa::Avx512).and_then(Vaes512::detect);
        if let Some(tree) = widest {
            return Box::new(tree);
        }
        if let Some(tree) = Avx2::detect().and_then(Vaes::detect) {
            return Box::new(tree);
        }
        if let Some(tree) = AesNi::detect() {
            return Box::new(tree);
        }
    }
    prf.visit(Compile(isa))
}

/// A function's own code, compiled for an instruction set.
struct Compile(Isa);

impl PrfVisitor for Compile {
    type Output = Box<dyn Tree>;

    fn visit<P: Prf>(self, prf: P) -> Box<dyn Tree> {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => match Avx2::detect() {
                Some(token) => Box::new(Compiled(prf, token)),
                None => Box::new(TargetTree(prf)),
            },
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => match Avx512::detect() {
                Some(token) => Box::new(Compiled(prf, token)),
                None => Box::new(TargetTree(prf)),
            },
            _ => Box::new(TargetTree(prf)),
        }
    }
}
