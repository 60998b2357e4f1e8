//! The steps on rings: queries are divided, or rows of polynomials are and the winners of the tournament meet.

use std::ops::Range;
use std::sync::Arc;

use spirea_backend::{
    BackendError, EvaluationKeys, FillPolynomial, FoldedBlocks, PanelLayout, RingBackend, SwitchedBits,
};
use spirea_math::{Expansion, Gadget, Ring};

use super::scalar::{GroupFolded, GroupMatrix};
use super::{DeviceGroup, Strategy, transfer};
use crate::CudaBackend;
use crate::driver::View;
use crate::ring::{Ciphertexts, Columns, Keys, Leaves, Plain, Selectors, Tables};

/// What each device has of something, if it has any of it.
type ByMember<T> = Vec<Option<T>>;

/// The leaves of one query, on its device or on all.
#[derive(Debug)]
pub struct GroupLeaves(ByMember<Leaves>);

/// Selectors of one query, on its device or on all.
#[derive(Debug)]
pub struct GroupSelectors(ByMember<Selectors>);

/// Plaintext polynomials: all on each device, encoded once and copied, or their rows in shares.
#[derive(Debug)]
pub struct GroupPlain(ByMember<Arc<Plain>>);

/// Ciphertexts of one query: all on its device, or those of a device's rows on each.
#[derive(Debug)]
pub struct GroupCiphertexts(ByMember<Ciphertexts>);

impl DeviceGroup {
    /// The rows of plaintext polynomials of device `member`: a power of two, so that a device's tournament is a part
    /// of the whole one; or all.
    fn plain_rows(&self, rows: usize, member: usize) -> Range<usize> {
        if !self.strategy.divides_plain() {
            return 0..rows;
        }
        let share = rows.div_ceil(self.members.len()).next_power_of_two();
        (member * share).min(rows)..((member + 1) * share).min(rows)
    }

    /// The places of a batch whose queries device `member` expands.
    fn expands(&self, member: usize, batch: usize) -> Vec<usize> {
        match self.strategy {
            Strategy::Aggregate => (0..batch).collect(),
            _ => self.owned(member, batch).collect(),
        }
    }

    /// Copies each query's leaves from the device that has expanded them to all others.
    fn gather(&self, tables: &[Tables], leaves: &mut [GroupLeaves]) -> Result<(), BackendError> {
        for (query, leaves) in leaves.iter_mut().enumerate() {
            let owner = self.owner(query);
            for (member, backend) in self.members.iter().enumerate().filter(|(member, _)| *member != owner) {
                let copied =
                    leaves.0[owner].as_ref().map(|leaves| copy_leaves(&tables[owner], leaves, backend));
                leaves.0[member] = copied.transpose()?;
            }
        }
        Ok(())
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
                Arc::new(copy)
            } else {
                backend.encode(tables, rows, columns, fill)?
            }));
        }
        copies.insert(0, Some(first));
        Ok(GroupPlain(copies))
    }

    /// All ciphertexts of a query on device `member`, if they are not there already.
    fn gathered(
        &self,
        tables: &[Tables],
        ciphertexts: &GroupCiphertexts,
        member: usize,
    ) -> Result<Option<Ciphertexts>, BackendError> {
        let parts = || ciphertexts.0.iter().enumerate().filter_map(|(i, part)| Some((i, part.as_ref()?)));
        if parts().all(|(holder, _)| holder == member) {
            return Ok(None);
        }
        let words: Vec<_> = parts().map(|(holder, part)| part.words(&tables[holder])).collect();
        let room = self.members[member].device().alloc(words.iter().map(View::len).sum())?;
        let mut start = 0;
        for words in &words {
            transfer(words, &room.range(start..start + words.len()))?;
            start += words.len();
        }
        Ok(Some(Ciphertexts::new(&tables[member], room)))
    }

    fn member<'a, T>(&self, parts: &'a [Option<T>]) -> Result<(usize, &'a T), BackendError> {
        let first = parts.iter().enumerate().find_map(|(member, part)| Some((member, part.as_ref()?)));
        first.ok_or_else(|| BackendError::Shape("of another group of devices, or of no row".into()))
    }
}

fn copy_leaves(tables: &Tables, leaves: &Leaves, to: &CudaBackend) -> Result<Leaves, BackendError> {
    let words = leaves.words(tables);
    let copy = to.device().alloc(words.len())?;
    transfer(&words, &copy.all())?;
    Ok(Leaves::new(tables, copy))
}

/// What a device has, where the others' operations say that it has it.
fn here<T>(part: &Option<T>) -> Result<&T, BackendError> {
    part.as_ref().ok_or_else(|| BackendError::Shape("not on the device that wants it".into()))
}

impl RingBackend for DeviceGroup {
    type Tables = Vec<Tables>;
    type Keys = Vec<Keys>;
    type Leaves = GroupLeaves;
    type Plain = GroupPlain;
    type Ciphertexts = GroupCiphertexts;
    type Selectors = GroupSelectors;
    type Columns = Vec<Columns>;

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
    ) -> Result<Vec<GroupLeaves>, BackendError> {
        let expanded = self.each(|member, backend| {
            let own: Vec<_> = self.expands(member, queries.len());
            let of_member: Vec<_> =
                own.iter().map(|&query| (&queries[query].0[member], queries[query].1)).collect();
            if own.is_empty() {
                return Ok(Vec::new());
            }
            Ok(own.into_iter().zip(backend.expand(&tables[member], expansion, &of_member)?).collect())
        })?;
        let nowhere = || GroupLeaves(self.members.iter().map(|_| None).collect());
        let mut leaves: Vec<_> = queries.iter().map(|_| nowhere()).collect();
        for (member, expanded) in expanded.into_iter().enumerate() {
            expanded.into_iter().for_each(|(query, part)| leaves[query].0[member] = Some(part));
        }
        if self.strategy == Strategy::Gather {
            self.gather(tables, &mut leaves)?;
        }
        Ok(leaves)
    }

    fn poly_fold(
        &self,
        tables: &Vec<Tables>,
        plain: &GroupPlain,
        leaves: &[&GroupLeaves],
    ) -> Result<Vec<GroupCiphertexts>, BackendError> {
        let folded = self.each(|member, backend| {
            // A device folds the queries whose leaves it has, with the rows that it has.
            let Some(plain) = &plain.0[member] else { return Ok(Vec::new()) };
            let (places, own): (Vec<_>, Vec<_>) = leaves
                .iter()
                .enumerate()
                .filter_map(|(query, leaves)| Some((query, leaves.0[member].as_ref()?)))
                .unzip();
            if own.is_empty() {
                return Ok(Vec::new());
            }
            Ok(places.into_iter().zip(backend.poly_fold(&tables[member], plain, &own)?).collect())
        })?;
        let nowhere = || GroupCiphertexts(self.members.iter().map(|_| None).collect());
        let mut ciphertexts: Vec<_> = leaves.iter().map(|_| nowhere()).collect();
        for (member, folded) in folded.into_iter().enumerate() {
            folded.into_iter().for_each(|(query, part)| ciphertexts[query].0[member] = Some(part));
        }
        Ok(ciphertexts)
    }

    fn add_bodies(
        &self,
        tables: &Vec<Tables>,
        ciphertexts: &mut GroupCiphertexts,
        folded: &GroupFolded,
        words: Range<usize>,
        bits: u32,
    ) -> Result<(), BackendError> {
        let mut start = words.start;
        for (member, part) in ciphertexts.0.iter_mut().enumerate() {
            let Some(part) = part else { continue };
            let end = words.end.min(start + part.count() * tables[member].ring().degree());
            if start < end {
                let here = folded.on(self, member, start..end)?;
                let (folded, place) = here.words();
                self.members[member].add_bodies(&tables[member], part, folded, place, bits)?;
            }
            start = end;
        }
        if start < words.end {
            return Err(BackendError::Shape("more bodies than coefficients".into()));
        }
        Ok(())
    }

    fn selectors(
        &self,
        tables: &Vec<Tables>,
        keys: &Vec<Keys>,
        leaves: &GroupLeaves,
        first: usize,
        depth: usize,
        gadget: Gadget,
    ) -> Result<GroupSelectors, BackendError> {
        let selectors = self.each(|member, backend| match &leaves.0[member] {
            Some(leaves) => {
                backend.selectors(&tables[member], &keys[member], leaves, first, depth, gadget).map(Some)
            }
            None => Ok(None),
        })?;
        Ok(GroupSelectors(selectors))
    }

    /// Each device plays the rounds of its rows; the winners meet on the first of them for the rest.
    fn rgsw_fold(
        &self,
        tables: &Vec<Tables>,
        selectors: &GroupSelectors,
        ciphertexts: GroupCiphertexts,
    ) -> Result<GroupCiphertexts, BackendError> {
        let (first, largest) = self.member(&ciphertexts.0)?;
        let rounds = largest.count().next_power_of_two().trailing_zeros() as usize;
        let mut winners = Vec::new();
        for (member, part) in ciphertexts.0.into_iter().enumerate() {
            let Some(part) = part else { continue };
            let selectors = here(&selectors.0[member])?;
            winners.push((member, self.members[member].rgsw_fold(&tables[member], selectors, part)?));
        }
        let winner = match <[_; 1]>::try_from(winners) {
            Ok([(_, winner)]) => winner,
            Err(winners) => {
                let (backend, words) = (&self.members[first], tables[first].ciphertext());
                let met = backend.device().alloc(winners.len() * words)?;
                for (place, (member, winner)) in winners.iter().enumerate() {
                    transfer(
                        &winner.words(&tables[*member]),
                        &met.range(place * words..(place + 1) * words),
                    )?;
                }
                let (met, selectors) = (Ciphertexts::new(&tables[first], met), here(&selectors.0[first])?);
                backend.rgsw_fold_after(&tables[first], selectors, rounds, met)?
            }
        };
        let mut parts: ByMember<Ciphertexts> = self.members.iter().map(|_| None).collect();
        parts[first] = Some(winner);
        Ok(GroupCiphertexts(parts))
    }

    fn mod_switch(
        &self,
        tables: &Vec<Tables>,
        ciphertexts: &[&GroupCiphertexts],
        bits: SwitchedBits,
    ) -> Result<Vec<Vec<u8>>, BackendError> {
        let switched = self.each(|member, backend| {
            let mine = ciphertexts.iter().map(|buffer| buffer.0[member].as_ref()).enumerate();
            let (places, parts): (Vec<_>, Vec<_>) = mine.filter_map(|(i, part)| Some((i, part?))).unzip();
            let bytes = backend.mod_switch(&tables[member], &parts, bits)?;
            Ok(places.into_iter().zip(bytes))
        })?;
        let mut buffers = vec![Vec::new(); ciphertexts.len()];
        switched.into_iter().flatten().for_each(|(place, bytes)| buffers[place].extend(bytes));
        Ok(buffers)
    }

    /// On the device that has the ciphertexts, or on all, where all have a part in the next steps.
    fn reinterpret(
        &self,
        tables: &Vec<Tables>,
        ciphertexts: &GroupCiphertexts,
        bits: SwitchedBits,
        layout: PanelLayout,
    ) -> Result<GroupMatrix, BackendError> {
        let (first, _) = self.member(&ciphertexts.0)?;
        let holders = if self.strategy.divides_plain() { 0..self.members.len() } else { first..first + 1 };
        let whole = holders.map(|member| {
            let (backend, tables_there) = (&self.members[member], &tables[member]);
            let matrix = match self.gathered(tables, ciphertexts, member)? {
                Some(all) => backend.reinterpret(tables_there, &all, bits, layout),
                None => backend.reinterpret(tables_there, here(&ciphertexts.0[member])?, bits, layout),
            };
            Ok((member, matrix?))
        });
        Ok(GroupMatrix::whole(layout, whole.collect::<Result<_, BackendError>>()?))
    }

    /// On every device: a client's queries may come to any.
    fn columns(&self, layout: PanelLayout, words: &[u32]) -> Result<Vec<Columns>, BackendError> {
        self.each(|_, backend| backend.columns(layout, words))
    }

    /// Each device its rows of polynomials; where these are not divided, all on the devices that have the matrix.
    fn encode_fold(
        &self,
        tables: &Vec<Tables>,
        matrix: &GroupMatrix,
        columns: &Vec<Columns>,
        folded: FoldedBlocks,
    ) -> Result<GroupPlain, BackendError> {
        let parts = self.members.iter().enumerate().map(|(member, _)| {
            let own = self.plain_rows(folded.blocks, member);
            let divides = self.strategy.divides_plain();
            if (own.is_empty() && folded.blocks > 0) || !(divides || matrix.is_on(member)) {
                return Ok(None);
            }
            let whole = matrix.on(self, member)?;
            let part = FoldedBlocks { blocks: own.len(), ..folded };
            columns[member].encode_fold(&tables[member], &whole, own.start, part).map(Some)
        });
        Ok(GroupPlain(parts.collect::<Result<_, BackendError>>()?))
    }
}
