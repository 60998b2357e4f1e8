//! Domains and their parents.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use spirea_client::{ClientError, DomainKeys};

use crate::errors::Failure;

/// Names of a domain that are asked for, names that are not, and the keys to look up.
type OfDomain = (Vec<String>, Vec<String>, Vec<Py<PyBytes>>);

/// Returns for each domain the names that are asked for, the names that are not, and `count` keys
/// to look up: keys of the names, then dummies.
#[pyfunction]
pub fn domain_keys(py: Python<'_>, domains: Vec<String>, count: usize) -> PyResult<Vec<OfDomain>> {
    if count == 0 {
        return Err(Failure::new("OptionError", "a domain takes at least one look-up").raise(py));
    }
    let domains: Vec<&str> = domains.iter().map(String::as_str).collect();
    let keys = DomainKeys::new(&domains, count)
        .map_err(ClientError::from)
        .map_err(|error| Failure::from(error).raise(py))?;
    let bytes = |keys: &[zeroize::Zeroizing<Vec<u8>>]| {
        keys.iter().map(|key| PyBytes::new(py, key).unbind()).collect::<Vec<_>>()
    };
    let of_domains = keys.names().iter().zip(keys.keys().chunks(count));
    Ok(of_domains.map(|(names, keys)| (names.names.clone(), names.unasked.clone(), bytes(keys))).collect())
}
