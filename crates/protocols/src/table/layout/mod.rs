//! How the entries of a table are laid into buckets that are filled evenly.
//!
//! Entries have an order: that of their places, or of their rows. The order is divided into *units* of equal extent, and
//! a bucket covers the units behind those of the bucket before it: as many as its *width* says, so that where entries lie
//! densely or are long, buckets are narrow. Every bucket has room for the longest value, so that one record is fetched
//! whatever the key.
//!
//! The number of buckets and their size follow from the lengths of the values alone ([`Shape`]); where entries lie
//! decides the widths ([`Loads`]). So a table takes the same bytes however its places were drawn.

mod lengths;
mod loads;
mod shape;
mod widths;

pub use lengths::Lengths;
pub use loads::{Cut, Loads};
pub use shape::{Framing, SPARSE, Shape, rows_per_record};
pub use widths::{MAX_WIDTHS, Widths};
