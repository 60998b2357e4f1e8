//! Operations on single polynomials by definition.

use std::sync::Arc;

use spirea_math::Ring;

use crate::{BackendError, NaiveBackend, ResidueBackend};

impl ResidueBackend for NaiveBackend {
    type ResidueTables = Arc<Ring>;

    fn residue_tables(&self, ring: &Arc<Ring>) -> Result<Arc<Ring>, BackendError> {
        Ok(Arc::clone(ring))
    }

    fn forward(&self, ring: &Arc<Ring>, words: &mut [u32]) {
        words.chunks_mut(ring.words()).for_each(|words| ring.forward(words));
    }

    fn inverse(&self, ring: &Arc<Ring>, words: &mut [u32]) {
        words.chunks_mut(ring.words()).for_each(|words| ring.inverse(words));
    }

    fn sum_of_products(&self, ring: &Arc<Ring>, pairs: &[(&[u32], &[u32])]) -> Vec<u32> {
        let mut sum = ring.zero();
        pairs.iter().for_each(|(a, b)| ring.mul_add(&mut sum, a, b));
        sum
    }
}
