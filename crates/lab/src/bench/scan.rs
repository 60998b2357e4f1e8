//! `spirea-lab bench scan`.

use anyhow::{Context as _, ensure};
use spirea_backend::{Backend as _, MAX_BATCH};
use spirea_cpu::{CpuBackend, rates};

use super::report::{Report, best_seconds, median};
use super::{Options, random_matrix, random_words};

/// The two limits of a scan: memory and the instruction.
pub(super) struct Limits {
    /// Bytes per second that all threads together read.
    pub bandwidth: f64,
    /// Products of a byte and a word per second, of all threads.
    pub products: f64,
    /// Name of the instruction.
    pub instruction: &'static str,
}

impl Limits {
    /// Measures both limits. The memory limit is the rate at which the benchmark's number of
    /// threads reads `bytes`.
    pub fn measure(backend: &CpuBackend, bytes: &[u8]) -> anyhow::Result<Self> {
        let (isa, threads) = (backend.isa(), backend.threads());
        let one_core = rates::multiply_add_peak(isa).context("the path in use has a peak")?;
        Ok(Self {
            bandwidth: rates::read_bandwidth(threads, bytes)?,
            products: one_core * threads as f64,
            instruction: rates::multiply_add_floor(isa),
        })
    }

    /// Returns the name of the bottleneck of a scan of `bytes` for `batch` queries, and the scan's
    /// time at that limit.
    pub fn floor(&self, bytes: usize, batch: usize) -> (String, f64) {
        let memory = bytes as f64 / self.bandwidth;
        let products = bytes as f64 * batch as f64 / self.products;
        if memory >= products { (rates::MEMORY.into(), memory) } else { (self.instruction.into(), products) }
    }
}

/// Times the scan.
pub fn run(options: &Options) -> anyhow::Result<()> {
    ensure!((1..=MAX_BATCH).contains(&options.batch), "--batch must be between 1 and {MAX_BATCH}");
    let (backend, layout) = (options.backend()?, options.layout()?);
    let matrix = random_matrix(&backend, layout)?;
    let queries = random_words(layout.columns() * options.batch)?;
    // The speed of a shared machine drifts, so each run is compared with limits measured right
    // after it. A limit is the best of several tries. For a fair comparison, a run's time is the
    // best of the same number of tries.
    let (mut times, mut floors, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut floor = String::new();
    for _ in 0..options.runs.max(1) {
        let seconds = best_seconds(rates::RUNS, || {
            std::hint::black_box(backend.scalar_fold(&matrix, &queries)?);
            Ok(())
        })?;
        let floor_seconds;
        (floor, floor_seconds) =
            Limits::measure(&backend, matrix.bytes())?.floor(layout.bytes(), options.batch);
        times.push(seconds);
        floors.push(floor_seconds);
        ratios.push(floor_seconds / seconds);
    }
    let report = Report {
        name: "scan".into(),
        params: None,
        shape: [layout.rows(), layout.columns()],
        backend: backend.name(),
        threads: backend.threads(),
        batch: options.batch,
        seconds: median(times),
        floor,
        floor_seconds: median(floors),
        ratio: median(ratios),
        wire: None,
        steps: Vec::new(),
    };
    report.print(options.format())
}
