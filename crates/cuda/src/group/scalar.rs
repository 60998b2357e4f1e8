//! Folds of byte matrices. Either queries are divided, or rows are divided and the answers are
//! exchanged.

use std::ops::Range;

use spirea_backend::{
    Backend, BackendError, BackendId, Bodies, FileLayout, FileRows, PanelLayout, RING_DEGREE, RingMatrix,
    check_answers,
};

use super::{DeviceGroup, transfer};
use crate::CudaBackend;
use crate::driver::View;
use crate::fold::{CudaFolded, CudaMatrix};

/// Matrix on the devices of a group.
#[derive(Debug)]
pub struct GroupMatrix {
    layout: PanelLayout,
    held: Held,
}

#[derive(Debug)]
enum Held {
    /// Whole matrix on each of these devices.
    Whole(Vec<(usize, CudaMatrix)>),
    /// Rows divided among the devices.
    Shares(Vec<Share>),
}

/// Rows of a matrix on one device.
#[derive(Debug)]
struct Share {
    member: usize,
    first_row: usize,
    matrix: CudaMatrix,
}

/// Answers of a batch, in the order of the batch. With n holders, query i's answer is on holder i
/// mod n.
#[derive(Debug)]
pub struct GroupFolded {
    /// Words of each answer.
    rows: usize,
    batch: usize,
    /// Devices, each with its answers if it has any.
    holders: Vec<(usize, Option<CudaFolded>)>,
}

impl GroupFolded {
    /// Wraps answers of `rows` words on these devices.
    pub(super) fn new(rows: usize, batch: usize, holders: Vec<(usize, Option<CudaFolded>)>) -> Self {
        Self { rows, batch, holders }
    }

    /// Returns no answers.
    pub(super) fn none() -> Self {
        Self::new(0, 0, Vec::new())
    }

    /// Brings consecutive words of some answers to device `member`, the same number of words for
    /// each answer.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if a range is not within one answer.
    pub(super) fn on(
        &self,
        group: &DeviceGroup,
        member: usize,
        words: &[Range<usize>],
    ) -> Result<OnMember<'_>, BackendError> {
        let held = words.iter().map(|words| self.find(words)).collect::<Result<Vec<_>, _>>()?;
        let Some((holder, first)) = held.first().cloned() else {
            return Err(BackendError::Shape("words of no answer".into()));
        };
        let stride = held.get(1).map_or(0, |(_, second)| second.start.saturating_sub(first.start));
        let even = held
            .iter()
            .enumerate()
            .all(|(i, (other, place))| *other == holder && place.start == first.start + i * stride);
        let (owner, folded) = &self.holders[holder];
        if let (true, true, Some(folded)) = (even, *owner == member, folded) {
            return Ok(OnMember::There(folded, Bodies { first: first.clone(), stride }));
        }
        let stride = first.len();
        let copy = group.members[member].device().alloc(held.len() * stride)?;
        for (i, (holder, place)) in held.into_iter().enumerate() {
            let folded = self.holders[holder].1.as_ref();
            let folded =
                folded.ok_or_else(|| BackendError::Shape("answers of another group of devices".into()))?;
            transfer(&folded.words()?.range(place), &copy.range(i * stride..(i + 1) * stride))?;
        }
        Ok(OnMember::Copied(CudaFolded::new(copy), Bodies::whole(0, stride)))
    }

    /// Finds the holder of consecutive words of one answer, and their place there.
    fn find(&self, words: &Range<usize>) -> Result<(usize, Range<usize>), BackendError> {
        let (query, first) = (words.start / self.rows.max(1), words.start % self.rows.max(1));
        if query >= self.batch || first + words.len() > self.rows {
            return Err(BackendError::Shape(format!(
                "words {words:?} are not within one of {} answers of {} words",
                self.batch, self.rows
            )));
        }
        let (place, count) = (query / self.holders.len() * self.rows + first, self.holders.len());
        Ok((query % count, place..place + words.len()))
    }
}

/// Words of answers, on the device that needs them.
pub(super) enum OnMember<'a> {
    There(&'a CudaFolded, Bodies),
    Copied(CudaFolded, Bodies),
}

impl OnMember<'_> {
    /// Returns the answers that hold the words, and the words' places.
    pub(super) fn words(&self) -> (&CudaFolded, &Bodies) {
        match self {
            Self::There(folded, words) => (folded, words),
            Self::Copied(folded, words) => (folded, words),
        }
    }
}

impl DeviceGroup {
    /// Divides a matrix: `take` loads each device's rows.
    fn divide(
        &self,
        layout: PanelLayout,
        take: impl Fn(&CudaBackend, Range<usize>) -> Result<CudaMatrix, BackendError> + Sync,
    ) -> Result<GroupMatrix, BackendError> {
        let taken = self.each_member(|member, backend| {
            let rows = self.strategy.of_matrices(self.share(member)).rows(layout);
            if rows.is_empty() {
                return Ok(None);
            }
            Ok(Some(Share { member, first_row: rows.start, matrix: take(backend, rows)? }))
        })?;
        let shares = taken.into_iter().flatten();
        let held = if self.strategy.divides_matrices() {
            Held::Shares(shares.collect())
        } else {
            Held::Whole(shares.map(|share| (share.member, share.matrix)).collect())
        };
        Ok(GroupMatrix { layout, held })
    }

    /// Folds each query on a device that has the whole matrix; those devices share the batch.
    fn fold_queries(
        &self,
        whole: &[(usize, CudaMatrix)],
        columns: usize,
        queries: &[u32],
    ) -> Result<Vec<(usize, Option<CudaFolded>)>, BackendError> {
        let folded = self.each_member(|member, backend| {
            let Some(place) = whole.iter().position(|(holder, _)| *holder == member) else { return Ok(None) };
            let own: Vec<&[u32]> = queries.chunks_exact(columns).skip(place).step_by(whole.len()).collect();
            if own.is_empty() {
                return Ok(None);
            }
            backend.fold_queries(&whole[place].1, &own).map(Some)
        })?;
        let mut by_member: Vec<_> = folded.into_iter().collect();
        Ok(whole.iter().map(|(holder, _)| (*holder, by_member[*holder].take())).collect())
    }

    /// Folds each device's rows for the whole batch, then exchanges all-to-all: each device gets
    /// the missing rows of its part of the batch.
    fn fold_rows(
        &self,
        shares: &[Share],
        layout: PanelLayout,
        queries: &[u32],
    ) -> Result<Vec<(usize, Option<CudaFolded>)>, BackendError> {
        let (rows, batch) = (layout.rows(), layout.batch_of(queries.len())?);
        let folded = self.each_member(|member, backend| {
            let share = shares.iter().find(|share| share.member == member);
            share.map(|share| backend.scalar_fold(&share.matrix, queries)).transpose()
        })?;
        let exchange = |(member, backend): (usize, &CudaBackend)| {
            let own: Vec<usize> = self.owned(member, batch).collect();
            if own.is_empty() {
                return Ok((member, None));
            }
            let answers = backend.device().alloc(own.len() * rows)?;
            for share in shares {
                let Some(folded) = &folded[share.member] else { continue };
                let share_rows = share.matrix.layout().rows();
                for (place, query) in own.iter().enumerate() {
                    let from: View<'_, u32> =
                        folded.words()?.range(query * share_rows..(query + 1) * share_rows);
                    let start = place * rows + share.first_row;
                    transfer(&from, &answers.range(start..start + share_rows))?;
                }
            }
            Ok((member, Some(CudaFolded::new(answers))))
        };
        self.members.iter().enumerate().map(exchange).collect()
    }
}

impl Backend for DeviceGroup {
    type Matrix = GroupMatrix;
    type Folded = GroupFolded;

    /// Returns a name such as `2x cuda-sm90, exchange`.
    fn name(&self) -> String {
        format!("{}x {}, {}", self.members.len(), self.members[0].name(), self.strategy)
    }

    fn id(&self) -> BackendId {
        self.id
    }

    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        self.members[0].each(count, work);
    }

    fn upload(&self, layout: PanelLayout, bytes: &[u8]) -> Result<GroupMatrix, BackendError> {
        layout.check_length(bytes.len() as u64)?;
        self.divide(layout, |backend, rows| backend.upload(layout.part(&rows)?, &bytes[layout.range(&rows)]))
    }

    fn open(&self, stored: FileRows<'_, PanelLayout>) -> Result<GroupMatrix, BackendError> {
        self.divide(stored.part()?, |backend, own| backend.open(stored.some(own)))
    }

    fn layout(&self, matrix: &GroupMatrix) -> PanelLayout {
        matrix.layout
    }

    fn scalar_fold(&self, matrix: &GroupMatrix, queries: &[u32]) -> Result<GroupFolded, BackendError> {
        let (layout, batch) = (matrix.layout, matrix.layout.batch_of(queries.len())?);
        let holders = match &matrix.held {
            Held::Shares(shares) => self.fold_rows(shares, layout, queries),
            Held::Whole(whole) => self.fold_queries(whole, layout.columns(), queries),
        }?;
        Ok(GroupFolded { rows: layout.rows(), batch, holders })
    }

    fn words(&self, folded: GroupFolded) -> Result<Vec<u32>, BackendError> {
        let (rows, count) = (folded.rows, folded.holders.len());
        let mut words = vec![0; folded.batch * rows];
        for (place, (holder, answers)) in folded.holders.into_iter().enumerate() {
            let Some(answers) = answers else { continue };
            let answers = self.members[holder].words(answers)?;
            let own = words.chunks_exact_mut(rows).skip(place).step_by(count);
            own.zip(answers.chunks_exact(rows)).for_each(|(to, from)| to.copy_from_slice(from));
        }
        Ok(words)
    }

    /// Puts each query's answer on its device.
    fn folded(&self, queries: usize, words: Vec<u32>) -> Result<GroupFolded, BackendError> {
        check_answers(queries, words.len())?;
        let rows = words.len() / queries;
        let holders = self.each_member(|member, backend| {
            let own: Vec<u32> = self
                .owned(member, queries)
                .flat_map(|query| &words[query * rows..][..rows])
                .copied()
                .collect();
            let answers = (!own.is_empty()).then(|| backend.folded(own.len() / rows, own)).transpose()?;
            Ok((member, answers))
        })?;
        Ok(GroupFolded { rows, batch: queries, holders })
    }

    /// Multiplies each device's rows; if several devices have the whole matrix, only the first of
    /// them works.
    fn module_fold(&self, matrix: &GroupMatrix, a: RingMatrix<'_>) -> Result<Vec<u32>, BackendError> {
        a.check(matrix.layout)?;
        let products = self.each_member(|member, backend| {
            let share = match &matrix.held {
                Held::Shares(shares) => {
                    shares.iter().find(|share| share.member == member).map(|share| &share.matrix)
                }
                Held::Whole(whole) => {
                    whole.first().filter(|(holder, _)| *holder == member).map(|(_, matrix)| matrix)
                }
            };
            share.map_or_else(|| Ok(Vec::new()), |share| backend.module_fold(share, a))
        })?;
        let whole = products.concat();
        debug_assert_eq!(whole.len(), matrix.layout.rows() * a.rank * RING_DEGREE);
        Ok(whole)
    }
}
