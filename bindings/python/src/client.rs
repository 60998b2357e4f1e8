//! Clients.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use spirea_client::{
    ClientError, ClientOptions, Fetched, Fetches, HttpClient, Keep, Lookups, Progress, SharedProxy, Timings,
    Value, Version, WeakPrf,
};
use spirea_protocols::TableKind;
use spirea_protocols::signature::PublicKey;
use zeroize::Zeroizing;

use crate::errors::Failure;
use crate::job::{Job, Owner, Shared};

/// Description of a database.
#[derive(Clone)]
struct About {
    name: String,
    version: String,
    keyed: bool,
    rows: u64,
    fields: Vec<String>,
    types: Vec<&'static str>,
    protocol: String,
    servers: usize,
    bins: usize,
}

impl About {
    fn of(client: &HttpClient) -> Self {
        let description = client.description();
        let (table, protocol) = (description.table(), description.params());
        Self {
            name: description.name().into(),
            version: description.version().to_string(),
            keyed: table.kind == TableKind::Keyword,
            rows: table.entries,
            fields: table.fields.clone(),
            types: table.types.iter().map(|kind| kind.name()).collect(),
            protocol: protocol.name.into(),
            servers: protocol.parties,
            bins: protocol.bins,
        }
    }
}

/// A client, used by one call at a time, and the latest description of its database.
struct Shares {
    client: Mutex<HttpClient>,
    /// First address of each server.
    urls: Vec<String>,
    current: Current,
    about: Mutex<About>,
}

/// The call that currently uses a client; it receives the client's progress.
type Current = Arc<Mutex<Weak<Shared>>>;

/// Returns a progress callback that reports to the current call.
fn telling(current: &Current, phase: &'static str) -> Option<Progress> {
    let current = Arc::clone(current);
    Some(Box::new(move |done, total| {
        if let Some(job) = current.lock().upgrade() {
            job.tell(phase, done, total);
        }
    }))
}

/// A client of one database.
#[pyclass(frozen, module = "spirea._spirea")]
pub struct Client {
    shares: Arc<Shares>,
    owner: Owner,
}

impl Client {
    fn about(&self) -> About {
        self.shares.about.lock().clone()
    }

    /// Starts a call of the client.
    fn call(
        &self,
        py: Python<'_>,
        ask: impl FnOnce(&mut HttpClient) -> Result<Answers, ClientError> + Send + 'static,
    ) -> PyResult<Job> {
        self.owner.check("client").map_err(|failure| failure.raise(py))?;
        let shares = Arc::clone(&self.shares);
        let work = move |job: &Arc<Shared>| {
            let mut client = shares.client.lock();
            if job.is_stopped() {
                return Err(Failure::stopped());
            }
            client.stop_by(job.stop());
            *shares.current.lock() = Arc::downgrade(job);
            let answers = ask(&mut client);
            *shares.about.lock() = About::of(&client);
            answers.map_err(|error| Failure::from(error).at(&shares.urls))
        };
        Job::start(py, work, answers)
    }
}

/// Values, the version that answered for each, and the costs.
struct Answers {
    values: Vec<Fetched<Value>>,
    versions: Vec<Version>,
    timings: Timings,
}

/// Converts values that were each asked for with their own query.
fn one_by_one(Lookups { values, versions, timings }: Lookups) -> Answers {
    let values = values.into_iter().map(|value| value.map_or(Fetched::Absent, Fetched::Value));
    Answers { values: values.collect(), versions, timings }
}

/// Converts values that one query returned.
fn together(Fetches { values, version, timings }: Fetches) -> Answers {
    Answers { versions: vec![version; values.len()], values, timings }
}

/// Converts answers to Python: the fields of values as tuples of bytes, None for an absent and
/// False for a dropped value; the version that answered for each; and the costs.
fn answers(py: Python<'_>, Answers { values, versions, timings }: Answers) -> PyResult<Py<PyAny>> {
    let value = |value: Fetched<Value>| -> PyResult<Bound<'_, PyAny>> {
        match value {
            Fetched::Value(value) => {
                Ok(PyTuple::new(py, value.fields().iter().map(|field| PyBytes::new(py, field)))?.into_any())
            }
            Fetched::Absent => Ok(py.None().into_bound(py)),
            Fetched::Dropped => Ok(false.into_pyobject(py)?.to_owned().into_any()),
        }
    };
    let values = values.into_iter().map(value).collect::<PyResult<Vec<_>>>()?;
    let Timings { requests, sent_bytes, received_bytes, query, server, network, decode, keys_bytes, keys } =
        timings;
    let [query, server, network, decode, keys] =
        [query, server, network, decode, keys].map(|time| time.as_secs_f64());
    let costs = (requests, sent_bytes, received_bytes, keys_bytes, query, server, network, decode, keys);
    // One Python object for each version.
    let mut known: Vec<(Version, Bound<'_, PyString>)> = Vec::new();
    let mut version = |version: Version| {
        known.iter().find(|(other, _)| *other == version).map(|(_, text)| text.clone()).unwrap_or_else(|| {
            let text = PyString::new(py, &version.to_string());
            known.push((version, text.clone()));
            text
        })
    };
    let versions: Vec<_> = versions.into_iter().map(&mut version).collect();
    Ok((PyList::new(py, values)?, PyList::new(py, versions)?, costs).into_pyobject(py)?.into_any().unbind())
}

type Keys = Zeroizing<Vec<Vec<u8>>>;

fn slices(keys: &Keys) -> Vec<&[u8]> {
    keys.iter().map(Vec::as_slice).collect()
}

#[pymethods]
impl Client {
    /// Connects to a database of these servers.
    #[staticmethod]
    #[pyo3(signature = (urls, database, options: "dict[str, Any]") -> "Job[Client]")]
    fn connect(
        py: Python<'_>,
        urls: Vec<String>,
        database: String,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Job> {
        let options = client_options(options)?.map_err(|failure| failure.raise(py))?;
        let work = move |job: &Arc<Shared>| {
            let current = Current::new(Mutex::new(Arc::downgrade(job)));
            let options = ClientOptions {
                progress: telling(&current, "hint"),
                values_progress: telling(&current, "look up"),
                stop: Some(job.stop()),
                ..options
            };
            let addresses: Vec<&str> = urls.iter().map(String::as_str).collect();
            let connected = HttpClient::connect_with(&addresses, &database, options);
            Ok((connected.map_err(|error| Failure::from(error).at(&urls))?, urls, current))
        };
        let convert = |py: Python<'_>, (client, urls, current): (HttpClient, Vec<String>, Current)| {
            let about = Mutex::new(About::of(&client));
            let shares = Arc::new(Shares { client: Mutex::new(client), urls, current, about });
            Ok(Py::new(py, Self { shares, owner: Owner::here() })?.into_any())
        };
        Job::start(py, work, convert)
    }

    #[getter]
    fn name(&self) -> String {
        self.about().name
    }

    #[getter]
    fn version(&self) -> String {
        self.about().version
    }

    #[getter]
    fn keyed(&self) -> bool {
        self.about().keyed
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.about().rows
    }

    #[getter]
    fn fields(&self) -> Vec<String> {
        self.about().fields
    }

    /// Types of the fields; empty if the table has none.
    #[getter]
    fn types(&self) -> Vec<&'static str> {
        self.about().types
    }

    #[getter]
    fn protocol(&self) -> String {
        self.about().protocol
    }

    #[getter]
    fn servers(&self) -> usize {
        self.about().servers
    }

    #[getter]
    fn bins(&self) -> usize {
        self.about().bins
    }

    /// Looks up the values of keys, with a query for each.
    #[pyo3(signature = (keys: "Sequence[bytes]") -> "Job[_Answers]")]
    fn look_up_keys(&self, py: Python<'_>, keys: Vec<Vec<u8>>) -> PyResult<Job> {
        let keys = Keys::new(keys);
        self.call(py, move |client| client.look_up_keys(&slices(&keys)).map(one_by_one))
    }

    /// Looks up the values at indices, with a query for each.
    #[pyo3(signature = (indices) -> "Job[_Answers]")]
    fn look_up_indices(&self, py: Python<'_>, indices: Vec<u64>) -> PyResult<Job> {
        let indices = Zeroizing::new(indices);
        self.call(py, move |client| client.look_up_indices(&indices).map(one_by_one))
    }

    /// Fetches the values of keys with one query, which may drop some.
    #[pyo3(signature = (keys: "Sequence[bytes]") -> "Job[_Answers]")]
    fn fetch_keys(&self, py: Python<'_>, keys: Vec<Vec<u8>>) -> PyResult<Job> {
        let keys = Keys::new(keys);
        self.call(py, move |client| client.fetch_keys(&slices(&keys)).map(together))
    }

    /// Fetches the values at indices with one query, which may drop some.
    #[pyo3(signature = (indices) -> "Job[_Answers]")]
    fn fetch_indices(&self, py: Python<'_>, indices: Vec<u64>) -> PyResult<Job> {
        let indices = Zeroizing::new(indices);
        self.call(py, move |client| client.fetch_indices(&indices).map(together))
    }
}

/// Parses options by their names in Python.
fn client_options(given: &Bound<'_, PyDict>) -> PyResult<Result<ClientOptions, Failure>> {
    let default = ClientOptions::default();
    let timeout: f64 = given.as_any().get_item("timeout")?.extract()?;
    let key: Option<String> = given.as_any().get_item("pinned_key")?.extract()?;
    let pinned_key = match key.map(|key| key.parse::<PublicKey>()).transpose() {
        Ok(key) => key,
        Err(error) => return Ok(Err(Failure::new("OptionError", format!("pinned_key: {error}")))),
    };
    let Ok(timeout) = Duration::try_from_secs_f64(timeout) else {
        return Ok(Err(Failure::new(
            "OptionError",
            format!("timeout: {timeout} seconds are no time to wait"),
        )));
    };
    let weak_prf = match given.as_any().get_item("accept_weak_prf")?.extract()? {
        true => WeakPrf::Accept,
        false => WeakPrf::Refuse,
    };
    let shared_proxy = match given.as_any().get_item("accept_shared_proxy")?.extract()? {
        true => SharedProxy::Accept,
        false => SharedProxy::Refuse,
    };
    let keep = match given.as_any().get_item("keep")?.extract::<String>()?.as_str() {
        "persistent" => Keep::Persistent,
        "memory" => Keep::Memory,
        other => {
            let text = format!("keep: {other:?} is no place for hints; give persistent or memory");
            return Ok(Err(Failure::new("OptionError", text)));
        }
    };
    Ok(Ok(ClientOptions {
        keep,
        token: given.as_any().get_item("token")?.extract()?,
        ca: given.as_any().get_item("ca")?.extract()?,
        replicas: given.as_any().get_item("replicas")?.extract()?,
        cache: given.as_any().get_item("cache")?.extract()?,
        attempts: given.as_any().get_item("attempts")?.extract()?,
        max_hint_bytes: given.as_any().get_item("max_hint_bytes")?.extract()?,
        connect_timeout: default.connect_timeout.min(timeout),
        timeout,
        patience: timeout,
        pinned_key,
        weak_prf,
        shared_proxy,
        ..default
    }))
}
