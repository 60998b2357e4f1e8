//! The command `spirea-ive`.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use spirea_ive::arch::Arch;
use spirea_ive::draw::{draw, draw_plan};
use spirea_ive::figures::figures;
use spirea_ive::plan::{Choice, best, plan};
use spirea_ive::program::Program;
use spirea_ive::reproduce::{Row, rows};
use spirea_ive::schedule::Digits;
use spirea_ive::system::{Mapping, Schedules, Workload, simulate, usual_batch};

/// Simulates IVE, an accelerator for private information retrieval.
#[derive(Parser)]
#[command(name = "spirea-ive", version)]
struct Arguments {
    /// A file of an architecture instead of IVE's, in the form of sim/ive/arch.toml.
    #[arg(long, value_name = "FILE", global = true)]
    arch: Option<PathBuf>,
    /// JSON: one object a line.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every value of the paper beside the simulator's, and the deviation.
    Reproduce {
        /// A folder for the paper's figures as SVG; with --json they are printed too.
        #[arg(long, value_name = "FOLDER")]
        figures: Option<PathBuf>,
    },
    /// A batch of queries, step by step.
    Run {
        /// GiB of the database.
        #[arg(long)]
        gib: f64,
        /// Systems on the switch.
        #[arg(long, default_value_t = 1)]
        systems: u64,
        /// Queries of the batch; what the architecture's file says if not given.
        #[arg(long)]
        batch: Option<u64>,
        /// Another protocol than the paper's: simple, exppack-simple, hybrid or onion, as this project's servers do
        /// them, on one system.
        #[arg(long, value_name = "NAME", conflicts_with = "systems")]
        protocol: Option<String>,
        /// Bytes of a record of such a protocol.
        #[arg(long, default_value_t = 4096, requires = "protocol")]
        record_bytes: usize,
    },
    /// Sizes a cluster: for a database and a rate, how many systems answer how soon.
    Plan {
        /// TiB of the database, before it is transformed.
        #[arg(long)]
        db_tb: f64,
        /// Queries a second.
        #[arg(long)]
        qps: f64,
        /// The cheapest whose mean latency is at most so many milliseconds.
        #[arg(long)]
        latency_ms: Option<f64>,
        /// A file for a chart of cost against latency, as SVG.
        #[arg(long, value_name = "FILE")]
        chart: Option<PathBuf>,
    },
    /// The file of IVE, to begin others with.
    Arch,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let arch = architecture(arguments.arch.as_deref())?;
    match arguments.command {
        Command::Reproduce { figures: folder } => reproduce(&arch, arguments.json, folder.as_deref())?,
        Command::Plan { db_tb, qps, latency_ms, chart } => {
            size(&arch, arguments.json, (1024.0 * db_tb, qps, latency_ms), chart.as_deref())?;
        }
        Command::Run { gib, batch, protocol: Some(protocol), record_bytes, .. } => {
            let queries = batch.unwrap_or(arch.batch.queries) as usize;
            let program = Program::of_protocol(&arch, &protocol, gib, record_bytes, queries)?;
            let steps = program.time(&arch)?;
            let seconds: f64 = steps.iter().map(|(_, seconds)| seconds).sum();
            let rate = queries as f64 / seconds;
            if arguments.json {
                let steps: Vec<_> = steps
                    .iter()
                    .map(|(step, seconds)| serde_json::json!({"step": step, "seconds": seconds}))
                    .collect();
                let line = serde_json::json!({
                    "name": "ive-protocol", "arch": arch.label, "protocol": protocol, "gib": gib,
                    "record_bytes": record_bytes, "batch": queries, "seconds": seconds, "steps": steps,
                    "queries_per_second": rate,
                });
                print(&line.to_string())?;
            } else {
                for (step, seconds) in steps {
                    print(&format!("{step:<14} {:>10.3} ms", 1e3 * seconds))?;
                }
                print(&format!("{queries} queries in {:.3} ms; {rate:.1} a second", 1e3 * seconds))?;
            }
        }
        Command::Run { gib, systems, batch, .. } => {
            let queries = match batch {
                Some(queries) => queries,
                None => usual_batch(&arch, gib, systems)?,
            };
            let schedules = Schedules::depth_first(&arch, Digits::Forwarded)?;
            let workload = Workload { gib, systems, queries, mapping: Mapping::QueryPerCore };
            let report = simulate(&arch, &schedules, &workload)?;
            let steps = [
                ("upload", report.upload),
                ("expand", report.expand),
                ("row_selection", report.row_selection),
                ("gather", report.gather),
                ("coltor", report.coltor),
            ];
            let (seconds, rate, energy) =
                (report.seconds(), report.queries_per_second(), report.energy_of_query());
            if arguments.json {
                let steps: serde_json::Map<_, _> =
                    steps.into_iter().map(|(step, seconds)| (step.to_owned(), seconds.into())).collect();
                let line = serde_json::json!({
                    "name": "ive-batch", "arch": arch.label, "gib": gib, "systems": systems, "batch": queries,
                    "seconds": seconds, "steps": steps, "queries_per_second": rate, "energy_joules": energy,
                });
                print(&line.to_string())?;
            } else {
                for (step, seconds) in steps {
                    print(&format!("{step:<14} {:>10.3} ms", 1e3 * seconds))?;
                }
                print(&format!(
                    "{queries} queries in {:.3} ms; {rate:.1} a second of batch after batch, {energy:.4} J each",
                    1e3 * seconds
                ))?;
            }
        }
        Command::Arch => print(Arch::ive_text().trim_end())?,
    }
    Ok(())
}

fn reproduce(arch: &Arch, json: bool, folder: Option<&Path>) -> anyhow::Result<()> {
    let rows = rows(arch)?;
    for row in &rows {
        print(&if json { row_json(row) } else { row_text(row) })?;
    }
    let Some(folder) = folder else { return Ok(()) };
    if std::io::stderr().is_terminal() {
        writeln!(std::io::stderr(), "simulating the figures")?;
    }
    let figures = figures(arch, &rows)?;
    if json {
        for figure in &figures {
            let mut line = serde_json::to_value(figure)?;
            line["name"] = "ive-figure".into();
            print(&line.to_string())?;
        }
    }
    for path in draw(folder, &rows, &figures)? {
        if !json {
            print(&path.display().to_string())?;
        }
    }
    Ok(())
}

/// Sizes a cluster for so many GiB, queries a second and perhaps a latency.
fn size(
    arch: &Arch,
    json: bool,
    (gib, qps, latency_ms): (f64, f64, Option<f64>),
    chart: Option<&Path>,
) -> anyhow::Result<()> {
    let choices = plan(arch, gib, qps)?;
    let best = best(&choices);
    let soon = |choice: &&Choice| latency_ms.is_none_or(|most| 1e3 * choice.latency_seconds <= most);
    for choice in &best {
        print(&if json { choice_json(choice)? } else { choice_text(choice) })?;
    }
    if let Some(path) = chart {
        let title = format!("{gib} GiB at {qps} queries a second on {}", arch.label);
        draw_plan(path, title, &choices)?;
    }
    let chosen = best.iter().find(soon).with_context(|| {
        let fastest = best.last().map_or(f64::NAN, |choice| 1e3 * choice.latency_seconds);
        format!("--latency-ms: the soonest answer in {fastest:.0} ms; give more, or a smaller database")
    })?;
    if !json {
        print(&format!(
            "cheapest: {} systems, {} cluster(s) of {}, {:.0} ms",
            chosen.systems,
            chosen.clusters,
            chosen.systems_of_cluster,
            1e3 * chosen.latency_seconds
        ))?;
    }
    Ok(())
}

fn choice_text(choice: &Choice) -> String {
    format!(
        "{:>5} systems: {:>4} cluster(s) of {:>4}, in {:<5} {:>9.1} QPS at most, {:>8.1} ms, {:>9.0} mm2, {:>8.1} kW, {:>6.2} J a query",
        choice.systems,
        choice.clusters,
        choice.systems_of_cluster,
        if choice.in_lpddr { "LPDDR" } else { "HBM" },
        choice.most_qps,
        1e3 * choice.latency_seconds,
        choice.area_mm2,
        choice.power_w / 1e3,
        choice.energy_joules
    )
}

fn choice_json(choice: &Choice) -> anyhow::Result<String> {
    let mut line = serde_json::to_value(choice)?;
    line["name"] = "ive-plan".into();
    Ok(line.to_string())
}

fn architecture(path: Option<&Path>) -> anyhow::Result<Arch> {
    let Some(path) = path else { return Ok(Arch::ive()?) };
    let text =
        std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    Ok(Arch::read(&path.display().to_string(), &text)?)
}

fn row_text(row: &Row) -> String {
    format!(
        "{:<58} paper {:>9.3}  simulated {:>9.3}  {:>+6.1}%  {} ({:.0}%)",
        row.what,
        row.paper,
        row.simulated,
        100.0 * row.deviation(),
        if row.is_within() { "ok " } else { "off" },
        100.0 * row.tolerance
    )
}

fn row_json(row: &Row) -> String {
    let line = serde_json::json!({
        "name": "ive-comparison", "what": row.what, "paper": row.paper, "simulated": row.simulated,
        "deviation": row.deviation(), "tolerance": row.tolerance, "within": row.is_within(),
    });
    line.to_string()
}

/// A line, unless whoever reads has gone.
fn print(line: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout(), "{line}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
