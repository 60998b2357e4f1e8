//! The model's values as drawings, with the paper's beside them where the paper states them.

use std::path::{Path, PathBuf};

use plotters::style::RGBColor;
use spirea_pim::model::figures::{Comparison, Figure};

use super::{deviation, tolerance};
use crate::canvas::{Anchor, COLOURS, Canvas, FAINT_INK, GRID, INK, width};
use crate::chart::{Axis, Chart, Series};
use crate::output::seconds;

const ROW: i32 = 34;
const BAR: i32 = 11;
const LABEL_SIZE: i32 = 12;
const PLOT: i32 = 380;
/// The room right of the bars.
const NUMBERS: i32 = 330;
const PAPER: RGBColor = COLOURS[7];
const MODEL: RGBColor = COLOURS[0];

/// Draws everything; gives the files.
pub fn draw(
    folder: &Path,
    profile: &str,
    label: &str,
    comparisons: &[Comparison],
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

/// What the paper states of a figure, with the model's value, in a line.
fn stated(number: &str, comparisons: &[Comparison]) -> String {
    // Parts of the statements, and what they are called in the drawing.
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
            // Seven shares have no room for more.
            "" => format!("{:.1} ({:.1})", row.model, row.paper),
            _ => format!("{name} {:.2} (paper {:.2}, {})", row.model, row.paper, deviation(row)),
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

/// Every value that the paper states, as a bar beside the model's.
fn draw_comparisons(
    path: &Path,
    profile: &str,
    label: &str,
    comparisons: &[Comparison],
) -> anyhow::Result<()> {
    let labels = comparisons.iter().map(|row| width(row.what, LABEL_SIZE)).max().unwrap_or_default() + 16;
    let (left, right) = (24 + labels, 24 + labels + PLOT);
    let top = 112;
    let bottom = top + comparisons.len() as i32 * ROW;
    let canvas = Canvas::new(path, right + NUMBERS, bottom + 24)?;
    canvas.text("What IM-PIR states, and the model", (24, 26), 18, INK, Anchor::Left)?;
    let subtitle = format!("profile {profile}: {label}; each pair of bars on a scale of its own");
    canvas.text(&subtitle, (24, 48), 12, FAINT_INK, Anchor::Left)?;
    canvas.legend(&[("paper", PAPER), ("model", MODEL)], (24, 74), right)?;
    canvas.line(&[(left, top - 6), (left, bottom)], GRID, 1)?;
    for (i, row) in comparisons.iter().enumerate() {
        let y = top + i as i32 * ROW + ROW / 2;
        let scale = f64::from(PLOT) / row.paper.max(row.model).max(f64::MIN_POSITIVE);
        canvas.text(row.what, (left - 10, y), LABEL_SIZE, INK, Anchor::Right)?;
        for (value, above, colour) in [(row.paper, -BAR, PAPER), (row.model, 0, MODEL)] {
            let end = left + ((value * scale) as i32).max(1);
            canvas.bar((left, y + above), (end, y + above + BAR - 1), colour)?;
        }
        let numbers = format!("{:.4} / {:.4}, {}", row.paper, row.model, deviation(row));
        let ink = if row.is_within() { INK } else { COLOURS[3] };
        canvas.text(&numbers, (right + 12, y - 6), 11, ink, Anchor::Left)?;
        canvas.text(&tolerance(row.tolerance), (right + 12, y + 8), 10, FAINT_INK, Anchor::Left)?;
    }
    canvas.finish()
}
