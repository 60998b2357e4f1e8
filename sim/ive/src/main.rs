//! The command `spirea-ive`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use spirea_ive::arch::Arch;
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
    Reproduce,
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
    },
    /// The file of IVE, to begin others with.
    Arch,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let arch = architecture(arguments.arch.as_deref())?;
    match arguments.command {
        Command::Reproduce => {
            for row in rows(&arch)? {
                print(&if arguments.json { row_json(&row) } else { row_text(&row) })?;
            }
        }
        Command::Run { gib, systems, batch } => {
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
