//! Lattice objects: LWE with its public matrix, one-hot queries and noise; RLWE with its secret,
//! evaluation keys, queries, responses and noise.
//!
//! Scalar encryption as in VIPIR appendix A.1: q = 2^32, bytes as plaintexts, scale 2^24, phase
//! `b + a s = 2^24 m + e`.

pub mod lwe;
pub mod noise;
pub mod rlwe;
mod security;

pub use lwe::{LweEncryptor, LweSecret, LweSet, PublicMatrix, Structure};
pub use rlwe::{LatticeError, RingSecret, RingSet};
pub use security::Security;
