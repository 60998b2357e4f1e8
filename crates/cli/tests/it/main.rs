//! The `spirea` command: its use, its operation, and the service under faults.

mod cli;
mod cluster;
mod command;
mod encodings;
mod forms;
mod gpu;
mod habits;
mod interrupted;
mod lists;
mod load;
mod operate;
mod pim;
mod places;
mod torture;
