//! The blocking client over HTTP.

mod agent;
mod background;
mod cache;
mod client;
mod failure;
mod lenient;
mod options;
mod proxy;
#[cfg(test)]
mod tests;
mod transport;
mod trust;

pub use agent::{agent, tls_config};
pub use cache::cache_folder;
pub use client::HttpClient;
pub use failure::{tls_cause, tls_remedy};
pub use options::{ClientOptions, Keep};
pub use proxy::{EnvironmentProxy, SharedProxy, proxy_for};
pub use trust::{check_address, root_certificates};
