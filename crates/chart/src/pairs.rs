//! Chart of a paper's values, each as a bar beside the model's value.

use std::path::Path;

use plotters::style::RGBColor;

use crate::canvas::{Anchor, COLOURS, Canvas, FAINT_INK, GRID, INK, width};

const ROW: i32 = 34;
const BAR: i32 = 11;
const LABEL_SIZE: i32 = 12;
const PLOT: i32 = 380;
/// Width to the right of the bars.
const NUMBERS: i32 = 330;
const PAPER: RGBColor = COLOURS[7];
const MODEL: RGBColor = COLOURS[0];

/// A value of the model and of the paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Name of the value.
    pub what: String,
    /// Value of the paper.
    pub paper: f64,
    /// Value of the model.
    pub model: f64,
    /// Text with the deviation.
    pub deviation: String,
    /// Text with the tolerance.
    pub tolerance: String,
    /// True if the deviation is within the tolerance.
    pub within: bool,
}

/// Draws the pairs into a file, each on its own scale.
///
/// # Errors
/// If the file cannot be written.
pub fn draw(path: &Path, title: &str, subtitle: &str, model: &str, pairs: &[Pair]) -> anyhow::Result<()> {
    let labels = pairs.iter().map(|pair| width(&pair.what, LABEL_SIZE)).max().unwrap_or_default() + 16;
    let (left, right) = (24 + labels, 24 + labels + PLOT);
    let top = 112;
    let bottom = top + pairs.len() as i32 * ROW;
    let canvas = Canvas::new(path, right + NUMBERS, bottom + 24)?;
    canvas.text(title, (24, 26), 18, INK, Anchor::Left)?;
    canvas.text(subtitle, (24, 48), 12, FAINT_INK, Anchor::Left)?;
    canvas.legend(&[("paper", PAPER), (model, MODEL)], (24, 74), right)?;
    canvas.line(&[(left, top - 6), (left, bottom)], GRID, 1)?;
    for (i, pair) in pairs.iter().enumerate() {
        let y = top + i as i32 * ROW + ROW / 2;
        let scale = f64::from(PLOT) / pair.paper.max(pair.model).max(f64::MIN_POSITIVE);
        canvas.text(&pair.what, (left - 10, y), LABEL_SIZE, INK, Anchor::Right)?;
        for (value, above, colour) in [(pair.paper, -BAR, PAPER), (pair.model, 0, MODEL)] {
            let end = left + ((value * scale) as i32).max(1);
            canvas.bar((left, y + above), (end, y + above + BAR - 1), colour)?;
        }
        let numbers = format!("{:.4} / {:.4}, {}", pair.paper, pair.model, pair.deviation);
        let ink = if pair.within { INK } else { COLOURS[3] };
        canvas.text(&numbers, (right + 12, y - 6), 11, ink, Anchor::Left)?;
        canvas.text(&pair.tolerance, (right + 12, y + 8), 10, FAINT_INK, Anchor::Left)?;
    }
    canvas.finish()
}
