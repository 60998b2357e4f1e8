//! Folds by shares of distributed point functions: keys are divided, or rows are and the answers added up.

use std::ops::Range;

use spirea_backend::{BackendError, FileLayout, FileRows, RowLayout, ShareBackend};
use spirea_dpf::{Key, OutputKind, PrfKind};

use super::DeviceGroup;
use crate::CudaBackend;
use crate::shares::CudaRows;

/// Rows on the devices of a group: all on each, or in shares.
#[derive(Debug)]
pub struct GroupRows {
    layout: RowLayout,
    /// Of each device its rows, and which these are; none for a device that has no row.
    shares: Vec<Option<(Range<usize>, CudaRows)>>,
}

impl DeviceGroup {
    /// Rows of which each device has its share, as `take` gives it.
    fn divide_rows(
        &self,
        layout: RowLayout,
        take: impl Fn(&CudaBackend, Range<usize>) -> Result<CudaRows, BackendError> + Sync,
    ) -> Result<GroupRows, BackendError> {
        let shares = self.each(|member, backend| {
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
        let batch = rows.layout.check_keys(first_row, keys)?;
        if !self.strategy.divides_matrices() {
            let each = keys.len().div_ceil(self.members.len());
            let answers = self.each(|member, backend| {
                let keys = keys.chunks(each).nth(member).unwrap_or_default();
                match &rows.shares[member] {
                    Some((_, rows)) if !keys.is_empty() => backend.share_fold(rows, first_row, prf, keys),
                    _ => Ok(Vec::new()),
                }
            })?;
            return Ok(answers.concat());
        }
        let answers = self.each(|member, backend| match &rows.shares[member] {
            Some((own, share)) => {
                let met = batch.on(own, prf, keys)?;
                met.map(|(first, keys)| backend.share_fold(share, first, prf, &keys)).transpose()
            }
            None => Ok(None),
        })?;
        let mut sum = vec![0; keys.len() * rows.layout.answer_bytes()];
        let output: OutputKind = batch.domain.output();
        answers.iter().flatten().for_each(|answer| output.add_to(&mut sum, answer));
        Ok(sum)
    }
}
