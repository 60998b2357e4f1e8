//! The protocols by name: the one place that lists them.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use spirea_backend::{Backend, Residence};

use crate::index::AnyIndexClient;
use crate::{ProtocolError, Responder, Sizes, simple};

/// A protocol with its parameters, as it stands in manifests and travels, opaque, in the wire's envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "protocol", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ProtocolParams {
    /// [`simple`].
    Simple(simple::Params),
}

impl ProtocolParams {
    /// Reads parameters and checks them, before anything else is done with them.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] with the cause.
    pub fn from_json(json: &[u8]) -> Result<Self, ProtocolError> {
        let params: Self = serde_json::from_slice(json)
            .map_err(|error| ProtocolError::malformed("parameters", error.to_string()))?;
        params.validate()?;
        Ok(params)
    }

    /// The parameters as JSON: the same bytes for the same parameters.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("parameters are plain data")
    }

    /// The protocol's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Simple(_) => "simple",
        }
    }

    /// Name of the parameter set.
    pub fn set(&self) -> &str {
        match self {
            Self::Simple(params) => &params.set,
        }
    }

    /// Rows and columns of the stored matrix.
    pub fn shape(&self) -> [usize; 2] {
        match self {
            Self::Simple(params) => [params.rows, params.columns],
        }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] with the cause.
    pub fn validate(&self) -> Result<(), ProtocolError> {
        match self {
            Self::Simple(params) => params.validate(),
        }
    }

    /// Bytes of queries, answers and the hint.
    pub fn sizes(&self) -> Sizes {
        match self {
            Self::Simple(params) => params.sizes(),
        }
    }

    /// Number of records.
    pub fn records(&self) -> u64 {
        match self {
            Self::Simple(params) => params.records,
        }
    }

    /// Bytes of a record.
    pub fn record_bytes(&self) -> usize {
        match self {
            Self::Simple(params) => params.record_bytes,
        }
    }

    /// Bytes of the stored matrix.
    pub fn matrix_bytes(&self) -> u64 {
        match self {
            Self::Simple(params) => params.layout().bytes() as u64,
        }
    }

    /// log2 of a bound on the probability that a record decodes wrongly.
    pub fn failure_log2(&self) -> f64 {
        match self {
            Self::Simple(params) => params.failure_log2(),
        }
    }

    /// Security in bits.
    pub fn security_bits(&self) -> f64 {
        match self {
            Self::Simple(params) => params.lwe_set().security_bits(),
        }
    }

    /// The server half over a backend, of the matrix in a file.
    ///
    /// # Errors
    /// If the file is not the matrix or the backend fails.
    pub fn open_server<B: Backend>(
        &self,
        backend: &Arc<B>,
        matrix: &Path,
        residence: Residence,
    ) -> Result<Box<dyn Responder>, ProtocolError> {
        match self {
            Self::Simple(params) => {
                let matrix = backend.open(params.layout(), matrix, residence)?;
                Ok(Box::new(simple::Server::new(params.clone(), Arc::clone(backend), matrix)?))
            }
        }
    }

    /// The client half, with the hint's bytes.
    ///
    /// # Errors
    /// If the hint has another size.
    pub fn client(&self, hint: &[u8]) -> Result<Box<dyn AnyIndexClient>, ProtocolError> {
        match self {
            Self::Simple(params) => {
                Ok(Box::new(simple::Client::new(params.clone(), simple::Hint::from_bytes(params, hint)?)?))
            }
        }
    }
}
