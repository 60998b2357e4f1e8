//! `scalar_fold`: the database times a batch of query columns, modulo 2^32.
//!
//! [`digits`] splits query words into signed digits, the form in which the processor multiplies
//! exactly; [`tile`] is the inner loop, written once over [`RowLanes`]; [`driver`] blocks it for
//! the caches and spreads it over threads.

mod digits;
pub(crate) mod driver;
mod lanes;
mod tile;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable;
#[cfg(target_arch = "x86_64")]
mod sse2;

#[cfg(test)]
mod tests;

pub(crate) use lanes::{Operand, PanelSums, Quad, RowLanes};
pub(crate) use tile::Microkernel;
