//! The variants of step `pack`: leaves are entries of the LWE secret (by expansion) or rotated
//! chunks of it, with keys that are registered or that queries carry.

use std::ops::Deref;

use spirea_backend::{Bodies, FoldedBlocks, RingBackend, centred};
use spirea_lattice::{LweSet, RingSet};

use super::expand::{ExpandedShape, Unpacked};
use super::folded::Folded;
use super::one_shot::OneShotShape;
use super::packer::{Entry, Packer};
use super::ring::{RingServer, Shape};
use super::rotate::RotatedShape;
use super::select::depth;
use crate::ProtocolError;
use crate::choice::KeyDelivery;

/// The shape of a protocol that packs. Its ring set determines the variant.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PackingShape {
    /// Packing by expansion to the secret's entries.
    Expanded(ExpandedShape),
    /// Packing by rotations of the secret's chunks.
    Rotated(RotatedShape),
    /// Packing by rotations, with keys that queries carry.
    OneShot(OneShotShape),
}

impl PackingShape {
    /// Returns the shape of a protocol with these validated parameters that packs into `results`
    /// ciphertexts for each query, and selects among `groups`. The set `paper` packs by expansion,
    /// as in VIPIR. Queries that carry their keys have one group and another set than `paper`.
    pub fn new(folded: &Folded, results: usize, groups: usize) -> Self {
        let (lwe, set) = (folded.lwe_set(), folded.ring_set());
        match (folded.keys, set) {
            (KeyDelivery::PerQuery, _) => Self::OneShot(OneShotShape::new(lwe, set, results, folded.queries)),
            (_, RingSet::Paper) => Self::Expanded(ExpandedShape::packing(lwe, set, groups)),
            _ => Self::Rotated(RotatedShape::new(lwe, set, results, groups)),
        }
    }
}

impl Deref for PackingShape {
    type Target = dyn Shape;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Expanded(shape) => shape,
            Self::Rotated(shape) => shape,
            Self::OneShot(shape) => shape,
        }
    }
}

impl ExpandedShape {
    /// Returns the shape of a protocol that packs ciphertexts under secrets of `lwe` and selects
    /// among `groups`.
    pub fn packing(lwe: LweSet, set: RingSet, groups: usize) -> Self {
        Self { set, columns: lwe.degree(), depth: depth(groups) }
    }
}

impl<B: RingBackend> Packer<B> for ExpandedShape {
    /// Sets coefficient j of polynomial (block, k) to entry k of ciphertext `block N + j`.
    fn encode(
        ring: &RingServer<B, Self>,
        blocks: usize,
        entry: &Entry<'_>,
    ) -> Result<Vec<B::Plain>, ProtocolError> {
        let Self { set, columns, .. } = ring.shape;
        let (degree, bits) = (ring.shape.degree(), set.plaintext_bits());
        let fill = |block: usize, k: usize, coefficients: &mut [i32]| {
            for (j, coefficient) in coefficients.iter_mut().enumerate() {
                *coefficient = centred(entry(block * degree + j, k), bits);
            }
        };
        Ok(vec![ring.backend.encode(&ring.tables, blocks, columns, &fill)?])
    }

    fn fold(
        ring: &RingServer<B, Self>,
        plain: &[B::Plain],
        unpacked: &Unpacked<'_, B>,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        Ok(ring.backend.poly_fold(&ring.tables, plain, &unpacked.leaves)?)
    }
}

impl<B: RingBackend> RingServer<B, ExpandedShape> {
    /// Runs [`Self::pack`] on LWE ciphertexts from folds of each query's own matrix: entry k is the
    /// matrix's answer to column k, and the body its answer in `folded`.
    pub fn pack_folds(
        &self,
        matrices: &B::Matrices,
        columns: &B::Columns,
        blocks: usize,
        unpacked: &Unpacked<'_, B>,
        folded: &B::Folded,
        bodies: &Bodies,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        let shape = FoldedBlocks { blocks, bits: self.shape.set.plaintext_bits() };
        let packed = self.backend.encode_fold(&self.tables, matrices, columns, shape, &unpacked.leaves)?;
        self.add_bodies(packed, folded, bodies)
    }
}
