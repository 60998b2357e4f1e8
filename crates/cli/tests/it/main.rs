//! The `spirea` command: its use, its operation, and the service under faults.

mod automatic;
mod cli;
mod cluster;
mod command;
mod encodings;
mod forms;
mod gpu;
mod habits;
mod help;
mod interrupted;
mod lists;
mod messages;
#[cfg(feature = "object-store")]
mod objects;
mod operate;
mod pim;
mod places;
mod plans;
mod proxies;
mod torture;
mod two_servers;
