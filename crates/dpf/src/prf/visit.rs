use super::{Aes128, ChaCha12, ChaCha20, HighwayHash, Prf, PrfKind, Salsa12, Salsa20, Sha256, SipHash24};

/// What is done with a function whose name is known only at run time.
pub trait PrfVisitor {
    /// What comes of it.
    type Output;

    /// Does it.
    fn visit<P: Prf>(self, prf: P) -> Self::Output;
}

impl PrfKind {
    /// Goes from the name to the type.
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
