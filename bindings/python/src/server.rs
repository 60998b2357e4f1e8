//! Servers on threads of this process.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use spirea_server::{Addresses, Background, Readiness};

use crate::errors::{Failure, of_options};
use crate::job::{Job, Owner, Shared};

/// Interval of checks whether a server answers.
const LOOK: Duration = Duration::from_millis(2);

/// The process in which servers first ran. A process forked from it lacks the threads on which all
/// servers compute.
static HOME: OnceLock<Owner> = OnceLock::new();

/// A server on threads of this process.
#[pyclass(frozen, module = "spirea._spirea")]
pub struct Server {
    #[pyo3(get)]
    url: String,
    #[pyo3(get)]
    admin_url: Option<String>,
    running: Mutex<Option<Background>>,
    owner: Owner,
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            // A copy in a forked child. Dropping it could wait for locks of threads that do not
            // exist here.
            let running = self.running.get_mut();
            std::mem::forget(running.take());
        }
    }
}

#[pymethods]
impl Server {
    /// Starts a server with options of `spirea serve`, and waits until it answers.
    #[staticmethod]
    #[pyo3(signature = (arguments) -> "Job[Server]")]
    fn start(py: Python<'_>, arguments: Vec<String>) -> PyResult<Job> {
        HOME.get_or_init(Owner::here).check("module's servers").map_err(|failure| failure.raise(py))?;
        let work = move |job: &Arc<Shared>| {
            let config =
                spirea_cli::server_config(&arguments).map_err(|error| of_options(error, "OptionError"))?;
            let running = Background::start(config)?;
            loop {
                match running.readiness() {
                    Readiness::Ready => return Ok(running),
                    Readiness::Failed(causes) => {
                        let causes: Vec<_> =
                            causes.iter().map(|(name, cause)| format!("{name}: {cause}")).collect();
                        return Err(Failure::new("ServerError", causes.join("; ")));
                    }
                    Readiness::Loading if job.is_stopped() => return Err(Failure::stopped()),
                    Readiness::Loading => {
                        job.tell("load", 0, 1);
                        std::thread::sleep(LOOK);
                    }
                }
            }
        };
        let convert = |py: Python<'_>, running: Background| {
            let Addresses { data, admin, tls } = running.addresses();
            let scheme = if tls { "https" } else { "http" };
            let server = Self {
                url: format!("{scheme}://{data}"),
                admin_url: admin.map(|address| format!("{scheme}://{address}")),
                running: Mutex::new(Some(running)),
                owner: Owner::here(),
            };
            Ok(Py::new(py, server)?.into_any())
        };
        Job::start(py, work, convert)
    }

    /// Stops after finishing accepted requests.
    #[pyo3(signature = () -> "Job[None]")]
    fn stop(&self, py: Python<'_>) -> PyResult<Job> {
        self.owner.check("server").map_err(|failure| failure.raise(py))?;
        let running = self.running.lock().take();
        let work = move |_: &_| Ok(running.map(Background::stop).transpose().map(drop)?);
        Job::start(py, work, |py, ()| Ok(py.None()))
    }
}
