//! Folds by shares of distributed point functions. Either keys are divided, or rows are divided and
//! the answers are added up.

use std::ops::Range;

use spirea_backend::{
    BackendError, Batch, FileLayout, FileRows, RowLayout, ShareBackend, ShareFold, partial_folds,
};
use spirea_dpf::{Key, PrfKind};

use super::DeviceGroup;
use crate::CudaBackend;
use crate::shares::CudaRows;

/// Rows on the devices of a group: all rows on each device, or divided.
#[derive(Debug)]
pub struct GroupRows {
    layout: RowLayout,
    /// For each device the range of its rows and the rows; `None` for a device without rows.
    shares: Vec<Option<(Range<usize>, CudaRows)>>,
}

impl DeviceGroup {
    /// Divides rows among the devices: `take` loads each device's rows.
    fn divide_rows(
        &self,
        layout: RowLayout,
        take: impl Fn(&CudaBackend, Range<usize>) -> Result<CudaRows, BackendError> + Sync,
    ) -> Result<GroupRows, BackendError> {
        let shares = self.each_member(|member, backend| {
            let rows = self.strategy.of_matrices(self.share(member)).records(layout);
            (!rows.is_empty()).then(|| Ok((rows.clone(), take(backend, rows)?))).transpose()
        })?;
        Ok(GroupRows { layout, shares })
    }
}

impl ShareBackend for DeviceGroup {
    type Rows = GroupRows;

    fn upload_rows(&self, layout: RowLayout, bytes: &[u8]) -> Result<GroupRows, BackendError> {
        layout.check_length(bytes.len() as u64)?;
        self.divide_rows(layout, |backend, rows| {
            let of_parts = layout.ranges(&rows).into_iter().flat_map(|range| &bytes[range]);
            backend.upload_rows(layout.part(&rows)?, &of_parts.copied().collect::<Vec<u8>>())
        })
    }

    fn open_rows(&self, stored: FileRows<'_, RowLayout>) -> Result<GroupRows, BackendError> {
        self.divide_rows(stored.part()?, |backend, own| backend.open_rows(stored.some(own)))
    }

    fn row_layout(&self, rows: &GroupRows) -> RowLayout {
        rows.layout
    }

    fn share_fold(
        &self,
        rows: &GroupRows,
        first_row: usize,
        prf: PrfKind,
        keys: &[Key],
    ) -> Result<Vec<u8>, BackendError> {
        self.share_folds(rows, prf, &[ShareFold { first_row, keys }])
    }

    fn share_folds(
        &self,
        rows: &GroupRows,
        prf: PrfKind,
        folds: &[ShareFold<'_>],
    ) -> Result<Vec<u8>, BackendError> {
        let layout = rows.layout;
        let checked = folds.iter().map(|fold| layout.check_keys(fold.first_row, fold.keys));
        let checked = checked.collect::<Result<Vec<_>, _>>()?;
        let Some(Batch { domain, .. }) = checked.first() else { return Ok(Vec::new()) };
        if !self.strategy.divides_matrices() {
            return self.replicated_folds(rows, prf, folds);
        }
        let answers = self.each_member(|member, backend| match &rows.shares[member] {
            Some((own, share)) => partial_folds(backend, layout, (own, share), prf, folds).map(Some),
            None => Ok(None),
        })?;
        let keys: usize = folds.iter().map(|fold| fold.keys.len()).sum();
        let mut sum = vec![0; keys * layout.answer_bytes()];
        answers.iter().flatten().for_each(|answer| domain.output().add_to(&mut sum, answer));
        Ok(sum)
    }
}

impl DeviceGroup {
    /// Folds on devices that all have the whole rows: each device takes a part of the keys.
    fn replicated_folds(
        &self,
        rows: &GroupRows,
        prf: PrfKind,
        folds: &[ShareFold<'_>],
    ) -> Result<Vec<u8>, BackendError> {
        let keys: usize = folds.iter().map(|fold| fold.keys.len()).sum();
        let each = keys.div_ceil(self.members.len());
        let answers = self.each_member(|member, backend| {
            let (first, end) = (member * each, (member + 1) * each);
            let mut before = 0;
            let own = folds.iter().filter_map(|fold| {
                let place = |key: usize| key.clamp(before, before + fold.keys.len()) - before;
                let keys = &fold.keys[place(first)..place(end)];
                before += fold.keys.len();
                (!keys.is_empty()).then_some(ShareFold { keys, ..*fold })
            });
            let own: Vec<ShareFold<'_>> = own.collect();
            match &rows.shares[member] {
                Some((_, rows)) => backend.share_folds(rows, prf, &own),
                None => Ok(Vec::new()),
            }
        })?;
        Ok(answers.concat())
    }
}
