//! Step `mod_switch`: ciphertexts to as few bits as a response needs, and what a client reads of them.

use spirea_backend::RingBackend;
use zeroize::Zeroizing;

use super::ring::{RingClient, RingServer, Shape, switched};
use crate::ProtocolError;

/// The bytes whose encryptions have these phases.
pub(crate) fn phase_bytes(phases: &[u64]) -> impl Iterator<Item = u8> + '_ {
    phases.iter().map(|phase| (phase.wrapping_add(1 << 55) >> 56) as u8)
}

/// How far phases are from those of the numbers of `bits` bits that they decode to, as shares of what decoding tolerates.
pub(crate) fn phase_errors(phases: &[u64], bits: u32) -> impl Iterator<Item = f64> + '_ {
    // The low bits of a phase, centred: half a step is 2^(63 - bits).
    phases.iter().map(move |&phase| ((phase << bits) as i64) as f64 / 2f64.powi(63))
}

impl RingClient {
    /// The phases of a response's ciphertext, as fractions of 2^64.
    pub fn phases(&self, ciphertext: &[u8]) -> Result<Zeroizing<Vec<u64>>, ProtocolError> {
        let (a, b) = self.shape.set().response_bits();
        Ok(self.keys.with_secret(|secret| secret.phases(ciphertext, a, b))?)
    }

    /// How far the phases of a response's ciphertext are from the numbers of `bits` bits that they decode to,
    /// as shares of what decoding tolerates.
    pub fn errors(&self, ciphertext: &[u8], bits: u32) -> Result<Vec<f64>, ProtocolError> {
        Ok(phase_errors(&self.phases(ciphertext)?, bits).collect())
    }

    /// [`RingClient::errors`] of several ciphertexts, one after another.
    pub fn errors_of<'a>(
        &self,
        ciphertexts: impl Iterator<Item = &'a [u8]>,
        bits: u32,
    ) -> Result<Vec<f64>, ProtocolError> {
        let errors = ciphertexts.map(|ciphertext| self.errors(ciphertext, bits));
        Ok(errors.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// The bytes that a response's ciphertext holds, one for each coefficient.
    pub fn bytes(&self, ciphertext: &[u8]) -> Result<Zeroizing<Vec<u8>>, ProtocolError> {
        let phases = self.phases(ciphertext)?;
        Ok(Zeroizing::new(phase_bytes(&phases).collect()))
    }

    /// The bytes that a response's ciphertexts hold, one after another.
    pub fn bytes_of<'a>(
        &self,
        ciphertexts: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<Zeroizing<Vec<u8>>, ProtocolError> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(ciphertexts.len() * self.shape.degree()));
        for ciphertext in ciphertexts {
            bytes.extend_from_slice(&self.bytes(ciphertext)?);
        }
        Ok(bytes)
    }
}

impl<B: RingBackend, S: Shape> RingServer<B, S> {
    /// Step `mod_switch`: each query's bytes for the wire, part by part.
    pub fn switch(&self, parts: &[B::Ciphertexts]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let parts: Vec<_> = parts.iter().collect();
        Ok(self.backend.mod_switch(&self.tables, &parts, switched(self.shape.set()))?)
    }
}
