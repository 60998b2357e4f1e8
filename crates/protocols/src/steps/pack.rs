//! Step `pack` by expansion: LWE ciphertexts, N at a time, to a ring ciphertext (VIPIR sections 2.6 and 3.5).
//!
//! The leaves of the query's ciphertext are encryptions of its LWE secret's entries; times the polynomials of the hint they
//! add up to what the secret takes off the bodies.

use spirea_backend::{Bodies, FoldedBlocks, RingBackend, centred};
use spirea_lattice::rlwe::noise::{RingNoise, lwe_rounding};
use spirea_lattice::{LweSet, RingSet};

use super::LweHint;
use super::noise::byte_exceedance_log2;
use super::ring::{RingServer, RingShape};
use super::scalar_fold::fold_variance;
use super::select::depth;
use super::work::{Unit, Work};
use crate::ProtocolError;

impl RingShape {
    /// The shape of a protocol that packs ciphertexts under secrets of `lwe` and selects among `groups`.
    pub fn packing(lwe: LweSet, set: RingSet, groups: usize) -> Self {
        Self { set, columns: lwe.degree(), depth: depth(groups) }
    }

    /// Bytes that a query reads from memory to pack into `blocks` ciphertexts: the polynomials, and the
    /// leaves, written and read.
    pub fn pack_read_bytes(&self, blocks: usize) -> f64 {
        (blocks * self.columns * self.set.ring().words() * 4 + 2 * self.leaves_bytes()) as f64
    }

    /// Work of folding or packing `blocks` rows, `folds` times.
    pub fn fold_work(&self, folds: usize, blocks: usize) -> Work {
        Work::new("poly_fold", Unit::FoldedPolynomial(self.set), folds * (blocks + 2) * self.columns)
    }

    /// Bytes of `blocks` rows of plaintext polynomials.
    pub fn plain_bytes(&self, blocks: usize) -> u64 {
        (blocks * self.columns) as u64 * self.set.ring().words() as u64 * 4
    }

    /// log2 of an estimate for `entries` bytes that are folded over `columns` columns under `lwe`, packed, and selected
    /// if the shape says so.
    pub fn packed_exceedance_log2(&self, lwe: LweSet, columns: usize, entries: usize, share: f64) -> f64 {
        let noise = RingNoise::new(self.set, self.expansion().levels());
        let steps = noise.pack(lwe) + self.depth as f64 * noise.tournament_level();
        let variance = fold_variance(columns) + lwe_rounding(lwe, self.set.plaintext_bits());
        byte_exceedance_log2(noise.response(steps) + variance, entries, share)
    }
}

impl<B: RingBackend> RingServer<B> {
    /// The plaintext polynomials of `blocks` times N LWE ciphertexts of the shape's columns: coefficient j of
    /// polynomial (block, k) is entry k of ciphertext `block N + j`, rounded to the set's plaintext bits and
    /// centred (VIPIR appendix C.1). `entry(row, k)` gives the entries.
    pub fn encode_ciphertexts(
        &self,
        blocks: usize,
        entry: impl Fn(usize, usize) -> u32 + Sync,
    ) -> Result<B::Plain, ProtocolError> {
        let (degree, bits) = (self.shape.degree(), self.shape.set.plaintext_bits());
        let fill = |block: usize, k: usize, coefficients: &mut [i32]| {
            for (j, coefficient) in coefficients.iter_mut().enumerate() {
                *coefficient = centred(entry(block * degree + j, k), bits);
            }
        };
        Ok(self.backend.encode(&self.tables, blocks, self.shape.columns, &fill)?)
    }

    /// The plaintext polynomials of the LWE hint of a matrix of `parts` times `blocks` times N rows, for each part.
    pub fn encode_hint(
        &self,
        parts: usize,
        blocks: usize,
        hint: &LweHint,
    ) -> Result<Vec<B::Plain>, ProtocolError> {
        let rows = blocks * self.shape.degree();
        (0..parts)
            .map(|part| self.encode_ciphertexts(blocks, hint.rows(part * rows..(part + 1) * rows)?))
            .collect()
    }

    /// [`Self::pack`] of the LWE ciphertexts whose entries k are the answer of a query's matrix to column k, and whose
    /// bodies are its answers in `folded`.
    pub fn pack_folds(
        &self,
        matrices: &B::Matrices,
        columns: &B::Columns,
        blocks: usize,
        leaves: &B::Leaves,
        folded: &B::Folded,
        bodies: &Bodies,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        let shape = FoldedBlocks { blocks, bits: self.shape.set.plaintext_bits() };
        let packed = self.backend.encode_fold(&self.tables, matrices, columns, shape, leaves)?;
        self.add_bodies(packed, folded, bodies)
    }

    /// Step `pack`: for each query, the LWE ciphertexts of `plain` and its bodies, N to a ciphertext; `bodies`
    /// says which words of `folded` are whose.
    pub fn pack(
        &self,
        plain: &B::Plain,
        leaves: &B::Leaves,
        folded: &B::Folded,
        bodies: &Bodies,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        let packed = self.backend.poly_fold(&self.tables, plain, leaves)?;
        self.add_bodies(packed, folded, bodies)
    }

    fn add_bodies(
        &self,
        mut packed: B::Ciphertexts,
        folded: &B::Folded,
        bodies: &Bodies,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        let bits = self.shape.set.plaintext_bits();
        self.backend.add_bodies(&self.tables, &mut packed, folded, bodies, bits)?;
        Ok(packed)
    }
}
