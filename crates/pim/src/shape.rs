//! Layout of a table in the memories of DPUs: slices of rows, blocks of records, and what fits in
//! each memory.

use spirea_backend::RowLayout;

use crate::sdk::{MOST_TASKLETS, PimError, WRAM_BYTES};

/// Number of records whose selectors fill whole 64-bit words; blocks begin at multiples of this
/// number.
pub(crate) const GROUP: usize = 64;
/// Maximum number of queries that share a pass over MRAM.
pub const MOST_QUERIES: usize = 4;
/// Possible numbers of queries that share a pass; each divides the number of bits of a word.
const QUERIES: [usize; 3] = [1, 2, 4];
/// Bytes of WRAM for the program's variables.
const VARIABLES: usize = 256;
/// Bytes of a tasklet's window of selectors: `WINDOW_BYTES` of the device program.
const WINDOW: usize = 256;
/// Maximum number of bytes in one copy between MRAM and WRAM.
const MOST_COPY: usize = 2048;
/// Maximum number of bytes of a tasklet's accumulators.
const MOST_ACCUMULATORS: usize = 1024;
/// Bytes of a result's header, which holds the launch's number.
pub(crate) const HEADER: usize = 8;

/// Build options of the device program that the host must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// `NR_TASKLETS`, 1 to 24.
    pub tasklets: u32,
    /// `STACK_SIZE_DEFAULT`: bytes of each tasklet's stack.
    pub stack_bytes: u32,
}

impl Default for Build {
    /// Returns IM-PIR's 16 tasklets (section 5.2), with room for the program's frames.
    fn default() -> Self {
        Self { tasklets: 16, stack_bytes: 512 }
    }
}

/// Division of a tasklet's share of WRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wram {
    /// Bytes of the buffer for records, at most the size of a copy.
    pub block_bytes: usize,
    /// Bytes for accumulators.
    pub accumulator_bytes: usize,
}

impl Wram {
    /// Divides WRAM among tasklets.
    ///
    /// # Errors
    /// [`PimError::Tasklets`], or [`PimError::Wram`] if stacks leave no room for buffers.
    pub fn of(build: Build) -> Result<Self, PimError> {
        let Build { tasklets, stack_bytes } = build;
        if tasklets == 0 || tasklets > MOST_TASKLETS {
            return Err(PimError::Tasklets(tasklets));
        }
        let each = (WRAM_BYTES - VARIABLES) / tasklets as usize;
        let left = each.saturating_sub(stack_bytes as usize + WINDOW);
        let accumulator_bytes = (left / 3).min(MOST_ACCUMULATORS) & !7;
        if accumulator_bytes < GROUP {
            return Err(PimError::Wram(format!(
                "stacks of {tasklets} tasklets, {stack_bytes} bytes each, overflow WRAM: no room for buffers"
            )));
        }
        Ok(Self { block_bytes: (left - accumulator_bytes).min(MOST_COPY) & !7, accumulator_bytes })
    }
}

/// Division of a table's rows, so that accumulators fit in WRAM: each row of each part has the same
/// number of equal slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slices {
    layout: RowLayout,
    /// Bytes of a slice, a multiple of 8; the last slice of a row may hold fewer.
    pub bytes: usize,
    /// Number of slices of a row.
    pub per_row: usize,
}

impl Slices {
    /// Chooses the fewest slices whose accumulators fit.
    pub fn of(layout: RowLayout, wram: Wram) -> Self {
        let most = wram.accumulator_bytes.min(wram.block_bytes);
        let per_row = layout.row_bytes().div_ceil(most);
        let bytes = layout.row_bytes().div_ceil(per_row).next_multiple_of(8);
        Self { layout, bytes, per_row: layout.row_bytes().div_ceil(bytes) }
    }

    /// Returns the number of slices of a record.
    pub fn count(&self) -> usize {
        self.layout.parts() * self.per_row
    }

    /// Returns the bytes of a record on a DPU.
    pub fn record_bytes(&self) -> usize {
        self.count() * self.bytes
    }

    /// Returns the least possible number of queries of a pass that is at least `wanted`, or the
    /// largest number for which WRAM has room if this is smaller.
    pub fn queries(&self, wanted: usize, wram: Wram) -> usize {
        let fits = |&queries: &usize| {
            ((1 << queries) - 1) * self.bytes <= wram.accumulator_bytes
                && queries * self.bytes <= wram.block_bytes
        };
        let most = QUERIES.into_iter().rfind(fits).unwrap_or(1);
        QUERIES.into_iter().find(|&queries| queries >= wanted).unwrap_or(MOST_QUERIES).min(most)
    }

    /// Copies slice `slice` of the records `records` of a table to `to`, one after another. Rows
    /// are padded with 0 to whole slices.
    pub fn gather(&self, table: &[u8], slice: usize, records: std::ops::Range<usize>, to: &mut [u8]) {
        let (part, column) = (slice / self.per_row, slice % self.per_row);
        let row_bytes = self.layout.row_bytes();
        let from = column * self.bytes;
        let length = self.bytes.min(row_bytes - from);
        let rows = &table[self.layout.range(part, records)];
        if length == row_bytes && length == self.bytes {
            to.copy_from_slice(rows);
            return;
        }
        for (row, to) in rows.chunks_exact(row_bytes).zip(to.chunks_exact_mut(self.bytes)) {
            to[..length].copy_from_slice(&row[from..from + length]);
            to[length..].fill(0);
        }
    }

    /// Adds a record's slices, in the DPUs' form, to an answer with all parts' rows.
    pub fn add_to(&self, answer: &mut [u8], slices: &[u8]) {
        let row_bytes = self.layout.row_bytes();
        for (slice, bytes) in slices.chunks_exact(self.bytes).enumerate() {
            let (part, column) = (slice / self.per_row, slice % self.per_row);
            let from = column * self.bytes;
            let to = &mut answer[part * row_bytes..][from..row_bytes.min(from + self.bytes)];
            to.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum ^= byte);
        }
    }
}

/// Division of every DPU's MRAM between a launch's inputs and outputs, and tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mram {
    /// Bytes at the start for results and selectors.
    pub scratch: usize,
    /// Bytes for tables, after the scratch space.
    pub tables: usize,
}

impl Mram {
    /// Divides `bytes` bytes; the last 64 KiB remain for the SDK.
    pub fn of(bytes: usize) -> Self {
        const RESERVED: usize = 64 << 10;
        let usable = bytes.saturating_sub(RESERVED) & !7;
        let scratch = (usable / 8) & !7;
        Self { scratch, tables: usable - scratch }
    }

    /// Returns the maximum number of records of a block: their selectors for `queries` queries and
    /// the results must fit in the scratch space.
    pub fn most_records(&self, slices: &Slices, queries: usize) -> usize {
        let left = self.scratch.saturating_sub(HEADER + queries * slices.record_bytes());
        left / (8 * queries) * GROUP
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn wram_has_room_for_every_number_of_tasklets() {
        for tasklets in 1..=MOST_TASKLETS {
            let wram = Wram::of(Build { tasklets, stack_bytes: 512 }).unwrap();
            let each = wram.block_bytes + wram.accumulator_bytes + WINDOW + 512;
            assert!(VARIABLES + tasklets as usize * each <= WRAM_BYTES);
            assert!(wram.block_bytes >= wram.accumulator_bytes && wram.block_bytes <= MOST_COPY);
        }
        for tasklets in [0, 25, u32::MAX] {
            assert_eq!(Wram::of(Build { tasklets, stack_bytes: 512 }), Err(PimError::Tasklets(tasklets)));
        }
        let deep = Wram::of(Build { tasklets: 16, stack_bytes: 4096 });
        assert!(matches!(deep, Err(PimError::Wram(_))), "{deep:?}");
    }

    proptest! {
        #[test]
        fn what_is_cut_is_put_together(
            rows in 1usize..20, row_bytes in 1usize..4097, parts in 1usize..4, tasklets in 1u32..25, seed: u64,
        ) {
            let layout = RowLayout::new(rows, row_bytes, parts).unwrap();
            let wram = Wram::of(Build { tasklets, stack_bytes: 512 }).unwrap();
            let slices = Slices::of(layout, wram);
            prop_assert!(slices.bytes.is_multiple_of(8) && slices.bytes <= wram.accumulator_bytes);
            prop_assert!((slices.per_row - 1) * slices.bytes < row_bytes && row_bytes <= slices.per_row * slices.bytes);
            for wanted in 1..=MOST_QUERIES {
                let queries = slices.queries(wanted, wram);
                prop_assert!(((1 << queries) - 1) * slices.bytes <= wram.accumulator_bytes || queries == 1);
            }
            let table: Vec<u8> = (0..layout.bytes()).map(|i| (seed.rotate_left(i as u32) as usize + i) as u8).collect();
            let record = rows - 1;
            let mut cut = vec![0xff; slices.record_bytes()];
            for (slice, to) in cut.chunks_exact_mut(slices.bytes).enumerate() {
                slices.gather(&table, slice, record..record + 1, to);
            }
            let mut answer = vec![0; layout.answer_bytes()];
            slices.add_to(&mut answer, &cut);
            let expected: Vec<u8> =
                (0..parts).flat_map(|part| table[layout.range(part, record..record + 1)].to_vec()).collect();
            prop_assert_eq!(answer, expected);
        }
    }
}
