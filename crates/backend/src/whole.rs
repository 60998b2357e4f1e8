//! Packing with constant uniform halves, by whole ciphertexts.
//!
//! The b half of a result is linear in the b halves that clients send. The factors follow from the
//! uniform halves: digits of every substitution, and plaintexts. A backend may compute them once.
//! Whole ciphertexts give the same results; the oracle uses them, and so do devices that have
//! nothing better.

use std::sync::Arc;

use spirea_math::{Ring, Rotations};

use crate::{BackendError, EvaluationKeys, FixedPacking, PackedEnds, RingBackend, SwitchedBits};

/// Uniform halves of a database's queries, without any precomputation.
#[derive(Clone, Debug)]
pub struct WholeHalves {
    ring: Arc<Ring>,
    packing: FixedPacking,
    uniform: Vec<u32>,
}

impl WholeHalves {
    /// Runs [`RingBackend::fix_uniform`] by whole ciphertexts, on a query whose b halves are 0.
    ///
    /// # Errors
    /// Errors of the operations.
    pub fn fix<B: RingBackend>(
        backend: &B,
        tables: &B::Tables,
        ring: &Arc<Ring>,
        packing: FixedPacking,
        uniform: &[u32],
        plain: &[B::Plain],
        bits: SwitchedBits,
    ) -> Result<(Self, Vec<u8>), BackendError> {
        packing.check(ring, uniform)?;
        let halves = Self { ring: Arc::clone(ring), packing, uniform: uniform.to_vec() };
        let packed = halves.packed(backend, tables, plain, &[&vec![0; uniform.len()]])?;
        let switched = backend.mod_switch(tables, &[&packed], bits)?.concat();
        let [a, _] = bits.halves(ring.degree(), &switched);
        Ok((halves, a))
    }

    /// Runs [`RingBackend::pack_fixed`] by whole ciphertexts.
    ///
    /// # Errors
    /// Errors of the operations.
    pub fn pack<B: RingBackend>(
        &self,
        backend: &B,
        tables: &B::Tables,
        plain: &[B::Plain],
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

    fn packed<B: RingBackend>(
        &self,
        backend: &B,
        tables: &B::Tables,
        plain: &[B::Plain],
        queries: &[&[u32]],
    ) -> Result<B::Ciphertexts, BackendError> {
        let Self { ring, packing, .. } = self;
        let (mut keys, mut ciphertexts) = (Vec::new(), Vec::new());
        for query in queries {
            packing.check(ring, query)?;
            let whole = self.whole(query);
            let of_key = packing.gadget.levels(ring) * 2 * ring.words();
            let (expansion, rest) = whole.split_at(packing.expansion.levels() as usize * of_key);
            let (rotations, ciphertext) = rest.split_at(Rotations::KEYS * of_key);
            let gadget = packing.gadget;
            keys.push(backend.keys(
                tables,
                EvaluationKeys {
                    expansion_gadget: gadget,
                    expansion,
                    rotations,
                    conversion_gadget: gadget,
                    conversion: &[],
                },
            )?);
            ciphertexts.push(ciphertext.to_vec());
        }
        let of_queries: Vec<_> = keys.iter().zip(&ciphertexts).map(|(keys, c)| (keys, &c[..])).collect();
        let keys: Vec<_> = keys.iter().collect();
        let chunks = backend.expand(tables, packing.expansion, &of_queries)?;
        let leaves = backend.rotate(tables, packing.rotations, &keys, &chunks)?;
        let folded = backend.poly_fold(tables, plain, &leaves)?;
        backend.sum_rotated(tables, packing.rotations, &keys, folded)
    }

    /// Returns the ciphertexts of a query, each as a and then b.
    fn whole(&self, query: &[u32]) -> Vec<u32> {
        let words = self.ring.words();
        let halves = self.uniform.chunks_exact(words).zip(query.chunks_exact(words));
        halves.flat_map(|(a, b)| a.iter().chain(b)).copied().collect()
    }
}
