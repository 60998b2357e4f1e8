use super::{Aes128, ChaCha12, ChaCha20, HighwayHash, Prf, PrfKind, Salsa12, Salsa20, Sha256, SipHash24};

/// Operation on a function whose name is known only at run time.
pub trait PrfVisitor {
    /// Result of the operation.
    type Output;

    /// Performs the operation.
    fn visit<P: Prf>(self, prf: P) -> Self::Output;
}

impl PrfKind {
    /// Calls `visitor` with the type of this name.
    pub fn visit<V: PrfVisitor>(self, visitor: V) -> V::Output {
        match self {
            Self::Aes128 => visitor.visit(Aes128),
            Self::ChaCha20 => visitor.visit(ChaCha20::default()),
            Self::ChaCha12 => visitor.visit(ChaCha12::default()),
            Self::Salsa20 => visitor.visit(Salsa20::default()),
            Self::Salsa12 => visitor.visit(Salsa12::default()),
            Self::SipHash24 => visitor.visit(SipHash24),
            Self::HighwayHash => visitor.visit(HighwayHash),
            Self::Sha256 => visitor.visit(Sha256),
        }
    }
}
