//! The server half.

use std::sync::Arc;

use spirea_backend::Backend;

use super::Params;
use crate::bytes::extend_words;
use crate::parameters::Parameters;
use crate::responder::{Query, Responder};
use crate::steps::check::check_batch;
use crate::steps::scalar_fold::round_words;
use crate::{ProtocolError, Sizes};

/// The server half of SimplePIR over a backend.
pub struct Server<B: Backend> {
    params: Params,
    backend: Arc<B>,
    matrix: B::Matrix,
}

impl<B: Backend> Server<B> {
    /// A server of `matrix`.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the parameters are invalid or the matrix has another shape.
    pub fn new(params: Params, backend: Arc<B>, matrix: B::Matrix) -> Result<Self, ProtocolError> {
        params.validate()?;
        if backend.layout(&matrix) != params.layout() {
            return Err(ProtocolError::malformed("parameters", "the matrix has another shape"));
        }
        Ok(Self { params, backend, matrix })
    }
}

impl<B: Backend> Responder for Server<B> {
    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn max_batch(&self) -> usize {
        self.params.max_batch()
    }

    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let Sizes { query_bytes, .. } = self.sizes();
        check_batch(queries, query_bytes, self.max_batch())?;
        let mut words = Vec::with_capacity(queries.len() * query_bytes / 4);
        for query in queries {
            extend_words(&mut words, self.params.query_layout().split(query.bytes).first);
        }
        let answers = self.backend.words(self.backend.scalar_fold(&self.matrix, &words)?)?;
        Ok(answers
            .chunks_exact(self.params.record_columns() * self.params.rows)
            .map(|words| round_words(words).collect())
            .collect())
    }
}
