//! Keyword look-ups for Apple's clients: Live Caller ID Lookup and everything else that speaks the
//! protocol of swift-homomorphic-encryption.
//!
//! [`docs/wire/apple.md`](../../../docs/wire/apple.md) has the format. A server builds a
//! [`keyword::Tables`] for each shard, turns it into a [`Database`], and answers a client's
//! [`Query`] under the client's [`EvaluationKey`] with [`Database::answer`]. [`UseCase`] adds the
//! configuration and the checks of whole requests. [`Arithmetic`] holds the backend that computes.
//!
//! [`privacy_pass`] issues and verifies the tokens that admit requests. [`ohttp`] removes the
//! encapsulation of requests that come through a relay.
//!
//! The supported parameter sets are those of 27 and 28-bit primes, [`Set`]. The answers equal the
//! bytes of Apple's own server.

mod bits;
mod ciphertext;
mod config;
mod database;
mod error;
mod evaluation_key;
pub mod keyword;
pub mod messages;
pub mod ohttp;
pub mod privacy_pass;
mod query;
mod response;
mod seed;
mod server;
mod set;
mod shape;
mod sizes;
mod use_case;

pub use config::KeyConfig;
pub use database::Database;
pub use error::AppleError;
pub use evaluation_key::EvaluationKey;
pub use query::Query;
pub use response::Response;
pub use server::{Arithmetic, Stage};
pub use set::Set;
pub use shape::{Compression, Shape};
pub use sizes::Sizes;
pub use use_case::UseCase;

#[cfg(test)]
mod tests;
