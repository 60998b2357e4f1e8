//! The client over HTTP, blocking.

mod cache;
mod client;
mod options;
#[cfg(test)]
mod tests;
mod transport;
mod trust;

pub use client::HttpClient;
pub use options::ClientOptions;
pub use trust::{check_address, root_certificates};
