//! The planner.

use std::sync::Arc;

use pyo3::prelude::*;
use spirea_cli::Threads;
use spirea_cpu::CpuBackend;
use spirea_protocols::choice::SecurityLevel;
use spirea_protocols::planner::Rates as Measured;

use crate::errors::{Failure, of_options};
use crate::job::{Job, Shared};

/// Measured time of each unit of work on this machine.
#[pyclass(frozen, module = "spirea._spirea")]
pub struct Rates(Measured);

#[pymethods]
impl Rates {
    /// Measures this machine.
    #[staticmethod]
    #[pyo3(signature = (threads = 0, security = "standard") -> "Job[Rates]")]
    fn measure(py: Python<'_>, threads: usize, security: &str) -> PyResult<Job> {
        let failed = |error: String| Failure::new("OptionError", error).raise(py);
        let threads: Threads = threads.to_string().parse().map_err(failed)?;
        let security: SecurityLevel = security.parse().map_err(failed)?;
        let work = move |job: &Arc<Shared>| {
            let tell = |done: usize, total: usize| job.tell("measure", done as u64, total as u64);
            let failed = |error: &dyn std::fmt::Display| Failure::new("PlanError", error.to_string());
            let backend = CpuBackend::new(threads.count()).map_err(|error| failed(&error))?;
            Measured::measure_telling(&backend, &security.ring_sets(), tell).map_err(|error| failed(&error))
        };
        Job::start(py, work, |py, rates| Ok(Py::new(py, Self(rates))?.into_any()))
    }

    /// Seconds of each measured unit of work.
    fn seconds(&self) -> std::collections::BTreeMap<String, f64> {
        self.0.iter().map(|(unit, seconds)| (format!("{unit:?}"), seconds)).collect()
    }
}

/// Returns the lines of `spirea plan --json` for these options.
#[pyfunction]
pub fn plan(py: Python<'_>, arguments: Vec<String>, rates: &Rates) -> PyResult<Vec<String>> {
    let lines = py.detach(|| spirea_cli::plan_lines(&arguments, &rates.0));
    lines.map_err(|error| of_options(error, "PlanError").raise(py))
}
