//! Clients' evaluation keys.

use rayon::prelude::*;
use spirea_backend::{BackendError, EvaluationKeys};

use super::product::{DigitKeys, RGSW, SUBSTITUTION};
use super::tables::RingTables;

/// A client's evaluation keys.
#[derive(Debug)]
pub struct RingKeys {
    /// By level.
    pub(super) expansion: Vec<DigitKeys>,
    pub(super) conversion: Option<DigitKeys>,
}

impl RingKeys {
    /// Takes keys, on the current thread pool.
    pub(super) fn new(tables: &RingTables, keys: EvaluationKeys<'_>) -> Result<Self, BackendError> {
        let levels = keys.levels(tables.ring())? as usize;
        let take = |gadget, sources, words: &[u32]| {
            Ok(DigitKeys::new(tables, gadget, sources)?.filled(tables, words))
        };
        let of_level = (keys.expansion.len() / levels.max(1)).max(1);
        let expansion = keys.expansion.par_chunks(of_level);
        let expansion = expansion.map(|words| take(keys.expansion_gadget, SUBSTITUTION, words));
        let conversion = (!keys.conversion.is_empty())
            .then(|| take(keys.conversion_gadget, RGSW, keys.conversion))
            .transpose()?;
        Ok(Self { expansion: expansion.collect::<Result<_, BackendError>>()?, conversion })
    }
}
