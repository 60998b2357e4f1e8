//! Multipliers of digits, as kernels read them: evaluation keys and selectors.

use std::sync::Arc;

use spirea_backend::{BackendError, EvaluationKeys};
use spirea_math::{Gadget, Rotations};

use super::decomposition::Decomposition;
use super::tables::Tables;
use crate::args;
use crate::driver::{Arg, Buffer, Grid, View};

/// For `ring_keys`: words a thread, and threads of a block.
const KEY_WORDS: usize = 4;
const KEY_THREADS: usize = 128;
/// Maximum number of rows in one launch.
const MOST_ROWS: usize = 65_535;

/// Keys for the digits of one gadget: `[key][row][a, b][limb][N]`, values times 2^32, in fragments
/// (`ring.cuh`).
#[derive(Debug)]
pub(super) struct DigitKeys {
    pub decomposition: Arc<Decomposition>,
    rows: Buffer<u32>,
    /// Words of each key.
    key: usize,
}

impl DigitKeys {
    /// Allocates room for `count` keys for the digits of `sources` polynomials.
    pub(super) fn room(
        tables: &Tables,
        gadget: Gadget,
        sources: usize,
        count: usize,
    ) -> Result<Self, BackendError> {
        let decomposition = Arc::new(Decomposition::new(tables.ring(), gadget)?);
        let key = sources * decomposition.levels * tables.ciphertext();
        let rows = tables.device.alloc(count.saturating_mul(key))?;
        Ok(Self { decomposition, rows, key })
    }

    /// Returns the gadget of the digits.
    pub(super) fn gadget(&self) -> Gadget {
        self.decomposition.gadget
    }

    /// Returns the number of keys.
    pub(super) fn count(&self) -> usize {
        self.rows.len() / self.key
    }

    /// Views key number `i`.
    pub(super) fn key(&self, i: usize) -> View<'_, u32> {
        self.rows.range(i * self.key..(i + 1) * self.key)
    }

    /// Writes consecutive ciphertexts to the rows of `source` in all keys, key by key.
    pub(super) fn set(
        &self,
        tables: &Tables,
        source: usize,
        ciphertexts: &View<'_, u32>,
    ) -> Result<(), BackendError> {
        let rows = ciphertexts.len() / tables.ciphertext();
        let levels = self.decomposition.levels;
        let stride = self.key / tables.ciphertext();
        if rows != self.count() * levels || (source + 1) * levels > stride || rows > MOST_ROWS {
            return Err(BackendError::Shape(format!(
                "{rows} rows for {} keys of {levels} digits",
                self.count()
            )));
        }
        if rows == 0 {
            return Ok(());
        }
        let factors = tables.device.upload(&self.decomposition.key_factors)?;
        let threads = tables.ciphertext() / KEY_WORDS;
        let grid = Grid::cube([threads / KEY_THREADS, rows, 1], KEY_THREADS);
        let [first, stride] = [source * levels, stride].map(|n| n as u32);
        let args: &[Arg] =
            args![ciphertexts, &self.rows, &factors, levels as u32, first, stride, tables.arg()];
        Ok(tables.device.main().launch(&tables.device.kernel("ring_keys")?, grid, args)?)
    }
}

/// Evaluation keys of a client.
#[derive(Debug)]
pub struct Keys {
    /// Key for each level, with a row for each digit of `a`.
    pub(super) expansion: DigitKeys,
    /// Key for each of [`Rotations::keys`], with a row for each digit of `a`.
    pub(super) rotations: Option<DigitKeys>,
    /// RGSW(s): rows for the digits of `b`, then for those of `a`.
    pub(super) conversion: Option<DigitKeys>,
}

impl Keys {
    pub(super) fn new(tables: &Tables, keys: EvaluationKeys<'_>) -> Result<Self, BackendError> {
        let levels = keys.levels(tables.ring())? as usize;
        let substitutions = |count: usize, words: &[u32]| {
            let substitutions = DigitKeys::room(tables, keys.expansion_gadget, 1, count)?;
            if count > 0 {
                substitutions.set(tables, 0, &tables.device.upload(words)?.all())?;
            }
            Ok::<_, BackendError>(substitutions)
        };
        let rotations = (!keys.rotations.is_empty())
            .then(|| substitutions(Rotations::KEYS, keys.rotations))
            .transpose()?;
        let expansion = substitutions(levels, keys.expansion)?;
        let conversion = (!keys.conversion.is_empty()).then(|| {
            let conversion = DigitKeys::room(tables, keys.conversion_gadget, 2, 1)?;
            let words = tables.device.upload(keys.conversion)?;
            for source in 0..2 {
                let of_source = keys.conversion.len() / 2;
                conversion.set(tables, source, &words.range(source * of_source..(source + 1) * of_source))?;
            }
            Ok::<_, BackendError>(conversion)
        });
        Ok(Self { expansion, rotations, conversion: conversion.transpose()? })
    }
}
