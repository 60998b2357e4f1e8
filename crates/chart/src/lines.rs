//! Line charts as SVG.

use std::path::Path;

use crate::canvas::{Anchor, COLOURS, Canvas, FAINT_INK, GRID, INK};

const WIDTH: i32 = 860;
const HEIGHT: i32 = 520;
const LEFT: i32 = 96;
const RIGHT: i32 = WIDTH - 30;
const TOP: i32 = 114;
const BOTTOM: i32 = HEIGHT - 62;

/// A logarithmic axis.
pub struct Axis {
    /// Quantity, with its unit.
    pub label: String,
    /// Formats a value for a tick.
    pub format: fn(f64) -> String,
}

/// A line.
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points from left to right. Points with a coordinate of 0 or below are not drawn.
    pub points: Vec<(f64, f64)>,
}

/// A chart whose axes are both logarithmic.
pub struct Chart {
    /// Title of the chart.
    pub title: String,
    /// Explanation below the title.
    pub subtitle: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Lines of the chart.
    pub series: Vec<Series>,
}

impl Chart {
    /// Draws the chart into a file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn draw(&self, path: &Path) -> anyhow::Result<()> {
        let points = || self.series.iter().flat_map(|series| series.points.iter().copied().filter(on_axes));
        let x = Span::of(points().map(|(x, _)| x), LEFT, RIGHT);
        let y = Span::of(points().map(|(_, y)| y), BOTTOM, TOP);
        let canvas = Canvas::new(path, WIDTH, HEIGHT)?;
        canvas.text(&self.title, (24, 28), 18, INK, Anchor::Left)?;
        canvas.text(&self.subtitle, (24, 50), 12, FAINT_INK, Anchor::Left)?;
        let names = self.series.iter().map(|series| series.name.as_str());
        canvas.legend(&names.zip(COLOURS).collect::<Vec<_>>(), (24, 74), WIDTH - 24)?;
        for tick in x.ticks() {
            let at = x.pixel(tick);
            canvas.line(&[(at, TOP), (at, BOTTOM)], GRID, 1)?;
            canvas.text(&(self.x.format)(tick), (at, BOTTOM + 16), 11, FAINT_INK, Anchor::Middle)?;
        }
        for tick in y.ticks() {
            let at = y.pixel(tick);
            canvas.line(&[(LEFT, at), (RIGHT, at)], GRID, 1)?;
            canvas.text(&(self.y.format)(tick), (LEFT - 8, at), 11, FAINT_INK, Anchor::Right)?;
        }
        canvas.text(&self.x.label, ((LEFT + RIGHT) / 2, HEIGHT - 22), 12, INK, Anchor::Middle)?;
        canvas.text(&self.y.label, (LEFT - 72, TOP - 18), 12, INK, Anchor::Left)?;
        for (series, colour) in self.series.iter().zip(COLOURS) {
            let visible = series.points.iter().copied().filter(on_axes);
            let line: Vec<_> = visible.map(|point| (x.pixel(point.0), y.pixel(point.1))).collect();
            canvas.line(&line, colour, 2)?;
            for (x, y) in line {
                canvas.bar((x - 2, y - 2), (x + 3, y + 3), colour)?;
            }
        }
        canvas.finish()
    }
}

fn on_axes(point: &(f64, f64)) -> bool {
    point.0 > 0.0 && point.1 > 0.0
}

/// Range of an axis: values and pixels.
struct Span {
    from: f64,
    to: f64,
    first: i32,
    last: i32,
}

impl Span {
    /// Returns a range from a round value below all values to a round value above them.
    fn of(values: impl Iterator<Item = f64>, first: i32, last: i32) -> Self {
        let (least, most) = values
            .fold((f64::MAX, f64::MIN_POSITIVE), |(least, most), value| (least.min(value), most.max(value)));
        let round = |value: f64, up: bool| {
            let decade = 10f64.powf(value.log10().floor());
            let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
            let above = steps.into_iter().find(|&step| step >= value * 0.999);
            let below = steps.into_iter().rev().find(|&step| step <= value * 1.001);
            if up { above } else { below }.unwrap_or(value)
        };
        let from = round(least.min(most), false);
        let to = round(most, true);
        Self { from, to: if to > from { to } else { from * 10.0 }, first, last }
    }

    fn pixel(&self, value: f64) -> i32 {
        let share = (value / self.from).ln() / (self.to / self.from).ln();
        self.first + (share * f64::from(self.last - self.first)).round() as i32
    }

    /// Returns round values: 1, 2 and 5 of every decade, or only 1 if there are many decades.
    fn ticks(&self) -> Vec<f64> {
        let decades = (self.to / self.from).log10();
        let steps = if decades > 4.0 { &[1.0][..] } else { &[1.0, 2.0, 5.0] };
        let first = self.from.log10().floor() as i32;
        let last = self.to.log10().ceil() as i32;
        let all = (first..=last).flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
        all.filter(|&tick| tick >= self.from * 0.999 && tick <= self.to * 1.001).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_begin_and_end_at_round_values() {
        let span = Span::of([0.034, 0.7].into_iter(), 0, 1000);
        assert!((span.from - 0.02).abs() < 1e-9 && (span.to - 1.0).abs() < 1e-9, "{} {}", span.from, span.to);
        assert_eq!((span.pixel(span.from), span.pixel(span.to)), (0, 1000));
        let ticks: Vec<String> = span.ticks().iter().map(|tick| format!("{tick:.2}")).collect();
        assert_eq!(ticks, ["0.02", "0.05", "0.10", "0.20", "0.50", "1.00"]);
        assert_eq!(Span::of([3.0].into_iter(), 0, 10).ticks(), [2.0, 5.0]);
        assert!(Span::of([1e-6, 1.0].into_iter(), 0, 10).ticks().len() == 7);
    }
}
