//! The client half of packing, for both key deliveries.

use spirea_lattice::LweSecret;
use spirea_lattice::lwe::{BlindingFactor, field_error};
use spirea_lattice::rlwe::AnswerSecret;
use spirea_math::random::{SecretRng, Seed};
use zeroize::Zeroizing;

use super::numbers::Numbers;
use super::one_shot::OneShotClient;
use super::pack::PackingShape;
use super::ring::RingClient;
use crate::ProtocolError;
use crate::keys::ClientKeys;
use crate::protocol::Holdings;

/// Client half of a protocol that packs.
pub(crate) enum PackingClient {
    /// Keys are registered: one secret serves many queries.
    Registered(RingClient),
    /// Queries carry their keys: each has its own secret.
    OneShot(OneShotClient),
}

/// Secret that decrypts the results for one ciphertext of a query.
pub(crate) enum Reader {
    /// The secret of the client's keys at the time of the answer.
    Registered,
    /// The query's own secret.
    OneShot(AnswerSecret),
}

impl PackingClient {
    /// Creates a client of the database of `seed`. If it registers keys, it reuses known keys that
    /// fit, or else makes its own.
    pub fn new(shape: PackingShape, seed: &Seed, known: Holdings<'_>, rng: &mut SecretRng) -> Self {
        match shape {
            PackingShape::Expanded(shape) => {
                Self::Registered(RingClient::new(Box::new(shape), known.keys, rng))
            }
            PackingShape::Rotated(shape) => {
                Self::Registered(RingClient::new(Box::new(shape), known.keys, rng))
            }
            PackingShape::OneShot(shape) => Self::OneShot(OneShotClient::new(shape, seed, known.hint)),
        }
    }

    /// Returns the keys that it registers.
    pub fn keys(&self) -> Option<&ClientKeys> {
        match self {
            Self::Registered(ring) => Some(ring.keys()),
            Self::OneShot(_) => None,
        }
    }

    /// Encrypts an LWE secret's entries and the selectors of `group`. The ciphertext carries its
    /// keys if they are not registered.
    pub fn query_of_secret(
        &self,
        secret: &LweSecret,
        group: usize,
        rng: &mut SecretRng,
    ) -> (Vec<u8>, Reader) {
        match self {
            Self::Registered(ring) => (ring.query_of_secret(secret, group, rng), Reader::Registered),
            // There is only one group, so nothing is selected.
            Self::OneShot(one_shot) => {
                let (bytes, secret) = one_shot.ask(secret, rng);
                (bytes, Reader::OneShot(secret))
            }
        }
    }

    /// Appends the numbers of all results for one ciphertext, in order. `factor` is the blinding
    /// factor of the unit vector that they were folded by.
    pub fn read(
        &self,
        reader: &Reader,
        factor: &BlindingFactor,
        answer: &[u8],
        numbers: &mut Numbers,
    ) -> Result<(), ProtocolError> {
        let phases = self.phases_of(reader, answer)?;
        phases.iter().for_each(|phases| numbers.push(factor, phases.iter().copied()));
        Ok(())
    }

    /// Returns the errors of these results' phases, as shares of what decoding tolerates.
    pub fn errors_of(&self, reader: &Reader, answer: &[u8]) -> Result<Vec<f64>, ProtocolError> {
        let phases = self.phases_of(reader, answer)?;
        Ok(phases.iter().flat_map(|phases| phases.iter().copied().map(field_error)).collect())
    }

    fn phases_of(&self, reader: &Reader, answer: &[u8]) -> Result<Vec<Zeroizing<Vec<u64>>>, ProtocolError> {
        match (self, reader) {
            (Self::Registered(ring), Reader::Registered) => {
                answer.chunks_exact(ring.shape.response_bytes()).map(|result| ring.phases(result)).collect()
            }
            (Self::OneShot(one_shot), Reader::OneShot(secret)) => one_shot.phases(secret, answer),
            _ => unreachable!("the state of a query belongs to the client that made it"),
        }
    }
}
