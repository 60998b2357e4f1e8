//! The server half.

use spirea_backend::{Backend, map_each};

use super::Params;
use crate::bytes::extend_words;
use crate::query::Query;
use crate::responder::{Shard, kept};
use crate::steps::reinterpret::SecondServer;
use crate::steps::scalar_fold::{MatrixRows, round_words};
use crate::{ProtocolError, Sizes};

/// The server half of DoublePIR over a backend.
pub(super) struct Server<B: Backend> {
    pub params: Params,
    pub rows: MatrixRows<B>,
    /// The second fold, if this server combines.
    pub second: Option<SecondServer<B>>,
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
        self.params.second().max_batch()
    }

    fn parse(&self, _: &[Query<'_>]) -> Result<(), ProtocolError> {
        Ok(())
    }

    fn finish(
        &self,
        queries: &[Query<'_>],
        (): (),
        folded: B::Folded,
    ) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let (second, backend) = (kept(&self.second)?, &self.rows.backend);
        let folded = backend.words(folded)?;
        let mut words = Vec::new();
        queries
            .iter()
            .for_each(|query| extend_words(&mut words, self.params.layout().split(query.bytes).second));
        let fixed = backend.words(second.fixed(&words)?)?;
        let moving = second.moving(&folded, &words)?;
        let answers = fixed.chunks_exact(second.shape.fixed_rows()).zip(moving);
        Ok(map_each(&**backend, answers, |(fixed, moving)| [round_words(fixed), moving].concat()))
    }
}
