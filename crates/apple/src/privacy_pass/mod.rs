//! Privacy Pass tokens of type 2 (RFC 9577 and RFC 9578): blind RSA signatures of 2048 bits, which
//! everyone with the public key verifies, and the issuer that makes them.

mod challenge;
mod issuer;
mod key;
mod token;

pub use self::challenge::{Challenge, ChallengeError};
pub use self::issuer::{IssuerKey, IssuerKeyError, RequestError, TokenRequest};
pub use self::key::{TokenKey, TokenKeyError};
pub use self::token::{Token, TokenError};

/// Type of these tokens: blind RSA of 2048 bits.
pub const TOKEN_TYPE: u16 = 2;

/// Bytes of an RSA signature, and of a modulus.
const RSA_BYTES: usize = 256;

#[cfg(test)]
mod tests;
