//! Step `expand`: expands one ciphertext of a query to a ciphertext for each leaf (VIPIR section
//! 2.6). In packing by expansion, the leaves are the LWE secret's entries.

use std::ops::Range;

use spirea_backend::{Bodies, FoldedBlocks, RingBackend, centred};
use spirea_lattice::rlwe::noise::RingNoise;
use spirea_lattice::rlwe::{Conversion, KeyShape, RingSecret};
use spirea_lattice::{LweSet, RingSet};
use spirea_math::random::SecretRng;
use spirea_math::{Expansion, Rotations};
use zeroize::Zeroizing;

use super::registered::{Packer, Rows, Unpacked};
use crate::ProtocolError;
use crate::steps::ring::{RegisteredShape, RingServer, Shape, TRANSFORM};
use crate::steps::select::depth;
use crate::steps::{FirstRows, Unit, Work};

/// Shape with a single expansion, whose leaves are the columns, followed by the rows of selectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpandedShape {
    /// The parameters of the ring.
    pub set: RingSet,
    /// Number of leaves that plaintext polynomials multiply: the LWE secret's entries or the first
    /// dimension.
    pub columns: usize,
    /// Number of index bits that a tournament selects by.
    pub depth: usize,
}

impl ExpandedShape {
    /// Returns the shape of a protocol that packs ciphertexts under secrets of `lwe` and selects
    /// among `groups`.
    pub fn packing(lwe: LweSet, set: RingSet, groups: usize) -> Self {
        Self { set, columns: lwe.degree(), depth: depth(groups) }
    }

    /// Returns the expansion. Its leaves are the columns, then one for each bit and digit of the
    /// selectors' gadget.
    pub fn expansion(&self) -> Expansion {
        Expansion::covering(self.columns + selector_rows(self))
    }
}

/// Returns the number of selector rows: one for each bit and digit of the selectors' gadget.
pub(crate) fn selector_rows(shape: &impl Shape) -> usize {
    shape.depth() * shape.set().selector_gadget().levels(shape.set().ring())
}

/// Returns the shape of the evaluation keys for `shape`.
pub(crate) fn key_shape(shape: &impl Shape, rotations: Option<Rotations>) -> KeyShape {
    let conversion = if shape.depth() > 0 { Conversion::Rgsw } else { Conversion::None };
    KeyShape { set: shape.set(), levels: shape.levels(), rotations, conversion }
}

/// Returns the work of `substitutions` substitutions in expansions, and of the selectors, if there
/// are any.
pub(crate) fn expand_work(shape: &impl Shape, substitutions: usize) -> Vec<Work> {
    let mut work = vec![Work::new("expand", Unit::Substitution(shape.set()), substitutions)];
    if shape.depth() > 0 {
        work.push(Work::new("selectors", Unit::Conversion(shape.set()), selector_rows(shape)));
    }
    work
}

/// Returns the number of transforms modulo one prime in a substitution: of the digits of `a`, and
/// of the polynomial that the digits are taken from.
fn substitution_transforms(set: RingSet) -> usize {
    set.expansion_gadget().forward_transforms(set.ring()) + set.ring().limbs().len()
}

impl Shape for ExpandedShape {
    fn set(&self) -> RingSet {
        self.set
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn levels(&self) -> u32 {
        self.expansion().levels()
    }

    fn key_shape(&self) -> Option<KeyShape> {
        Some(self.keys())
    }

    fn unpack_work(&self) -> Vec<Work> {
        expand_work(self, self.expansion().substitutions())
    }

    fn leaves_bytes(&self) -> usize {
        self.expansion().leaves() * 2 * self.set.ring().words() * 4
    }

    fn plaintexts(&self, blocks: usize) -> usize {
        blocks * self.columns
    }

    fn pack_read_bytes(&self, blocks: usize) -> f64 {
        let leaves = 2.0 * self.leaves_bytes() as f64;
        let substitutions = self.expansion().substitutions() * substitution_transforms(self.set);
        self.plain_bytes(blocks) as f64 + leaves + substitutions as f64 * TRANSFORM
    }

    fn fold_work(&self, folds: usize, blocks: usize) -> Vec<Work> {
        let polynomials = folds * (self.plaintexts(blocks) + 2 * self.columns);
        vec![Work::new("poly_fold", Unit::FoldedPolynomial(self.set), polynomials)]
    }

    fn pack_noise(&self, lwe: LweSet) -> f64 {
        RingNoise::new(self.set, self.expansion().levels()).pack(lwe)
    }
}

impl RegisteredShape for ExpandedShape {
    fn keys(&self) -> KeyShape {
        key_shape(self, None)
    }

    fn encrypt(
        &self,
        secret: &RingSecret,
        columns: &[i8],
        selectors: &[(u128, i8)],
        rng: &mut SecretRng,
    ) -> Vec<u8> {
        // Allocated at full capacity: a growing vector would leave copies of its content in freed
        // memory.
        let mut leaves = Zeroizing::new(Vec::with_capacity(self.expansion().leaves()));
        leaves.extend(columns.iter().map(|&value| (self.set.scale(), value)));
        leaves.extend(selectors);
        secret.encrypt_leaves(self.expansion(), &leaves, rng)
    }
}

impl<B: RingBackend> Packer<B> for ExpandedShape {
    fn unpack<'a>(
        ring: &RingServer<B, Self>,
        queries: &[(&'a B::Keys, &[u32])],
    ) -> Result<Unpacked<'a, B>, ProtocolError> {
        let leaves = ring.expand(ring.shape.expansion(), queries)?;
        let keys = queries.iter().map(|(keys, _)| *keys).collect();
        Ok(Unpacked { keys, leaves, rows: Rows::Behind(ring.shape.columns) })
    }

    /// Sets coefficient j of polynomial (block, k) to entry k of ciphertext `block N + j`.
    fn encode(
        ring: &RingServer<B, Self>,
        blocks: Range<usize>,
        hint: FirstRows<'_>,
    ) -> Result<Vec<B::Plain>, ProtocolError> {
        let Self { set, columns, .. } = ring.shape;
        let (degree, bits, first) = (ring.shape.degree(), set.plaintext_bits(), blocks.start);
        let fill = |block: usize, k: usize, coefficients: &mut [i32]| {
            for (j, coefficient) in coefficients.iter_mut().enumerate() {
                let row = hint.row((first + block) * degree + j);
                *coefficient = centred(row.map_or(0, |entries| entries[k]), bits);
            }
        };
        Ok(vec![ring.backend.encode(&ring.tables, blocks.len(), columns, &fill)?])
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
    /// Runs [`Self::pack`] on LWE ciphertexts from folds of a separate matrix for each query. Entry
    /// k of a ciphertext is the matrix's answer to column k of the public matrix. The body is the
    /// matrix's answer in `folded`.
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
