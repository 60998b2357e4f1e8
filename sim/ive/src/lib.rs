//! IVE, an accelerator for private information retrieval, as a simulator: schedules, time and energy.
//!
//! [`arch`] is the machine, from a file; [`schedule`] lowers the two trees of a query to a [`graph`] of operations in the
//! order of hierarchical search, and refuses what does not fit the register file; [`core`] executes a graph unit by unit, [`functional`] on ciphertexts;
//! [`rowsel`] streams the database; [`system`] adds the steps of a batch up, over one system or several; [`recorder`]
//! writes down what a protocol has its backend do; [`scheduler`]
//! has queries arrive; [`reproduce`] puts what comes out beside what the paper reports.

pub mod arch;
pub mod core;
mod error;
pub mod functional;
pub mod graph;
pub mod recorder;
pub mod reproduce;
pub mod rowsel;
pub mod schedule;
pub mod scheduler;
pub mod system;

pub use error::IveError;
