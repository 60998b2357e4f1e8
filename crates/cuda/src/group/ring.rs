//! The steps on rings: queries are divided, or rows of polynomials are and the winners of the tournament meet.

use std::ops::Range;
use std::sync::Arc;

use spirea_backend::{
    BackendError, Bodies, EvaluationKeys, FillPolynomial, FoldedBlocks, PanelLayout, RingBackend, Strategy,
    SwitchedBits, check_batches, check_ciphertexts,
};
use spirea_math::{Expansion, Gadget, Ring};

use super::scalar::GroupFolded;
use super::{DeviceGroup, transfer};
use crate::ring::{Ciphertexts, Columns, Keys, Leaves, Plain, Selectors, Tables};
use crate::{CudaBackend, CudaMatrix};

/// What each device has of something, if it has any of it.
type ByMember<T> = Vec<Option<T>>;

/// What a batch has on each device: of the queries there (`DeviceGroup::held`), in their order.
#[derive(Debug)]
pub struct OfBatch<T> {
    queries: usize,
    parts: ByMember<T>,
}

/// The leaves of each query, on its device or on all.
pub type GroupLeaves = OfBatch<Leaves>;
/// Selectors of each query, on its device or on all.
pub type GroupSelectors = OfBatch<Selectors>;
/// Ciphertexts of each query: all on its device, or those of a device's rows on each.
pub type GroupCiphertexts = OfBatch<Ciphertexts>;
/// A matrix of each query, on its device or on all.
pub type GroupMatrices = OfBatch<Vec<CudaMatrix>>;

impl<T> OfBatch<T> {
    /// The first device that has any, and what it has.
    fn first(&self) -> Result<(usize, &T), BackendError> {
        let parts = self.parts.iter().enumerate();
        let first = parts.filter_map(|(member, part)| Some((member, part.as_ref()?))).next();
        first.ok_or_else(|| BackendError::Shape("of another group of devices, or of no row".into()))
    }
}

impl<T> OfBatch<Option<T>> {
    fn flatten(self) -> OfBatch<T> {
        OfBatch { queries: self.queries, parts: self.parts.into_iter().map(Option::flatten).collect() }
    }
}

/// Plaintext polynomials: all on each device, encoded once and copied, or their rows in shares.
#[derive(Debug)]
pub struct GroupPlain(ByMember<Plain>);

impl DeviceGroup {
    /// The rows of plaintext polynomials of device `member`.
    fn plain_rows(&self, rows: usize, member: usize) -> Range<usize> {
        self.strategy.of_plain(self.share(member)).competitors(rows)
    }

    /// The places of a batch whose queries device `member` expands.
    fn expands(&self, member: usize, batch: usize) -> Vec<usize> {
        match self.strategy {
            Strategy::Aggregate => (0..batch).collect(),
            _ => self.owned(member, batch).collect(),
        }
    }

    /// The places of a batch whose queries device `member` goes on with once they are expanded: all where rows are
    /// divided.
    fn held(&self, member: usize, batch: usize) -> Vec<usize> {
        if self.strategy.divides_plain() { (0..batch).collect() } else { self.owned(member, batch).collect() }
    }

    /// Does `work` for what each device has of a batch, at the same time.
    fn each_part<T: Sync, U: Send>(
        &self,
        batch: &OfBatch<T>,
        work: impl Fn(usize, &CudaBackend, &T) -> Result<U, BackendError> + Sync,
    ) -> Result<OfBatch<U>, BackendError> {
        let parts = self.each(|member, backend| {
            batch.parts[member].as_ref().map(|part| work(member, backend, part)).transpose()
        })?;
        Ok(OfBatch { queries: batch.queries, parts })
    }

    /// The leaves of all queries on every device, each copied from the one that has expanded it.
    fn gather(&self, tables: &[Tables], expanded: &GroupLeaves) -> Result<GroupLeaves, BackendError> {
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

    /// Polynomials of which every device has all: the first one makes them, the others copy.
    fn encode_once(
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
            // Another kind of device multiplies in another form, which it makes itself.
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

    /// All ciphertexts of all queries on device `member`, unless they are there already.
    fn gathered(
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

    /// The winners of each device's rows, for every query, on the first device of them, with its number.
    fn met(
        &self,
        tables: &[Tables],
        winners: GroupCiphertexts,
    ) -> Result<(usize, Ciphertexts), BackendError> {
        let (first, _) = winners.first()?;
        match self.gathered(tables, &winners, first)? {
            Some(met) => Ok((first, met)),
            None => Ok((first, here(winners.parts.into_iter().nth(first).flatten())?)),
        }
    }
}

/// What a device has, where the others' operations say that it has it.
fn here<T>(part: Option<T>) -> Result<T, BackendError> {
    part.ok_or_else(|| BackendError::Shape("not on the device that wants it".into()))
}

impl RingBackend for DeviceGroup {
    type Tables = Vec<Tables>;
    type Keys = Vec<Keys>;
    type Plain = GroupPlain;
    type Columns = Vec<Columns>;
    type Leaves = GroupLeaves;
    type Ciphertexts = GroupCiphertexts;
    type Selectors = GroupSelectors;
    type Matrices = GroupMatrices;

    /// What the devices have together, each for its queries; or what each has for all of them.
    fn leaves_memory(&self) -> u64 {
        let least = self.members.iter().map(CudaBackend::leaves_memory).min().unwrap_or(0);
        if self.strategy.divides_plain() { least } else { least.saturating_mul(self.members.len() as u64) }
    }

    fn tables(&self, ring: &Arc<Ring>) -> Result<Vec<Tables>, BackendError> {
        self.each(|_, backend| backend.tables(ring))
    }

    /// On every device: a client's queries may come to any.
    fn keys(&self, tables: &Vec<Tables>, keys: EvaluationKeys<'_>) -> Result<Vec<Keys>, BackendError> {
        self.each(|member, backend| backend.keys(&tables[member], keys))
    }

    fn encode(
        &self,
        tables: &Vec<Tables>,
        rows: usize,
        columns: usize,
        fill: &FillPolynomial<'_>,
    ) -> Result<GroupPlain, BackendError> {
        if !self.strategy.divides_plain() {
            return self.encode_once(tables, rows, columns, fill);
        }
        let parts = self.each(|member, backend| {
            let own = self.plain_rows(rows, member);
            if own.is_empty() && rows > 0 {
                return Ok(None);
            }
            let fill = |row: usize, column: usize, to: &mut [i32]| fill(own.start + row, column, to);
            backend.encode(&tables[member], own.len(), columns, &fill).map(Some)
        })?;
        Ok(GroupPlain(parts))
    }

    fn expand(
        &self,
        tables: &Vec<Tables>,
        expansion: Expansion,
        queries: &[(&Vec<Keys>, &[u32])],
    ) -> Result<GroupLeaves, BackendError> {
        let parts = self.each(|member, backend| {
            let own = self.expands(member, queries.len()).into_iter().map(|query| queries[query]);
            let own: Vec<_> = own.map(|(keys, words)| (&keys[member], words)).collect();
            (!own.is_empty()).then(|| backend.expand(&tables[member], expansion, &own)).transpose()
        })?;
        let expanded = GroupLeaves { queries: queries.len(), parts };
        if self.strategy == Strategy::Gather && !queries.is_empty() {
            return self.gather(tables, &expanded);
        }
        Ok(expanded)
    }

    /// A device folds the queries whose leaves it has, with the rows that it has.
    fn poly_fold(
        &self,
        tables: &Vec<Tables>,
        plain: &GroupPlain,
        leaves: &GroupLeaves,
    ) -> Result<GroupCiphertexts, BackendError> {
        let folded = self.each_part(leaves, |member, backend, leaves| {
            let fold = |plain| backend.poly_fold(&tables[member], plain, leaves);
            plain.0[member].as_ref().map(fold).transpose()
        })?;
        Ok(folded.flatten())
    }

    /// A device's rows take the words behind those of the devices before it, where rows are divided.
    fn add_bodies(
        &self,
        tables: &Vec<Tables>,
        ciphertexts: &mut GroupCiphertexts,
        folded: &GroupFolded,
        bodies: &Bodies,
        bits: u32,
    ) -> Result<(), BackendError> {
        let queries = ciphertexts.queries;
        let mut start = 0;
        for (member, part) in ciphertexts.parts.iter_mut().enumerate() {
            let Some(part) = part else { continue };
            let first = if self.strategy.divides_plain() { start } else { 0 };
            let last = bodies.first.len().min(first + part.count() * tables[member].ring().degree());
            start = start.max(last);
            if first >= last {
                continue;
            }
            let words = self.held(member, queries).into_iter().map(|query| {
                let words = bodies.of(query);
                words.start + first..words.start + last
            });
            let here = folded.on(self, member, &words.collect::<Vec<_>>())?;
            let (folded, bodies) = here.words();
            self.members[member].add_bodies(&tables[member], part, folded, bodies, bits)?;
        }
        if start < bodies.first.len() {
            return Err(BackendError::Shape("more bodies than coefficients".into()));
        }
        Ok(())
    }

    fn selectors(
        &self,
        tables: &Vec<Tables>,
        keys: &[&Vec<Keys>],
        leaves: &GroupLeaves,
        first: usize,
        depth: usize,
        gadget: Gadget,
    ) -> Result<GroupSelectors, BackendError> {
        check_batches(keys.len(), leaves.queries)?;
        self.each_part(leaves, |member, backend, leaves| {
            let keys = self.held(member, keys.len()).into_iter().map(|query| &keys[query][member]);
            backend.selectors(&tables[member], &keys.collect::<Vec<_>>(), leaves, first, depth, gadget)
        })
    }

    /// Each device plays the rounds of its rows; where these are divided, the winners meet on the first of them for the
    /// rest.
    fn rgsw_fold(
        &self,
        tables: &Vec<Tables>,
        selectors: &GroupSelectors,
        ciphertexts: GroupCiphertexts,
    ) -> Result<GroupCiphertexts, BackendError> {
        check_batches(selectors.queries, ciphertexts.queries)?;
        let queries = ciphertexts.queries;
        let rounds = ciphertexts.first()?.1.count().next_power_of_two().trailing_zeros() as usize;
        let winners = ciphertexts.parts.into_iter().enumerate().map(|(member, part)| {
            let Some(part) = part else { return Ok(None) };
            let selectors = here(selectors.parts[member].as_ref())?;
            self.members[member].rgsw_fold(&tables[member], selectors, part).map(Some)
        });
        let winners = OfBatch { queries, parts: winners.collect::<Result<_, BackendError>>()? };
        if !self.strategy.divides_plain() {
            return Ok(winners);
        }
        let (first, met) = self.met(tables, winners)?;
        let selectors = here(selectors.parts[first].as_ref())?;
        let winner = self.members[first].rgsw_fold_after(&tables[first], selectors, rounds, met)?;
        let mut parts: ByMember<Ciphertexts> = self.members.iter().map(|_| None).collect();
        parts[first] = Some(winner);
        Ok(OfBatch { queries, parts })
    }

    /// Of each query those of the devices that have rows of it, one after another.
    fn ciphertext_words(
        &self,
        tables: &Vec<Tables>,
        ciphertexts: &GroupCiphertexts,
    ) -> Result<Vec<u32>, BackendError> {
        let words = self.each(|member, backend| {
            let own = ciphertexts.parts[member].as_ref();
            own.map_or_else(|| Ok(Vec::new()), |own| backend.ciphertext_words(&tables[member], own))
        })?;
        let mut of_queries = vec![Vec::new(); ciphertexts.queries];
        for (member, words) in words.iter().enumerate().filter(|(_, words)| !words.is_empty()) {
            let held = self.held(member, ciphertexts.queries);
            let each = words.len() / held.len();
            held.into_iter().zip(words.chunks_exact(each)).for_each(|(query, own)| {
                of_queries[query].extend_from_slice(own);
            });
        }
        Ok(of_queries.concat())
    }

    /// Each query's on its device, or on the first one where all devices have a part in every query.
    fn ciphertexts(
        &self,
        tables: &Vec<Tables>,
        queries: usize,
        words: &[u32],
    ) -> Result<GroupCiphertexts, BackendError> {
        check_ciphertexts(tables[0].ring(), queries, words)?;
        let of_query: Vec<&[u32]> = words.chunks_exact(words.len() / queries).collect();
        let parts = self.each(|member, backend| {
            let own: Vec<usize> = if self.strategy.divides_plain() {
                (0..queries).filter(|_| member == 0).collect()
            } else {
                self.owned(member, queries).collect()
            };
            let words: Vec<u32> = own.iter().flat_map(|&query| of_query[query]).copied().collect();
            (!own.is_empty()).then(|| backend.ciphertexts(&tables[member], own.len(), &words)).transpose()
        })?;
        Ok(OfBatch { queries, parts })
    }

    fn mod_switch(
        &self,
        tables: &Vec<Tables>,
        parts: &[&GroupCiphertexts],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        let queries = parts.first().map_or(0, |part| part.queries);
        parts.iter().try_for_each(|part| check_batches(queries, part.queries))?;
        let switched = self.each(|member, backend| {
            let own: Vec<_> = parts.iter().filter_map(|part| part.parts[member].as_ref()).collect();
            backend.mod_switch(&tables[member], &own, bits)
        })?;
        // Of each query, part by part, the bytes of the devices that have rows of it.
        let mut answers = vec![Vec::new(); queries];
        let mut taken = vec![0; self.members.len()];
        for part in parts {
            for (member, own) in part.parts.iter().enumerate() {
                let Some(own) = own else { continue };
                let bytes =
                    taken[member]..taken[member] + own.count() * bits.bytes(tables[member].ring().degree());
                for (query, switched) in self.held(member, queries).into_iter().zip(&switched[member]) {
                    answers[query].extend_from_slice(&switched[bytes.clone()]);
                }
                taken[member] = bytes.end;
            }
        }
        Ok(answers)
    }

    /// On the device that has the ciphertexts, or on all, where all have a part in the next steps.
    fn reinterpret(
        &self,
        tables: &Vec<Tables>,
        ciphertexts: &GroupCiphertexts,
        bits: SwitchedBits,
        layout: PanelLayout,
    ) -> Result<GroupMatrices, BackendError> {
        let parts = self.members.iter().enumerate().map(|(member, backend)| {
            let gathered = if self.strategy.divides_plain() {
                self.gathered(tables, ciphertexts, member)?
            } else {
                None
            };
            let own = gathered.as_ref().or(ciphertexts.parts[member].as_ref());
            own.map(|own| backend.reinterpret(&tables[member], own, bits, layout)).transpose()
        });
        Ok(OfBatch { queries: ciphertexts.queries, parts: parts.collect::<Result<_, _>>()? })
    }

    /// Each device folds its own queries.
    fn scalar_fold_own(
        &self,
        matrices: &GroupMatrices,
        queries: &[u32],
    ) -> Result<GroupFolded, BackendError> {
        let batch = matrices.queries;
        let Some(layout) = matrices.parts.iter().flatten().flatten().next().map(CudaMatrix::layout) else {
            return Ok(GroupFolded::none());
        };
        check_batches(batch, layout.batch_of(queries)?)?;
        let queries: Vec<&[u32]> = queries.chunks_exact(layout.columns()).collect();
        let folded = self.each(|member, backend| {
            let own: Vec<usize> = self.owned(member, batch).collect();
            if own.is_empty() {
                return Ok((member, None));
            }
            let there = here(matrices.parts[member].as_ref())?;
            let of_query = self.held(member, batch).into_iter().zip(there);
            let (mine, words): (Vec<_>, Vec<_>) = of_query
                .filter(|(query, _)| self.owner(*query) == member)
                .map(|(query, matrix)| (matrix, queries[query]))
                .unzip();
            Ok((member, Some(backend.fold_own(&mine, &words)?)))
        })?;
        Ok(GroupFolded::new(layout.rows(), batch, folded))
    }

    /// On every device: a client's queries may come to any.
    fn columns(&self, layout: PanelLayout, words: &[u32]) -> Result<Vec<Columns>, BackendError> {
        self.each(|_, backend| backend.columns(layout, words))
    }

    /// Each device its rows of polynomials, for the queries that it has.
    fn encode_fold(
        &self,
        tables: &Vec<Tables>,
        matrices: &GroupMatrices,
        columns: &Vec<Columns>,
        folded: FoldedBlocks,
        leaves: &GroupLeaves,
    ) -> Result<GroupCiphertexts, BackendError> {
        check_batches(matrices.queries, leaves.queries)?;
        let products = self.each_part(leaves, |member, _, leaves| {
            let own = self.plain_rows(folded.blocks, member);
            if own.is_empty() && folded.blocks > 0 {
                return Ok(None);
            }
            let (matrices, part) =
                (here(matrices.parts[member].as_ref())?, FoldedBlocks { blocks: own.len(), ..folded });
            columns[member].encode_fold(&tables[member], matrices, own.start, part, leaves).map(Some)
        })?;
        Ok(products.flatten())
    }
}
