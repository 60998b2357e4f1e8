//! The server half.

use std::sync::Arc;

use spirea_backend::Backend;

use super::Params;
use crate::bytes::extend_words;
use crate::parameters::Parameters;
use crate::responder::{Query, Responder};
use crate::steps::check::check_batch;
use crate::steps::reinterpret::{SPREAD, SecondServer};
use crate::steps::scalar_fold::round_words;
use crate::{ProtocolError, Sizes};

/// The server half of DoublePIR over a backend.
pub struct Server<B: Backend> {
    params: Params,
    matrix: B::Matrix,
    second: SecondServer<B>,
}

impl<B: Backend> Server<B> {
    /// A server of `matrix`, with the fixed rows of the second fold that were computed of it.
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
        Ok(Self { params, matrix, second: SecondServer { backend, shape, fixed, public } })
    }
}

impl<B: Backend> Responder for Server<B> {
    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn max_batch(&self) -> usize {
        self.second.max_batch()
    }

    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let Sizes { query_bytes, answer_bytes, .. } = self.sizes();
        check_batch(queries, query_bytes, self.max_batch())?;
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for query in queries {
            let parts = self.params.layout().split(query.bytes);
            extend_words(&mut first, parts.first);
            extend_words(&mut second, parts.second);
        }
        let backend = &self.second.backend;
        let folded = backend.words(backend.scalar_fold(&self.matrix, &first)?)?;
        let fixed = backend.words(self.second.fixed(&second)?)?;
        let moving = self.second.moving(&folded, &second)?;
        let answers =
            fixed.chunks_exact(self.second.shape.fixed_rows()).zip(moving).map(|(fixed, moving)| {
                let mut answer = Vec::with_capacity(answer_bytes);
                answer.extend(round_words(fixed));
                answer.extend(moving);
                answer
            });
        Ok(answers.collect())
    }
}
