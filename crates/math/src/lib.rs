//! Moduli, number-theoretic transforms, samplers and seeded randomness.
//!
//! All code here is portable, safe, and written for readability: it is the oracle of every faster
//! kernel and the arithmetic of clients without SIMD.

pub mod crt;
pub mod division;
pub mod expansion;
pub mod gadget;
pub mod modulus;
pub mod ntt;
pub mod random;
pub mod ring;
pub mod rotations;
pub mod sample;
pub mod schoolbook;
pub mod secret;

pub use crt::PrimePair;
pub use division::Divisor;
pub use expansion::Expansion;
pub use gadget::Gadget;
pub use modulus::{Barrett, Modulus, ShoupWord};
pub use ntt::NttPlan;
pub use ring::Ring;
pub use rotations::{Rotations, SentChunks};
