//! Step `mod_switch`, which reduces ciphertexts to the fewest bits that a response needs, and the
//! client's decoding of these ciphertexts.

use spirea_backend::RingBackend;
use zeroize::Zeroizing;

use super::ring::{RingClient, RingServer, Shape, switched};
use crate::ProtocolError;

/// Returns the distance of each phase from the phase of its decoded `bits`-bit number, as a
/// fraction of the distance that decoding tolerates.
pub(crate) fn phase_errors(phases: &[u64], bits: u32) -> impl Iterator<Item = f64> + '_ {
    // The low bits of a phase, centred: half a step is 2^(63 - bits).
    phases.iter().map(move |&phase| ((phase << bits) as i64) as f64 / 2f64.powi(63))
}

impl RingClient {
    /// Computes the phases of a response's ciphertext, as fractions of 2^64.
    pub fn phases(&self, ciphertext: &[u8]) -> Result<Zeroizing<Vec<u64>>, ProtocolError> {
        let (a, b) = self.shape.set().response_bits();
        Ok(self.keys.with_secret(|secret| secret.phases(ciphertext, a, b))?)
    }

    /// Returns, for each phase of a response's ciphertext, the distance from the phase of its
    /// decoded `bits`-bit number. The result is a fraction of the distance that decoding tolerates.
    pub fn errors(&self, ciphertext: &[u8], bits: u32) -> Result<Vec<f64>, ProtocolError> {
        Ok(phase_errors(&self.phases(ciphertext)?, bits).collect())
    }

    /// Returns [`RingClient::errors`] of several ciphertexts, concatenated.
    pub fn errors_of<'a>(
        &self,
        ciphertexts: impl Iterator<Item = &'a [u8]>,
        bits: u32,
    ) -> Result<Vec<f64>, ProtocolError> {
        let errors = ciphertexts.map(|ciphertext| self.errors(ciphertext, bits));
        Ok(errors.collect::<Result<Vec<_>, _>>()?.concat())
    }
}

impl<B: RingBackend, S: Shape> RingServer<B, S> {
    /// Runs step `mod_switch`: returns each query's bytes for the wire, part by part.
    pub fn switch(&self, parts: &[B::Ciphertexts]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let parts: Vec<_> = parts.iter().collect();
        Ok(self.backend.mod_switch(&self.tables, &parts, switched(self.shape.set()))?)
    }
}
