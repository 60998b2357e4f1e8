//! Clients' evaluation keys.

use rayon::prelude::*;
use spirea_backend::{BackendError, EvaluationKeys};
use spirea_math::Rotations;

use super::product::{DigitKeys, RGSW, SUBSTITUTION};
use super::tables::RingTables;

/// A client's evaluation keys.
#[derive(Debug)]
pub struct RingKeys {
    /// Keys of the expansion, by level.
    pub(super) expansion: Vec<DigitKeys>,
    /// Keys of the automorphisms by 5 and by -1, and of the big step; `None` if nothing is rotated.
    pub(super) rotations: Option<[DigitKeys; Rotations::KEYS]>,
    pub(super) conversion: Option<DigitKeys>,
}

impl RingKeys {
    /// Prepares keys, on the current thread pool.
    pub(super) fn new(tables: &RingTables, keys: EvaluationKeys<'_>) -> Result<Self, BackendError> {
        keys.levels(tables.ring())?;
        let take = |gadget, sources, words: &[u32]| {
            Ok(DigitKeys::new(tables, gadget, sources)?.filled(tables, words))
        };
        let of_one = keys.expansion_gadget.levels(tables.ring()) * 2 * tables.words();
        let substitutions = |words: &[u32]| -> Result<Vec<DigitKeys>, BackendError> {
            let keys_of_each = words.par_chunks(of_one);
            keys_of_each.map(|words| take(keys.expansion_gadget, SUBSTITUTION, words)).collect()
        };
        let (expansion, rotations) = (substitutions(keys.expansion)?, substitutions(keys.rotations)?);
        let conversion = (!keys.conversion.is_empty())
            .then(|| take(keys.conversion_gadget, RGSW, keys.conversion))
            .transpose()?;
        Ok(Self { expansion, rotations: rotations.try_into().ok(), conversion })
    }
}
