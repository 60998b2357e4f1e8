//! Folds by shares of distributed point functions: keys are divided, or rows are and the answers added up.

use std::ops::Range;
use std::path::Path;

use spirea_backend::{BackendError, Residence, RowLayout, ShareBackend};
use spirea_dpf::{DpfError, Key, OutputKind, PrfKind, Subtree};

use super::DeviceGroup;
use crate::CudaBackend;
use crate::shares::CudaRows;
use crate::upload::file_length;

/// Points of a leaf of bits, the outputs of which a leaf has most: where rows are divided, leaves of all outputs
/// begin.
const LEAF_POINTS: usize = 512;

/// Rows on the devices of a group: all on each, or in shares.
#[derive(Debug)]
pub struct GroupRows {
    layout: RowLayout,
    /// Of each device its rows, and which these are; none for a device that has no row.
    shares: Vec<Option<(Range<usize>, CudaRows)>>,
}

impl DeviceGroup {
    /// The rows of device `member`: as many as the leaves of a whole subtree have points, or all.
    fn records_of(&self, layout: RowLayout, member: usize) -> Range<usize> {
        if !self.strategy.divides_matrices() {
            return 0..layout.rows();
        }
        let share = layout.rows().div_ceil(self.members.len()).next_power_of_two().max(LEAF_POINTS);
        (member * share).min(layout.rows())..((member + 1) * share).min(layout.rows())
    }

    fn divide_rows(
        &self,
        layout: RowLayout,
        take: impl Fn(&CudaBackend, RowLayout, &[Range<usize>]) -> Result<CudaRows, BackendError> + Sync,
    ) -> Result<GroupRows, BackendError> {
        let shares = self.each(|member, backend| {
            let rows = self.records_of(layout, member);
            if rows.is_empty() {
                return Ok(None);
            }
            let share = RowLayout::new(rows.len(), layout.row_bytes(), layout.parts())?;
            let ranges: Vec<_> = (0..layout.parts()).map(|part| layout.range(part, rows.clone())).collect();
            Ok(Some((rows, take(backend, share, &ranges)?)))
        })?;
        Ok(GroupRows { layout, shares })
    }

    /// The answers of one device's rows, to the keys of the subtrees whose points they are.
    fn fold_share(
        &self,
        backend: &CudaBackend,
        (rows, share): &(Range<usize>, CudaRows),
        wanted: &Range<usize>,
        prf: PrfKind,
        keys: &[Key],
    ) -> Result<Option<Vec<u8>>, BackendError> {
        let met = rows.start.max(wanted.start)..rows.end.min(wanted.end);
        if met.is_empty() {
            return Ok(None);
        }
        let points = (met.start - wanted.start) as u64..(met.end - wanted.start) as u64;
        let subtree = |key| prf.visit(Subtree { key, points: points.clone() });
        let subtrees = keys.iter().map(subtree).collect::<Result<Vec<_>, DpfError>>().map_err(|_| {
            BackendError::Shape(format!(
                "rows {wanted:?} cross rows {rows:?} of a device within a subtree: replicate the rows instead"
            ))
        })?;
        backend.share_fold(share, met.start - rows.start, prf, &subtrees).map(Some)
    }
}

impl ShareBackend for DeviceGroup {
    type Rows = GroupRows;

    fn upload_rows(&self, layout: RowLayout, bytes: &[u8]) -> Result<GroupRows, BackendError> {
        layout.check_length(bytes.len() as u64)?;
        self.divide_rows(layout, |backend, share, ranges| {
            let bytes: Vec<u8> = ranges.iter().flat_map(|range| &bytes[range.clone()]).copied().collect();
            backend.upload_rows(share, &bytes)
        })
    }

    fn open_rows(&self, layout: RowLayout, path: &Path, _: Residence) -> Result<GroupRows, BackendError> {
        layout.check_length(file_length(path)?)?;
        self.divide_rows(layout, |backend, share, ranges| CudaRows::from_file(backend, share, path, ranges))
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
            Some(share) => self.fold_share(backend, share, &batch.rows, prf, keys),
            None => Ok(None),
        })?;
        let mut sum = vec![0; keys.len() * rows.layout.answer_bytes()];
        let output: OutputKind = batch.domain.output();
        answers.iter().flatten().for_each(|answer| output.add_to(&mut sum, answer));
        Ok(sum)
    }
}
