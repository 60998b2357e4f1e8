//! The trees of an instruction set.

use spirea_dpf::{Prf, PrfKind, PrfVisitor};

use super::tree::{TargetTree, Tree};
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::{
    dpf::{aesni::AesNi, compiled::Compiled, vaes::Vaes, vaes512::Vaes512},
    isa::{Avx2, Avx512},
};

/// Returns the tree of a function with an instruction set's vectors. If AES has no instructions of
/// that width, the widest available ones are used.
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

/// Visitor that instantiates a pseudorandom function's portable code for an instruction set.
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
