//! The `spirea` command: its use, its operation, and the service under faults.

mod cli;
mod cluster;
mod command;
mod encodings;
mod gpu;
mod habits;
mod interrupted;
mod lists;
mod load;
#[cfg(feature = "object-store")]
mod objects;
mod operate;
mod pim;
mod places;
mod torture;
