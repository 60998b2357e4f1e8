//! Report of a benchmark: one JSON object per line, or text for people.

use std::collections::BTreeMap;

use serde::Serialize;
use spirea_console::output::{bytes, print_line, seconds};
use spirea_protocols::parameters::Failure;

/// A measured figure with the limit that bounds it.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Name of the measurement.
    pub name: String,
    /// Parameter set, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<String>,
    /// Rows and columns of the matrix.
    pub shape: [usize; 2],
    /// Name of the backend.
    pub backend: String,
    /// Number of threads of the server's computation.
    pub threads: usize,
    /// Number of queries in a batch.
    pub batch: usize,
    /// Median time for a whole batch.
    pub seconds: f64,
    /// Bottleneck: `memory`, or the name of the instruction.
    pub floor: String,
    /// Time at that limit.
    pub floor_seconds: f64,
    /// `floor_seconds / seconds`, the median over runs if each run has its own floor. 1.0 is the
    /// limit.
    pub ratio: f64,
    /// Sizes and noise, if the benchmark measures them.
    #[serde(flatten)]
    pub wire: Option<Wire>,
    /// Steps, if the benchmark measures them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// Sizes, preparation and noise of a protocol.
#[derive(Debug, Serialize)]
pub struct Wire {
    /// Length of a query in bytes.
    pub upload_bytes: usize,
    /// Length of an answer in bytes.
    pub download_bytes: usize,
    /// Length of reusable keys in bytes.
    pub keys_bytes: usize,
    /// Length of the hint in bytes, downloaded once for each version.
    pub hint_bytes: u64,
    /// Time to build the snapshot, including the hint.
    pub prepare_seconds: f64,
    /// log2 of the tolerated error over the measured standard deviation.
    pub noise_margin_bits: f64,
    /// Probability of a wrong record.
    #[serde(flatten)]
    pub failure: Option<Failure>,
}

/// A step of a measured whole.
#[derive(Debug, Serialize)]
pub struct Step {
    /// Name of the step.
    pub name: &'static str,
    /// Median time.
    pub seconds: f64,
    /// Bottleneck, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<String>,
    /// Time at that limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_seconds: Option<f64>,
}

impl Report {
    /// Prints the report, as JSON or as text.
    pub fn print(&self, format: spirea_console::output::Format) -> anyhow::Result<()> {
        if format == spirea_console::output::Format::Json {
            return print_json(self);
        }
        let Self { name, backend, threads, batch, shape: [rows, columns], floor, ratio, .. } = self;
        print_line(&format!(
            "{name}: {rows} x {columns}, {backend}, {threads} thread(s), batch {batch}: {}, {ratio:.2} of the limit ({floor}, {})",
            seconds(self.seconds),
            seconds(self.floor_seconds)
        ))?;
        for step in &self.steps {
            print_line(&format!("  {}: {}", step.name, seconds(step.seconds)))?;
        }
        if let Some(wire) = &self.wire {
            print_line(&format!(
                "  upload {}, download {}, hint {}; built in {}; noise margin {:.1} bits{}",
                bytes(wire.upload_bytes as u64),
                bytes(wire.download_bytes as u64),
                bytes(wire.hint_bytes),
                seconds(wire.prepare_seconds),
                wire.noise_margin_bits,
                wire.failure.map(|failure| format!(", failure {failure}")).unwrap_or_default()
            ))?;
        }
        Ok(())
    }
}

/// A report with the parameters that this process has chosen by measurement.
#[derive(Serialize)]
struct Measured<'a, R> {
    #[serde(flatten)]
    report: &'a R,
    /// Prefetch distance of the processor's kernels, in bytes, if matrices were large enough to
    /// measure it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    prefetch: BTreeMap<&'static str, usize>,
}

/// Prints a report as a line of JSON.
pub fn print_json(report: &impl Serialize) -> anyhow::Result<()> {
    let prefetch = spirea_cpu::prefetch_distances().collect();
    print_line(&serde_json::to_string(&Measured { report, prefetch })?)
}

/// Returns the median time of `runs` runs, after one warm-up run.
pub fn median_seconds(runs: usize, run: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    Ok(median(times(runs, run)?))
}

/// Returns the shortest time of `runs` runs, after one warm-up run.
pub fn best_seconds(runs: usize, run: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    Ok(times(runs, run)?.into_iter().fold(f64::INFINITY, f64::min))
}

fn times(runs: usize, mut run: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<Vec<f64>> {
    run()?;
    let timed = |_| {
        let started = std::time::Instant::now();
        run()?;
        Ok(started.elapsed().as_secs_f64())
    };
    (0..runs).map(timed).collect()
}

/// Returns the median of some times.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
