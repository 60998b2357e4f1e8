//! Learning with errors modulo 2^32.

mod blinding;
mod encrypt;
mod matrix;

pub use blinding::{BlindingFactor, ENCODING_ERROR, FIELD_ORDER, field_error};
pub use encrypt::{BlindedUnit, LweEncryptor, LweSecret};
pub use matrix::{PublicMatrix, PublicRows};
use spirea_math::random::Seed;

use crate::Security;

/// log2 of the scale: a byte m is encrypted as 2^24 m.
pub const SCALE_BITS: u32 = 24;
/// Degree of the ring of the structured public matrix.
pub const RING_DEGREE: usize = 256;

/// Derivation of a public matrix from its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Structure {
    /// Module-LWE over Z_q\[X\]/(X^256 + 1), the structure of ML-KEM: 256 times less randomness to
    /// derive, and products through number-theoretic transforms.
    Module,
    /// Every entry independent, as in SimplePIR and VIPIR.
    Uniform,
}

/// A named, immutable set of LWE parameters. There is no constructor for other parameters, so every
/// set has at least 128 bits.
///
/// All have q = 2^32, a uniform ternary secret and noise of standard deviation 3.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LweSet {
    /// `module-1280`: the default, with the structured public matrix.
    Module1280,
    /// `paper`: VIPIR's parameters as published, with the uniform public matrix.
    Paper,
    /// `module-1536`: the structure of the default with rank 6, at or above ML-KEM-512 under every
    /// model.
    Module1536,
}

impl LweSet {
    /// All sets.
    pub const ALL: [Self; 3] = [Self::Module1280, Self::Paper, Self::Module1536];
    /// Standard deviation of the noise.
    pub const SIGMA: f64 = 3.2;

    /// Returns the set of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|set| set.name() == name)
    }

    /// Returns its name, part of a snapshot's identity.
    pub fn name(self) -> &'static str {
        match self {
            Self::Module1280 => "module-1280",
            Self::Paper => "paper",
            Self::Module1536 => "module-1536",
        }
    }

    /// Returns the number of polynomials of degree below 256 in a secret: the rank of the module,
    /// if A has the structure of a module.
    pub fn rank(self) -> usize {
        match self {
            Self::Module1280 | Self::Paper => 5,
            Self::Module1536 => 6,
        }
    }

    /// Returns the length n of a secret.
    pub fn degree(self) -> usize {
        self.rank() * RING_DEGREE
    }

    /// Returns the structure of its public matrix.
    pub fn structure(self) -> Structure {
        match self {
            Self::Module1280 | Self::Module1536 => Structure::Module,
            Self::Paper => Structure::Uniform,
        }
    }

    /// Returns the cost of attacks on it.
    pub fn security(self) -> Security {
        match self {
            Self::Module1280 | Self::Paper => Security { matzov: 133.4, bdgl16: 135.8, core_svp: 108.0 },
            Self::Module1536 => Security { matzov: 161.1, bdgl16: 164.7, core_svp: 138.1 },
        }
    }
}
