//! Step `rgsw_fold`: selects one of several ciphertexts by a tournament, with selectors made from
//! the query's leaves.

use std::ops::Range;

use spirea_backend::RingBackend;
use spirea_lattice::RingSet;

use super::ring::{RingServer, TRANSFORM};
use super::work::{Unit, Work};
use crate::ProtocolError;
use crate::packing::registered::{Packer, Rows, Unpacked};

/// Returns the number of bits that distinguish `groups`.
pub(crate) fn depth(groups: usize) -> usize {
    groups.next_power_of_two().trailing_zeros() as usize
}

/// Returns the number of bytes read from memory in the time of a tournament of `blocks` ciphertexts
/// under `set`. An external product transforms the digits of two polynomials, and transforms two
/// polynomials back.
pub(crate) fn select_read_bytes(set: RingSet, blocks: usize) -> f64 {
    let transforms = set.selector_gadget().forward_transforms(set.ring()) + set.ring().limbs().len();
    (blocks * 2 * transforms) as f64 * TRANSFORM
}

/// Returns the work of selecting one of `groups` for each part under `set`.
pub(crate) fn select_work(set: RingSet, groups: usize, parts: usize) -> Option<Work> {
    let products = parts * (groups - 1);
    (products > 0).then(|| Work::new("rgsw_fold", Unit::ExternalProduct(set), products))
}

impl<B: RingBackend, S: Packer<B>> RingServer<B, S> {
    /// Returns the selectors of queries for some rounds of the tournament; `None` if `rounds` is
    /// empty.
    pub fn selectors(
        &self,
        unpacked: &Unpacked<'_, B>,
        rounds: Range<usize>,
    ) -> Result<Option<B::Selectors>, ProtocolError> {
        if rounds.is_empty() {
            return Ok(None);
        }
        let gadget = self.shape.set().selector_gadget();
        let (leaves, first) = match &unpacked.rows {
            Rows::Behind(columns) => (&unpacked.leaves, *columns),
            Rows::Own(rows) => (rows, 0),
        };
        let first = first + rounds.start * gadget.levels(self.shape.set().ring());
        let (tables, depth) = (&self.tables, rounds.len());
        Ok(Some(self.backend.selectors(tables, &unpacked.keys, leaves, first, depth, gadget)?))
    }

    /// Runs step `rgsw_fold`: returns, for each query, the ciphertext that its selectors select in
    /// their rounds.
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
