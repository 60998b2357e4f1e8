//! The server half.

use std::sync::Arc;

use spirea_backend::{Bodies, RingBackend};

use super::Params;
use crate::bytes::extend_words;
use crate::keys::PreparedKeys;
use crate::parameters::Parameters;
use crate::responder::{Query, Responder};
use crate::steps::LweHint;
use crate::steps::check::check_batch;
use crate::steps::reinterpret::{SPREAD, SecondServer};
use crate::steps::ring::RingServer;
use crate::{ProtocolError, Sizes};

/// The server half of ExpPack (D) over a backend.
pub struct Server<B: RingBackend> {
    params: Params,
    matrix: B::Matrix,
    second: SecondServer<B>,
    ring: RingServer<B>,
    /// The hint of the second fold's fixed rows.
    hint: B::Plain,
}

impl<B: RingBackend> Server<B> {
    /// A server of `matrix`, with the fixed rows of the second fold that were computed of it; computes their
    /// hint.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid or a matrix has another shape.
    pub fn new(
        params: Params,
        backend: Arc<B>,
        matrix: B::Matrix,
        fixed: B::Matrix,
    ) -> Result<Self, ProtocolError> {
        params.validate()?;
        let shape = params.second();
        let shapes = (backend.layout(&matrix), backend.layout(&fixed));
        if shapes != (params.0.layout(SPREAD), shape.fixed_layout()) {
            return Err(ProtocolError::malformed("parameters", "the matrix has another shape"));
        }
        let public = params.0.second_matrix(params.0.grid.groups);
        let hint = LweHint::compute(&*backend, &public, &fixed, |_| ())?;
        let ring = RingServer::new(Arc::clone(&backend), params.ring_shape())?;
        let (rows, entry) = (shape.fixed_rows(), hint.rows(0..shape.fixed_rows())?);
        let hint =
            ring.encode_ciphertexts(params.blocks(), |row, k| if row < rows { entry(row, k) } else { 0 })?;
        Ok(Self { params, matrix, second: SecondServer { backend, shape, fixed, public }, ring, hint })
    }
}

impl<B: RingBackend> Responder for Server<B> {
    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn max_batch(&self) -> usize {
        self.params.0.max_batch(self.second.shape.parts)
    }

    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        self.ring.prepare_keys(bytes)
    }

    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        check_batch(queries, self.sizes().query_bytes, self.max_batch())?;
        let layout = self.params.layout();
        let ciphertexts = self.ring.ciphertexts(queries, layout)?;
        let groups = self.ring.expand_groups(&ciphertexts)?;
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for query in queries {
            let parts = layout.split(query.bytes);
            extend_words(&mut first, parts.first);
            extend_words(&mut second, parts.second);
        }
        let backend = &self.second.backend;
        let folded = backend.words(backend.scalar_fold(&self.matrix, &first)?)?;
        let moving = self.second.moving(&folded, &second)?;
        let (fixed, rows) = (self.second.fixed(&second)?, self.second.shape.fixed_rows());
        let mut answers = Vec::with_capacity(queries.len());
        for group in groups {
            let (queries, leaves) = group?;
            let bodies = Bodies::whole(queries.start, rows);
            let packed = self.ring.pack(&self.hint, &leaves, &fixed, &bodies)?;
            answers.extend(self.ring.switch(&[packed])?);
        }
        answers.iter_mut().zip(moving).for_each(|(answer, moving)| answer.extend(moving));
        Ok(answers)
    }
}
