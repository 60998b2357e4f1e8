//! Elements of the drawings: text, bars and lines on a light background, in pixels.

use std::path::Path;

use anyhow::anyhow;
use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea as _};
use plotters::element::{PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color as _, IntoFont as _, RGBColor, ShapeStyle, TextStyle};

/// Colour of primary text.
pub const INK: RGBColor = RGBColor(0x22, 0x2b, 0x36);
/// Colour of secondary text.
pub const FAINT_INK: RGBColor = RGBColor(0x5f, 0x6b, 0x7a);
/// Colour of grid lines.
pub const GRID: RGBColor = RGBColor(0xe1, 0xe5, 0xea);
const GROUND: RGBColor = RGBColor(0xff, 0xff, 0xff);

/// Seven colours that are distinguishable for every kind of colour vision (Okabe and Ito), grey,
/// and darker variants of these. Further series start again from the first colour.
pub const COLOURS: [RGBColor; 14] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xd9, 0xcc, 0x2b),
    RGBColor(0x9a, 0xa5, 0xb1),
    RGBColor(0x0b, 0x3c, 0x5d),
    RGBColor(0x8c, 0x5a, 0x00),
    RGBColor(0x00, 0x54, 0x3e),
    RGBColor(0x7a, 0x2f, 0x00),
    RGBColor(0x7a, 0x4b, 0x8c),
    RGBColor(0x4a, 0x52, 0x5c),
];

/// Position of a text relative to its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Right of the point.
    Left,
    /// Centred on the point.
    Middle,
    /// Left of the point.
    Right,
}

/// Returns the text colour that is legible on a colour.
pub fn on(colour: RGBColor) -> RGBColor {
    let RGBColor(red, green, blue) = colour;
    let light = 299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue);
    if light > 140_000 { INK } else { GROUND }
}

/// A drawing in SVG.
pub struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

/// Returns an upper estimate of a text's width in pixels.
pub fn width(text: &str, size: i32) -> i32 {
    // Letters of wide sans-serif fonts have a mean width of 0.6 of the font size.
    (text.chars().count() as f64 * f64::from(size) * 0.6) as i32
}

impl<'a> Canvas<'a> {
    /// Creates a drawing of `width` by `height` pixels, to be written to a file.
    ///
    /// # Errors
    /// If the backend fails to draw, here and below.
    pub fn new(path: &'a Path, width: i32, height: i32) -> anyhow::Result<Self> {
        let area = SVGBackend::new(path, (width as u32, height as u32)).into_drawing_area();
        area.fill(&GROUND).map_err(|error| anyhow!("{error}"))?;
        Ok(Self { area })
    }

    /// Draws a line of text.
    ///
    /// # Errors
    /// As [`Canvas::new`].
    pub fn text(
        &self,
        text: &str,
        (x, y): (i32, i32),
        size: i32,
        colour: RGBColor,
        anchor: Anchor,
    ) -> anyhow::Result<()> {
        let horizontal = match anchor {
            Anchor::Left => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::Right => HPos::Right,
        };
        // The backend divides font sizes by this factor.
        let style = TextStyle::from(("sans-serif", f64::from(size) * 1.24).into_font())
            .color(&colour)
            .pos(Pos::new(horizontal, VPos::Center));
        self.area.draw(&Text::new(text.to_owned(), (x, y), style)).map_err(|error| anyhow!("{error}"))
    }

    /// Draws a filled rectangle.
    ///
    /// # Errors
    /// As [`Canvas::new`].
    pub fn bar(&self, from: (i32, i32), to: (i32, i32), colour: RGBColor) -> anyhow::Result<()> {
        let bar = Rectangle::new([from, to], colour.filled());
        self.area.draw(&bar).map_err(|error| anyhow!("{error}"))
    }

    /// Draws lines from point to point.
    ///
    /// # Errors
    /// As [`Canvas::new`].
    pub fn line(&self, points: &[(i32, i32)], colour: RGBColor, stroke: u32) -> anyhow::Result<()> {
        let style = ShapeStyle { color: colour.to_rgba(), filled: false, stroke_width: stroke };
        self.area.draw(&PathElement::new(points.to_vec(), style)).map_err(|error| anyhow!("{error}"))
    }

    /// Draws a legend of named colours from `(left, top)`, in the number of lines that the width
    /// requires. Returns the y coordinate below it.
    ///
    /// # Errors
    /// As [`Canvas::new`].
    pub fn legend(
        &self,
        entries: &[(&str, RGBColor)],
        (left, top): (i32, i32),
        right: i32,
    ) -> anyhow::Result<i32> {
        const SIZE: i32 = 12;
        let (mut x, mut y) = (left, top);
        for (name, colour) in entries {
            let room = 20 + width(name, SIZE) + 18;
            if x + room > right && x > left {
                (x, y) = (left, y + 20);
            }
            self.bar((x, y - 6), (x + 12, y + 6), *colour)?;
            self.text(name, (x + 19, y), SIZE, INK, Anchor::Left)?;
            x += room;
        }
        Ok(y + 20)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(self) -> anyhow::Result<()> {
        self.area.present().map_err(|error| anyhow!("{error}"))
    }
}
