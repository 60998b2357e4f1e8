//! Folds of matrices of bytes: queries are divided, or rows are and the answers exchanged.

use std::ops::Range;
use std::path::Path;

use spirea_backend::{Backend, BackendError, PANEL_ROWS, PanelLayout, RING_DEGREE, Residence, RingMatrix};

use super::{DeviceGroup, transfer};
use crate::CudaBackend;
use crate::driver::View;
use crate::fold::{CudaFolded, CudaMatrix};
use crate::upload::file_length;

/// A matrix on the devices of a group: whole on each, or its rows in shares.
#[derive(Debug)]
pub struct GroupMatrix {
    layout: PanelLayout,
    /// A matrix for each device, with its first row; none for a device that has no row.
    shares: Vec<Option<(usize, CudaMatrix)>>,
}

/// Answers of a batch: each query's on its device, in the order of the batch.
#[derive(Debug)]
pub struct GroupFolded {
    /// Words of an answer.
    rows: usize,
    batch: usize,
    by_member: Vec<Option<CudaFolded>>,
}

impl GroupFolded {
    /// Consecutive words of one answer, on device `member`.
    ///
    /// # Errors
    /// [`BackendError::Shape`] if they are not within one answer.
    pub(super) fn on(
        &self,
        group: &DeviceGroup,
        member: usize,
        words: Range<usize>,
    ) -> Result<OnMember<'_>, BackendError> {
        let (query, first) = (words.start / self.rows.max(1), words.start % self.rows.max(1));
        if query >= self.batch || first + words.len() > self.rows {
            return Err(BackendError::Shape(format!(
                "words {words:?} are not within one of {} answers of {} words",
                self.batch, self.rows
            )));
        }
        let (owner, place) = (group.owner(query), query / group.members.len() * self.rows + first);
        let place = place..place + words.len();
        let folded = self.by_member[owner]
            .as_ref()
            .ok_or_else(|| BackendError::Shape("answers of another group of devices".into()))?;
        if owner == member {
            return Ok(OnMember::There(folded, place));
        }
        let copy = group.members[member].device().alloc(place.len())?;
        transfer(&folded.words().range(place), &copy.all())?;
        Ok(OnMember::Copied(CudaFolded::new(copy)))
    }
}

/// Words of an answer on a device that wants them.
pub(super) enum OnMember<'a> {
    There(&'a CudaFolded, Range<usize>),
    Copied(CudaFolded),
}

impl OnMember<'_> {
    /// The answers that hold the words, and where they do.
    pub(super) fn words(&self) -> (&CudaFolded, Range<usize>) {
        match self {
            Self::There(folded, words) => (folded, words.clone()),
            Self::Copied(folded) => (folded, 0..folded.words().len()),
        }
    }
}

impl DeviceGroup {
    /// The rows of device `member`: whole panels, as even as can be, or all.
    fn rows_of(&self, layout: PanelLayout, member: usize) -> Range<usize> {
        if !self.strategy.divides_matrices() {
            return 0..layout.rows();
        }
        let bound = |member: usize| layout.panels() * member / self.members.len() * PANEL_ROWS;
        bound(member)..bound(member + 1)
    }

    /// A matrix whose shares `take` gives, each by its layout and the range of the bytes of the whole.
    fn divide(
        &self,
        layout: PanelLayout,
        take: impl Fn(&CudaBackend, PanelLayout, Range<usize>) -> Result<CudaMatrix, BackendError> + Sync,
    ) -> Result<GroupMatrix, BackendError> {
        let shares = self.each(|member, backend| {
            let rows = self.rows_of(layout, member);
            if rows.is_empty() {
                return Ok(None);
            }
            let share = PanelLayout::covering(rows.len(), layout.columns())?;
            let bytes = rows.start * layout.columns()..rows.end * layout.columns();
            Ok(Some((rows.start, take(backend, share, bytes)?)))
        })?;
        Ok(GroupMatrix { layout, shares })
    }

    /// Each device folds its part of the batch.
    fn fold_queries(
        &self,
        matrix: &GroupMatrix,
        queries: &[u32],
    ) -> Result<Vec<Option<CudaFolded>>, BackendError> {
        let (columns, batch) = (matrix.layout.columns(), matrix.layout.batch_of(queries)?);
        self.each(|member, backend| {
            let mut own = Vec::new();
            for query in self.owned(member, batch) {
                own.extend_from_slice(&queries[query * columns..(query + 1) * columns]);
            }
            match &matrix.shares[member] {
                Some((_, matrix)) if !own.is_empty() => backend.scalar_fold(matrix, &own).map(Some),
                _ => Ok(None),
            }
        })
    }

    /// Each device folds its rows for the whole batch; then all-to-all: each gets the other rows of its part of the
    /// batch.
    fn fold_rows(
        &self,
        matrix: &GroupMatrix,
        queries: &[u32],
    ) -> Result<Vec<Option<CudaFolded>>, BackendError> {
        let (rows, batch) = (matrix.layout.rows(), matrix.layout.batch_of(queries)?);
        let folded = self.each(|member, backend| match &matrix.shares[member] {
            Some((_, share)) => backend.scalar_fold(share, queries).map(Some),
            None => Ok(None),
        })?;
        let exchange = |(member, backend): (usize, &CudaBackend)| {
            let own: Vec<usize> = self.owned(member, batch).collect();
            if own.is_empty() {
                return Ok(None);
            }
            let answers = backend.device().alloc(own.len() * rows)?;
            for (share, folded) in matrix.shares.iter().zip(&folded) {
                let (Some((first_row, share)), Some(folded)) = (share, folded) else { continue };
                let share_rows = share.layout().rows();
                for (place, query) in own.iter().enumerate() {
                    let from: View<'_, u32> =
                        folded.words().range(query * share_rows..(query + 1) * share_rows);
                    let start = place * rows + first_row;
                    transfer(&from, &answers.range(start..start + share_rows))?;
                }
            }
            Ok(Some(CudaFolded::new(answers)))
        };
        self.members.iter().enumerate().map(exchange).collect()
    }
}

impl Backend for DeviceGroup {
    type Matrix = GroupMatrix;
    type Folded = GroupFolded;

    /// `2x cuda-sm90, exchange` and the like.
    fn name(&self) -> String {
        format!("{}x {}, {}", self.members.len(), self.members[0].name(), self.strategy)
    }

    fn upload(&self, layout: PanelLayout, bytes: &[u8]) -> Result<GroupMatrix, BackendError> {
        layout.check_length(bytes.len() as u64)?;
        self.divide(layout, |backend, share, range| backend.upload(share, &bytes[range]))
    }

    fn open(&self, layout: PanelLayout, path: &Path, _: Residence) -> Result<GroupMatrix, BackendError> {
        layout.check_length(file_length(path)?)?;
        self.divide(layout, |backend, share, range| {
            CudaMatrix::from_file(backend.device(), share, path, range)
        })
    }

    fn layout(&self, matrix: &GroupMatrix) -> PanelLayout {
        matrix.layout
    }

    fn scalar_fold(&self, matrix: &GroupMatrix, queries: &[u32]) -> Result<GroupFolded, BackendError> {
        let (rows, batch) = (matrix.layout.rows(), matrix.layout.batch_of(queries)?);
        let by_member = if self.strategy.divides_matrices() {
            self.fold_rows(matrix, queries)
        } else {
            self.fold_queries(matrix, queries)
        }?;
        Ok(GroupFolded { rows, batch, by_member })
    }

    fn words(&self, folded: GroupFolded) -> Result<Vec<u32>, BackendError> {
        let mut words = vec![0; folded.batch * folded.rows];
        for (member, (backend, answers)) in self.members.iter().zip(folded.by_member).enumerate() {
            let Some(answers) = answers else { continue };
            let answers = backend.words(answers)?;
            for (answer, query) in answers.chunks_exact(folded.rows).zip(self.owned(member, folded.batch)) {
                words[query * folded.rows..(query + 1) * folded.rows].copy_from_slice(answer);
            }
        }
        Ok(words)
    }

    /// Each device its rows; where all have all of them, the first device.
    fn module_fold(&self, matrix: &GroupMatrix, a: RingMatrix<'_>) -> Result<Vec<u32>, BackendError> {
        a.check(matrix.layout)?;
        let products = self.each(|member, backend| match &matrix.shares[member] {
            Some((_, share)) if member == 0 || self.strategy.divides_matrices() => {
                backend.module_fold(share, a)
            }
            _ => Ok(Vec::new()),
        })?;
        let whole = products.concat();
        debug_assert_eq!(whole.len(), matrix.layout.rows() * a.rank * RING_DEGREE);
        Ok(whole)
    }
}
