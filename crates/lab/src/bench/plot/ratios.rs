//! Chart of the ratio of every figure to its limit: one bar each, in the colour of the limit.

use std::path::Path;

use plotters::style::RGBColor;
use spirea_chart::canvas::{Anchor, COLOURS, Canvas, FAINT_INK, GRID, INK, width};
use spirea_console::output::seconds;

use super::measured::Group;

const ROW: i32 = 20;
const BAR: i32 = 12;
const LABEL_SIZE: i32 = 12;
const PLOT: i32 = 460;
/// Width to the right of the bars, for their numbers.
const NUMBERS: i32 = 170;
/// End of the axis; a bar beyond it is shown by its number only.
const AXIS: f64 = 1.2;

/// Draws the figures that have a limit. Returns false if none has.
pub(super) fn draw(path: &Path, title: &str, groups: &[Group]) -> anyhow::Result<bool> {
    let rows: Vec<Row<'_>> = groups.iter().filter_map(Row::of).collect();
    if rows.is_empty() {
        return Ok(false);
    }
    let mut floors: Vec<&str> = Vec::new();
    rows.iter().for_each(|row| {
        if !floors.contains(&row.floor) {
            floors.push(row.floor);
        }
    });
    let colour = |floor: &str| -> RGBColor {
        COLOURS[floors.iter().position(|known| *known == floor).unwrap_or_default() % COLOURS.len()]
    };
    let labels = rows.iter().map(|row| width(&row.label, LABEL_SIZE)).max().unwrap_or_default() + 16;
    let (left, right) = (24 + labels, 24 + labels + PLOT);
    let total = right + NUMBERS;
    let legend: Vec<(&str, RGBColor)> = floors.iter().map(|floor| (*floor, colour(floor))).collect();
    // Each line of the legend holds a few limits. The room for all lines is reserved before
    // anything is drawn.
    let legend_room =
        legend.iter().map(|(name, _)| width(name, LABEL_SIZE) + 38).sum::<i32>() / (total - 48) + 1;
    let gaps = rows.windows(2).filter(|pair| pair[0].name != pair[1].name).count() as i32;
    let top = 66 + 20 * legend_room + 30;
    let bottom = top + rows.len() as i32 * ROW + gaps * ROW / 2 + 6;
    let canvas = Canvas::new(path, total, bottom + 44)?;
    canvas.text("Measured speed over the limit that bounds it", (24, 26), 18, INK, Anchor::Left)?;
    let subtitle = format!("{title}; 1.0 is the limit, measured in the same run; colours say which");
    canvas.text(&subtitle, (24, 48), 12, FAINT_INK, Anchor::Left)?;
    canvas.legend(&legend, (24, 74), total - 24)?;

    let at = |ratio: f64| left + (ratio.min(AXIS) / AXIS * f64::from(PLOT)) as i32;
    for tick in [0.0, 0.2, 0.4, 0.6, 0.8, 1.0] {
        let x = at(tick);
        let limit = tick == 1.0;
        canvas.line(
            &[(x, top - 6), (x, bottom)],
            if limit { INK } else { GRID },
            if limit { 2 } else { 1 },
        )?;
        for y in [top - 16, bottom + 14] {
            canvas.text(&format!("{tick:.1}"), (x, y), 11, FAINT_INK, Anchor::Middle)?;
        }
    }
    let mut y = top + ROW / 2;
    for (i, row) in rows.iter().enumerate() {
        if i > 0 && rows[i - 1].name != row.name {
            y += ROW / 2;
        }
        canvas.text(&row.label, (left - 10, y), LABEL_SIZE, INK, Anchor::Right)?;
        canvas.bar((left, y - BAR / 2), (at(row.ratio).max(left + 1), y + BAR / 2), colour(row.floor))?;
        let (least, most) = row.range;
        if at(most) > at(least) {
            canvas.line(&[(at(least), y), (at(most), y)], INK, 1)?;
            for x in [at(least), at(most)] {
                canvas.line(&[(x, y - 4), (x, y + 4)], INK, 1)?;
            }
        }
        let mut number = format!("{:.2}", row.ratio);
        if row.ratio < 0.1 {
            number = format!("{:.3}", row.ratio);
        }
        canvas.text(&number, (right + 50, y), LABEL_SIZE, INK, Anchor::Right)?;
        canvas.text(&seconds(row.seconds), (right + 66, y), LABEL_SIZE, FAINT_INK, Anchor::Left)?;
        y += ROW;
    }
    canvas.finish()?;
    Ok(true)
}

/// A bar with its label.
struct Row<'a> {
    name: &'a str,
    label: String,
    floor: &'a str,
    ratio: f64,
    range: (f64, f64),
    seconds: f64,
}

impl<'a> Row<'a> {
    /// Makes the row of a group: the measurement with the median time, and the range of all ratios.
    fn of(group: &'a Group) -> Option<Self> {
        let median = &group[0];
        let ratios = || group.iter().filter_map(|figure| figure.ratio);
        Some(Self {
            name: &median.name,
            label: median.label(),
            floor: median.floor.as_deref()?,
            ratio: median.ratio?,
            range: (ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max)),
            seconds: median.seconds,
        })
    }
}
