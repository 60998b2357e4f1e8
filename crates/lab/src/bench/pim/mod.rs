//! `spirea-lab bench pim`: a machine with processing in memory, by a model with stated parameters,
//! compared with the values that IM-PIR reports; and the speed of the emulation of such a machine.

mod emulated;
mod plots;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use spirea_console::output::{Format, print_line, seconds};
use spirea_papers::{Claim, Kind};
use spirea_pim::model::cycles::BlockWork;
use spirea_pim::model::events::simulate;
use spirea_pim::model::parameters::{Parameters, Profile};
use spirea_pim_figures::{Figure, RECORD_BYTES, Shared, comparisons, figures, records, shared_passes};

/// Numbers of tasklets for which the closed form is compared with the simulation, and blocks per
/// tasklet in the simulation.
const TASKLETS: [u32; 8] = [1, 2, 4, 8, 11, 12, 16, 24];
const BLOCKS: u32 = 50;
/// Sizes, in GiB, of the tables for which the gain by passes that queries share is computed.
const SHARED_SIZES: [f64; 2] = [1.0, 8.0];

/// Options of `spirea-lab bench pim`.
#[derive(Args)]
pub struct PimOptions {
    /// Parameters of the model: paper (fitted to rows of IM-PIR) or kernel (instructions counted
    /// from the device program; launch, CPU and GPU as in paper).
    #[arg(long, default_value = "paper")]
    profile: Profile,
    /// File of parameters, in place of --profile, in the form of crates/pim/profiles/paper.toml.
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    parameters: Option<PathBuf>,
    /// Folder for drawings: comparisons.svg, and one for each of IM-PIR's Figures 9 to 12.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Also time the emulation on a table of this many MiB, beside the CPU backend.
    #[arg(long, value_name = "MIB")]
    emulate_mib: Option<usize>,
    /// DPUs of the emulated machine.
    #[arg(long, default_value_t = 64, requires = "emulate_mib")]
    dpus: usize,
    /// Threads of the emulation and of the CPU backend; 0 for all.
    #[arg(long, default_value = "0", requires = "emulate_mib")]
    threads: spirea_console::threads::Threads,
    /// Number of timed runs of the emulation, after one warm-up run.
    #[arg(long, default_value_t = 5, requires = "emulate_mib")]
    runs: usize,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

/// A value of the paper with the model's value, as a line of JSON.
#[derive(Serialize)]
struct ComparisonLine<'a> {
    name: &'static str,
    profile: &'a str,
    what: &'a str,
    paper: f64,
    model: f64,
    /// Deviation as a share of the paper's value.
    deviation: f64,
    /// Origin of the value under the profile paper.
    kind: Kind,
    fits: &'a [String],
    /// Tolerance of the kind, as a share.
    tolerance: f64,
    within: bool,
}

/// A point of a figure, as a line of JSON.
#[derive(Serialize)]
struct PointLine<'a> {
    name: &'static str,
    profile: &'a str,
    figure: &'a str,
    title: &'a str,
    series: &'a str,
    x: f64,
    x_label: &'a str,
    y: f64,
    y_label: &'a str,
}

/// The closed form compared with the simulation, as a line of JSON.
#[derive(Serialize)]
struct SimulationLine<'a> {
    name: &'static str,
    profile: &'a str,
    tasklets: u32,
    /// Cycles in which every tasklet finishes one block.
    cycles: f64,
    simulated_cycles: f64,
    deviation: f64,
    bound: &'static str,
}

/// Gain by passes that queries share, as a line of JSON.
#[derive(Serialize)]
struct SharedLine<'a> {
    name: &'static str,
    profile: &'a str,
    gib: f64,
    queries: usize,
    fold_seconds: f64,
    in_memory_seconds: f64,
    in_memory_gain: f64,
    queries_per_second: f64,
    gain: f64,
    bound: &'static str,
    workers_to_balance: f64,
}

/// Prints the model's values, and draws them.
pub fn run(options: &PimOptions) -> anyhow::Result<()> {
    let (parameters, name) = options.model()?;
    let format = Format::from_flag(options.json);
    if format == Format::Text {
        print_line(&format!("model: {name}, {}", parameters.label))?;
    }
    let comparisons = comparisons(&parameters);
    for comparison in &comparisons {
        print_comparison(comparison, &name, format)?;
    }
    let figures = figures(&parameters);
    if format == Format::Json {
        figures.iter().try_for_each(|figure| print_figure(figure, &name))?;
    }
    TASKLETS.into_iter().try_for_each(|tasklets| print_simulation(tasklets, &parameters, &name, format))?;
    for gib in SHARED_SIZES {
        let host = parameters.evaluations_per_second(records(gib));
        let shared = shared_passes(&parameters, gib);
        for entry in &shared {
            print_shared(entry, &shared[0], (gib, host), &name, format)?;
        }
    }
    if let Some(folder) = &options.plots {
        std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
        for path in plots::draw(folder, &name, &parameters.label, &comparisons, &figures)? {
            if format == Format::Text {
                print_line(&format!("wrote {}", path.display()))?;
            }
        }
    }
    match options.emulate_mib {
        Some(mib) => emulated::run(mib, options.dpus, options.threads.count(), options.runs, format),
        None => Ok(()),
    }
}

impl PimOptions {
    fn model(&self) -> anyhow::Result<(Parameters, String)> {
        let Some(path) = &self.parameters else {
            return Ok((self.profile.parameters()?, self.profile.name().into()));
        };
        let text =
            std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
        Ok((Parameters::read(&text)?, path.display().to_string()))
    }
}

fn print_comparison(claim: &Claim, profile: &str, format: Format) -> anyhow::Result<()> {
    let &Claim { ref what, paper, ours: model, kind, ref fits, .. } = claim;
    let line = ComparisonLine {
        name: "pim-comparison",
        profile,
        what,
        paper,
        model,
        deviation: claim.deviation(),
        kind,
        fits,
        tolerance: kind.tolerance(),
        within: claim.is_within(),
    };
    match format {
        Format::Json => print_line(&serde_json::to_string(&line)?),
        Format::Text => print_line(&format!(
            "{what:<56} paper {paper:>8.5}  model {model:>8.5}  {:>12}  {} ({}, {:.0}%)",
            claim.deviation_text(),
            if line.within { "ok" } else { "off" },
            claim.kind_text(),
            100.0 * line.tolerance
        )),
    }
}

fn print_simulation(
    tasklets: u32,
    parameters: &Parameters,
    profile: &str,
    format: Format,
) -> anyhow::Result<()> {
    let work = BlockWork { tasklets, ..parameters.block_work(RECORD_BYTES, 1) };
    let simulated_cycles = simulate(work, BLOCKS) as f64 / f64::from(BLOCKS);
    let cycles = work.cycles();
    let (name, bound, deviation) = ("pim-simulation", work.bound(), cycles / simulated_cycles - 1.0);
    let line = SimulationLine { name, profile, tasklets, cycles, simulated_cycles, deviation, bound };
    match format {
        Format::Json => print_line(&serde_json::to_string(&line)?),
        Format::Text => print_line(&format!(
            "{tasklets:>2} tasklets: {cycles:.0} cycles for a block of each ({bound}), {:+.1}% of the simulation's",
            100.0 * deviation
        )),
    }
}

fn print_figure(figure: &Figure, profile: &str) -> anyhow::Result<()> {
    let &Figure { number, title, x: x_label, y: y_label, ref series } = figure;
    for series in series {
        for &(x, y) in &series.points {
            let (name, series) = ("pim-figure", series.name.as_str());
            let line = PointLine { name, profile, figure: number, title, series, x, x_label, y, y_label };
            print_line(&serde_json::to_string(&line)?)?;
        }
    }
    Ok(())
}

fn print_shared(
    shared: &Shared,
    alone: &Shared,
    (gib, host): (f64, f64),
    profile: &str,
    format: Format,
) -> anyhow::Result<()> {
    let line = SharedLine {
        name: "pim-shared",
        profile,
        gib,
        queries: shared.queries,
        fold_seconds: shared.fold_seconds,
        in_memory_seconds: shared.in_memory_seconds,
        in_memory_gain: alone.in_memory_seconds / shared.in_memory_seconds,
        queries_per_second: shared.throughput,
        gain: shared.throughput / alone.throughput,
        bound: if host <= shared.in_memory_throughput { "evaluation" } else { "memory" },
        workers_to_balance: shared.workers_to_balance,
    };
    match format {
        Format::Json => print_line(&serde_json::to_string(&line)?),
        Format::Text => print_line(&format!(
            "{gib} GiB, {} queries in a pass: {} in memory for each ({:.2} times as fast), {:.0} queries a second in all; \
             the bound is {}, {:.0} evaluation workers would balance it",
            line.queries,
            seconds(line.in_memory_seconds),
            line.in_memory_gain,
            line.queries_per_second,
            line.bound,
            line.workers_to_balance
        )),
    }
}
