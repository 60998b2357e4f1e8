//! Processing in memory: folds by shares of bits, done where the records are (IM-PIR, Mwaisela and
//! others, Middleware 2025).
//!
//! The host expands keys of distributed point functions. Processors at each bank of memory (DPUs)
//! fold the records that they hold, and the host adds up their results. [`PimBackend`] implements
//! `ShareBackend` in this way. It reaches the hardware only through [`sdk`], which has two
//! implementations: the vendor's library, found at run time, and [`Emulation`]. The device program
//! is `dpu/dpxor.c`. `docs/protocols/pim.md` describes the whole.

mod backend;
mod cluster;
mod emulation;
mod fold;
pub mod model;
pub mod phases;
mod placement;
mod queue;
mod regions;
mod round;
pub mod sdk;
mod selectors;
mod shape;
mod table;

pub use backend::{PimBackend, PimConfig, PimRows};
pub use emulation::{
    Emulation, EmulationConfig, EmulationCounts, Execution, FaultTime, PlannedFault, image_source_hash,
};
pub use sdk::PimError;
pub use shape::{Build, MOST_QUERIES};
