//! Step `rotate`: a query encrypts an LWE secret in a few chunks. The images of these chunks under
//! automorphisms are the leaves for packing.
//!
//! Compared with an expansion to every entry, this step takes a tenth of the substitutions and a
//! sixteenth of the leaves, with the same number of products and the same response. See
//! [`Rotations`] for the method.

use std::ops::Range;
use std::sync::OnceLock;

use spirea_backend::{RING_DEGREE, RingBackend, centred};
use spirea_lattice::rlwe::noise::RingNoise;
use spirea_lattice::rlwe::{KeyShape, LatticeError, RingSecret, parse_rounded_query, rounded_query_bytes};
use spirea_lattice::{LweSet, RingSet};
use spirea_math::random::SecretRng;
use spirea_math::{Expansion, Rotations};
use zeroize::Zeroizing;

use super::expanded::{expand_work, key_shape, selector_rows};
use super::registered::{Packer, Rows, Unpacked};
use crate::ProtocolError;
use crate::steps::ring::{RegisteredShape, RingServer, Shape};
use crate::steps::select::depth;
use crate::steps::{FirstRows, Unit, Work};

/// Bytes of memory traffic that take as long as a substitution, which transforms about nine
/// polynomials: 65 microseconds if a core reads 25 GB/s.
const SUBSTITUTION: f64 = 1.6e6;
/// Time of a byte of plaintexts relative to a byte of the database, which costs little more than
/// reading.
const PLAINTEXT: f64 = 1.5;

/// Target number of rows of a matrix of plaintexts if a block has fewer: kernels multiply this
/// number of rows together. The sums for building the matrix take 20 MiB for each block, and a
/// matrix has four blocks of 16 rows.
const MATRIX_ROWS: usize = 64;

/// The shape whose columns are rotated chunks of an LWE secret.
///
/// Chunk c of the secret, as a polynomial in Y = X^(N/n), is leaf c of a partial expansion. The
/// rows of selectors are an expansion of the next leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RotatedShape {
    set: RingSet,
    pub(super) rotations: Rotations,
    depth: usize,
}

impl RotatedShape {
    /// Returns the shape of a protocol that packs into `results` ciphertexts for each query under
    /// secrets of `lwe`, and selects among `groups`.
    ///
    /// More results mean fewer big automorphisms, since these are applied to each result. Databases
    /// of few results, and their deltas, share one split and therefore the keys.
    pub fn new(lwe: LweSet, set: RingSet, results: usize, groups: usize) -> Self {
        Self { set, rotations: Rotations::fewest(RING_DEGREE, lwe.rank(), results), depth: depth(groups) }
    }

    /// Returns the expansion to the chunks and, if there are selectors, the root of their rows.
    pub(super) fn chunks(&self) -> Expansion {
        let levels = (self.degree() / self.rotations.entries()).trailing_zeros();
        Expansion::partial(levels, self.rotations.chunks() + usize::from(self.depth > 0))
    }

    /// Returns the expansion to the rows of selectors, if there are any.
    fn selectors(&self) -> Option<Expansion> {
        (self.depth > 0).then(|| Expansion::further(self.chunks().levels(), selector_rows(self)))
    }

    /// Returns `scale` divided by 2^`halvings` modulo q.
    fn halved(&self, scale: u128, halvings: u32) -> u128 {
        let modulus = self.set.ring().modulus();
        let half = |scale: u128| if scale.is_multiple_of(2) { scale / 2 } else { (scale + modulus) / 2 };
        (0..halvings).fold(scale % modulus, |scale, _| half(scale))
    }

    /// Returns the numbers that a query encrypts, as (coefficient, scale, value): a small integer
    /// for each column, and the selectors' rows.
    ///
    /// Entry i of chunk c is at coefficient i N/n of the chunk's coefficients. Packing multiplies
    /// by the doublings of the expansion and by the number of automorphisms, together by N;
    /// selectors are doubled at every level.
    pub(super) fn numbers(
        &self,
        columns: &[i8],
        selectors: &[(u128, i8)],
    ) -> Zeroizing<Vec<(usize, u128, i8)>> {
        let (chunks, entries) = (self.chunks(), self.rotations.entries());
        let stride = self.degree() / entries;
        let scale = self.halved(self.set.scale(), self.degree().trailing_zeros());
        let mut numbers = Zeroizing::new(Vec::with_capacity(columns.len() + selectors.len()));
        numbers.extend(
            columns
                .iter()
                .enumerate()
                .map(|(i, &value)| (chunks.coefficient(i / entries) + i % entries * stride, scale, value)),
        );
        if let Some(rows) = self.selectors() {
            let first = chunks.coefficient(self.rotations.chunks());
            numbers.extend(selectors.iter().enumerate().map(|(row, &(factor, value))| {
                let scale = self.halved(factor, chunks.levels() + rows.levels());
                (first + rows.coefficient(row) * stride, scale, value)
            }));
        }
        numbers
    }

    /// Returns the numbers that a query encrypts if each chunk has its own ciphertext: as in
    /// [`Self::numbers`], a small integer for each column, but chunk by chunk. Packing multiplies
    /// by the number of automorphisms.
    pub(super) fn numbers_of_chunks(&self, columns: &[i8]) -> Vec<Zeroizing<Vec<(usize, u128, i8)>>> {
        let entries = self.rotations.entries();
        let (stride, scale) =
            (self.degree() / entries, self.halved(self.set.scale(), entries.trailing_zeros()));
        let numbers = |chunk: &[i8]| {
            let places = (0..).step_by(stride).zip(chunk);
            Zeroizing::new(places.map(|(place, &value)| (place, scale, value)).collect())
        };
        columns.chunks_exact(entries).map(numbers).collect()
    }

    /// Computes the sums over automorphisms of one chunk of a block's LWE ciphertexts.
    fn sums(&self, hint: FirstRows<'_>, block: usize, chunk: usize) -> Vec<i32> {
        /// Entries of a row that are contiguous in memory.
        const TOGETHER: usize = 16;
        let (degree, entries, bits) = (self.degree(), self.rotations.entries(), self.set.plaintext_bits());
        let mut plaintexts = vec![0; entries * degree];
        for (first, polynomials) in plaintexts.chunks_mut(TOGETHER * degree).enumerate() {
            let first = chunk * entries + first * TOGETHER;
            let together = first..first + polynomials.len() / degree;
            // Rows after the last are 0, as the plaintexts already are.
            let rows = (0..degree).map_while(|row| Some((row, hint.row(block * degree + row)?)));
            for (row, words) in rows {
                for (i, &word) in words[together.clone()].iter().enumerate() {
                    polynomials[i * degree + row] = centred(word, bits);
                }
            }
        }
        self.rotations.sums(degree, plaintexts)
    }
}

impl Shape for RotatedShape {
    fn set(&self) -> RingSet {
        self.set
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn levels(&self) -> u32 {
        self.chunks().levels() + self.selectors().map_or(0, |selectors| selectors.levels())
    }

    fn key_shape(&self) -> Option<KeyShape> {
        Some(self.keys())
    }

    fn unpack_work(&self) -> Vec<Work> {
        let further = self.selectors().map_or(0, |selectors| selectors.substitutions());
        let mut work = expand_work(self, self.chunks().substitutions() + further);
        work.push(Work::new("rotate", Unit::Substitution(self.set), self.rotations.substitutions(0)));
        work
    }

    fn leaves_bytes(&self) -> usize {
        let rows = self.selectors().map_or(0, |selectors| selectors.leaves());
        (self.chunks().leaves() + self.rotations.leaves() + rows) * 2 * self.set.ring().words() * 4
    }

    fn pack_read_bytes(&self, blocks: usize) -> f64 {
        let leaves = 2.0 * self.leaves_bytes() as f64;
        let plaintexts = PLAINTEXT * self.plain_bytes(blocks) as f64;
        plaintexts + leaves + self.rotations.substitutions(blocks) as f64 * SUBSTITUTION
    }

    fn plaintexts(&self, blocks: usize) -> usize {
        blocks * self.rotations.big() * self.rotations.leaves()
    }

    fn fold_work(&self, folds: usize, blocks: usize) -> Vec<Work> {
        let polynomials = folds * (self.plaintexts(blocks) + 2 * self.rotations.leaves());
        let rotated = folds * blocks * (self.rotations.big() - 1);
        let mut work = vec![Work::new("poly_fold", Unit::FoldedPolynomial(self.set), polynomials)];
        if rotated > 0 {
            work.push(Work::new("rotate", Unit::Substitution(self.set), rotated));
        }
        work
    }

    fn pack_noise(&self, _: LweSet) -> f64 {
        RingNoise::rounded(self.set, self.chunks().levels()).pack_rotated(self.rotations)
    }

    fn query_bytes(&self) -> usize {
        rounded_query_bytes(self.set)
    }

    fn noise(&self) -> RingNoise {
        RingNoise::rounded(self.set, self.levels())
    }
}

impl RegisteredShape for RotatedShape {
    fn keys(&self) -> KeyShape {
        key_shape(self, Some(self.rotations))
    }

    fn encrypt(
        &self,
        secret: &RingSecret,
        columns: &[i8],
        selectors: &[(u128, i8)],
        rng: &mut SecretRng,
    ) -> Vec<u8> {
        secret.encrypt_coefficients(&self.numbers(columns, selectors), rng)
    }

    fn parse_query(&self, bytes: &[u8]) -> Result<Vec<u32>, LatticeError> {
        parse_rounded_query(self.set, bytes)
    }
}

impl<B: RingBackend> Packer<B> for RotatedShape {
    fn unpack<'a>(
        ring: &RingServer<B, Self>,
        queries: &[(&'a B::Keys, &[u32])],
    ) -> Result<Unpacked<'a, B>, ProtocolError> {
        let RingServer { backend, tables, shape } = ring;
        let keys: Vec<_> = queries.iter().map(|(keys, _)| *keys).collect();
        let chunks = ring.expand(shape.chunks(), queries)?;
        let rows = match shape.selectors() {
            None => Rows::Behind(shape.rotations.leaves()),
            Some(rows) => {
                let root = shape.rotations.chunks();
                Rows::Own(backend.expand_leaf(tables, rows, &keys, &chunks, root)?)
            }
        };
        let leaves = backend.rotate(tables, shape.rotations, &keys, &chunks)?;
        Ok(Unpacked { keys, leaves, rows })
    }

    /// Encodes a matrix for a few blocks at a time, since their sums take memory in addition to the
    /// plaintexts.
    fn encode(
        ring: &RingServer<B, Self>,
        blocks: Range<usize>,
        hint: FirstRows<'_>,
    ) -> Result<Vec<B::Plain>, ProtocolError> {
        let RingServer { backend, tables, shape } = ring;
        let (rotations, degree) = (shape.rotations, shape.degree());
        let together = (MATRIX_ROWS / rotations.big()).max(1);
        let encode = |first: usize| {
            let count = together.min(blocks.end - first);
            // The sums of each block and chunk. The first thread of the backend that needs them
            // computes them.
            let sums: Vec<OnceLock<Vec<i32>>> =
                (0..count * rotations.chunks()).map(|_| OnceLock::new()).collect();
            let fill = |row: usize, leaf: usize, coefficients: &mut [i32]| {
                let (block, big) = (row / rotations.big(), row % rotations.big());
                let (chunk, small) = (leaf / rotations.small(), leaf % rotations.small());
                let sums = sums[block * rotations.chunks() + chunk]
                    .get_or_init(|| shape.sums(hint, first + block, chunk));
                rotations.plaintext(degree, sums, big, small, coefficients);
            };
            Ok(backend.encode(tables, count * rotations.big(), rotations.leaves(), &fill)?)
        };
        blocks.clone().step_by(together).map(encode).collect()
    }

    fn fold(
        ring: &RingServer<B, Self>,
        plain: &[B::Plain],
        unpacked: &Unpacked<'_, B>,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        let RingServer { backend, tables, shape } = ring;
        let folded = backend.poly_fold(tables, plain, &unpacked.leaves)?;
        Ok(backend.sum_rotated(tables, shape.rotations, &unpacked.keys, folded)?)
    }
}
