//! Drawings of the simulator's results.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use spirea_chart::bars::{Bar, Bars};
use spirea_chart::lines::{Axis, Chart, Series};
use spirea_chart::pairs::{self, Pair};
use spirea_papers::{Claim, Kind};

use crate::figures::{Content, Figure};
use crate::plan::Choice;

/// Draws all rows and all figures into a folder, and returns the files.
///
/// # Errors
/// If a file cannot be written.
pub fn draw(folder: &Path, rows: &[Claim], figures: &[Figure]) -> anyhow::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    let path = folder.join("comparisons.svg");
    let pairs = rows.iter().filter(|row| row.kind != Kind::Identity).map(|row| Pair {
        what: row.what.clone(),
        paper: row.paper,
        model: row.ours,
        deviation: row.deviation_text(),
        tolerance: row.kind_text(),
        within: row.is_within(),
    });
    let subtitle = "no such chip has been used; each pair of bars on a scale of its own";
    pairs::draw(
        &path,
        "What the paper of IVE states, and the simulator",
        subtitle,
        "simulated",
        &pairs.collect::<Vec<_>>(),
    )?;
    let mut paths = vec![path];
    for figure in figures {
        let name: String =
            figure.number.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).collect();
        let path = folder.join(format!("figure-{}.svg", name.replace("--", "-").to_lowercase()));
        draw_figure(&path, figure)?;
        paths.push(path);
    }
    Ok(paths)
}

fn draw_figure(path: &Path, figure: &Figure) -> anyhow::Result<()> {
    let title = format!("IVE, Figure {}: {}", figure.number, figure.title);
    match &figure.content {
        Content::Bars { unit, parts, bars } => Bars {
            title,
            subtitle: figure.note.clone(),
            unit: (*unit).into(),
            parts: parts.iter().map(|&part| part.into()).collect(),
            bars: bars
                .iter()
                .map(|bar| Bar {
                    label: bar.label.clone(),
                    parts: bar.parts.clone(),
                    remark: bar.remark.clone(),
                    apart: bar.apart,
                })
                .collect(),
        }
        .draw(path),
        Content::Lines { x, y, lines } => Chart {
            title,
            subtitle: figure.note.clone(),
            x: Axis { label: (*x).into(), format: |value| format!("{value}") },
            y: Axis { label: (*y).into(), format: |value| format!("{value}") },
            series: lines
                .iter()
                .map(|line| Series { name: line.name.clone(), points: line.points.clone() })
                .collect(),
        }
        .draw(path),
    }
}

/// Draws cost against latency, with a line for each number of systems of a cluster.
///
/// # Errors
/// If the file cannot be written.
pub fn draw_plan(path: &Path, title: String, choices: &[Choice]) -> anyhow::Result<()> {
    let mut sizes: Vec<u64> = choices.iter().map(|choice| choice.systems_of_cluster).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let series = sizes.into_iter().map(|size| {
        let own = choices.iter().filter(|choice| choice.systems_of_cluster == size);
        Series {
            name: format!("{size}"),
            points: own.map(|choice| (choice.systems as f64, 1e3 * choice.latency_seconds)).collect(),
        }
    });
    let chart = Chart {
        title,
        subtitle:
            "simulated; colours: systems that share a copy; points: numbers of copies that answer all queries"
                .into(),
        x: Axis { label: "systems: what it costs".into(), format: |value| format!("{value}") },
        y: Axis { label: "mean latency, ms".into(), format: |value| format!("{value}") },
        series: series.collect(),
    };
    chart.draw(path)
}
