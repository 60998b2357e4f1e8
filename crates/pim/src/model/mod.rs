//! How long a machine with DPUs would take: a model with stated parameters, for want of the machine.
//!
//! [`parameters`] come from a file; [`cycles`] has the closed form for tasklets that share a pipeline and a DMA engine,
//! and [`events`] the simulation that it is checked against; [`system`] adds up what a query takes; [`figures`] puts the
//! result beside what IM-PIR reports.

pub mod cycles;
pub mod events;
pub mod figures;
pub mod parameters;
pub mod system;
