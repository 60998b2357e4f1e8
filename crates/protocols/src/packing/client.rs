//! The client half of packing, for both key deliveries.

use spirea_lattice::LweSecret;
use spirea_lattice::lwe::{BlindingFactor, field_error};
use spirea_lattice::rlwe::AnswerSecret;
use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use crate::ProtocolError;
use crate::keys::ClientKeys;
use crate::steps::numbers::Numbers;
use crate::steps::ring::RingClient;

/// Secret that decrypts the results for one ciphertext of a query. `None` stands for the secret of
/// the client's registered keys at the time of the answer.
pub(crate) type Reader = Option<AnswerSecret>;

/// Client half of a packing.
pub(crate) trait PackClient: Send + Sync {
    /// Returns the keys that the client registers; `None` if its queries carry their keys.
    fn registered(&self) -> Option<&ClientKeys>;

    /// Encrypts an LWE secret's entries and the selectors of `group`. The ciphertext carries its
    /// keys if they are not registered.
    fn query_of_secret(&self, secret: &LweSecret, group: usize, rng: &mut SecretRng) -> (Vec<u8>, Reader);

    /// Computes the phases of all results for one ciphertext, in order, as fractions of 2^64.
    ///
    /// # Errors
    /// [`ProtocolError`] if the keys have ended.
    fn phases_of(&self, reader: &Reader, answer: &[u8]) -> Result<Vec<Zeroizing<Vec<u64>>>, ProtocolError>;

    /// Appends the numbers of all results for one ciphertext, in order. `factor` is the blinding
    /// factor of the unit vector by which the results were folded.
    ///
    /// # Errors
    /// Those of [`Self::phases_of`].
    fn read(
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

    /// Returns the errors of these results' phases, as fractions of the error that decoding
    /// tolerates.
    ///
    /// # Errors
    /// Those of [`Self::phases_of`].
    fn field_errors(&self, reader: &Reader, answer: &[u8]) -> Result<Vec<f64>, ProtocolError> {
        let phases = self.phases_of(reader, answer)?;
        Ok(phases.iter().flat_map(|phases| phases.iter().copied().map(field_error)).collect())
    }
}

/// One secret serves many queries.
impl PackClient for RingClient {
    fn registered(&self) -> Option<&ClientKeys> {
        Some(&self.keys)
    }

    fn query_of_secret(&self, secret: &LweSecret, group: usize, rng: &mut SecretRng) -> (Vec<u8>, Reader) {
        (self.query(secret.entries(), group, rng), None)
    }

    fn phases_of(&self, _: &Reader, answer: &[u8]) -> Result<Vec<Zeroizing<Vec<u64>>>, ProtocolError> {
        answer.chunks_exact(self.shape.response_bytes()).map(|result| self.phases(result)).collect()
    }
}
