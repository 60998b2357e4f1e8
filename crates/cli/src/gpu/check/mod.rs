//! `spirea gpu check`: self-tests of the primitives, every step against the CPU, and the protocols.

mod case;
mod coverage;
mod folds;
mod outcome;
mod protocols;
mod rings;
mod shares;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use spirea_console::device::{DeviceOptions, Scale};
use spirea_console::output::{Format, print_line};
use spirea_console::status::Status;
use spirea_console::threads::Threads;
use spirea_cpu::CpuBackend;
use spirea_cuda::CudaBackend;
use spirea_cuda::probe::SelfTest;

use outcome::{Outcome, Watch};

/// Options of `spirea gpu check`.
#[derive(Args)]
pub struct CheckOptions {
    /// Size in GiB of the databases that the protocols are checked on at last.
    #[arg(long, default_value_t = 0.5)]
    db_gib: f64,
    /// Minutes after which no further check begins: 1.75 by default, without end if the scale is
    /// tiny.
    #[arg(long)]
    minutes: Option<f64>,
    /// Only the checks whose names contain this text.
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    #[command(flatten)]
    device: DeviceOptions,
}

/// Default limit for checks of full size, in minutes. With this limit, the checks and `bench`
/// together take less than 8 minutes.
const MINUTES: f64 = 1.75;

/// The backends that a check compares.
#[derive(Clone)]
struct Subject {
    cuda: Arc<CudaBackend>,
    cpu: Arc<CpuBackend>,
    scale: Scale,
}

/// Turn of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// Small shapes, which launch every kernel.
    First,
    /// Larger shapes, for which there may be no time.
    Later,
}

/// A named check.
struct Check {
    name: String,
    turn: Turn,
    run: Box<dyn FnOnce() -> anyhow::Result<String>>,
}

impl Check {
    /// Creates a check. `run` returns a detail for the report, or an empty text.
    fn new(name: impl Into<String>, run: impl FnOnce() -> anyhow::Result<String> + 'static) -> Self {
        Self { name: name.into(), turn: Turn::First, run: Box::new(run) }
    }

    /// Moves the check to the turn after all small shapes.
    fn later(self) -> Self {
        Self { turn: Turn::Later, ..self }
    }
}

/// Runs all checks and reports their outcomes.
pub fn run(options: &CheckOptions) -> anyhow::Result<Status> {
    ensure!(options.db_gib > 0.0 && options.db_gib <= 64.0, "--db-gib must be above 0 and at most 64");
    let cuda = match options.device.open("spirea")? {
        Ok(cuda) => cuda,
        Err(code) => return Ok(code),
    };
    let (format, scale) = (options.device.format(), options.device.scale(&cuda));
    let cpu = Arc::new(CpuBackend::new(Threads::all().count())?);
    let subject = Subject { cuda, cpu, scale };
    let checks = all(&subject, options);
    let minutes = options.minutes.unwrap_or(if scale == Scale::Full { MINUTES } else { f64::INFINITY });
    let report = Report { format, started: Instant::now(), total: checks.len() };
    report.device(&subject.cuda)?;
    let watch = Watch::begin();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let mut lost = false;
    for (number, check) in checks.into_iter().enumerate() {
        let outcome = if lost {
            Outcome::Skipped("the device was lost".into())
        } else if report.started.elapsed().as_secs_f64() > 60.0 * minutes {
            Outcome::Skipped(format!("{minutes} minutes are over"))
        } else {
            let bar = report.progress(number, &check.name);
            let outcome = watch.run(check.run);
            bar.finish_and_clear();
            outcome
        };
        match outcome {
            Outcome::Passed { .. } => passed += 1,
            Outcome::Failed { .. } => {
                failed += 1;
                // After some failures a device no longer responds.
                lost = subject.cuda.device().synchronize().is_err();
            }
            Outcome::Skipped(_) => skipped += 1,
        }
        report.outcome("check", &check.name, &outcome)?;
    }
    let incomplete = match () {
        () if !options.filter.is_empty() => Some("--filter leaves out checks".to_owned()),
        () if failed > 0 => Some("a check failed".to_owned()),
        () if skipped > 0 => Some(format!("{minutes} minutes are over")),
        () => None,
    };
    let outcome = coverage::outcome(subject.cuda.device(), incomplete);
    failed += usize::from(matches!(outcome, Outcome::Failed { .. }));
    report.outcome("coverage", coverage::NAME, &outcome)?;
    report.end(passed, failed, skipped)?;
    Ok(Status::of(failed == 0))
}

fn all(subject: &Subject, options: &CheckOptions) -> Vec<Check> {
    let self_tests = SelfTest::all(subject.cuda.device()).into_iter().map(|test| {
        let cuda = Arc::clone(&subject.cuda);
        Check::new(format!("self-test {}", test.name()), move || {
            test.run(cuda.device())?;
            Ok(String::new())
        })
    });
    let mut checks: Vec<Check> = self_tests.collect();
    checks.extend(folds::checks(subject));
    checks.extend(rings::checks(subject));
    checks.extend(shares::checks(subject));
    checks.extend(protocols::checks(subject, options.db_gib));
    checks.retain(|check| check.name.contains(&options.filter));
    checks.sort_by_key(|check| check.turn);
    checks
}

/// Report on the terminal while checks run.
struct Report {
    format: Format,
    started: Instant,
    total: usize,
}

impl Report {
    fn device(&self, cuda: &CudaBackend) -> anyhow::Result<()> {
        let properties = cuda.device().properties();
        let driver = spirea_cuda::driver::driver_version()?;
        let (name, compute, kernels) = (&properties.name, properties.compute, cuda.device().targets());
        match self.format {
            Format::Text => print_line(&format!(
                "{name}, compute capability {compute}, {} multiprocessors, {}, driver for CUDA {driver}, kernels {kernels}: \
                 {} checks",
                properties.processors,
                spirea_console::output::bytes(properties.memory_bytes as u64),
                self.total
            )),
            Format::Json => print_line(
                &serde_json::json!({
                    "device": name,
                    "compute": compute.to_string(),
                    "driver": driver,
                    "kernels": kernels,
                    "checks": self.total,
                })
                .to_string(),
            ),
        }
    }

    /// Shows a progress line on the terminal while a check runs.
    fn progress(&self, number: usize, name: &str) -> ProgressBar {
        let style = ProgressStyle::with_template("{spinner} {prefix} {msg} {elapsed}");
        let bar = ProgressBar::new_spinner().with_style(style.expect("the template is constant"));
        bar.set_prefix(format!("[{}/{}]", number + 1, self.total));
        bar.set_message(name.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }

    /// Prints an outcome. `kind` is the member of the JSON object that has the name.
    fn outcome(&self, kind: &str, name: &str, outcome: &Outcome) -> anyhow::Result<()> {
        if self.format == Format::Json {
            return print_line(&outcome.json(kind, name).to_string());
        }
        let (word, seconds, detail) = match outcome {
            Outcome::Passed { seconds, detail } => ("ok", Some(seconds), detail),
            Outcome::Failed { seconds, reason } => ("FAILED", Some(seconds), reason),
            Outcome::Skipped(reason) => ("not run", None, reason),
        };
        let seconds = seconds.map_or(String::new(), |seconds| format!("{seconds:.2} s"));
        let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        print_line(&format!("{word:7} {seconds:>9}  {name}{detail}"))
    }

    fn end(&self, passed: usize, failed: usize, skipped: usize) -> anyhow::Result<()> {
        let seconds = self.started.elapsed().as_secs_f64();
        match self.format {
            Format::Text => {
                print_line(&format!("{passed} passed, {failed} failed, {skipped} not run, {seconds:.0} s"))
            }
            Format::Json => print_line(
                &serde_json::json!({
                    "passed": passed, "failed": failed, "not_run": skipped, "seconds": seconds,
                })
                .to_string(),
            ),
        }
    }
}
