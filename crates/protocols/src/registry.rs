//! The protocols by name: the one place that lists them.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use spirea_backend::{Backend, Residence};
use spirea_math::random::SecretRng;

use crate::grid::Grid;
use crate::index::AnyIndexClient;
use crate::parameters::{Parameters, Stored};
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

    /// The parameters, whatever the protocol.
    fn parameters(&self) -> &dyn Parameters {
        match self {
            Self::Simple(params) => params,
        }
    }

    /// The protocol's name.
    pub fn name(&self) -> &'static str {
        self.parameters().name()
    }

    /// Names of the parameter sets.
    pub fn set(&self) -> String {
        self.parameters().set()
    }

    /// How the database lies in its file.
    pub fn stored(&self) -> Stored {
        self.parameters().stored()
    }

    /// Where the records lie.
    pub fn grid(&self) -> Grid {
        self.parameters().grid()
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] with the cause.
    pub fn validate(&self) -> Result<(), ProtocolError> {
        self.parameters().validate()
    }

    /// Bytes of queries, answers, the hint and evaluation keys.
    pub fn sizes(&self) -> Sizes {
        self.parameters().sizes()
    }

    /// Number of records.
    pub fn records(&self) -> u64 {
        self.grid().records
    }

    /// Bytes of a record.
    pub fn record_bytes(&self) -> usize {
        self.grid().record_bytes
    }

    /// Bytes of the stored database.
    pub fn matrix_bytes(&self) -> u64 {
        self.stored().bytes()
    }

    /// Bytes of what the server precomputes and keeps; 0 if nothing.
    pub fn server_bytes(&self) -> u64 {
        self.parameters().server_bytes()
    }

    /// log2 of a bound on the probability that a record decodes wrongly.
    pub fn failure_log2(&self) -> f64 {
        self.parameters().failure_log2()
    }

    /// Security in bits.
    pub fn security_bits(&self) -> f64 {
        self.parameters().security_bits()
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

    /// The client half, with the hint's bytes. A protocol with evaluation keys draws the client's long-lived
    /// secret from `rng`.
    ///
    /// # Errors
    /// If the hint has another size.
    pub fn client(
        &self,
        hint: &[u8],
        _rng: &mut SecretRng,
    ) -> Result<Box<dyn AnyIndexClient>, ProtocolError> {
        match self {
            Self::Simple(params) => {
                Ok(Box::new(simple::Client::new(params.clone(), simple::Hint::from_bytes(params, hint)?)?))
            }
        }
    }
}
