//! IVE, an accelerator for private information retrieval, as a simulator: schedules, time and energy.
//!
//! [`arch`] is the machine, from a file; [`schedule`] lowers the two trees of a query to a [`graph`] of operations in the
//! order of hierarchical search, [`rotation`] packing by rotations, and both refuse what does not fit the register file;
//! [`core`] executes a graph unit by unit, [`functional`] on ciphertexts, and as a [`backend`] of the project's protocols;
//! [`rowsel`] streams the database, and [`arrays`] multiply it; [`system`] adds the steps of a batch up, over one system or several; [`recorder`]
//! writes down what a protocol has its backend do, [`outline`] for databases of any size, and [`program`] times it;
//! [`scheduler`] has queries arrive; [`reproduce`] puts what comes out beside what the paper reports, [`figures`] as its
//! figures, that [`draw`] draws; [`plan`] sizes clusters.

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
