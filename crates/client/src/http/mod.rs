//! The client over HTTP, blocking.

mod cache;
mod client;
mod download;
mod options;
mod servers;
#[cfg(test)]
mod tests;
mod transport;

pub use client::{HttpClient, Lookups, Timings};
pub use options::{ClientOptions, Progress};
pub use transport::{check_address, root_certificates};
