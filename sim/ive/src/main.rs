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
use spirea_ive::reproduce::{PARTS, Reproduction};
use spirea_ive::schedule::Digits;
use spirea_ive::system::{Mapping, Schedules, Workload, simulate, usual_batch};
use spirea_papers::Claim;

/// Simulates IVE, an accelerator for private information retrieval.
#[derive(Parser)]
#[command(name = "spirea-ive", version)]
struct Arguments {
    /// Use an architecture's file instead of IVE's, in the form of sim/ive/arch.toml.
    #[arg(long, value_name = "FILE", global = true)]
    arch: Option<PathBuf>,
    /// Print JSON: one object a line.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compares every value of the paper with the simulator's.
    Reproduce {
        /// Folder for the paper's figures as SVG, and for all results as JSON, reproduced.json.
        #[arg(long, value_name = "FOLDER")]
        figures: Option<PathBuf>,
    },
    /// Simulates a batch of queries, step by step.
    Run {
        /// Size of the database in GiB.
        #[arg(long)]
        gib: f64,
        /// Number of systems on the switch.
        #[arg(long, default_value_t = 1)]
        systems: u64,
        /// Number of queries of the batch; the default is in the architecture's file.
        #[arg(long)]
        batch: Option<u64>,
        /// Protocol instead of the paper's: simple, exppack-simple, hybrid or onion, as this
        /// project's servers run them, on one system.
        #[arg(long, value_name = "NAME", conflicts_with = "systems")]
        protocol: Option<String>,
        /// Bytes of a record, for such a protocol.
        #[arg(long, default_value_t = 4096, requires = "protocol")]
        record_bytes: usize,
    },
    /// Sizes a cluster: the numbers of systems and latencies for a database and a rate.
    Plan {
        /// Size of the database in TiB, before its transform.
        #[arg(long)]
        db_tb: f64,
        /// Rate in queries a second.
        #[arg(long)]
        qps: f64,
        /// Choose the cheapest cluster whose mean latency is at most this number of milliseconds.
        #[arg(long)]
        latency_ms: Option<f64>,
        /// File for a chart of cost against latency, as SVG.
        #[arg(long, value_name = "FILE")]
        chart: Option<PathBuf>,
    },
    /// Prints the file of IVE, as a template for others.
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
            let queries = batch.unwrap_or(arch.batch.queries);
            let queries_of_record = usize::try_from(queries).unwrap_or(usize::MAX);
            let program = Program::of_protocol(&arch, &protocol, gib, record_bytes, queries_of_record)?;
            let steps = program.time(&arch)?;
            let seconds: f64 = steps.iter().map(|(_, seconds)| seconds).sum();
            let line = serde_json::json!({
                "name": "ive-protocol", "arch": arch.label, "protocol": protocol, "gib": gib,
                "record_bytes": record_bytes, "batch": queries, "seconds": seconds,
                "queries_per_second": queries as f64 / seconds,
            });
            print_batch(arguments.json, line, &steps)?;
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
            let line = serde_json::json!({
                "name": "ive-batch", "arch": arch.label, "gib": gib, "systems": systems, "batch": queries,
                "seconds": report.seconds(), "queries_per_second": report.queries_per_second(),
                "energy_joules": report.energy_of_query(),
            });
            print_batch(arguments.json, line, &steps)?;
        }
        Command::Arch => print(Arch::ive_text().trim_end())?,
    }
    Ok(())
}

/// Prints the steps of a batch and its summary.
fn print_batch(json: bool, mut line: serde_json::Value, steps: &[(&str, f64)]) -> anyhow::Result<()> {
    if json {
        let of_step = |(step, seconds): &(&str, f64)| serde_json::json!({"step": step, "seconds": seconds});
        line["steps"] = steps.iter().map(of_step).collect();
        return print(&line.to_string());
    }
    for (step, seconds) in steps {
        print(&format!("{step:<14} {:>10.3} ms", 1e3 * seconds))?;
    }
    let number = |key: &str| line[key].as_f64().unwrap_or(f64::NAN);
    let energy = line.get("energy_joules").map(|_| format!(", {:.4} J each", number("energy_joules")));
    print(&format!(
        "{} queries in {:.3} ms; {:.1} a second of batch after batch{}",
        line["batch"],
        1e3 * number("seconds"),
        number("queries_per_second"),
        energy.unwrap_or_default()
    ))
}

fn reproduce(arch: &Arch, json: bool, folder: Option<&Path>) -> anyhow::Result<()> {
    let Reproduction { rows, mut skipped, .. } = Reproduction::of(arch, &PARTS);
    let mut lines: Vec<String> = rows.iter().map(row_json).collect();
    if !json {
        rows.iter().try_for_each(|row| print(&row_text(row)))?;
    }
    if let Some(folder) = folder {
        if std::io::stderr().is_terminal() {
            writeln!(std::io::stderr(), "simulating the figures")?;
        }
        let (figures, without) = figures(arch, &rows);
        skipped.extend(without);
        for figure in &figures {
            lines.push(named("ive-figure", figure)?);
        }
        for path in draw(folder, &rows, &figures)? {
            if !json {
                print(&path.display().to_string())?;
            }
        }
    }
    for one in &skipped {
        lines.push(named("ive-skipped", one)?);
        if !json {
            print(&format!("{}: left out: {}", one.what, one.reason))?;
        }
    }
    if let Some(folder) = folder {
        let path = folder.join("reproduced.json");
        std::fs::write(&path, lines.join("\n") + "\n")
            .with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    if json { print(&lines.join("\n")) } else { Ok(()) }
}

/// Serialises a value as JSON, with the name of its kind.
fn named(name: &str, value: &impl serde::Serialize) -> anyhow::Result<String> {
    let mut line = serde_json::to_value(value)?;
    line["name"] = name.into();
    Ok(line.to_string())
}

/// Sizes a cluster for GiB of the database, queries a second and an optional latency.
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
        print(&if json { named("ive-plan", choice)? } else { choice_text(choice) })?;
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
        "{:>5} systems: {:>4} cluster(s) of {:>4}, in {:<5} {:>9.1} QPS at most, {:>8.1} ms, {:>9.0} mm2, {:>8.1} kW, {:>6.2} J a query{}",
        choice.systems,
        choice.clusters,
        choice.systems_of_cluster,
        if choice.in_lpddr { "LPDDR" } else { "HBM" },
        choice.most_qps,
        1e3 * choice.latency_seconds,
        choice.area_mm2,
        choice.power_w / 1e3,
        choice.energy_joules,
        if choice.in_lpddr { "; no power of LPDDR is counted" } else { "" }
    )
}

fn architecture(path: Option<&Path>) -> anyhow::Result<Arch> {
    let Some(path) = path else { return Ok(Arch::ive()?) };
    let text =
        std::fs::read_to_string(path).with_context(|| format!("{}: cannot be read", path.display()))?;
    Ok(Arch::read(&path.display().to_string(), &text)?)
}

fn row_text(row: &Claim) -> String {
    format!(
        "{:<58} paper {:>9.3}  simulated {:>9.3}  {:>9}  {} ({}, {:.0}%)",
        row.what,
        row.paper,
        row.ours,
        row.deviation_text(),
        if row.is_within() { "ok " } else { "off" },
        row.kind_text(),
        100.0 * row.kind.tolerance()
    )
}

fn row_json(row: &Claim) -> String {
    let line = serde_json::json!({
        "name": "ive-comparison", "what": row.what, "paper": row.paper, "simulated": row.ours, "kind": row.kind,
        "fits": row.fits, "deviation": row.deviation(), "tolerance": row.kind.tolerance(), "within": row.is_within(),
    });
    line.to_string()
}

/// Prints a line; ignores a closed pipe.
fn print(line: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout(), "{line}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}
