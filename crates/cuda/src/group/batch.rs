//! Values of a batch on each device, and their copies between devices.

use std::ops::Range;

use spirea_backend::{
    BackendError, FillPolynomial, RingBackend as _, Strategy, check_batches, check_ciphertexts,
};

use super::{DeviceGroup, transfer};
use crate::driver::View;
use crate::ring::{Ciphertexts, Keys, Leaves, Plain, Selectors, Tables};
use crate::{CudaBackend, CudaMatrix};

/// For each device its part of a value, or `None` if it has no part.
type ByMember<T> = Vec<Option<T>>;

/// Value of a batch on each device: for the queries there (`DeviceGroup::held`), in their order.
#[derive(Debug)]
pub struct OfBatch<T> {
    pub(super) queries: usize,
    pub(super) parts: ByMember<T>,
}

/// Leaves of each query, on its device or on all devices.
pub type GroupLeaves = OfBatch<Leaves>;
/// Selectors of each query, on its device or on all devices.
pub type GroupSelectors = OfBatch<Selectors>;
/// Ciphertexts of each query: either all of them on the query's device, or on each device the
/// ciphertexts of its rows.
pub type GroupCiphertexts = OfBatch<Ciphertexts>;
/// Matrix of each query, on its device or on all devices.
pub type GroupMatrices = OfBatch<Vec<CudaMatrix>>;

impl<T> OfBatch<T> {
    /// Returns the first device that has a part, and its part.
    pub(super) fn first(&self) -> Result<(usize, &T), BackendError> {
        let parts = self.parts.iter().enumerate();
        let first = parts.filter_map(|(member, part)| Some((member, part.as_ref()?))).next();
        first.ok_or_else(|| BackendError::Shape("of another group of devices, or of no row".into()))
    }
}

impl<T> OfBatch<Option<T>> {
    pub(super) fn flatten(self) -> OfBatch<T> {
        OfBatch { queries: self.queries, parts: self.parts.into_iter().map(Option::flatten).collect() }
    }
}

/// Plaintext polynomials. Either each device has all of them, encoded once and copied, or they are
/// divided by rows.
#[derive(Debug)]
pub struct GroupPlain(pub(super) ByMember<Plain>);

impl DeviceGroup {
    /// Returns the rows of plaintext polynomials on device `member`.
    pub(super) fn plain_rows(&self, rows: usize, member: usize) -> Range<usize> {
        self.strategy.of_plain(self.share(member)).competitors(rows)
    }

    /// Sends ciphertexts (values) of `queries` queries, the same number for each query, to the
    /// devices. Each device gets the ciphertexts of the queries whose places `own` returns for it.
    pub(super) fn sent(
        &self,
        tables: &[Tables],
        queries: usize,
        words: &[u32],
        own: impl Fn(usize) -> Vec<usize> + Sync,
    ) -> Result<GroupCiphertexts, BackendError> {
        check_ciphertexts(tables[0].ring(), queries, words)?;
        let of_query: Vec<&[u32]> = words.chunks_exact(words.len() / queries).collect();
        let parts = self.each_member(|member, backend| {
            let own = own(member);
            let words: Vec<u32> = own.iter().flat_map(|&query| of_query[query]).copied().collect();
            (!own.is_empty()).then(|| backend.ciphertexts(&tables[member], own.len(), &words)).transpose()
        })?;
        Ok(OfBatch { queries, parts })
    }

    /// Returns the places in the batch of the queries that device `member` expands.
    pub(super) fn expands(&self, member: usize, batch: usize) -> Vec<usize> {
        match self.strategy {
            Strategy::Aggregate => (0..batch).collect(),
            _ => self.owned(member, batch).collect(),
        }
    }

    /// Returns the places in the batch of the queries that device `member` continues with after
    /// expansion: all queries if rows are divided.
    pub(super) fn held(&self, member: usize, batch: usize) -> Vec<usize> {
        if self.strategy.divides_plain() { (0..batch).collect() } else { self.owned(member, batch).collect() }
    }

    /// Runs `work` on every device that has a part of the batch, in parallel.
    pub(super) fn each_part<T: Sync, U: Send>(
        &self,
        batch: &OfBatch<T>,
        work: impl Fn(usize, &CudaBackend, &T) -> Result<U, BackendError> + Sync,
    ) -> Result<OfBatch<U>, BackendError> {
        let parts = self.each_member(|member, backend| {
            batch.parts[member].as_ref().map(|part| work(member, backend, part)).transpose()
        })?;
        Ok(OfBatch { queries: batch.queries, parts })
    }

    /// Copies the leaves of all queries to every device. The leaves of a query come from the device
    /// that expanded it.
    pub(super) fn gather(
        &self,
        tables: &[Tables],
        expanded: &GroupLeaves,
    ) -> Result<GroupLeaves, BackendError> {
        let (_, some) = expanded.first()?;
        let all = |tables_there: &Tables| {
            let leaves = Leaves::room(tables_there, expanded.queries, some.count())?;
            for (member, part) in expanded.parts.iter().enumerate() {
                let Some(part) = part else { continue };
                for (place, query) in self.owned(member, expanded.queries).enumerate() {
                    transfer(&part.of(&tables[member], place), &leaves.of(tables_there, query))?;
                }
            }
            Ok(Some(leaves))
        };
        let parts = tables.iter().map(all).collect::<Result<_, BackendError>>()?;
        Ok(GroupLeaves { queries: expanded.queries, parts })
    }

    /// Encodes polynomials that every device has in full. The first device encodes them, and the
    /// other devices get copies.
    pub(super) fn encode_once(
        &self,
        tables: &[Tables],
        rows: usize,
        columns: usize,
        fill: &FillPolynomial<'_>,
    ) -> Result<GroupPlain, BackendError> {
        let first = self.members[0].encode(&tables[0], rows, columns, fill)?;
        let mut copies = Vec::new();
        for (backend, tables) in self.members.iter().zip(tables).skip(1) {
            let copy = Plain::new(tables, rows, columns)?;
            // A device of another kind multiplies in another form, so it encodes the polynomials
            // itself.
            copies.push(Some(if copy.form() == first.form() {
                transfer(&first.words(), &copy.words())?;
                copy
            } else {
                backend.encode(tables, rows, columns, fill)?
            }));
        }
        copies.insert(0, Some(first));
        Ok(GroupPlain(copies))
    }

    /// Copies all ciphertexts of all queries to device `member`. Returns `None` if all of them are
    /// there already.
    pub(super) fn gathered(
        &self,
        tables: &[Tables],
        ciphertexts: &GroupCiphertexts,
        member: usize,
    ) -> Result<Option<Ciphertexts>, BackendError> {
        let parts = || ciphertexts.parts.iter().enumerate().filter_map(|(i, part)| Some((i, part.as_ref()?)));
        if parts().all(|(holder, _)| holder == member) {
            return Ok(None);
        }
        let (there, one) = (&tables[member], tables[member].ciphertext());
        let all = Ciphertexts::room(there, ciphertexts.queries, parts().map(|(_, part)| part.count()).sum())?;
        for query in 0..ciphertexts.queries {
            let mut first = 0;
            for (holder, part) in parts() {
                let last = first + part.count();
                transfer(
                    &part.of(&tables[holder], query),
                    &all.of(there, query).range(first * one..last * one),
                )?;
                first = last;
            }
        }
        Ok(Some(all))
    }

    /// Collects all ciphertexts of all queries, such as the winners of each device's rows, on the
    /// first device that has any. Returns them with the number of that device.
    pub(super) fn met(
        &self,
        tables: &[Tables],
        ciphertexts: GroupCiphertexts,
    ) -> Result<(usize, Ciphertexts), BackendError> {
        let (first, _) = ciphertexts.first()?;
        match self.gathered(tables, &ciphertexts, first)? {
            Some(met) => Ok((first, met)),
            None => Ok((first, here(ciphertexts.parts.into_iter().nth(first).flatten())?)),
        }
    }

    /// Wraps all ciphertexts of all queries, which are on one device.
    pub(super) fn only_on(&self, member: usize, queries: usize, all: Ciphertexts) -> GroupCiphertexts {
        let mut parts: ByMember<Ciphertexts> = self.members.iter().map(|_| None).collect();
        parts[member] = Some(all);
        OfBatch { queries, parts }
    }

    /// Computes leaves from other leaves: each device runs `work` for the queries that it expands,
    /// with their keys and leaves. Under `Gather`, the results are then copied to every device.
    pub(super) fn further_leaves(
        &self,
        tables: &[Tables],
        keys: &[&Vec<Keys>],
        leaves: &GroupLeaves,
        work: impl Fn(usize, &CudaBackend, &[(&Keys, View<'_, u32>)]) -> Result<Leaves, BackendError> + Sync,
    ) -> Result<GroupLeaves, BackendError> {
        let queries = leaves.queries;
        check_batches(keys.len(), queries)?;
        let made = self.each_part(leaves, |member, backend, leaves| {
            let places = self.held(member, queries).into_iter().enumerate();
            let expands = self.expands(member, queries);
            let own = places.filter(|(_, query)| expands.contains(query));
            let own: Vec<_> =
                own.map(|(place, query)| (&keys[query][member], leaves.of(&tables[member], place))).collect();
            (!own.is_empty()).then(|| work(member, backend, &own)).transpose()
        })?;
        let made = made.flatten();
        if self.strategy == Strategy::Gather && queries > 0 { self.gather(tables, &made) } else { Ok(made) }
    }

    /// Reorders products with several matrices whose rows are divided. Before, each device has its
    /// rows of the first matrix, then of the second, and so on. Afterwards it has the rows that it
    /// would have if all rows belonged to one matrix.
    pub(super) fn in_order(
        &self,
        tables: &[Tables],
        plain: &[GroupPlain],
        products: &GroupCiphertexts,
    ) -> Result<GroupCiphertexts, BackendError> {
        let rows_of = |plain: &GroupPlain, member: usize| plain.0[member].as_ref().map_or(0, Plain::rows);
        // Pieces of rows, each with its device, its place on this device, and its place in the
        // order of all rows.
        let mut pieces = Vec::new();
        let (mut places, mut rows) = (vec![0; self.members.len()], 0);
        for plain in plain {
            for (member, place) in places.iter_mut().enumerate() {
                let count = rows_of(plain, member);
                pieces.push((member, *place, rows..rows + count));
                (*place, rows) = (*place + count, rows + count);
            }
        }
        let parts = tables.iter().enumerate().map(|(member, there)| {
            let own = self.plain_rows(rows, member);
            if own.is_empty() {
                return Ok(None);
            }
            let (all, one) = (Ciphertexts::room(there, products.queries, own.len())?, there.ciphertext());
            for (holder, place, piece) in &pieces {
                let common = piece.start.max(own.start)..piece.end.min(own.end);
                if common.is_empty() {
                    continue;
                }
                let from = place + common.start - piece.start;
                let (from, to) =
                    (from..from + common.len(), common.start - own.start..common.end - own.start);
                let held = here(products.parts[*holder].as_ref())?;
                for query in 0..products.queries {
                    transfer(
                        &held.of(&tables[*holder], query).range(from.start * one..from.end * one),
                        &all.of(there, query).range(to.start * one..to.end * one),
                    )?;
                }
            }
            Ok(Some(all))
        });
        Ok(OfBatch { queries: products.queries, parts: parts.collect::<Result<_, BackendError>>()? })
    }
}

/// Unwraps a part that must be on this device. Returns an error if the part is on another device.
pub(super) fn here<T>(part: Option<T>) -> Result<T, BackendError> {
    part.ok_or_else(|| BackendError::Shape("not on the device that wants it".into()))
}
