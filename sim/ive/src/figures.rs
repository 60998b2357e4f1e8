//! The paper's figures from the simulator: 4, 6, 8, 12, 13a to 13d and 14. Figure 13e shows
//! synthesized circuits; it has the paper's values, and says so. Where the paper also has CPUs and
//! GPUs, only its IVE is simulated.

use serde::Serialize;
use spirea_papers::Claim;

use crate::arch::{Arch, Scheme};
use crate::error::IveError;
use crate::reproduce::{Multiplications, Skipped, batch, step_traffic, usual};
use crate::schedule::{Digits, Order, Schedule, Step};
use crate::scheduler::{Policy, mean_latency, served};
use crate::system::{BatchReport, Mapping, Schedules, Workload, simulate, usual_batch};

/// Bar with its label and remark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// Label.
    pub label: String,
    /// Values of the parts.
    pub parts: Vec<f64>,
    /// Remark at the end of the bar.
    pub remark: String,
    /// True if a group begins with this bar.
    pub apart: bool,
}

/// Line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Name.
    pub name: String,
    /// Points.
    pub points: Vec<(f64, f64)>,
}

/// Content of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Content {
    /// Stacked bars.
    Bars {
        /// Unit of the values.
        unit: &'static str,
        /// Names of the parts.
        parts: Vec<&'static str>,
        /// Bars.
        bars: Vec<Bar>,
    },
    /// Lines on logarithmic axes.
    Lines {
        /// Label of the horizontal axis.
        x: &'static str,
        /// Label of the vertical axis.
        y: &'static str,
        /// Lines.
        lines: Vec<Line>,
    },
}

/// Figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Number in the paper.
    pub number: &'static str,
    /// Title.
    pub title: &'static str,
    /// Note that is needed to read the figure.
    pub note: String,
    /// Values.
    pub content: Content,
}

const STEPS: [&str; 3] = ["ExpandQuery", "RowSel", "ColTor"];
/// Sizes of the paper's databases on one system, in GiB.
const SIZES: [f64; 4] = [2.0, 4.0, 8.0, 16.0];
/// Batch sizes of Figures 6, 13c and 13d.
const BATCHES: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Returns all figures that the machine supports, and the skipped ones; `rows` are those of
/// [`crate::reproduce::Reproduction`].
pub fn figures(arch: &Arch, rows: &[Claim]) -> (Vec<Figure>, Vec<Skipped>) {
    let one_tib = "Latency of a batch by its size, 1 TiB on 16 systems";
    let all = [
        ("4a", Ok(complexity(&arch.scheme))),
        ("4b", Ok(first_dimension(&arch.scheme))),
        ("6, left", intensity(arch)),
        ("6, right", share_of_batches(arch)),
        ("8", traffic(arch)),
        ("12", throughput(arch, rows)),
        ("13a", steps(arch)),
        ("13b", schedules(arch)),
        ("13c", batches(arch, "Latency of a batch by its size, 16 GiB", 16.0, 1)),
        ("13d, 128 GiB", batches(arch, "Latency of a batch by its size, 128 GiB in LPDDR", 128.0, 1)),
        ("13d, 1 TiB", batches(arch, one_tib, 1024.0, 16)),
        ("13e", Ok(circuits())),
        (
            "14a",
            usual(arch, 16.0, 1).map(|_| compared("Fig. 14a: ", "IVE against an ARK-like machine", rows)),
        ),
        ("14b", arrivals(arch)),
    ];
    let (mut drawn, mut skipped) = (Vec::new(), Vec::new());
    for (number, figure) in all {
        match figure {
            Ok(Plot { title, note, content }) => drawn.push(Figure { number, title, note, content }),
            Err(error) => {
                skipped.push(Skipped { what: format!("Figure {number}"), reason: error.to_string() });
            }
        }
    }
    (drawn, skipped)
}

/// Figure without its number.
struct Plot {
    title: &'static str,
    note: String,
    content: Content,
}

fn of_batch(queries: u64) -> String {
    if queries == 1 { "1 query".into() } else { format!("{queries} queries") }
}

/// Names of the two values of a comparison.
const COMPARED: [&str; 2] = ["simulated", "the paper's"];

fn beside(label: String, simulated: f64, paper: f64, remarks: [String; 2]) -> [Bar; 2] {
    let [own, stated] = remarks;
    [Bar { apart: true, ..bar(label, vec![simulated, 0.0], own) }, bar("", vec![0.0, paper], stated)]
}

fn bar(label: impl Into<String>, parts: Vec<f64>, remark: impl Into<String>) -> Bar {
    Bar { label: label.into(), parts, remark: remark.into(), apart: false }
}

fn complexity(scheme: &Scheme) -> Plot {
    let bars = SIZES.into_iter().map(|gib| {
        let all = Multiplications::of(scheme, gib);
        let share = |of: f64| 100.0 * of / all.sum();
        let parts = vec![share(all.expand), share(all.row_selection), share(all.coltor)];
        bar(format!("{gib} GiB"), parts, format!("{:.1} G", all.sum() / 1e9))
    });
    Plot {
        title: "Integer multiplications of a query by step",
        note: format!(
            "counted; a multiplication of a transform counts {}, which is fitted; the paper says 58 to 66% for RowSel",
            scheme.transform_multiplications
        ),
        content: Content::Bars { unit: "% of a query", parts: STEPS.into(), bars: bars.collect() },
    }
}

fn first_dimension(scheme: &Scheme) -> Plot {
    let lines = SIZES.into_iter().map(|gib| {
        let points = (5..12).map(|power| {
            let scheme = Scheme { first_dimension: 1 << power, ..*scheme };
            (f64::from(1 << power), Multiplications::of(&scheme, gib).sum() / 1e9)
        });
        Line { name: format!("{gib} GiB"), points: points.collect() }
    });
    Plot {
        title: "Integer multiplications of a query by the size of the first dimension",
        note: "counted; the paper says that 256 to 512 are best".into(),
        content: Content::Lines { x: "D0", y: "10^9 multiplications", lines: lines.collect() },
    }
}

fn intensity(arch: &Arch) -> Result<Plot, IveError> {
    let (gib, rows) = (16.0, 1u64 << 12);
    let all = Multiplications::of(&arch.scheme, gib);
    let schedules = Schedules::baseline(arch)?;
    let database = (arch.scheme.polynomials(gib) * arch.scheme.polynomial_bytes()) as f64;
    let results = (rows * arch.scheme.ciphertext_bytes()) as f64;
    let line = |name: &str, of: &dyn Fn(f64) -> f64| Line {
        name: name.into(),
        points: BATCHES.iter().map(|&queries| (queries as f64, of(queries as f64))).collect(),
    };
    let lines = vec![
        line(STEPS[0], &|_| all.expand / step_traffic(arch, schedules.expand)),
        line(STEPS[1], &|queries| queries * all.row_selection / (database + queries * results)),
        line(STEPS[2], &|_| all.coltor / step_traffic(arch, schedules.coltor)),
    ];
    Ok(Plot {
        title: "Multiplications for each byte of memory traffic, 16 GiB",
        note: "counted, without hierarchical search; batches help RowSel alone".into(),
        content: Content::Lines { x: "queries of a batch", y: "multiplications / byte", lines },
    })
}

/// Returns the milliseconds of the steps.
fn parts(report: &BatchReport) -> Vec<f64> {
    [report.expand, report.row_selection, report.coltor].map(|seconds| 1e3 * seconds).into()
}

fn share_of_batches(arch: &Arch) -> Result<Plot, IveError> {
    let bars = BATCHES[..8].iter().map(|&queries| {
        let report = batch(arch, 16.0, 1, queries, Mapping::RowsPerCore)?;
        let shares = parts(&report).into_iter().map(|part| part / 10.0 / report.computing()).collect();
        Ok(bar(of_batch(queries), shares, format!("{:.1} ms", 1e3 * report.computing())))
    });
    Ok(Plot {
        title: "Where the time of a batch goes, 16 GiB",
        note: "simulated IVE, rows of ColTor on all cores; the paper's figure is of a GPU".into(),
        content: Content::Bars {
            unit: "% of the time",
            parts: STEPS.into(),
            bars: bars.collect::<Result<_, IveError>>()?,
        },
    })
}

fn traffic(arch: &Arch) -> Result<Plot, IveError> {
    let mut bars = Vec::new();
    for (step, name) in [(Step::Expand, STEPS[0]), (Step::ColTor, STEPS[2])] {
        let baseline = step_traffic(arch, Schedule::baseline(arch, step)?);
        for (schedule, what) in [
            (Schedule::baseline(arch, step)?, "BFS"),
            (Schedule::deepest(arch, step, Order::Bfs, Digits::Stored)?, "BFS-HS"),
            (Schedule::deepest(arch, step, Order::Dfs, Digits::Stored)?, "DFS-HS"),
            (Schedule::deepest(arch, step, Order::Dfs, Digits::Forwarded)?, "DFS-HS, R.O."),
        ] {
            let bytes = step_traffic(arch, schedule);
            let first = what == "BFS";
            let remark = if first { String::new() } else { format!("{:.2} times less", baseline / bytes) };
            let apart = first && !bars.is_empty();
            bars.push(Bar { apart, ..bar(format!("{name}, {what}"), vec![bytes / 1e6], remark) });
        }
    }
    Ok(Plot {
        title: "Memory traffic of a query by schedule, 16 GiB",
        note: "counted; the paper: ExpandQuery 1.75 and 1.87, ColTor 1.81 and 2.24 times less".into(),
        content: Content::Bars { unit: "MB", parts: vec!["keys and ciphertexts"], bars },
    })
}

fn throughput(arch: &Arch, rows: &[Claim]) -> Result<Plot, IveError> {
    let mut bars = Vec::new();
    for gib in &SIZES[..3] {
        let report = usual(arch, *gib, 1)?;
        let stated = rows.iter().find(|row| row.what.starts_with(&format!("QPS: {gib} GiB")));
        let paper = stated.map_or(0.0, |row| row.paper);
        let energy = format!("{:.3} J a query", report.energy_of_query());
        let rate = report.queries_per_second();
        let remarks = [format!("{rate:.0}, {energy}"), format!("{paper:.0}")];
        bars.extend(beside(format!("{gib} GiB"), rate, paper, remarks));
    }
    Ok(Plot {
        title: "Queries a second of one system",
        note: "the paper: 0.03, 0.05 and 0.09 J a query; its processors and GPUs are not simulated".into(),
        content: Content::Bars { unit: "queries a second", parts: COMPARED.into(), bars },
    })
}

fn steps(arch: &Arch) -> Result<Plot, IveError> {
    let bars = SIZES.into_iter().map(|gib| {
        let report = usual(arch, gib, 1)?;
        let remark = format!("{:.1} ms", 1e3 * report.computing());
        let shares = parts(&report).into_iter().map(|part| part / 10.0 / report.computing()).collect();
        Ok(bar(format!("{gib} GiB"), shares, remark))
    });
    Ok(Plot {
        title: "Where the time of a batch of 64 goes",
        note: "simulated".into(),
        content: Content::Bars {
            unit: "% of the time",
            parts: STEPS.into(),
            bars: bars.collect::<Result<_, IveError>>()?,
        },
    })
}

fn schedules(arch: &Arch) -> Result<Plot, IveError> {
    let queries = usual_batch(arch, 16.0, 1)?;
    let workload = Workload { gib: 16.0, systems: 1, queries, mapping: Mapping::QueryPerCore };
    let mut bars = Vec::new();
    for (name, schedules) in [
        ("BFS", Schedules::baseline(arch)?),
        ("DFS-HS", Schedules::depth_first(arch, Digits::Stored)?),
        ("DFS-HS, R.O.", Schedules::depth_first(arch, Digits::Forwarded)?),
    ] {
        let report = simulate(arch, &schedules, &workload)?;
        bars.push(bar(name, parts(&report), format!("{:.1} ms", 1e3 * report.computing())));
    }
    Ok(Plot {
        title: "A batch of 64 by schedule, 16 GiB",
        note: "simulated; the paper: DFS-HS 1.2 times, with R.O. 1.26 times as fast".into(),
        content: Content::Bars { unit: "ms", parts: STEPS.into(), bars },
    })
}

fn batches(arch: &Arch, title: &'static str, gib: f64, systems: u64) -> Result<Plot, IveError> {
    let bars = BATCHES.into_iter().map(|queries| {
        // A batch smaller than the number of cores divides rows, as in section V, so that no core
        // is idle.
        let few = queries < arch.chip.cores;
        let mapping = if few { Mapping::RowsPerCore } else { Mapping::QueryPerCore };
        let report = batch(arch, gib, systems, queries, mapping)?;
        let mut parts = parts(&report);
        parts.push(1e3 * (report.upload + report.gather));
        let rate = report.queries_per_second() / systems as f64;
        let each = if systems > 1 { " a system" } else { "" };
        Ok(bar(of_batch(queries), parts, format!("{rate:.1} QPS{each}")))
    });
    Ok(Plot {
        title,
        note: "simulated; communication is that of keys, queries and partial answers".into(),
        content: Content::Bars {
            unit: "ms",
            parts: [&STEPS[..], &["communication"]].concat(),
            bars: bars.collect::<Result<_, IveError>>()?,
        },
    })
}

/// Returns the statements of section VI-C about Figure 13e, except the energy that sysNTTU costs.
fn circuits() -> Plot {
    let bars = [
        ("area with special primes", 96.0),
        ("energy with special primes", 96.0),
        ("area with sysNTTU", 93.0),
    ];
    Plot {
        title: "What special primes save, and units for both transforms and products of matrices",
        note: "the paper's, of synthesized circuits: nothing of it is simulated".into(),
        content: Content::Bars {
            unit: "% of what it is without",
            parts: vec!["the paper's"],
            bars: bars.map(|(label, share)| bar(label, vec![share], format!("{share:.0}%"))).into(),
        },
    }
}

/// Compares rows of a figure with the paper's.
fn compared(prefix: &str, title: &'static str, rows: &[Claim]) -> Plot {
    let mut bars = Vec::new();
    for row in rows {
        let Some(what) = row.what.strip_prefix(prefix) else { continue };
        let remarks = [row.ours, row.paper].map(|value| format!("{value:.2}"));
        bars.extend(beside(what.into(), row.ours, row.paper, remarks));
    }
    Plot {
        title,
        note: "simulated, 16 GiB; area and power of parts are the paper's".into(),
        content: Content::Bars { unit: "times", parts: COMPARED.into(), bars },
    }
}

fn arrivals(arch: &Arch) -> Result<Plot, IveError> {
    /// Number of queries for each point.
    const COUNT: usize = 20_000;
    let (policy, service) = served(arch, 16.0, 1)?;
    let line = |name: &str, policy, rates: &[f64]| Line {
        name: name.into(),
        points: rates.iter().map(|&rate| (rate, 1e3 * mean_latency(policy, &service, rate, COUNT))).collect(),
    };
    let alone: Vec<f64> = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 17.0, 18.0].into();
    let batched =
        [&alone[..], &[25.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0, 350.0, 400.0, 450.0, 500.0, 550.0]]
            .concat();
    let bound = 2e3 * service[0];
    Ok(Plot {
        title: "Mean latency of queries that arrive at random, 16 GiB",
        note: "simulated, by the engine's batch scheduler on a virtual clock".into(),
        content: Content::Lines {
            x: "queries a second",
            y: "ms",
            lines: vec![
                line("every query alone", Policy::ALONE, &alone),
                line("batches", policy, &batched),
                Line { name: "twice a lone query".into(), points: vec![(1.0, bound), (550.0, bound)] },
            ],
        },
    })
}
