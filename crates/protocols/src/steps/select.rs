//! Step `rgsw_fold`: one of several ciphertexts by a tournament, with the selectors that the query's leaves make.

use std::ops::Range;

use spirea_backend::RingBackend;

use super::expand::Encrypted;
use super::ring::{RingServer, RingShape};
use super::work::{Unit, Work};
use crate::ProtocolError;

/// Bits that tell `groups` apart.
pub(crate) fn depth(groups: usize) -> usize {
    groups.next_power_of_two().trailing_zeros() as usize
}

impl RingShape {
    /// Bytes of memory traffic that take as long as a tournament of `blocks` ciphertexts: an external product
    /// transforms some thirty polynomials, about the time in which two megabytes are read.
    pub fn select_read_bytes(&self, blocks: usize) -> f64 {
        (blocks << 21) as f64
    }

    /// Work of selecting one of `groups` for each part.
    pub fn select_work(&self, groups: usize, parts: usize) -> Option<Work> {
        let products = parts * (groups - 1);
        (products > 0).then(|| Work::new("rgsw_fold", Unit::ExternalProduct(self.set), products))
    }
}

impl<B: RingBackend> RingServer<B> {
    /// The selectors of queries for some rounds of the tournament; `None` for no round.
    pub fn selectors(
        &self,
        queries: &[Encrypted<'_, B>],
        leaves: &B::Leaves,
        rounds: Range<usize>,
    ) -> Result<Option<B::Selectors>, ProtocolError> {
        let RingShape { set, columns, .. } = self.shape;
        if rounds.is_empty() {
            return Ok(None);
        }
        let keys: Vec<_> = queries.iter().map(|(keys, _)| *keys).collect();
        let gadget = set.selector_gadget();
        let first = columns + rounds.start * gadget.levels(set.ring());
        Ok(Some(self.backend.selectors(&self.tables, &keys, leaves, first, rounds.len(), gadget)?))
    }

    /// Step `rgsw_fold`: for each query, the ciphertext that its selectors name among those of their rounds.
    pub fn select(
        &self,
        selectors: &Option<B::Selectors>,
        ciphertexts: B::Ciphertexts,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        match selectors {
            None => Ok(ciphertexts),
            Some(selectors) => Ok(self.backend.rgsw_fold(&self.tables, selectors, ciphertexts)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_tell_groups_apart() {
        assert_eq!([1, 2, 3, 4, 5, 8, 9].map(depth), [0, 1, 2, 2, 3, 3, 4]);
    }
}
