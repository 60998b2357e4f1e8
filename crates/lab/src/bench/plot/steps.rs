//! Chart of a protocol's time by step: one bar for each protocol, with its steps side by side.

use std::path::Path;

use plotters::style::RGBColor;
use spirea_chart::canvas::{Anchor, COLOURS, Canvas, FAINT_INK, GRID, INK, on, width};
use spirea_console::output::seconds;
use spirea_protocols::registry::NAMES;

use super::measured::{Figure, Group};

/// Steps in the order of the pipeline. A step has the same colour in every drawing.
const STEPS: [(&str, RGBColor); 12] = [
    ("scalar_fold", COLOURS[0]),
    ("share_fold", RGBColor(0x0b, 0x3c, 0x5d)),
    ("module_fold", COLOURS[4]),
    ("reinterpret", RGBColor(0xbf, 0xdd, 0xf2)),
    ("expand", COLOURS[1]),
    ("encode", COLOURS[6]),
    ("encode_fold", RGBColor(0xc9, 0xa2, 0x27)),
    ("poly_fold", COLOURS[2]),
    ("add_bodies", RGBColor(0x9f, 0xdc, 0xc4)),
    ("selectors", COLOURS[5]),
    ("rgsw_fold", COLOURS[3]),
    ("mod_switch", RGBColor(0x7a, 0x4b, 0x8c)),
];
const REST: (&str, RGBColor) = ("the rest", COLOURS[7]);

const ROW: i32 = 26;
const BAR: i32 = 17;
const LABEL_SIZE: i32 = 12;
const PLOT: i32 = 620;
/// Width to the right of the bars, for the times.
const NUMBERS: i32 = 120;

/// Draws the protocols whose steps were timed. Returns false if there is none.
pub(super) fn draw(path: &Path, title: &str, groups: &[Group]) -> anyhow::Result<bool> {
    let rows: Vec<&Figure> =
        groups.iter().map(|group| &group[0]).filter(|figure| is_split_by_step(figure)).collect();
    if rows.is_empty() {
        return Ok(false);
    }
    let labels = rows.iter().map(|row| width(&row.label(), LABEL_SIZE)).max().unwrap_or_default() + 16;
    let (left, right) = (24 + labels, 24 + labels + PLOT);
    let total = right + NUMBERS;
    let used = |name: &str| rows.iter().any(|row| row.steps.iter().any(|step| step.name == name));
    let legend: Vec<(&str, RGBColor)> =
        STEPS.into_iter().filter(|(name, _)| used(name)).chain([REST]).collect();
    let gaps = rows.windows(2).filter(|pair| pair[0].name != pair[1].name).count() as i32;
    let top = 66 + 20 * 2 + 26;
    let bottom = top + rows.len() as i32 * ROW + gaps * ROW / 2 + 4;
    let canvas = Canvas::new(path, total, bottom + 40)?;
    canvas.text("Where the server's time goes", (24, 26), 18, INK, Anchor::Left)?;
    let subtitle = format!("{title}; share of the time for a whole batch, which stands at the right");
    canvas.text(&subtitle, (24, 48), 12, FAINT_INK, Anchor::Left)?;
    canvas.legend(&legend, (24, 74), total - 24)?;
    for percent in [0, 20, 40, 60, 80, 100] {
        let x = left + percent * PLOT / 100;
        canvas.line(&[(x, top - 4), (x, bottom)], GRID, 1)?;
        for y in [top - 14, bottom + 14] {
            canvas.text(&format!("{percent}%"), (x, y), 11, FAINT_INK, Anchor::Middle)?;
        }
    }
    let mut y = top + ROW / 2;
    for (i, row) in rows.iter().enumerate() {
        if i > 0 && rows[i - 1].name != row.name {
            y += ROW / 2;
        }
        canvas.text(&row.label(), (left - 10, y), LABEL_SIZE, INK, Anchor::Right)?;
        let mut x = f64::from(left);
        for (name, colour, share) in shares(row) {
            let end = x + share * f64::from(PLOT);
            canvas.bar((x as i32, y - BAR / 2), (end as i32, y + BAR / 2 + 1), colour)?;
            let percent = format!("{:.0}%", 100.0 * share);
            if end - x > f64::from(width(&percent, 11) + 8) && name != REST.0 {
                canvas.text(&percent, (((x + end) / 2.0) as i32, y), 11, on(colour), Anchor::Middle)?;
            }
            x = end;
        }
        canvas.text(&seconds(row.seconds), (right + 14, y), LABEL_SIZE, INK, Anchor::Left)?;
        y += ROW;
    }
    canvas.finish()?;
    Ok(true)
}

/// True if the figure is of a protocol, and its parts are consecutive steps.
fn is_split_by_step(figure: &Figure) -> bool {
    let is_step = |name: &str| STEPS.iter().any(|(step, _)| *step == name);
    NAMES.contains(&figure.name.as_str())
        && !figure.steps.is_empty()
        && figure.steps.iter().all(|step| is_step(&step.name))
}

/// Returns the shares of the steps, in the order of the pipeline, and the remainder.
fn shares(figure: &Figure) -> Vec<(&'static str, RGBColor, f64)> {
    let seconds = |name: &str| -> f64 {
        figure.steps.iter().filter(|step| step.name == name).map(|step| step.seconds).sum()
    };
    let sum: f64 = figure.steps.iter().map(|step| step.seconds).sum();
    let whole = figure.seconds.max(sum);
    let mut shares: Vec<_> = STEPS
        .into_iter()
        .map(|(name, colour)| (name, colour, seconds(name) / whole))
        .filter(|(_, _, share)| *share > 0.0)
        .collect();
    shares.push((REST.0, REST.1, (whole - sum) / whole));
    shares
}
