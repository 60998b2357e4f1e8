//! The server half.

use std::sync::Arc;

use spirea_backend::RingBackend;

use super::Params;
use crate::bytes::extend_words;
use crate::index::{PreparedKeys, Query};
use crate::parameters::Parameters;
use crate::steps::check::check_batch;
use crate::steps::lwe_hint::LweHint;
use crate::steps::ring::RingServer;
use crate::{ProtocolError, Responder, Sizes};

/// The server half of ExpPack (S) over a backend.
pub struct Server<B: RingBackend> {
    params: Params,
    matrix: B::Matrix,
    ring: RingServer<B>,
    hint: B::Plain,
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
        let hint = ring.encode_ciphertexts(params.blocks(), hint.rows(0..params.0.grid.unit_rows)?)?;
        Ok(Self { params, matrix, ring, hint })
    }
}

impl<B: RingBackend> Responder for Server<B> {
    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn max_batch(&self) -> usize {
        self.params.0.max_batch(self.params.0.grid.parts())
    }

    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        self.ring.prepare_keys(bytes)
    }

    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let Sizes { query_bytes, answer_bytes, .. } = self.sizes();
        check_batch(queries, query_bytes, self.max_batch())?;
        let (mut bodies, mut ciphertexts) = (Vec::new(), Vec::new());
        for query in queries {
            let keys = self.ring.keys_of(query)?;
            for part in query.bytes.chunks_exact(self.params.part_bytes()) {
                let (words, ciphertext) = part.split_at(self.params.0.grid.columns * 4);
                extend_words(&mut bodies, words);
                ciphertexts.push((keys, ciphertext));
            }
        }
        let folded = self.ring.backend.scalar_fold(&self.matrix, &bodies)?;
        let rows = self.params.0.grid.unit_rows;
        let mut switched = Vec::with_capacity(queries.len() * answer_bytes);
        let group = self.ring.group();
        for (ciphertexts, first) in ciphertexts.chunks(group).zip((0..).step_by(group)) {
            let leaves = self.ring.expand(ciphertexts)?;
            let bodies = (first..).map(|query| query * rows..(query + 1) * rows);
            let packed = self.ring.pack(&self.hint, &leaves.iter().collect::<Vec<_>>(), &folded, bodies)?;
            for ciphertexts in &packed {
                switched.extend(self.ring.switch(ciphertexts)?);
            }
        }
        Ok(switched.chunks_exact(answer_bytes).map(<[u8]>::to_vec).collect())
    }
}
