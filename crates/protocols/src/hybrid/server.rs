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
        let (mut bodies, mut ciphertexts) = (Vec::new(), Vec::new());
        for query in queries {
            let (words, ciphertext) = query.bytes.split_at(grid.columns * 4);
            extend_words(&mut bodies, words);
            ciphertexts.push((self.ring.keys_of(query)?, ciphertext));
        }
        let folded = self.ring.backend.scalar_fold(&self.matrix, &bodies)?;
        let mut answers = vec![Vec::new(); queries.len()];
        let group = self.ring.group();
        let groups = ciphertexts.chunks(group).zip(answers.chunks_mut(group));
        for ((ciphertexts, answers), first) in groups.zip((0..).step_by(group)) {
            let leaves = self.ring.expand(ciphertexts)?;
            let selectors =
                ciphertexts.iter().zip(&leaves).map(|((keys, _), leaves)| self.ring.selectors(keys, leaves));
            let selectors = selectors.collect::<Result<Vec<_>, _>>()?;
            let leaves: Vec<_> = leaves.iter().collect();
            for (part, plain) in self.parts.iter().enumerate() {
                let bodies = (first..).map(|query| grid.folded_part(Params::SPREAD, query, part));
                let packed = self.ring.pack(plain, &leaves, &folded, bodies)?;
                for ((packed, selectors), answer) in packed.into_iter().zip(&selectors).zip(&mut *answers) {
                    let selected = self.ring.select(selectors, packed)?;
                    answer.extend(self.ring.switch(&selected)?);
                }
            }
        }
        Ok(answers)
    }
}
