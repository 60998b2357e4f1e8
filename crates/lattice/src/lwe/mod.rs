//! Learning with errors modulo 2^32.

mod encrypt;
mod matrix;

pub use encrypt::{LweEncryptor, LweSecret};
pub use matrix::{PublicMatrix, PublicRows};
use spirea_math::random::Seed;

/// log2 of the scale: a byte m is encrypted as 2^24 m.
pub const SCALE_BITS: u32 = 24;
/// Length of an LWE secret.
pub const DEGREE: usize = 1280;
/// Degree of the ring of the structured public matrix.
pub const RING_DEGREE: usize = 256;
/// Polynomials in a secret: the rank of the module.
pub const RANK: usize = DEGREE / RING_DEGREE;

/// How a public matrix is made from its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Structure {
    /// Module-LWE of rank 5 over Z_q\[X\]/(X^256 + 1), the structure of ML-KEM: 256 times less randomness
    /// to derive, products through number-theoretic transforms.
    Module,
    /// Every entry independent, as in SimplePIR and VIPIR.
    Uniform,
}

/// A named, immutable set of LWE parameters. There is no other way to make one, so nothing weaker than
/// 128 bits can be asked for.
///
/// Both sets have n = 1280, q = 2^32, a uniform ternary secret and noise of standard deviation 3.2:
/// 134.0 bits under the MATZOV cost model and 136.5 under BDGL16 (lattice-estimator, unlimited samples).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LweSet {
    /// `module-1280`: the default, with the structured public matrix.
    Module1280,
    /// `paper`: VIPIR's parameters as published, with the uniform public matrix.
    Paper,
}

impl LweSet {
    /// All sets.
    pub const ALL: [Self; 2] = [Self::Module1280, Self::Paper];
    /// Standard deviation of the noise.
    pub const SIGMA: f64 = 3.2;

    /// The set of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|set| set.name() == name)
    }

    /// Its name, part of a snapshot's identity.
    pub fn name(self) -> &'static str {
        match self {
            Self::Module1280 => "module-1280",
            Self::Paper => "paper",
        }
    }

    /// How its public matrix is made.
    pub fn structure(self) -> Structure {
        match self {
            Self::Module1280 => Structure::Module,
            Self::Paper => Structure::Uniform,
        }
    }

    /// log2 of the cost of the best known attack: the least of the MATZOV and BDGL16 models.
    pub fn security_bits(self) -> f64 {
        134.0
    }
}
