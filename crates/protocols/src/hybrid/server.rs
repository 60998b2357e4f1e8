//! The server half.

use std::sync::Arc;

use spirea_backend::RingBackend;

use super::Params;
use crate::bytes::extend_words;
use crate::index::{PreparedKeys, Query};
use crate::parameters::Parameters;
use crate::steps::LweHint;
use crate::steps::check::check_batch;
use crate::steps::ring::RingServer;
use crate::{ProtocolError, Responder, Sizes};

/// The server half of the hybrid protocol over a backend.
pub struct Server<B: RingBackend> {
    params: Params,
    matrix: B::Matrix,
    ring: RingServer<B>,
    /// The hint of each part's blocks.
    parts: Vec<B::Plain>,
}

impl<B: RingBackend> Server<B> {
    /// A server of `matrix`, with the LWE hint that was computed of it.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid or the matrix or the hint is of another
    /// shape.
    pub fn new(
        params: Params,
        backend: Arc<B>,
        matrix: B::Matrix,
        hint: &LweHint,
    ) -> Result<Self, ProtocolError> {
        params.validate()?;
        if backend.layout(&matrix) != params.0.layout(Params::SPREAD) {
            return Err(ProtocolError::malformed("parameters", "the matrix has another shape"));
        }
        let ring = RingServer::new(backend, params.ring_shape())?;
        let parts = ring.encode_blocks(&params.0.grid, hint)?;
        Ok(Self { params, matrix, ring, parts })
    }
}

impl<B: RingBackend> Responder for Server<B> {
    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn max_batch(&self) -> usize {
        self.params.0.max_batch(1)
    }

    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        self.ring.prepare_keys(bytes)
    }

    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        check_batch(queries, self.sizes().query_bytes, self.max_batch())?;
        let grid = self.params.0.grid;
        let words_bytes = grid.columns * 4;
        let ciphertexts = self.ring.ciphertexts(queries, words_bytes)?;
        let groups = self.ring.expand_groups(&ciphertexts)?;
        let mut bodies = Vec::with_capacity(queries.len() * grid.columns);
        queries.iter().for_each(|query| extend_words(&mut bodies, &query.bytes[..words_bytes]));
        let folded = self.ring.backend.scalar_fold(&self.matrix, &bodies)?;
        let mut answers = vec![Vec::new(); queries.len()];
        for group in groups {
            let (queries, leaves) = group?;
            let selectors = self.ring.selectors(&ciphertexts[queries.clone()], &leaves)?;
            let leaves: Vec<_> = leaves.iter().collect();
            let mut selected = Vec::new();
            for (part, plain) in self.parts.iter().enumerate() {
                let bodies = queries.clone().map(|query| grid.folded_part(Params::SPREAD, query, part));
                let packed = self.ring.pack(plain, &leaves, &folded, bodies)?;
                selected.extend(self.ring.select(&selectors, packed)?);
            }
            self.ring.switch(&selected, &mut answers[queries])?;
        }
        Ok(answers)
    }
}
