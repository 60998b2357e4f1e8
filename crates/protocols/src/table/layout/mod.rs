//! Layout of a table's entries in evenly filled buckets.
//!
//! Entries are ordered by their places or by their rows. The order is divided into *units* of equal
//! extent. A bucket covers consecutive units, beginning after the previous bucket. The number of
//! these units is the bucket's *width*. Where entries are dense or long, buckets are narrow. Every
//! bucket has room for the longest value, so that one record is fetched for every key.
//!
//! The number of buckets and their size follow from the lengths of the values alone ([`Shape`]);
//! the positions of entries determine the widths ([`Loads`]). So the size of a table does not
//! depend on the drawn places.

mod lengths;
mod loads;
mod shape;
mod widths;

pub use lengths::Lengths;
pub use loads::{Cut, Loads};
pub use shape::{Framing, SPARSE, Shape, rows_per_record};
pub use widths::{MAX_WIDTHS, Widths};
