//! A cluster: DPUs that hold a whole copy of every table and answer together.

use std::ops::Range;
use std::time::Instant;

use spirea_backend::StepTimes;

use crate::phases;
use crate::sdk::{DpuSet, PimError, Sdk, Symbol};
use crate::shape::HEADER;
use crate::table::Table;

/// Bytes that a DPU takes at a time while a table is loaded.
const LOAD_BYTES: usize = 32 << 10;
/// Words of `struct dpxor_arguments`.
const ARGUMENTS: usize = 12;

/// DPUs that hold a whole copy of every table.
pub(crate) struct Cluster {
    set: Box<dyn DpuSet>,
    /// Which DPUs have failed: nothing is asked of them again.
    failed: Vec<bool>,
    /// What the last one said.
    reason: String,
    launches: u32,
}

/// What every DPU of a launch is told alike.
#[derive(Clone, Copy)]
pub(crate) struct Common {
    pub slice_bytes: usize,
    pub slices: usize,
    pub queries: usize,
    /// Bytes of the buffer for records.
    pub block_bytes: usize,
    /// Where the block is, for DPUs that have one.
    pub database: usize,
    pub slice_stride: usize,
}

impl Common {
    /// A launch that only shows who answers.
    const NOTHING: Self =
        Self { slice_bytes: 8, slices: 0, queries: 1, block_bytes: 8, database: 0, slice_stride: 0 };

    /// Bytes that every DPU gives back. Selectors lie behind them.
    pub fn result_bytes(&self) -> usize {
        HEADER + self.queries * self.slices * self.slice_bytes
    }
}

/// The blocks of a launch: of each DPU the one that it folds, if it has any.
pub(crate) struct Round {
    /// By DPU.
    pub blocks: Vec<Option<usize>>,
    /// Where they are in MRAM.
    pub offset: usize,
}

impl Cluster {
    /// Allocates DPUs, loads the program, and finds out which of them work.
    ///
    /// # Errors
    /// Those of the SDK, and [`PimError::Lost`] if none works.
    pub fn new(sdk: &dyn Sdk, dpus: Option<usize>) -> Result<Self, PimError> {
        let mut set = sdk.alloc(dpus)?;
        set.load()?;
        let failed = vec![false; set.dpus()];
        let mut cluster = Self { set, failed, reason: String::new(), launches: 0 };
        let records = vec![0; cluster.dpus()];
        cluster.launch(&records, Common::NOTHING, &StepTimes::default())?;
        Ok(cluster)
    }

    /// DPUs, also those that have failed.
    pub fn dpus(&self) -> usize {
        self.failed.len()
    }

    /// The DPUs that work.
    pub fn working(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.dpus()).filter(|&dpu| !self.failed[dpu])
    }

    /// Whether a DPU works.
    pub fn works(&self, dpu: usize) -> bool {
        !self.failed[dpu]
    }

    /// Copies blocks of a table to the DPUs that shall have them.
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
                    // Behind the last record of a ragged block lies nothing that is read.
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

    /// Copies selectors to every DPU that has any, to where a launch of this form expects them.
    pub fn scatter(&mut self, common: Common, selectors: &[Option<&[u8]>]) -> Result<(), PimError> {
        self.set.push_to(Symbol::MramHeap, common.result_bytes(), selectors)
    }

    /// Launches the program with so many records in each DPU, and gives every DPU's result. Marks those that have failed:
    /// they do not give the launch's number back.
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
                // The others have ended all the same; who has not, shows below.
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

    /// Too few DPUs are left.
    pub fn lost(&self) -> PimError {
        let dpus = self.dpus();
        PimError::Lost { failed: dpus - self.working().count(), dpus, reason: self.reason.clone() }
    }
}
