//! Step `pack`: packs LWE ciphertexts, N at a time, into a ring ciphertext (VIPIR sections 2.6 and
//! 3.5).
//!
//! The leaves of the query's ciphertext encrypt its LWE secret's entries. Their products with the
//! hint's polynomials add up to the mask A s that is subtracted from the bodies.

use spirea_backend::{Bodies, RingBackend};
use spirea_lattice::LweSet;
use spirea_lattice::rlwe::noise::lwe_rounding;

use super::LweHint;
use super::expand::{Unpack, Unpacked};
use super::noise::field_exceedance_log2;
use super::ring::{RingServer, Shape};
use super::scalar_fold::FoldedColumns;
use crate::ProtocolError;

/// Returns log2 of an estimate for `entries` bytes that are folded under `lwe`, packed, and
/// selected if the shape selects.
pub(crate) fn packed_exceedance_log2(
    shape: &dyn Shape,
    lwe: LweSet,
    folded: FoldedColumns,
    entries: usize,
    share: f64,
) -> f64 {
    let noise = shape.noise();
    let steps = shape.pack_noise(lwe) + shape.depth() as f64 * noise.tournament_level();
    let variance = folded.variance() + lwe_rounding(lwe, shape.set().plaintext_bits());
    field_exceedance_log2(noise.response(steps) + variance, entries, share)
}

/// Function from (r, k) to entry k of LWE ciphertext r.
pub(crate) type Entry<'a> = dyn Fn(usize, usize) -> u32 + Sync + 'a;

/// A shape that packs LWE ciphertexts.
pub(crate) trait Packer<B: RingBackend>: Unpack<B> {
    /// Encodes the plaintext polynomials of `blocks` times N LWE ciphertexts. Their entries are
    /// rounded to the set's plaintext bits and centred (VIPIR appendix C.1).
    ///
    /// # Errors
    /// Those of the backend.
    fn encode(
        ring: &RingServer<B, Self>,
        blocks: usize,
        entry: &Entry<'_>,
    ) -> Result<Vec<B::Plain>, ProtocolError>;

    /// Computes the ciphertext of the mask that is subtracted from the bodies, for each query and
    /// block.
    ///
    /// # Errors
    /// Those of the backend.
    fn fold(
        ring: &RingServer<B, Self>,
        plain: &[B::Plain],
        unpacked: &Unpacked<'_, B>,
    ) -> Result<B::Ciphertexts, ProtocolError>;
}

impl<B: RingBackend, S: Packer<B>> RingServer<B, S> {
    /// Encodes the LWE hint of a matrix of `parts` times `blocks` times N rows into plaintext
    /// polynomials, for each part.
    pub fn encode_hint(
        &self,
        parts: usize,
        blocks: usize,
        hint: &LweHint,
    ) -> Result<Vec<Vec<B::Plain>>, ProtocolError> {
        let rows = blocks * self.shape.degree();
        (0..parts).map(|part| S::encode(self, blocks, &hint.rows(part * rows..(part + 1) * rows)?)).collect()
    }

    /// Runs step `pack`: packs, for each query, the LWE ciphertexts of `plain` with its bodies, N
    /// into a ciphertext. `bodies` selects each query's words of `folded`.
    pub fn pack(
        &self,
        plain: &[B::Plain],
        unpacked: &Unpacked<'_, B>,
        folded: &B::Folded,
        bodies: &Bodies,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        self.add_bodies(S::fold(self, plain, unpacked)?, folded, bodies)
    }

    /// Adds the bodies, the last part of step `pack`.
    pub(super) fn add_bodies(
        &self,
        mut packed: B::Ciphertexts,
        folded: &B::Folded,
        bodies: &Bodies,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        let bits = self.shape.set().plaintext_bits();
        self.backend.add_bodies(&self.tables, &mut packed, folded, bodies, bits)?;
        Ok(packed)
    }
}
