//! The backend: evaluation on the host, folds in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

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

/// How DPUs are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PimConfig {
    /// DPUs in all; none for all there are.
    pub dpus: Option<usize>,
    /// Clusters, each with a whole copy of every table; one is IM-PIR's sequential mode. They divide the DPUs evenly.
    pub clusters: usize,
    /// The most queries that share a pass over MRAM, 1 to 4; IM-PIR has 1.
    pub queries: usize,
    /// How the device program was built.
    pub build: Build,
    /// Bytes of MRAM of a DPU.
    pub mram_bytes: usize,
}

impl Default for PimConfig {
    /// All DPUs as one cluster, and as many queries in a pass as there can be.
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

/// Folds by shares of bits, in the memories of DPUs; keys are expanded by the processor.
///
/// For rings beside it: `Split::new(cpu, pim)`.
#[derive(Clone)]
pub struct PimBackend {
    machine: Arc<Machine>,
    times: Arc<StepTimes>,
}

/// A table in the memories of DPUs.
#[derive(Debug)]
pub struct PimRows {
    table: Table,
    /// Of each cluster.
    placements: Vec<Mutex<Placement>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PimBackend {
    /// Allocates DPUs, loads the program and finds out which DPUs work.
    ///
    /// # Errors
    /// [`PimError::Settings`] for no clusters, or queries other than 1 to 4; [`PimError::Tasklets`] and
    /// [`PimError::Wram`] for a build that cannot be; those of the SDK; [`PimError::Lost`] if no DPU of a cluster works.
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
                    // All there are: allocated once to be counted.
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

    /// The same DPUs and tables, with the times of [`phases`] added up apart.
    pub fn with_times(&self, times: Arc<StepTimes>) -> Self {
        Self { machine: Arc::clone(&self.machine), times }
    }

    /// The times of [`phases`].
    pub fn times(&self) -> &Arc<StepTimes> {
        &self.times
    }

    /// Its name: of the SDK, and how many DPUs and clusters.
    pub fn name(&self) -> String {
        let Machine { name, clusters, .. } = &*self.machine;
        let dpus: usize = clusters.iter().map(|cluster| lock(cluster).dpus()).sum();
        format!("{name}, {dpus} DPUs in {} cluster(s)", clusters.len())
    }

    /// DPUs that work, of all clusters.
    pub fn working_dpus(&self) -> usize {
        self.machine.clusters.iter().map(|cluster| lock(cluster).working().count()).sum()
    }

    fn take(&self, layout: RowLayout, source: CpuRows) -> Result<PimRows, BackendError> {
        let Machine { clusters, wram, mram, regions, .. } = &*self.machine;
        let dpus = clusters.iter().map(|cluster| lock(cluster).working().count()).min().unwrap_or(1);
        let table = Table::new(layout, source, *wram, *mram, regions, dpus.max(1))?;
        let placements = clusters.iter().map(|cluster| Placement::new(&mut lock(cluster), &table));
        let placements = placements.map(|placement| placement.map(Mutex::new)).collect::<Result<_, _>>()?;
        Ok(PimRows { table, placements })
    }

    /// Takes tasks, `queries` at a time, until there are none, and stores their answers. Returns the error if the cluster
    /// fails; other clusters take its tasks.
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
            let mut placement = lock(&rows.placements[cluster]);
            let folded = {
                let mut cluster = lock(&self.machine.clusters[cluster]);
                fold(&mut cluster, &rows.table, &mut placement, &selections, &self.times)
            };
            let folded = match folded {
                Ok(folded) => folded,
                Err(error) => {
                    worker.give_back(tasks);
                    return Err(error);
                }
            };
            let mut answers = lock(answers);
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

    /// The rows are copied to MRAM; on the host they are mapped from their file, for blocks that must move and for tables
    /// that are loaded in passes.
    fn open_rows(&self, stored: FileRows<'_, RowLayout>) -> Result<PimRows, BackendError> {
        let layout = stored.part()?;
        self.take(layout, self.machine.cpu.open_rows(FileRows { residence: Residence::Mapped, ..stored })?)
    }

    fn row_layout(&self, rows: &PimRows) -> RowLayout {
        rows.table.layout
    }

    /// # Errors
    /// Those of [`PimBackend::share_folds`].
    fn share_fold(
        &self,
        rows: &PimRows,
        first_row: usize,
        prf: PrfKind,
        keys: &[Key],
    ) -> Result<Vec<u8>, BackendError> {
        self.share_folds(rows, prf, &[ShareFold { first_row, keys }])
    }

    /// Keys that meet no block together are one query of a pass: their bits lie one behind another, and each block's sum
    /// belongs to one of them. So bins take as many queries of a pass as bins meet a block, two where bins are not smaller
    /// than blocks.
    ///
    /// # Errors
    /// Beside those of the trait, [`BackendError::Unavailable`] for shares that are words, and
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
        // No more in a pass than leaves some for each cluster, as `Arrangement` plans.
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
                        lock(failures).push(error);
                    }
                });
            }
            let started = Instant::now();
            let waited = Mutex::new(std::time::Duration::ZERO);
            self.machine.cpu.evaluate_shares(prf, &keys, |key, leaves| {
                if let Some(whole) = selections.add(key, &leaves) {
                    let full = Instant::now();
                    queue.push(whole);
                    *lock(&waited) += full.elapsed();
                }
            });
            queue.close();
            let waited = *lock(&waited) / self.machine.cpu.threads().min(keys.len()) as u32;
            self.times.add(phases::EVALUATE, started.elapsed().saturating_sub(waited));
        });
        let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        let answers: Option<Vec<Vec<u8>>> = answers.into_iter().collect();
        let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        match (answers, failures.into_iter().next()) {
            (Some(answers), _) => Ok(answers.concat()),
            (None, Some(error)) => Err(error.into()),
            (None, None) => Err(BackendError::Device("a key was left without an answer".into())),
        }
    }
}
