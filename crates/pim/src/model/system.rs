//! Times of a query on a machine: IM-PIR's phases, clusters, passes and shared passes.

use super::cycles::BlockWork;
use super::parameters::{Parameters, between};
use crate::shape::{GROUP, Mram};

/// Table, and the arrangement in which a machine scans it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Number of records.
    pub records: u64,
    /// Bytes of a record on a DPU, a multiple of 8.
    pub record_bytes: usize,
    /// Number of DPUs in all.
    pub dpus: usize,
    /// Number of clusters, each with the whole table.
    pub clusters: usize,
    /// Number of queries that share a pass.
    pub queries: usize,
}

/// Times of a query's phases, in seconds. If queries share a pass, each query counts its share of
/// the pass's time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueryTimes {
    /// Expansion of the key on the host, with all workers.
    pub evaluate: f64,
    /// Transfer of records to DPUs, if MRAM cannot hold all records.
    pub load: f64,
    /// Transfer of arguments and share bits to DPUs.
    pub scatter: f64,
    /// Launch and fold.
    pub fold: f64,
    /// Transfer of results to the host.
    pub gather: f64,
    /// Addition of the results.
    pub aggregate: f64,
}

impl QueryTimes {
    /// Returns the time of all phases, one after another.
    pub fn total(&self) -> f64 {
        self.evaluate + self.in_memory()
    }

    /// Returns the time of the phases after the evaluation: the time for which a query occupies a
    /// cluster.
    pub fn in_memory(&self) -> f64 {
        self.load + self.scatter + self.fold + self.gather + self.aggregate
    }
}

impl Parameters {
    /// Returns the instructions for a record of `record_bytes` bytes in a pass of `queries`
    /// queries, or of the next larger number in the file. The file's counts are for 32 bytes;
    /// instructions are assumed to be proportional to a record's size.
    pub fn instructions(&self, record_bytes: usize, queries: usize) -> f64 {
        of_queries(&self.program.instructions, queries) * (record_bytes as f64 / 32.0)
    }

    /// Returns the work of a tasklet for a block of records.
    pub fn block_work(&self, record_bytes: usize, queries: usize) -> BlockWork {
        let records = (self.dma.block_bytes / record_bytes).max(1);
        let bytes = (records * record_bytes) as f64;
        BlockWork {
            tasklets: self.machine.tasklets,
            instructions: records as f64 * self.instructions(record_bytes, queries),
            copy_cycles: self.dma.read_cycles + self.dma.cycles_per_byte * bytes,
            issue_interval: self.machine.issue_interval,
        }
    }

    /// Returns the bytes a second that a DPU copies from MRAM, in blocks.
    pub fn mram_bytes_per_second(&self) -> f64 {
        let bytes = self.dma.block_bytes as f64;
        bytes / (self.dma.read_cycles + self.dma.cycles_per_byte * bytes) * self.machine.clock_hz
    }

    /// Returns the seconds in which a DPU folds `records` records.
    pub fn fold_seconds(&self, records: f64, record_bytes: usize, queries: usize) -> f64 {
        let work = self.block_work(record_bytes, queries);
        let block = (self.dma.block_bytes / record_bytes).max(1) as f64;
        let rounds = records / block / f64::from(work.tasklets);
        let once = of_queries(&self.program.instructions_once, queries);
        let once = f64::from(self.machine.issue_interval) * once;
        let write = self.dma.write_cycles + self.dma.cycles_per_byte * (queries * record_bytes) as f64;
        (rounds * work.cycles() + once + write) / self.machine.clock_hz
    }

    /// Returns the number of passes in which a cluster of `dpus` DPUs scans a table.
    pub fn passes(&self, records: u64, record_bytes: usize, dpus: usize) -> u64 {
        let room = Mram::of(self.machine.mram_bytes).tables / record_bytes / GROUP * GROUP;
        records.div_ceil((room.max(1) * dpus) as u64)
    }

    /// Returns the times of a query.
    pub fn query(&self, setup: Setup) -> QueryTimes {
        let Setup { records, record_bytes, dpus, clusters, queries } = setup;
        let each = (dpus / clusters).max(1);
        let passes = self.passes(records, record_bytes, each) as f64;
        let of_dpu = records as f64 / each as f64;
        let launches = passes / queries as f64;
        let selectors = queries as f64 * of_dpu / passes / 8.0;
        let results = (8 + queries * record_bytes) as f64;
        let load = match passes > 1.0 {
            true => launches * between(&self.transfers.host_to_dpu, of_dpu / passes * record_bytes as f64),
            false => 0.0,
        };
        let host = &self.host;
        QueryTimes {
            evaluate: host.evaluate_seconds_once + records as f64 * host.evaluate_seconds_per_point,
            load,
            scatter: launches
                * (self.launch.arguments_seconds + between(&self.transfers.host_to_dpu, selectors)),
            fold: launches
                * (self.launch.seconds + self.fold_seconds(of_dpu / passes, record_bytes, queries)),
            gather: launches * between(&self.transfers.dpu_to_host, results),
            aggregate: passes * (each * record_bytes) as f64 / host.aggregate_bytes_per_second,
        }
    }

    /// Returns the queries a second. A single cluster is the sequential mode: a query ends before
    /// the next one begins. With several clusters, workers evaluate while clusters fold: `min(W /
    /// T_eval, C / T_query)`, where T_eval is the time of one worker.
    pub fn throughput(&self, setup: Setup) -> f64 {
        let times = self.query(setup);
        match setup.clusters {
            0 | 1 => 1.0 / times.total(),
            clusters => self.evaluations_per_second(setup.records).min(clusters as f64 / times.in_memory()),
        }
    }

    /// Returns `W / T_eval`: the evaluations a second of the host.
    pub fn evaluations_per_second(&self, records: u64) -> f64 {
        let of_worker = f64::from(self.host.workers)
            * (self.host.evaluate_seconds_once + records as f64 * self.host.evaluate_seconds_per_point);
        f64::from(self.host.workers) / of_worker
    }

    /// Returns the seconds of a query on the CPU of the comparison, for evaluation and for the
    /// scan, with a batch that uses all threads.
    pub fn cpu_query(&self, records: u64, record_bytes: usize) -> (f64, f64) {
        let bytes = records as f64 * record_bytes as f64;
        (records as f64 * self.cpu.evaluate_seconds_per_point, bytes / self.cpu.bytes_per_second)
    }

    /// Returns the seconds of a query on the GPU of the comparison.
    pub fn gpu_query(&self, records: u64, record_bytes: usize) -> f64 {
        let gib = records as f64 * record_bytes as f64 / f64::from(1 << 30);
        self.gpu.seconds_once + gib * self.gpu.seconds_per_gib
    }
}

/// Returns the count for `queries` queries, or for the next larger number in the list.
fn of_queries(counts: &[(usize, f64)], queries: usize) -> f64 {
    let found = counts.iter().find(|&&(there, _)| there >= queries).or(counts.last());
    found.map_or(0.0, |&(_, count)| count)
}

/// Best arrangement of a machine for a table and a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrangement {
    /// Number of clusters; 1 is the sequential mode.
    pub clusters: usize,
    /// Passes over the table; 1 if MRAM can hold all of it.
    pub passes: u64,
    /// Number of queries that share a pass.
    pub queries: usize,
    /// Queries a second of a large batch.
    pub throughput: f64,
    /// Times of a query.
    pub times: QueryTimes,
}

impl Arrangement {
    /// Numbers of clusters that IM-PIR compares (Figure 11).
    pub const CLUSTERS: [usize; 4] = [1, 2, 4, 8];

    /// Returns the bound on the throughput: the host's evaluation, or the memories.
    pub fn bound(&self, parameters: &Parameters, records: u64) -> &'static str {
        let host = parameters.evaluations_per_second(records);
        let in_memory = self.clusters as f64 / self.times.in_memory();
        if host <= in_memory { "evaluation on the host" } else { "memory" }
    }

    /// Returns the arrangement with the highest throughput; among equal ones the one with the
    /// fewest clusters. It has no more clusters than a batch has queries, and no more queries in a
    /// pass than a cluster gets. Numbers of clusters that need more passes than all DPUs together
    /// are excluded: large tables are answered in the sequential mode (section 3.4).
    pub fn choose(
        parameters: &Parameters,
        records: u64,
        record_bytes: usize,
        dpus: usize,
        batch: usize,
        most_queries: usize,
    ) -> Self {
        let candidate = |clusters: usize| {
            let share = batch.div_ceil(clusters).min(most_queries);
            // A pass has 1, 2 or 4 queries.
            let queries = [4, 2, 1].into_iter().find(|&queries| queries <= share).unwrap_or(1);
            let setup = Setup { records, record_bytes, dpus, clusters, queries };
            Self {
                clusters,
                passes: parameters.passes(records, record_bytes, (dpus / clusters).max(1)),
                queries,
                throughput: parameters.throughput(setup),
                times: parameters.query(setup),
            }
        };
        let least_passes = parameters.passes(records, record_bytes, dpus);
        let possible =
            Self::CLUSTERS.into_iter().filter(|&clusters| clusters <= dpus && clusters <= batch.max(1));
        let all = possible.map(candidate).filter(|candidate| candidate.passes <= least_passes);
        // Among equal arrangements the first one stays.
        all.reduce(|best, next| if next.throughput > 1.001 * best.throughput { next } else { best })
            .unwrap_or_else(|| candidate(1))
    }
}
