//! Cluster: DPUs that hold a whole copy of every table and answer together.

use std::ops::Range;
use std::time::Instant;

use spirea_backend::StepTimes;

use crate::phases;
use crate::sdk::{DpuSet, PimError, Sdk, Symbol};
use crate::shape::HEADER;
use crate::table::Table;

/// Bytes that a DPU takes at once while a table is loaded.
const LOAD_BYTES: usize = 32 << 10;
/// Words of `struct dpxor_arguments`.
const ARGUMENTS: usize = 12;

/// DPUs that hold a whole copy of every table.
pub(crate) struct Cluster {
    set: Box<dyn DpuSet>,
    /// True for each DPU that has failed and is not used again.
    failed: Vec<bool>,
    /// Reason of the last failure.
    reason: String,
    launches: u32,
}

/// Arguments common to all DPUs of a launch.
#[derive(Clone, Copy)]
pub(crate) struct Common {
    pub slice_bytes: usize,
    pub slices: usize,
    pub queries: usize,
    /// Bytes of the buffer for records.
    pub block_bytes: usize,
    /// Place of the block in MRAM, for DPUs that have one.
    pub database: usize,
    pub slice_stride: usize,
}

impl Common {
    /// Arguments of a launch that only detects the working DPUs.
    const NOTHING: Self =
        Self { slice_bytes: 8, slices: 0, queries: 1, block_bytes: 8, database: 0, slice_stride: 0 };

    /// Returns the bytes of each DPU's result. Selectors follow the result.
    pub fn result_bytes(&self) -> usize {
        HEADER + self.queries * self.slices * self.slice_bytes
    }
}

/// Blocks of a launch: at most one for each DPU.
pub(crate) struct Round {
    /// Block of each DPU.
    pub blocks: Vec<Option<usize>>,
    /// Place of the blocks in MRAM.
    pub offset: usize,
}

impl Cluster {
    /// Allocates DPUs, loads the program, and detects the DPUs that work.
    ///
    /// # Errors
    /// The errors of the SDK, and [`PimError::Lost`] if no DPU works.
    pub fn new(sdk: &dyn Sdk, dpus: Option<usize>) -> Result<Self, PimError> {
        let mut set = sdk.alloc(dpus)?;
        set.load()?;
        let failed = vec![false; set.dpus()];
        let mut cluster = Self { set, failed, reason: String::new(), launches: 0 };
        let records = vec![0; cluster.dpus()];
        cluster.launch(&records, Common::NOTHING, &StepTimes::default())?;
        Ok(cluster)
    }

    /// Returns the number of DPUs, including those that have failed.
    pub fn dpus(&self) -> usize {
        self.failed.len()
    }

    /// Yields the DPUs that work.
    pub fn working(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.dpus()).filter(|&dpu| !self.failed[dpu])
    }

    /// Returns true if the DPU works.
    pub fn works(&self, dpu: usize) -> bool {
        !self.failed[dpu]
    }

    /// Copies blocks of a table to their DPUs.
    pub fn load(&mut self, table: &Table, round: &Round) -> Result<(), PimError> {
        let (slices, stride) = (&table.slices, table.slice_stride());
        let most = (LOAD_BYTES / slices.bytes).max(1);
        let records = |block: Option<usize>| block.map_or(0..0, |block| table.records(block));
        let longest = round.blocks.iter().map(|&block| records(block).len()).max().unwrap_or_default();
        let mut staging = vec![0; self.dpus() * most.min(longest.max(1)) * slices.bytes];
        for slice in 0..slices.count() {
            for first in (0..longest).step_by(most) {
                let count = most.min(longest - first);
                let bytes = count * slices.bytes;
                for (&block, to) in round.blocks.iter().zip(staging.chunks_exact_mut(bytes)) {
                    let Range { start, end } = records(block);
                    let (from, to_record) = ((start + first).min(end), (start + first + count).min(end));
                    // Bytes after the last record of a shorter block are never read.
                    let to = &mut to[..(to_record - from) * slices.bytes];
                    slices.gather(table.bytes(), slice, from..to_record, to);
                }
                let each = round.blocks.iter().zip(staging.chunks_exact(bytes));
                let each: Vec<Option<&[u8]>> =
                    each.map(|(block, bytes)| block.is_some().then_some(bytes)).collect();
                let offset = round.offset + slice * stride + first * slices.bytes;
                self.set.push_to(Symbol::MramHeap, offset, &each)?;
            }
        }
        Ok(())
    }

    /// Copies selectors to every DPU that has any, to the place where a launch with these arguments
    /// expects them.
    pub fn scatter(&mut self, common: Common, selectors: &[Option<&[u8]>]) -> Result<(), PimError> {
        self.set.push_to(Symbol::MramHeap, common.result_bytes(), selectors)
    }

    /// Launches the program on `records[i]` records of DPU i, and returns all DPUs' results. Marks
    /// DPUs as failed if their result does not begin with the launch's number.
    pub fn launch(
        &mut self,
        records: &[usize],
        common: Common,
        times: &StepTimes,
    ) -> Result<Vec<u8>, PimError> {
        let started = Instant::now();
        self.launches = self.launches.wrapping_add(1).max(1);
        let arguments: Vec<[u32; ARGUMENTS]> =
            records.iter().map(|&records| self.arguments(records, common)).collect();
        let each = arguments.iter().enumerate().map(|(dpu, words)| {
            let bytes: &[u8] = bytemuck::cast_slice(words);
            self.works(dpu).then_some(bytes)
        });
        let each: Vec<_> = each.collect();
        self.set.push_to(Symbol::Arguments, 0, &each)?;
        times.add(phases::SCATTER, started.elapsed());

        let started = Instant::now();
        let outcome = self.set.launch();
        times.add(phases::FOLD, started.elapsed());
        if let Err(error) = outcome {
            match error {
                // The other DPUs have finished nevertheless. The results below show which DPUs have
                // failed.
                PimError::Fault(reason) => self.reason = reason,
                error => return Err(error),
            }
        }
        let started = Instant::now();
        let bytes = common.result_bytes();
        let mut results = vec![0; self.dpus() * bytes];
        self.set.push_from(Symbol::MramHeap, 0, &mut results)?;
        times.add(phases::GATHER, started.elapsed());
        for (failed, result) in self.failed.iter_mut().zip(results.chunks_exact(bytes)) {
            *failed |= result[..4] != self.launches.to_le_bytes();
        }
        match self.working().next() {
            Some(_) => Ok(results),
            None => Err(self.lost()),
        }
    }

    fn arguments(&self, records: usize, common: Common) -> [u32; ARGUMENTS] {
        [
            self.launches as usize,
            records,
            common.slice_bytes,
            common.slices,
            common.queries,
            common.block_bytes,
            ((1 << common.queries) - 1) * common.slice_bytes,
            0,
            common.result_bytes(),
            common.database,
            common.slice_stride,
            0,
        ]
        .map(|word| word as u32)
    }

    /// Returns the error for too few remaining DPUs.
    pub fn lost(&self) -> PimError {
        let dpus = self.dpus();
        PimError::Lost { failed: dpus - self.working().count(), dpus, reason: self.reason.clone() }
    }
}
