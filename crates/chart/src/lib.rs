//! Charts as SVG: lines on logarithmic axes, bars of parts, and bars that compare values with those
//! of a paper.

pub mod bars;
pub mod canvas;
pub mod lines;
pub mod pairs;
