//! Step `pack`: LWE ciphertexts, N at a time, to a ring ciphertext (VIPIR sections 2.6 and 3.5).
//!
//! What is made of the query's ciphertext encrypts its LWE secret's entries; times the polynomials of the hint they add up
//! to what the secret takes off the bodies.

use spirea_backend::{Bodies, RingBackend};
use spirea_lattice::LweSet;
use spirea_lattice::rlwe::noise::lwe_rounding;

use super::LweHint;
use super::expand::{Unpack, Unpacked};
use super::noise::field_exceedance_log2;
use super::ring::{RingServer, Shape};
use super::scalar_fold::FoldedColumns;
use crate::ProtocolError;

/// log2 of an estimate for `entries` bytes that are folded under `lwe`, packed, and selected if the
/// shape says so.
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

/// Entry k of LWE ciphertext r, for (r, k).
pub(crate) type Entry<'a> = dyn Fn(usize, usize) -> u32 + Sync + 'a;

/// A shape that LWE ciphertexts are packed by.
pub(crate) trait Packer<B: RingBackend>: Unpack<B> {
    /// The plaintext polynomials of `blocks` times N LWE ciphertexts, their entries rounded to the set's plaintext bits and
    /// centred (VIPIR appendix C.1).
    ///
    /// # Errors
    /// The backend's.
    fn encode(
        ring: &RingServer<B, Self>,
        blocks: usize,
        entry: &Entry<'_>,
    ) -> Result<Vec<B::Plain>, ProtocolError>;

    /// For each query and block, the ciphertext of what its secret takes off the bodies.
    ///
    /// # Errors
    /// The backend's.
    fn fold(
        ring: &RingServer<B, Self>,
        plain: &[B::Plain],
        unpacked: &Unpacked<'_, B>,
    ) -> Result<B::Ciphertexts, ProtocolError>;
}

impl<B: RingBackend, S: Packer<B>> RingServer<B, S> {
    /// The plaintext polynomials of the LWE hint of a matrix of `parts` times `blocks` times N rows, for each part.
    pub fn encode_hint(
        &self,
        parts: usize,
        blocks: usize,
        hint: &LweHint,
    ) -> Result<Vec<Vec<B::Plain>>, ProtocolError> {
        let rows = blocks * self.shape.degree();
        (0..parts).map(|part| S::encode(self, blocks, &hint.rows(part * rows..(part + 1) * rows)?)).collect()
    }

    /// Step `pack`: for each query, the LWE ciphertexts of `plain` and its bodies, N to a ciphertext; `bodies`
    /// says which words of `folded` are whose.
    pub fn pack(
        &self,
        plain: &[B::Plain],
        unpacked: &Unpacked<'_, B>,
        folded: &B::Folded,
        bodies: &Bodies,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        self.add_bodies(S::fold(self, plain, unpacked)?, folded, bodies)
    }

    /// The rest of step `pack`.
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
