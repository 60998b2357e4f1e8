//! Simulator of IVE, an accelerator for private information retrieval: schedules, time and energy.
//!
//! - [`arch`] reads the machine from a file.
//! - [`schedule`] lowers the two trees of a query to a [`graph`] of operations, in the order of
//!   hierarchical search; [`rotation`] lowers packing by rotations. Both refuse what does not fit
//!   in the register file.
//! - [`core`] executes a graph unit by unit. [`functional`] executes it on ciphertexts, also as a
//!   [`backend`] of the project's protocols.
//! - [`rowsel`] streams the database, and [`arrays`] multiply it.
//! - [`system`] adds up the steps of a batch, on one system or several.
//! - [`recorder`] records the operations of a protocol's backend, [`outline`] for databases of any
//!   size, and [`program`] times them.
//! - [`scheduler`] simulates the arrival of queries.
//! - [`reproduce`] compares the results with the paper's, [`figures`] as its figures, which
//!   [`draw`] draws.
//! - [`plan`] sizes clusters.

pub mod arch;
pub mod arrays;
pub mod backend;
pub mod core;
pub mod draw;
mod error;
pub mod figures;
pub mod functional;
pub mod graph;
pub mod outline;
pub mod plan;
pub mod program;
pub mod recorder;
pub mod reproduce;
pub mod rotation;
pub mod rowsel;
pub mod schedule;
pub mod scheduler;
pub mod system;

pub use error::IveError;
