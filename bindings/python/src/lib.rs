//! Compiled part of the Python package, `spirea._spirea`: shims without logic.
//! `python/spirea/_spirea.pyi` describes its contents.

mod build;
mod client;
mod domains;
mod errors;
mod job;
mod manifest;
mod plan;
mod server;
mod source;

use pyo3::prelude::*;

/// Runs the command line, and returns its exit code.
#[pyfunction]
fn run_command(py: Python<'_>, arguments: Vec<String>) -> u8 {
    py.detach(|| spirea_cli::run(arguments).code())
}

/// Compiled part of the package `spirea`: thin classes over the Rust crates. Use the package
/// instead.
#[pymodule]
mod _spirea {
    #[pymodule_export]
    use crate::build::{Snapshot, build};
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::domains::domain_keys;
    #[pymodule_export]
    use crate::job::{Job, forget_all, stop_all};
    #[pymodule_export]
    use crate::manifest::{Manifest, verify_beside_matrix};
    #[pymodule_export]
    use crate::plan::{Rates, plan};
    #[pymodule_export]
    use crate::run_command;
    #[pymodule_export]
    use crate::server::Server;
    #[pymodule_export]
    use crate::source::{Source, keys_of};

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
