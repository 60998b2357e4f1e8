//! Model of a machine with DPUs, used because no such machine is available. It computes times from
//! stated parameters.
//!
//! [`parameters`] come from a file. [`cycles`] has the closed form for tasklets that share a
//! pipeline and a DMA engine; [`events`] has the simulation that checks it. [`system`] adds up the
//! times of a query. The crate `spirea-pim-figures` compares the result with IM-PIR's.

pub mod cycles;
pub mod events;
pub mod parameters;
pub mod system;
