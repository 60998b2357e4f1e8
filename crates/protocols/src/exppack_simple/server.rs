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
        check_batch(queries, self.sizes().query_bytes, self.max_batch())?;
        let words_bytes = self.params.0.grid.columns * 4;
        let parts = || {
            let parts = queries.iter().flat_map(|query| query.bytes.chunks_exact(self.params.part_bytes()));
            parts.map(|part| part.split_at(words_bytes))
        };
        let keys = queries.iter().map(|query| self.ring.keys_of(query)).collect::<Result<Vec<_>, _>>()?;
        let keys = keys.iter().flat_map(|&keys| std::iter::repeat_n(keys, self.params.0.grid.parts()));
        let ciphertexts: Vec<_> = keys.zip(parts().map(|(_, ciphertext)| ciphertext)).collect();
        let groups = self.ring.expand_groups(&ciphertexts)?;
        let mut bodies = Vec::with_capacity(ciphertexts.len() * self.params.0.grid.columns);
        parts().for_each(|(words, _)| extend_words(&mut bodies, words));
        let folded = self.ring.backend.scalar_fold(&self.matrix, &bodies)?;
        let rows = self.params.0.grid.unit_rows;
        let mut switched = vec![Vec::new(); ciphertexts.len()];
        for group in groups {
            let (parts, leaves) = group?;
            let bodies = parts.clone().map(|part| part * rows..(part + 1) * rows);
            let packed = self.ring.pack(&self.hint, &leaves.iter().collect::<Vec<_>>(), &folded, bodies)?;
            self.ring.switch(&packed, &mut switched[parts])?;
        }
        Ok(switched.chunks_exact(self.params.0.grid.parts()).map(<[Vec<u8>]>::concat).collect())
    }
}
