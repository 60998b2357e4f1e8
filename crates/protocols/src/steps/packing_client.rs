//! The client's half of packing, whichever way its keys reach the server.

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

/// A client of a protocol that packs.
pub(crate) enum PackingClient {
    /// Its keys are registered: one secret for many queries.
    Registered(RingClient),
    /// Its queries bring their keys: a secret for each.
    OneShot(OneShotClient),
}

/// What reads the results that one ciphertext of a query asked for.
pub(crate) enum Reader {
    /// The secret of the client's keys, as it is when the answer comes.
    Registered,
    /// A secret of its own.
    OneShot(AnswerSecret),
}

impl PackingClient {
    /// A client of the database of `seed`. One that registers keys takes those among the known ones that fit, or else
    /// makes its own.
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

    /// The keys that it registers.
    pub fn keys(&self) -> Option<&ClientKeys> {
        match self {
            Self::Registered(ring) => Some(ring.keys()),
            Self::OneShot(_) => None,
        }
    }

    /// The ciphertext of an LWE secret's entries and of the selectors of `group`, with its keys if it brings them.
    pub fn query_of_secret(
        &self,
        secret: &LweSecret,
        group: usize,
        rng: &mut SecretRng,
    ) -> (Vec<u8>, Reader) {
        match self {
            Self::Registered(ring) => (ring.query_of_secret(secret, group, rng), Reader::Registered),
            // There is one group, and nothing to select.
            Self::OneShot(one_shot) => {
                let (bytes, secret) = one_shot.ask(secret, rng);
                (bytes, Reader::OneShot(secret))
            }
        }
    }

    /// Appends the numbers of the results in what an answer brings for one ciphertext, one after another. `factor` is that of
    /// the unit vector that they were folded with.
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

    /// The errors of these results' phases, as shares of what decoding tolerates.
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
