//! Horizontal bars of parts, one below another, on a common scale.

use std::path::Path;

use crate::canvas::{Anchor, COLOURS, Canvas, FAINT_INK, GRID, INK, on, width};

const ROW: i32 = 24;
const BAR: i32 = 15;
const LABEL_SIZE: i32 = 12;
const PLOT: i32 = 520;
/// Width to the right of the bars, for the remarks.
const REMARKS: i32 = 210;
/// Maximum number of intervals of the scale.
const TICKS: i32 = 5;

/// A bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Label at the left.
    pub label: String,
    /// Lengths of the parts, in the order of the legend.
    pub parts: Vec<f64>,
    /// Remark at the right.
    pub remark: String,
    /// True if there is a gap above the bar.
    pub apart: bool,
}

/// A chart of bars.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// Title of the chart.
    pub title: String,
    /// Explanation below the title.
    pub subtitle: String,
    /// Unit of the scale.
    pub unit: String,
    /// Names of the parts, for the legend.
    pub parts: Vec<String>,
    /// Bars from top to bottom.
    pub bars: Vec<Bar>,
}

impl Bars {
    /// Draws the chart into a file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn draw(&self, path: &Path) -> anyhow::Result<()> {
        let labels = self.bars.iter().map(|bar| width(&bar.label, LABEL_SIZE)).max().unwrap_or_default() + 16;
        let (left, right) = (24 + labels, 24 + labels + PLOT);
        let total = (right + REMARKS).max(48 + width(&self.subtitle, 12));
        let gaps = self.bars.iter().skip(1).filter(|bar| bar.apart).count() as i32;
        let room = self.parts.iter().map(|name| width(name, LABEL_SIZE) + 38).sum::<i32>() / (total - 48) + 1;
        let top = 74 + 20 * room + 22;
        let bottom = top + self.bars.len() as i32 * ROW + gaps * ROW / 2 + 4;
        let canvas = Canvas::new(path, total, bottom + 56)?;
        canvas.text(&self.title, (24, 26), 18, INK, Anchor::Left)?;
        canvas.text(&self.subtitle, (24, 48), 12, FAINT_INK, Anchor::Left)?;
        let names = self.parts.iter().map(String::as_str);
        canvas.legend(&names.zip(COLOURS).collect::<Vec<_>>(), (24, 74), total - 24)?;
        let longest = self.bars.iter().map(|bar| bar.parts.iter().sum::<f64>()).fold(0.0, f64::max);
        let step = round_step(longest / f64::from(TICKS));
        // Because of rounding, the sum of shares may slightly exceed the whole.
        let most = step * (longest / step - 1e-6).ceil().max(1.0);
        let at = |value: f64| left + (value / most * f64::from(PLOT)).round() as i32;
        for tick in 0..=(most / step).round() as i32 {
            let value = f64::from(tick) * step;
            canvas.line(&[(at(value), top - 4), (at(value), bottom)], GRID, 1)?;
            canvas.text(&number(value), (at(value), bottom + 14), 11, FAINT_INK, Anchor::Middle)?;
        }
        canvas.text(&self.unit, ((left + right) / 2, bottom + 36), 12, INK, Anchor::Middle)?;
        let mut y = top + ROW / 2;
        for (i, bar) in self.bars.iter().enumerate() {
            if i > 0 && bar.apart {
                y += ROW / 2;
            }
            canvas.text(&bar.label, (left - 10, y), LABEL_SIZE, INK, Anchor::Right)?;
            let mut from = 0.0;
            for (part, colour) in
                bar.parts.iter().zip(COLOURS.iter().cycle()).filter(|(part, _)| **part > 0.0)
            {
                let (begins, ends) = (at(from), at(from + part));
                canvas.bar((begins, y - BAR / 2), (ends, y + BAR / 2 + 1), *colour)?;
                let said = number(*part);
                if bar.parts.len() > 1 && ends - begins > width(&said, 11) + 6 {
                    canvas.text(&said, ((begins + ends) / 2, y), 11, on(*colour), Anchor::Middle)?;
                }
                from += part;
            }
            canvas.text(&bar.remark, (at(from) + 8, y), 11, FAINT_INK, Anchor::Left)?;
            y += ROW;
        }
        canvas.finish()
    }
}

/// Rounds up to the next number of the form 1, 2 or 5 times a power of ten.
fn round_step(value: f64) -> f64 {
    let decade = 10f64.powf(value.max(f64::MIN_POSITIVE).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
    steps.into_iter().find(|&step| step >= value * 0.999).unwrap_or(value)
}

/// Formats a number with 0 to 2 decimals, fewer for larger values.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size < 0.995 => format!("{value:.2}"),
        size if size < 9.95 && value.fract() != 0.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_round_and_bars_are_drawn() {
        assert_eq!([0.3, 1.0, 17.0, 260.0].map(round_step), [0.5, 1.0, 20.0, 500.0]);
        assert_eq!([0.0, 0.25, 3.12, 3.0, 41.7].map(number), ["0", "0.25", "3.1", "3", "42"]);
        let folder = std::env::temp_dir().join(format!("spirea-bars-{}", std::process::id()));
        let bar = |label: &str, parts| Bar { label: label.into(), parts, remark: "said".into(), apart: true };
        let bars = Bars {
            title: "A title".into(),
            subtitle: String::new(),
            unit: "ms".into(),
            parts: vec!["one".into(), "two".into()],
            bars: vec![bar("first", vec![1.0, 2.5]), bar("second", vec![])],
        };
        bars.draw(&folder).unwrap();
        let drawn = std::fs::read_to_string(&folder).unwrap();
        std::fs::remove_file(&folder).unwrap();
        assert!(["A title", "second", "two", "2.5"].iter().all(|text| drawn.contains(text)), "{drawn}");
    }
}
