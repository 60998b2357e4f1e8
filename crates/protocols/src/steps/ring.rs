//! What the steps on rings share: shapes, a client's secret, a server's tables.

use std::sync::Arc;

use spirea_backend::{EvaluationKeys, RingBackend};
use spirea_lattice::RingSet;
use spirea_math::random::SecretRng;

use crate::ProtocolError;
use crate::keys::{ClientKeys, PreparedKeys};
use crate::query::Query;

/// What both halves of a protocol with a ring must agree on; follows from its parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingShape {
    /// The parameters of the ring.
    pub set: RingSet,
    /// Leaves that plaintext polynomials multiply: the LWE secret's entries or the first dimension.
    pub columns: usize,
    /// Bits of the index that select by tournament.
    pub depth: usize,
}

impl RingShape {
    /// Coefficients of a polynomial.
    pub fn degree(&self) -> usize {
        self.set.ring().degree()
    }
}

/// The client's half.
pub(crate) struct RingClient {
    pub shape: RingShape,
    pub keys: ClientKeys,
}

impl RingClient {
    /// A client with keys among `known` that fit, or else with keys of its own.
    pub fn new(shape: RingShape, known: &[ClientKeys], rng: &mut SecretRng) -> Self {
        Self { shape, keys: ClientKeys::of_shape(shape.keys(), known, rng) }
    }

    /// The secret and its keys.
    pub fn keys(&self) -> &ClientKeys {
        &self.keys
    }
}

/// The server's half.
pub(crate) struct RingServer<B: RingBackend> {
    pub backend: Arc<B>,
    pub tables: B::Tables,
    pub shape: RingShape,
}

impl<B: RingBackend> RingServer<B> {
    /// The tables of the shape's ring on a backend.
    pub fn new(backend: Arc<B>, shape: RingShape) -> Result<Self, ProtocolError> {
        let tables = backend.tables(shape.set.ring())?;
        Ok(Self { backend, tables, shape })
    }

    /// A client's keys, checked and brought to the backend.
    pub fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        let shape = self.shape.keys();
        let words = shape.parse(bytes)?;
        let keys = self.backend.keys(
            &self.tables,
            EvaluationKeys {
                expansion_gadget: self.shape.set.expansion_gadget(),
                expansion: &words.expansion,
                conversion_gadget: self.shape.set.conversion_gadget(),
                conversion: &words.conversion,
            },
        )?;
        let memory = (words.expansion.len() + words.conversion.len()) * 4;
        Ok(PreparedKeys::new(Arc::new(keys), memory))
    }

    /// The keys of a query's client.
    pub fn keys_of<'a>(&self, query: &Query<'a>) -> Result<&'a B::Keys, ProtocolError> {
        query
            .keys
            .and_then(PreparedKeys::get::<B::Keys>)
            .ok_or_else(|| ProtocolError::malformed("query", "it came without its client's evaluation keys"))
    }
}
