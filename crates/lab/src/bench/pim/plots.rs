//! Drawings of the model's values, with the paper's values if the paper states them.

use std::path::{Path, PathBuf};

use spirea_chart::lines::{Axis, Chart, Series};
use spirea_chart::pairs::{self, Pair};
use spirea_console::output::seconds;
use spirea_papers::{Claim, Kind};
use spirea_pim_figures::Figure;

/// Draws everything, and returns the files.
pub fn draw(
    folder: &Path,
    profile: &str,
    label: &str,
    comparisons: &[Claim],
    figures: &[Figure],
) -> anyhow::Result<Vec<PathBuf>> {
    let path = folder.join("comparisons.svg");
    draw_comparisons(&path, profile, label, comparisons)?;
    let mut paths = vec![path];
    for figure in figures {
        let path = folder.join(format!("figure-{}.svg", figure.number));
        chart(figure, profile, &stated(figure.number, comparisons)).draw(&path)?;
        paths.push(path);
    }
    Ok(paths)
}

/// Formats the paper's statements about a figure, with the model's values, in one line.
fn stated(number: &str, comparisons: &[Claim]) -> String {
    // Parts of the statements, with their names in the drawing.
    let statements = match number {
        "9a" | "9c" => &[("0.5 GB", "over CPU at 0.5 GB"), ("8 GB", "at 8 GB")][..],
        "9b" | "9d" => &[("mean of batches", "over CPU, mean of batches")],
        "10" => &[("Table 1", "")],
        "11a" | "11b" => &[("8 clusters", "8 clusters over 1")],
        "12a" => &[("throughput over GPU", "over GPU, at most")],
        _ => &[("latency over GPU", "over GPU, at most")],
    };
    let values = statements.iter().flat_map(|&(part, name)| {
        let rows = comparisons.iter().filter(move |row| row.what.contains(part));
        rows.map(move |row| match name {
            // A line with seven shares has no room for names and deviations.
            "" => format!("{:.1} ({:.1})", row.ours, row.paper),
            _ => format!("{name} {:.2} (paper {:.2}, {})", row.ours, row.paper, row.deviation_text()),
        })
    });
    let values = values.collect::<Vec<_>>().join("; ");
    if number == "10" { format!("shares of Table 1 in %, model (paper): {values}") } else { values }
}

fn chart(figure: &Figure, profile: &str, stated: &str) -> Chart {
    let format: fn(f64) -> String = if figure.y.contains("second") && !figure.y.contains("queries") {
        seconds
    } else {
        |value| format!("{value}")
    };
    let series = figure.series.iter();
    Chart {
        title: format!("IM-PIR Figure {}, modelled: {}", figure.number, figure.title),
        subtitle: format!("profile {profile}; {stated}"),
        x: Axis { label: figure.x.into(), format: |value| format!("{value}") },
        y: Axis { label: figure.y.into(), format },
        series: series.map(|line| Series { name: line.name.clone(), points: line.points.clone() }).collect(),
    }
}

/// Draws the paper's values as bars beside the model's. Leaves out comparisons of the paper with
/// itself.
fn draw_comparisons(path: &Path, profile: &str, label: &str, comparisons: &[Claim]) -> anyhow::Result<()> {
    let pairs = comparisons.iter().filter(|row| row.kind != Kind::Identity).map(|row| Pair {
        what: row.what.clone(),
        paper: row.paper,
        model: row.ours,
        deviation: row.deviation_text(),
        tolerance: row.kind_text(),
        within: row.is_within(),
    });
    let subtitle = format!("profile {profile}: {label}; each pair of bars on a scale of its own");
    pairs::draw(path, "What IM-PIR states, and the model", &subtitle, "model", &pairs.collect::<Vec<_>>())
}
