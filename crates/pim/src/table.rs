//! Table in the memories of DPUs, divided into blocks.

use std::ops::Range;

use spirea_backend::RowLayout;
use spirea_cpu::CpuRows;

use crate::regions::{Region, Regions};
use crate::sdk::PimError;
use crate::shape::{GROUP, Mram, Slices, Wram};

/// Table, divided into blocks of consecutive records (IM-PIR section 3.3: B_d = ceil(N / P), here
/// in whole groups).
#[derive(Debug)]
pub(crate) struct Table {
    pub layout: RowLayout,
    pub slices: Slices,
    pub wram: Wram,
    /// Number of records of every block but the last.
    pub block_records: usize,
    /// Rows in the host's memory, or mapped from their file, from which blocks are loaded.
    source: CpuRows,
    /// Place of the blocks, the same in all DPUs of all clusters.
    pub region: Region,
    pub regions: Regions,
}

impl Table {
    /// Divides rows into as many blocks as a cluster has DPUs, or into more blocks if MRAM has no
    /// room for blocks of that size.
    ///
    /// # Errors
    /// [`PimError::Memory`] if there is no room even for the smallest block.
    pub fn new(
        layout: RowLayout,
        source: CpuRows,
        wram: Wram,
        mram: Mram,
        regions: &Regions,
        dpus: usize,
    ) -> Result<Self, PimError> {
        let slices = Slices::of(layout, wram);
        let most = regions.largest() / slices.record_bytes() / GROUP * GROUP;
        let most = most.min(mram.most_records(&slices, slices.queries(crate::shape::MOST_QUERIES, wram)));
        let wanted = layout.rows().div_ceil(dpus).next_multiple_of(GROUP);
        // A table that is loaded in passes takes only half of the free memory.
        let block_records =
            if wanted <= most { wanted } else { (most / 2 / GROUP * GROUP).max(most.min(GROUP)) };
        let region = match block_records {
            0 => None,
            records => regions.take(records * slices.record_bytes()),
        };
        let region = region.ok_or_else(|| PimError::Memory {
            wanted: GROUP * slices.record_bytes(),
            free: regions.largest(),
        })?;
        Ok(Self { layout, slices, wram, block_records, source, region, regions: regions.clone() })
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.layout.rows().div_ceil(self.block_records)
    }

    /// Returns the records of a block.
    pub fn records(&self, block: usize) -> Range<usize> {
        let first = block * self.block_records;
        first..(first + self.block_records).min(self.layout.rows())
    }

    /// Returns the bytes from one slice of a block to the next one.
    pub fn slice_stride(&self) -> usize {
        self.block_records * self.slices.bytes
    }

    /// Returns the rows.
    pub fn bytes(&self) -> &[u8] {
        self.source.bytes()
    }

    /// Returns the bytes of a block on a DPU.
    pub fn block_bytes(&self) -> usize {
        self.slices.count() * self.slice_stride()
    }
}
