//! The server half.

use std::sync::Arc;

use spirea_backend::{Backend, MAX_BATCH, RingMatrix};
use spirea_lattice::Structure;
use spirea_lattice::lwe::{DEGREE, RANK};

use super::Params;
use crate::bytes::extend_words;
use crate::parameters::Parameters;
use crate::{ProtocolError, Query, Responder, Sizes};

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

    /// The hint of its matrix.
    ///
    /// # Errors
    /// The backend's.
    pub fn hint(&self) -> Result<Vec<u32>, ProtocolError> {
        compute_hint(&*self.backend, &self.params, &self.matrix, |_| ())
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
        if queries.is_empty() || queries.len() > self.max_batch() {
            let detail = format!("a batch has 1 to {} queries, not {}", self.max_batch(), queries.len());
            return Err(ProtocolError::malformed("query", detail));
        }
        let mut words = Vec::with_capacity(queries.len() * query_bytes / 4);
        for Query { bytes, .. } in queries {
            if bytes.len() != query_bytes {
                let detail = format!("a query has {query_bytes} bytes, not {}", bytes.len());
                return Err(ProtocolError::malformed("query", detail));
            }
            extend_words(&mut words, bytes);
        }
        let answers = self.backend.scalar_fold(&self.matrix, &words)?;
        Ok(answers.chunks_exact(self.params.record_columns() * self.params.rows).map(round_answer).collect())
    }
}

/// The upper 16 bits of each word, rounded: half the download.
fn round_answer(words: &[u32]) -> Vec<u8> {
    let half = 1 << (31 - Params::ANSWER_BITS);
    words
        .iter()
        .flat_map(|word| ((word.wrapping_add(half) >> (32 - Params::ANSWER_BITS)) as u16).to_le_bytes())
        .collect()
}

/// The hint: the matrix times the public A, row-major, 1280 words for each row. `progress` is told the share
/// that is done.
///
/// A structured A goes through transforms (step `module_fold`); a uniform one takes its 1280 columns through
/// `scalar_fold` as if they were queries.
///
/// # Errors
/// The backend's.
pub fn compute_hint<B: Backend>(
    backend: &B,
    params: &Params,
    matrix: &B::Matrix,
    mut progress: impl FnMut(f64),
) -> Result<Vec<u32>, ProtocolError> {
    let public = params.public_matrix();
    let stream = public.stream();
    match public.set().structure() {
        Structure::Module => {
            let a = RingMatrix { coefficients: &stream, block_rows: public.stream_rows(), rank: RANK };
            let hint = backend.module_fold(matrix, a)?;
            progress(1.0);
            Ok(hint)
        }
        Structure::Uniform => {
            let mut hint = vec![0; params.rows * DEGREE];
            for first in (0..DEGREE).step_by(MAX_BATCH) {
                let batch = MAX_BATCH.min(DEGREE - first);
                let mut queries = Vec::with_capacity(batch * params.columns);
                for column in first..first + batch {
                    queries.extend(stream.iter().skip(column).step_by(DEGREE));
                }
                let products = backend.scalar_fold(matrix, &queries)?;
                for (i, product) in products.chunks_exact(params.rows).enumerate() {
                    for (row, &word) in product.iter().enumerate() {
                        hint[row * DEGREE + first + i] = word;
                    }
                }
                progress((first + batch) as f64 / DEGREE as f64);
            }
            Ok(hint)
        }
    }
}
