//! Packing with constant uniform halves, by whole ciphertexts.
//!
//! The b half of a result is linear in the b halves that clients send. The factors are the digits
//! of every substitution, and plaintexts. They follow from the uniform halves, so a backend may
//! compute them once. Whole ciphertexts give the same results; the oracle uses them, and so do
//! devices without a faster method.

use std::sync::Arc;

use spirea_math::{Ring, SentChunks};

use crate::{BackendError, EvaluationKeys, FixedPacking, PackedEnds, RingBackend, SwitchedBits};

/// Uniform halves of a database's queries, without any precomputation. `P` are the backend's
/// plaintexts.
#[derive(Clone, Debug)]
pub struct WholeHalves<P> {
    ring: Arc<Ring>,
    packing: FixedPacking,
    uniform: Vec<u32>,
    /// Plaintexts whose fold selects the derived key from the images of a key; `None` if no key is
    /// derived.
    derived: Option<[P; 1]>,
}

impl<P> WholeHalves<P> {
    /// Runs [`RingBackend::fix_uniform`] by whole ciphertexts, on a query whose b halves are 0.
    ///
    /// # Errors
    /// Errors of the operations.
    pub fn fix<B: RingBackend<Plain = P>>(
        backend: &B,
        tables: &B::Tables,
        ring: &Arc<Ring>,
        packing: FixedPacking,
        uniform: &[u32],
        plain: &[P],
        bits: SwitchedBits,
    ) -> Result<(Self, Vec<u8>), BackendError> {
        packing.check(ring, uniform)?;
        let (rows, rotations) = (packing.gadget.levels(ring), packing.rotations);
        let last_images = |row: usize, image: usize, to: &mut [i32]| {
            to.fill(0);
            to[0] = i32::from(image == row * rotations.small() + rotations.derivations());
        };
        let derived = match packing.chunks {
            SentChunks::Apart if rotations.derivations() > 0 => {
                Some([backend.encode(tables, rows, rows * rotations.small(), &last_images)?])
            }
            _ => None,
        };
        let halves = Self { ring: Arc::clone(ring), packing, uniform: uniform.to_vec(), derived };
        let packed = halves.packed(backend, tables, plain, &[&vec![0; uniform.len()]])?;
        let switched = backend.mod_switch(tables, &[&packed], bits)?.concat();
        let [a, _] = bits.halves(ring.degree(), &switched);
        Ok((halves, a))
    }

    /// Runs [`RingBackend::pack_fixed`] by whole ciphertexts.
    ///
    /// # Errors
    /// Errors of the operations.
    pub fn pack<B: RingBackend<Plain = P>>(
        &self,
        backend: &B,
        tables: &B::Tables,
        plain: &[P],
        queries: &[&[u32]],
        ends: PackedEnds<'_, B::Folded>,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        let mut packed = self.packed(backend, tables, plain, queries)?;
        backend.add_bodies(tables, &mut packed, ends.folded, ends.bodies, ends.plaintext_bits)?;
        let switched = backend.mod_switch(tables, &[&packed], ends.switched)?;
        let b = |bytes: Vec<u8>| {
            let [_, b] = ends.switched.halves(self.ring.degree(), &bytes);
            b
        };
        Ok(switched.into_iter().map(b).collect())
    }

    fn packed<B: RingBackend<Plain = P>>(
        &self,
        backend: &B,
        tables: &B::Tables,
        plain: &[P],
        queries: &[&[u32]],
    ) -> Result<B::Ciphertexts, BackendError> {
        let Self { ring, packing, .. } = self;
        let rotations = packing.rotations;
        let of_keys = packing.chunks.keys() * self.of_key();
        let mut whole = Vec::with_capacity(queries.len());
        for query in queries {
            packing.check(ring, query)?;
            whole.push(self.whole(query));
        }
        let parts: Vec<(&[u32], &[u32])> = whole.iter().map(|query| query.split_at(of_keys)).collect();
        let (keys, chunks) = match packing.chunks {
            SentChunks::Expanded(expansion) => {
                let levels = expansion.levels() as usize * self.of_key();
                let keys = |(keys, _): &(&[u32], _)| {
                    let (expansion, rotations) = keys.split_at(levels);
                    self.keys(backend, tables, expansion, rotations)
                };
                let keys = parts.iter().map(keys).collect::<Result<Vec<_>, _>>()?;
                let roots: Vec<_> = keys.iter().zip(&parts).map(|(keys, &(_, root))| (keys, root)).collect();
                let chunks = backend.expand(tables, expansion, &roots)?;
                (keys, chunks)
            }
            SentChunks::Apart => {
                let of_queries: Vec<&[u32]> = parts.iter().map(|&(keys, _)| keys).collect();
                let keys = self.keys_with_derived(backend, tables, &of_queries)?;
                let chunks: Vec<u32> = parts.iter().flat_map(|&(_, chunks)| chunks).copied().collect();
                (keys, backend.leaves(tables, queries.len(), &chunks)?)
            }
        };
        let keys: Vec<_> = keys.iter().collect();
        let leaves = backend.rotate(tables, rotations, &keys, &chunks)?;
        let folded = backend.poly_fold(tables, plain, &leaves)?;
        backend.sum_rotated(tables, rotations, &keys, folded)
    }

    /// Creates the keys of queries that include only the keys for X -> X^5 and X -> X^-1. The key
    /// of the big step consists of the last images of the rows of the key for X -> X^5. These rows
    /// are rotated like chunks.
    fn keys_with_derived<B: RingBackend<Plain = P>>(
        &self,
        backend: &B,
        tables: &B::Tables,
        queries: &[&[u32]],
    ) -> Result<Vec<B::Keys>, BackendError> {
        let Self { ring, packing, derived, .. } = self;
        let of_key = self.of_key();
        // The images of chunks need no key of the big step; another key takes its place.
        let by_step =
            queries.iter().map(|keys| self.keys(backend, tables, &[], &[keys, &keys[..of_key]].concat()));
        let by_step = by_step.collect::<Result<Vec<_>, _>>()?;
        let Some(derived) = derived else { return Ok(by_step) };
        let rows: Vec<u32> = queries.iter().flat_map(|keys| &keys[..of_key]).copied().collect();
        let rows = backend.leaves(tables, queries.len(), &rows)?;
        let of_rows = packing.rotations.of_chunks(packing.gadget.levels(ring));
        let images = backend.rotate(tables, of_rows, &by_step.iter().collect::<Vec<_>>(), &rows)?;
        let big = backend.ciphertext_words(tables, &backend.poly_fold(tables, derived, &images)?)?;
        let pairs = queries.iter().zip(big.chunks_exact(of_key));
        pairs.map(|(keys, big)| self.keys(backend, tables, &[], &[keys, big].concat())).collect()
    }

    fn keys<B: RingBackend<Plain = P>>(
        &self,
        backend: &B,
        tables: &B::Tables,
        expansion: &[u32],
        rotations: &[u32],
    ) -> Result<B::Keys, BackendError> {
        let (expansion_gadget, conversion_gadget) = (self.packing.gadget, self.packing.gadget);
        let keys =
            EvaluationKeys { expansion_gadget, expansion, rotations, conversion_gadget, conversion: &[] };
        backend.keys(tables, keys)
    }

    /// Returns the number of words of a substitution's key.
    fn of_key(&self) -> usize {
        self.packing.gadget.levels(&self.ring) * 2 * self.ring.words()
    }

    /// Returns the ciphertexts of a query, each with the words of `a`, then those of `b`.
    fn whole(&self, query: &[u32]) -> Vec<u32> {
        let words = self.ring.words();
        let halves = self.uniform.chunks_exact(words).zip(query.chunks_exact(words));
        halves.flat_map(|(a, b)| a.iter().chain(b)).copied().collect()
    }
}

/// Writes the members of [`RingBackend`] for packing with constant uniform halves, by whole
/// ciphertexts: [`RingBackend::Fixed`], [`RingBackend::fix_uniform`] and
/// [`RingBackend::pack_fixed`]. Takes a name for the tables, and an expression for their
/// `&Arc<Ring>`.
#[macro_export]
macro_rules! whole_halves {
    ($tables:ident => $ring:expr) => {
        type Fixed = $crate::WholeHalves<Self::Plain>;

        fn fix_uniform(
            &self,
            $tables: &Self::Tables,
            packing: $crate::FixedPacking,
            uniform: &[u32],
            plain: &[Self::Plain],
            bits: $crate::SwitchedBits,
        ) -> ::std::result::Result<(Self::Fixed, ::std::vec::Vec<u8>), $crate::BackendError> {
            $crate::WholeHalves::fix(self, $tables, $ring, packing, uniform, plain, bits)
        }

        fn pack_fixed(
            &self,
            tables: &Self::Tables,
            fixed: &Self::Fixed,
            plain: &[Self::Plain],
            queries: &[&[u32]],
            ends: $crate::PackedEnds<'_, Self::Folded>,
        ) -> ::std::result::Result<::std::vec::Vec<::std::vec::Vec<u8>>, $crate::BackendError> {
            fixed.pack(self, tables, plain, queries, ends)
        }
    };
}
