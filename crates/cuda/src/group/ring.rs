//! The ring steps. Either queries are divided, or rows of polynomials are divided and the winners
//! of the tournament are collected on one device.

use std::sync::Arc;

use spirea_backend::{
    BackendError, Bodies, EvaluationKeys, FillPolynomial, FoldedBlocks, PanelLayout, RingBackend, Strategy,
    SwitchedBits, check_batches, whole_halves,
};
use spirea_math::{Expansion, Gadget, Ring, Rotations};

use super::DeviceGroup;
use super::batch::{GroupCiphertexts, GroupLeaves, GroupMatrices, GroupPlain, GroupSelectors, OfBatch, here};
use super::scalar::GroupFolded;
use crate::ring::{Ciphertexts, Columns, Keys, Plain, Tables};
use crate::{CudaBackend, CudaMatrix};

impl RingBackend for DeviceGroup {
    type Tables = Vec<Tables>;
    type Keys = Vec<Keys>;
    type Plain = GroupPlain;
    type Columns = Vec<Columns>;
    type Leaves = GroupLeaves;
    type Ciphertexts = GroupCiphertexts;
    type Selectors = GroupSelectors;
    type Matrices = GroupMatrices;

    /// Returns the smallest limit of any device if rows are divided, because every device then
    /// needs the leaves of all queries. Otherwise multiplies this limit by the number of devices,
    /// because each holds only its own queries.
    fn leaves_memory(&self) -> u64 {
        let least = self.members.iter().map(CudaBackend::leaves_memory).min().unwrap_or(0);
        if self.strategy.divides_plain() { least } else { least.saturating_mul(self.members.len() as u64) }
    }

    fn tables(&self, ring: &Arc<Ring>) -> Result<Vec<Tables>, BackendError> {
        self.each_member(|_, backend| backend.tables(ring))
    }

    /// Copies the keys to every device: a client's queries may come to any device.
    fn keys(&self, tables: &Vec<Tables>, keys: EvaluationKeys<'_>) -> Result<Vec<Keys>, BackendError> {
        self.each_member(|member, backend| backend.keys(&tables[member], keys))
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
        let parts = self.each_member(|member, backend| {
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
        let parts = self.each_member(|member, backend| {
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

    fn leaves(
        &self,
        tables: &Vec<Tables>,
        queries: usize,
        words: &[u32],
    ) -> Result<GroupLeaves, BackendError> {
        let leaves = self.sent(tables, queries, words, |member| self.expands(member, queries))?;
        if self.strategy == Strategy::Gather { self.gather(tables, &leaves) } else { Ok(leaves) }
    }

    fn expand_leaf(
        &self,
        tables: &Vec<Tables>,
        expansion: Expansion,
        keys: &[&Vec<Keys>],
        leaves: &GroupLeaves,
        leaf: usize,
    ) -> Result<GroupLeaves, BackendError> {
        self.further_leaves(tables, keys, leaves, |member, backend, queries| {
            backend.expand_leaf_of(&tables[member], expansion, queries, leaf)
        })
    }

    fn rotate(
        &self,
        tables: &Vec<Tables>,
        rotations: Rotations,
        keys: &[&Vec<Keys>],
        leaves: &GroupLeaves,
    ) -> Result<GroupLeaves, BackendError> {
        self.further_leaves(tables, keys, leaves, |member, backend, queries| {
            backend.rotate_of(&tables[member], rotations, queries)
        })
    }

    /// Folds on each device the queries whose leaves it has, with its rows of each matrix.
    fn poly_fold(
        &self,
        tables: &Vec<Tables>,
        plain: &[GroupPlain],
        leaves: &GroupLeaves,
    ) -> Result<GroupCiphertexts, BackendError> {
        let folded = self.each_part(leaves, |member, backend, leaves| {
            let there: Vec<&Plain> = plain.iter().filter_map(|plain| plain.0[member].as_ref()).collect();
            let any = plain.is_empty() || !there.is_empty();
            any.then(|| backend.poly_fold_of(&tables[member], &there, leaves)).transpose()
        })?;
        let folded = folded.flatten();
        if self.strategy.divides_plain() && plain.len() > 1 {
            return self.in_order(tables, plain, &folded);
        }
        Ok(folded)
    }

    /// Adds up each device's own ciphertexts. If a sum's ciphertexts are on several devices, all
    /// ciphertexts are collected on the first device that has any.
    fn sum_rotated(
        &self,
        tables: &Vec<Tables>,
        rotations: Rotations,
        keys: &[&Vec<Keys>],
        mut ciphertexts: GroupCiphertexts,
    ) -> Result<GroupCiphertexts, BackendError> {
        check_batches(keys.len(), ciphertexts.queries)?;
        let whole = |part: &Ciphertexts| part.count().is_multiple_of(rotations.big());
        if self.strategy.divides_plain() && !ciphertexts.parts.iter().flatten().all(whole) {
            let (first, met) = self.met(tables, ciphertexts)?;
            ciphertexts = self.only_on(first, keys.len(), met);
        }
        let parts = ciphertexts.parts.into_iter().enumerate().map(|(member, part)| {
            let sum = |part| {
                let keys = self.held(member, keys.len()).into_iter().map(|query| &keys[query][member]);
                let keys: Vec<_> = keys.collect();
                self.members[member].sum_rotated(&tables[member], rotations, &keys, part)
            };
            part.map(sum).transpose()
        });
        Ok(OfBatch { queries: keys.len(), parts: parts.collect::<Result<_, BackendError>>()? })
    }

    /// Adds words to each device's own ciphertexts; if rows are divided, a device's words follow
    /// those of the preceding devices.
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

    /// Plays the rounds of each device's rows. If rows are divided, the winners are then collected
    /// on the first device that has any. This device plays the remaining rounds.
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
        Ok(self.only_on(first, queries, winner))
    }

    /// Concatenates, for each query, the words of the devices that have its rows.
    fn ciphertext_words(
        &self,
        tables: &Vec<Tables>,
        ciphertexts: &GroupCiphertexts,
    ) -> Result<Vec<u32>, BackendError> {
        let words = self.each_member(|member, backend| {
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

    /// Puts each query's ciphertexts on its device, or on the first device if every device has a
    /// part in every query.
    fn ciphertexts(
        &self,
        tables: &Vec<Tables>,
        queries: usize,
        words: &[u32],
    ) -> Result<GroupCiphertexts, BackendError> {
        self.sent(tables, queries, words, |member| {
            if self.strategy.divides_plain() {
                (0..queries).filter(|_| member == 0).collect()
            } else {
                self.owned(member, queries).collect()
            }
        })
    }

    fn mod_switch(
        &self,
        tables: &Vec<Tables>,
        parts: &[&GroupCiphertexts],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        let queries = parts.first().map_or(0, |part| part.queries);
        parts.iter().try_for_each(|part| check_batches(queries, part.queries))?;
        let switched = self.each_member(|member, backend| {
            let own: Vec<_> = parts.iter().filter_map(|part| part.parts[member].as_ref()).collect();
            backend.mod_switch(&tables[member], &own, bits)
        })?;
        // For each query, part by part: the bytes of the devices that have rows of the query.
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

    /// Runs on the device that has the ciphertexts, or on all devices if all have a part in the
    /// next steps.
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

    /// Folds each device's own queries.
    fn scalar_fold_own(
        &self,
        matrices: &GroupMatrices,
        queries: &[u32],
    ) -> Result<GroupFolded, BackendError> {
        let batch = matrices.queries;
        let Some(layout) = matrices.parts.iter().flatten().flatten().next().map(CudaMatrix::layout) else {
            return Ok(GroupFolded::none());
        };
        check_batches(batch, layout.batch_of(queries.len())?)?;
        let queries: Vec<&[u32]> = queries.chunks_exact(layout.columns()).collect();
        let folded = self.each_member(|member, backend| {
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

    /// Copies the columns to every device: a client's queries may come to any device.
    fn columns(&self, layout: PanelLayout, words: &[u32]) -> Result<Vec<Columns>, BackendError> {
        self.each_member(|_, backend| backend.columns(layout, words))
    }

    /// Computes each device's rows of polynomials, for the queries that it has.
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

    whole_halves!(tables => tables[0].ring());
}
