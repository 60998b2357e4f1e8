//! The server half.

use spirea_backend::{Backend, MAX_BATCH, map_each};

use super::Params;
use crate::query::Query;
use crate::responder::Shard;
use crate::steps::scalar_fold::{MatrixRows, round_words};
use crate::{ProtocolError, Sizes};

/// The server half of SimplePIR over a backend.
pub(super) struct Server<B: Backend> {
    pub params: Params,
    pub rows: MatrixRows<B>,
}

impl<B: Backend> Shard for Server<B> {
    type Rows = MatrixRows<B>;
    type Ciphertexts<'a> = ();

    fn rows(&self) -> &MatrixRows<B> {
        &self.rows
    }

    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn max_batch(&self) -> usize {
        MAX_BATCH / self.params.record_columns()
    }

    fn parse(&self, _: &[Query<'_>]) -> Result<(), ProtocolError> {
        Ok(())
    }

    fn finish(&self, _: &[Query<'_>], (): (), folded: B::Folded) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let backend = &*self.rows.backend;
        let of_query = self.params.record_columns() * self.params.0.grid.unit_rows;
        Ok(backend
            .read_words(folded, |words| map_each(backend, words.chunks_exact(of_query), round_words))?)
    }
}
