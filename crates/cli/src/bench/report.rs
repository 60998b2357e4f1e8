//! What a benchmark prints: one JSON object a line, or the same for people.

use std::collections::BTreeMap;

use serde::Serialize;
use spirea_protocols::parameters::Failure;

use crate::output::{bytes, print_line, seconds};

/// One measured figure with the limit that bounds it.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What was measured.
    pub name: String,
    /// The parameter set, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<String>,
    /// Rows and columns of the matrix.
    pub shape: [usize; 2],
    /// The backend.
    pub backend: String,
    /// Threads of the server's computation.
    pub threads: usize,
    /// Queries in a batch.
    pub batch: usize,
    /// Median for one whole batch.
    pub seconds: f64,
    /// What bounds it: `memory`, or the instruction.
    pub floor: String,
    /// The time at that bound.
    pub floor_seconds: f64,
    /// `floor_seconds / seconds`, the median over runs where each has its own floor: 1.0 is the limit.
    pub ratio: f64,
    /// Figures of the wire and the noise, where the benchmark has them.
    #[serde(flatten)]
    pub wire: Option<Wire>,
    /// The parts, where the benchmark has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// Figures of a protocol.
#[derive(Debug, Serialize)]
pub struct Wire {
    /// Bytes of a query.
    pub upload_bytes: usize,
    /// Bytes of an answer.
    pub download_bytes: usize,
    /// Bytes of reusable keys.
    pub keys_bytes: usize,
    /// Bytes of the hint, once for a version.
    pub hint_bytes: u64,
    /// Time to build the snapshot, hint included.
    pub prepare_seconds: f64,
    /// log2 of the tolerated error over the measured deviation.
    pub noise_margin_bits: f64,
    /// The probability of a wrong record.
    #[serde(flatten)]
    pub failure: Option<Failure>,
}

/// A part of a measured whole.
#[derive(Debug, Serialize)]
pub struct Step {
    /// Which part.
    pub name: &'static str,
    /// Median.
    pub seconds: f64,
    /// What bounds it, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<String>,
    /// The time at that bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_seconds: Option<f64>,
}

impl Report {
    /// Prints it: as JSON, or as text.
    pub fn print(&self, format: crate::output::Format) -> anyhow::Result<()> {
        if format == crate::output::Format::Json {
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

/// A report, and what this process has chosen by measurement.
#[derive(Serialize)]
struct Measured<'a, R> {
    #[serde(flatten)]
    report: &'a R,
    /// How many bytes ahead of what they read kernels of the processor ask for memory, where matrices were large enough to
    /// tell.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    prefetch: BTreeMap<&'static str, usize>,
}

/// Prints a report as a line of JSON.
pub fn print_json(report: &impl Serialize) -> anyhow::Result<()> {
    let prefetch = spirea_cpu::prefetch_distances().collect();
    print_line(&serde_json::to_string(&Measured { report, prefetch })?)
}

/// The median of the times of `runs` runs after one that does not count.
pub fn median_seconds(runs: usize, run: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    Ok(median(times(runs, run)?))
}

/// The shortest of the times of `runs` runs after one that does not count.
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

/// The median of some times.
pub fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
