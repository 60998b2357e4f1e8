//! Drawings as SVG, for whoever has values to show: lines on logarithmic axes, bars of parts, and values beside those that
//! a paper states.

pub mod bars;
pub mod canvas;
pub mod lines;
pub mod pairs;
