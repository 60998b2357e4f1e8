//! The backend: keys are evaluated on the host, rows are folded in memory.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use spirea_backend::{BackendError, FileRows, Residence, RowLayout, ShareBackend, ShareFold, StepTimes};
use spirea_cpu::{CpuBackend, CpuRows};
use spirea_dpf::{Key, OutputKind, PrfKind};

use crate::cluster::Cluster;
use crate::fold::fold;
use crate::phases;
use crate::placement::Placement;
use crate::queue::{Queue, Worker};
use crate::regions::Regions;
use crate::round::Round;
use crate::sdk::{MRAM_BYTES, PimError, Sdk};
use crate::selectors::Selection;
use crate::shape::{Build, MOST_QUERIES, Mram, Wram};
use crate::table::Table;

/// Use of the DPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PimConfig {
    /// Number of DPUs in all; `None` for all that exist.
    pub dpus: Option<usize>,
    /// Number of clusters, each with a whole copy of every table; a single cluster is IM-PIR's
    /// sequential mode. The clusters divide the DPUs evenly.
    pub clusters: usize,
    /// Maximum number of queries that share a pass over MRAM, 1 to 4; IM-PIR has 1.
    pub queries: usize,
    /// Build options of the device program.
    pub build: Build,
    /// Bytes of MRAM of a DPU.
    pub mram_bytes: usize,
}

impl Default for PimConfig {
    /// Uses all DPUs as one cluster, with the maximum number of queries in a pass.
    fn default() -> Self {
        Self {
            dpus: None,
            clusters: 1,
            queries: MOST_QUERIES,
            build: Build::default(),
            mram_bytes: MRAM_BYTES,
        }
    }
}

struct Machine {
    name: &'static str,
    config: PimConfig,
    cpu: Arc<CpuBackend>,
    clusters: Vec<Mutex<Cluster>>,
    wram: Wram,
    mram: Mram,
    regions: Regions,
}

/// Backend for folds by shares of bits, in the memories of DPUs; the processor expands the keys.
///
/// `Split::new(cpu, pim)` creates a backend that also runs rings.
#[derive(Clone)]
pub struct PimBackend {
    machine: Arc<Machine>,
    times: Arc<StepTimes>,
}

/// Table in the memories of DPUs.
#[derive(Debug)]
pub struct PimRows {
    table: Table,
    /// Placement of the table's blocks in each cluster.
    placements: Vec<Mutex<Placement>>,
}

impl PimBackend {
    /// Allocates DPUs, loads the program and detects the DPUs that work.
    ///
    /// # Errors
    /// [`PimError::Settings`] if there are no clusters, or the number of queries is not 1 to 4;
    /// [`PimError::Tasklets`] and [`PimError::Wram`] for an impossible build; the errors of the
    /// SDK; [`PimError::Lost`] if no DPU of a cluster works.
    pub fn new(sdk: &dyn Sdk, config: PimConfig, cpu: Arc<CpuBackend>) -> Result<Self, PimError> {
        if config.clusters == 0 || !(1..=MOST_QUERIES).contains(&config.queries) {
            return Err(PimError::Settings(format!(
                "{} clusters with passes for {} queries: at least 1, and 1 to {MOST_QUERIES}",
                config.clusters, config.queries
            )));
        }
        let wram = Wram::of(config.build)?;
        let mram = Mram::of(config.mram_bytes);
        let regions = Regions::new(mram.scratch, mram.scratch + mram.tables);
        let clusters = match (config.clusters, config.dpus) {
            (1, dpus) => vec![Cluster::new(sdk, dpus)?],
            (clusters, dpus) => {
                let dpus = match dpus {
                    Some(dpus) => dpus,
                    // All DPUs are allocated once, to count them.
                    None => sdk.alloc(None)?.dpus(),
                };
                let each = dpus / clusters;
                if each == 0 {
                    return Err(PimError::Allocation { wanted: clusters, free: dpus });
                }
                (0..clusters).map(|_| Cluster::new(sdk, Some(each))).collect::<Result<_, _>>()?
            }
        };
        let clusters = clusters.into_iter().map(Mutex::new).collect();
        let machine = Machine { name: sdk.name(), config, cpu, clusters, wram, mram, regions };
        Ok(Self { machine: Arc::new(machine), times: Arc::default() })
    }

    /// Returns a backend with the same DPUs and tables that adds the times of [`phases`] to
    /// `times`.
    pub fn with_times(&self, times: Arc<StepTimes>) -> Self {
        Self { machine: Arc::clone(&self.machine), times }
    }

    /// Returns the times of [`phases`].
    pub fn times(&self) -> &Arc<StepTimes> {
        &self.times
    }

    /// Returns a name: that of the SDK, with the number of DPUs and clusters.
    pub fn name(&self) -> String {
        let Machine { name, clusters, .. } = &*self.machine;
        let dpus: usize = clusters.iter().map(|cluster| cluster.lock().dpus()).sum();
        format!("{name}, {dpus} DPUs in {} cluster(s)", clusters.len())
    }

    /// Returns the number of working DPUs in all clusters.
    pub fn working_dpus(&self) -> usize {
        self.machine.clusters.iter().map(|cluster| cluster.lock().working().count()).sum()
    }

    fn take(&self, layout: RowLayout, source: CpuRows) -> Result<PimRows, BackendError> {
        let Machine { clusters, wram, mram, regions, .. } = &*self.machine;
        let dpus = clusters.iter().map(|cluster| cluster.lock().working().count()).min().unwrap_or(1);
        let table = Table::new(layout, source, *wram, *mram, regions, dpus.max(1))?;
        let placements = clusters.iter().map(|cluster| Placement::new(&mut cluster.lock(), &table));
        let placements = placements.map(|placement| placement.map(Mutex::new)).collect::<Result<_, _>>()?;
        Ok(PimRows { table, placements })
    }

    /// Takes tasks, `queries` at a time, until no more come, and stores their answers. If the
    /// cluster fails, returns the error; other clusters take its tasks.
    fn work(
        &self,
        cluster: usize,
        rows: &PimRows,
        queries: usize,
        worker: &Worker<'_, Selection>,
        answers: &Mutex<Vec<Option<Vec<u8>>>>,
    ) -> Result<(), PimError> {
        loop {
            let tasks = worker.take(queries);
            if tasks.is_empty() {
                return Ok(());
            }
            let selections: Vec<&Selection> = tasks.iter().collect();
            let mut placement = rows.placements[cluster].lock();
            let folded = {
                let mut cluster = self.machine.clusters[cluster].lock();
                fold(&mut cluster, &rows.table, &mut placement, &selections, &self.times)
            };
            let folded = match folded {
                Ok(folded) => folded,
                Err(error) => {
                    worker.give_back(tasks);
                    return Err(error);
                }
            };
            let mut answers = answers.lock();
            for (selection, folded) in tasks.iter().zip(folded) {
                for ((_, place), slices) in selection.answers.iter().zip(folded) {
                    let mut answer = vec![0; rows.table.layout.answer_bytes()];
                    rows.table.slices.add_to(&mut answer, &slices);
                    answers[*place] = Some(answer);
                }
            }
            worker.done(tasks.len());
        }
    }

    fn queries_at_once(&self, rows: &PimRows) -> usize {
        rows.table
            .slices
            .queries(self.machine.config.queries, rows.table.wram)
            .min(self.machine.config.queries)
    }
}

impl ShareBackend for PimBackend {
    type Rows = PimRows;

    fn upload_rows(&self, layout: RowLayout, bytes: &[u8]) -> Result<PimRows, BackendError> {
        self.take(layout, self.machine.cpu.upload_rows(layout, bytes)?)
    }

    /// Copies the rows to MRAM. On the host they are mapped from their file, for blocks that must
    /// move and for tables that are loaded in passes.
    fn open_rows(&self, stored: FileRows<'_, RowLayout>) -> Result<PimRows, BackendError> {
        let layout = stored.part()?;
        self.take(layout, self.machine.cpu.open_rows(FileRows { residence: Residence::Mapped, ..stored })?)
    }

    fn row_layout(&self, rows: &PimRows) -> RowLayout {
        rows.table.layout
    }

    /// # Errors
    /// The errors of [`PimBackend::share_folds`].
    fn share_fold(
        &self,
        rows: &PimRows,
        first_row: usize,
        prf: PrfKind,
        keys: &[Key],
    ) -> Result<Vec<u8>, BackendError> {
        self.share_folds(rows, prf, &[ShareFold { first_row, keys }])
    }

    /// Keys that have no block in common share one query of a pass. Their bits follow one another,
    /// and each block's sum belongs to one key. The number of queries that bins need is therefore
    /// the largest number of bins that overlap one block. It is two if bins are not smaller than
    /// blocks.
    ///
    /// # Errors
    /// The errors of the trait; [`BackendError::Unavailable`] for shares that are words, and
    /// [`BackendError::Device`] if all clusters have failed.
    fn share_folds(
        &self,
        rows: &PimRows,
        prf: PrfKind,
        folds: &[ShareFold<'_>],
    ) -> Result<Vec<u8>, BackendError> {
        let layout = rows.table.layout;
        let checked = folds.iter().map(|fold| layout.check_keys(fold.first_row, fold.keys));
        let batches = checked.collect::<Result<Vec<_>, _>>()?;
        if batches.iter().any(|batch| batch.domain.output() != OutputKind::Bit) {
            return Err(BackendError::Unavailable(
                "processing in memory folds by shares that are bits: serve dpf-sum on another backend".into(),
            ));
        }
        if rows.placements.len() != self.machine.clusters.len() {
            return Err(BackendError::Shape("rows of another backend".into()));
        }
        let Round { keys, selections } = Round::new(&rows.table, &batches, folds);
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let answers = Mutex::new(vec![None; keys.len()]);
        // Limits the queries of a pass, so that every cluster gets some, as `Arrangement` plans.
        let queries =
            selections.count().div_ceil(self.machine.clusters.len()).min(self.queries_at_once(rows));
        let queue = Queue::new(2 * self.machine.config.queries * self.machine.clusters.len());
        let workers: Vec<_> = self.machine.clusters.iter().map(|_| queue.worker()).collect();
        let failures = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for (cluster, worker) in workers.into_iter().enumerate() {
                let (answers, failures) = (&answers, &failures);
                scope.spawn(move || {
                    if let Err(error) = self.work(cluster, rows, queries, &worker, answers) {
                        failures.lock().push(error);
                    }
                });
            }
            let started = Instant::now();
            let waited = Mutex::new(std::time::Duration::ZERO);
            self.machine.cpu.evaluate_shares(prf, &keys, |key, leaves| {
                if let Some(whole) = selections.add(key, &leaves) {
                    let full = Instant::now();
                    queue.push(whole);
                    *waited.lock() += full.elapsed();
                }
            });
            queue.close();
            let waited = *waited.lock() / self.machine.cpu.threads().min(keys.len()) as u32;
            self.times.add(phases::EVALUATE, started.elapsed().saturating_sub(waited));
        });
        let answers = answers.into_inner();
        let answers: Option<Vec<Vec<u8>>> = answers.into_iter().collect();
        let failures = failures.into_inner();
        match (answers, failures.into_iter().next()) {
            (Some(answers), _) => Ok(answers.concat()),
            (None, Some(error)) => Err(error.into()),
            (None, None) => Err(BackendError::Device("a key was left without an answer".into())),
        }
    }
}
