//! The Python package's compiled part, `spirea._spirea`: shims without logic. What it has is described in
//! `python/spirea/_spirea.pyi`.

mod build;
mod client;
mod errors;
mod job;
mod plan;
mod server;
mod source;

use pyo3::prelude::*;

/// Runs the command line, and gives its exit code.
#[pyfunction]
fn run_command(py: Python<'_>, arguments: Vec<String>) -> u8 {
    py.detach(|| spirea_cli::run(arguments).code())
}

/// The compiled part of the package `spirea`.
#[pymodule]
fn _spirea(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<build::Snapshot>()?;
    module.add_class::<client::Client>()?;
    module.add_class::<job::Job>()?;
    module.add_class::<plan::Rates>()?;
    module.add_class::<server::Server>()?;
    module.add_class::<source::Source>()?;
    module.add_function(wrap_pyfunction!(build::build, module)?)?;
    module.add_function(wrap_pyfunction!(job::stop_all, module)?)?;
    module.add_function(wrap_pyfunction!(plan::plan, module)?)?;
    module.add_function(wrap_pyfunction!(run_command, module)?)
}
