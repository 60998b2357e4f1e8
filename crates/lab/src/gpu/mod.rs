//! `spirea-lab gpu bench`: the limits of the device, and how close steps and protocols come to
//! them. `spirea-lab gpu predict`: figures of a card that is not there.

mod limits;
mod predict;
mod protocols;
mod results;
mod stand_in;
mod steps;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::ensure;
use clap::{Args, Subcommand};
use spirea_backend::BackendError;
use spirea_console::device::{DeviceOptions, Scale};
use spirea_console::output::{Format, explained, print_line};
use spirea_console::status::Status;
use spirea_console::threads::Threads;
use spirea_cuda::CudaBackend;

use crate::bench::report::{Report, Step};
use limits::{Bound, Limits};
use results::Results;

/// Commands of `spirea-lab gpu`.
#[derive(Subcommand)]
pub enum Gpu {
    /// Measure the device's limits, and compare steps and protocols with them.
    Bench(BenchOptions),
    /// Predict figures of any card from its data sheet, without a device.
    Predict(predict::PredictOptions),
}

/// Options of `spirea-lab gpu bench`.
#[derive(Args)]
pub struct BenchOptions {
    /// Maximum duration in minutes. Measurements that would not end within it are skipped.
    #[arg(long, default_value_t = 6.0)]
    minutes: f64,
    /// File for the figures; by default bench/results/DEVICE-DATE.json.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Only the figures whose names contain this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    #[command(flatten)]
    device: DeviceOptions,
}

/// Runs the command. The status is 0 for success, 1 if anything failed, and 3 without a device.
pub fn run(gpu: &Gpu) -> anyhow::Result<Status> {
    match gpu {
        Gpu::Bench(options) => bench(options),
        Gpu::Predict(options) => predict::run(options),
    }
}

/// Measures everything.
fn bench(options: &BenchOptions) -> anyhow::Result<Status> {
    ensure!(options.minutes > 0.0, "--minutes must be above 0");
    let backend = match options.device.open("spirea-lab")? {
        Ok(backend) => backend,
        Err(code) => return Ok(code),
    };
    let (format, scale) = (options.device.format(), options.device.scale(&backend));
    let started = Instant::now();
    let name = &backend.device().properties().name;
    let mut results = Results::create(options.out.as_deref(), name, format)?;
    results.device(&backend)?;
    let limits = Limits::measure(&backend, scale, &mut results)?;
    let mut bench = Bench {
        backend,
        scale,
        limits,
        results,
        started,
        seconds: 60.0 * options.minutes,
        filter: options.filter.clone(),
        failed: false,
    };
    steps::measure(&mut bench)?;
    protocols::measure(&mut bench)?;
    if format == Format::Text {
        let seconds = started.elapsed().as_secs_f64();
        print_line(&format!("wrote {} after {seconds:.0} s", bench.results.path().display()))?;
    }
    Ok(Status::of(!bench.failed))
}

/// State that measurements share.
struct Bench {
    backend: Arc<CudaBackend>,
    scale: Scale,
    limits: Limits,
    results: Results,
    started: Instant,
    seconds: f64,
    filter: String,
    failed: bool,
}

impl Bench {
    /// Runs a measurement that takes at most `seconds` on the slowest supported device. Skips it if
    /// the filter excludes it, or if time or memory does not suffice.
    fn item(
        &mut self,
        what: &str,
        seconds: f64,
        measure: impl FnOnce(&mut Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if !what.contains(&self.filter) {
            return Ok(());
        }
        if self.scale == Scale::Full && self.started.elapsed().as_secs_f64() + seconds > self.seconds {
            let reason = format!("of {:.1} minutes too few are left", self.seconds / 60.0);
            return self.results.skipped(what, &reason);
        }
        // Frees the memory that the previous measurement used, so that it is available for a
        // database.
        let trimmed = self.backend.device().trim(0).map_err(BackendError::from);
        let Err(error) = trimmed.map_err(Into::into).and_then(|()| measure(self)) else { return Ok(()) };
        // A measurement that does not fit the device's memory is skipped; any other error is a
        // failure.
        let no_room = matches!(error.downcast_ref(), Some(BackendError::Unavailable(_)));
        self.failed |= !no_room;
        self.results.skipped(what, &explained(&error))
    }

    /// Returns the size of a database: at most `wanted` bytes, and at most `share` of the free
    /// memory.
    fn database_bytes(&self, wanted: usize, share: f64) -> anyhow::Result<usize> {
        let (free, _) = self.backend.device().memory()?;
        Ok(wanted.min((free as f64 * share) as usize))
    }

    /// Reports a figure.
    fn figure(&mut self, figure: Figure<'_>) -> anyhow::Result<()> {
        use spirea_backend::Backend as _;
        let Figure { name, params, shape, batch, seconds, bound, steps } = figure;
        self.results.figure(&Report {
            name: name.into(),
            params,
            shape,
            backend: self.backend.name(),
            threads: Threads::all().count(),
            batch,
            seconds,
            floor: bound.floor,
            floor_seconds: bound.seconds,
            ratio: bound.seconds / seconds,
            wire: None,
            steps,
        })
    }
}

/// A measured figure.
struct Figure<'a> {
    name: &'a str,
    params: Option<String>,
    shape: [usize; 2],
    batch: usize,
    /// Seconds for a whole batch.
    seconds: f64,
    bound: Bound,
    steps: Vec<Step>,
}
