//! The client over HTTP, blocking.

mod cache;
mod client;
mod options;
#[cfg(test)]
mod tests;
mod transport;

pub use client::HttpClient;
pub use options::ClientOptions;
pub use transport::{check_address, root_certificates};
