//! The server half.

use std::sync::Arc;

use spirea_backend::RingBackend;

use super::Params;
use crate::bytes::extend_words;
use crate::keys::PreparedKeys;
use crate::parameters::Parameters;
use crate::responder::{Query, Responder};
use crate::steps::LweHint;
use crate::steps::check::check_batch;
use crate::steps::ring::RingServer;
use crate::{ProtocolError, Sizes};

/// The server half of double packing over a backend.
pub struct Server<B: RingBackend> {
    params: Params,
    matrix: B::Matrix,
    ring: RingServer<B>,
    /// The first hint, of each part's blocks.
    parts: Vec<B::Plain>,
    /// Those of the second public matrix.
    columns: B::Columns,
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
        let columns = ring.backend.columns(params.second_layout(), &second_columns(&params))?;
        Ok(Self { params, matrix, ring, parts, columns })
    }

    /// The second half for one part of one query: the packed blocks' bytes as a matrix, folded and packed.
    fn second(
        &self,
        packed: &B::Ciphertexts,
        query: &[u32],
        leaves: &B::Leaves,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        let layout = self.params.second_layout();
        let matrix = self.ring.reinterpret(packed, layout)?;
        let folded = self.ring.backend.scalar_fold(&matrix, query)?;
        let plain = self.ring.encode_fold(&matrix, &self.columns, self.params.second_blocks())?;
        let mut packed = self.ring.pack(&plain, &[leaves], &folded, std::iter::once(0..layout.rows()))?;
        Ok(packed.remove(0))
    }
}

/// Column k of the second public matrix as a query, for each k.
fn second_columns(params: &Params) -> Vec<u32> {
    let (entries, degree) = (params.second_matrix().entries(), params.0.lwe_set().degree());
    let (groups, columns) = (params.0.grid.groups, params.second_layout().columns());
    let mut queries = Vec::with_capacity(degree * columns);
    for k in 0..degree {
        queries.extend(
            (0..columns).map(|column| if column < groups { entries[column * degree + k] } else { 0 }),
        );
    }
    queries
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
        let (grid, layout) = (self.params.0.grid, self.params.layout());
        let ciphertexts = self.ring.ciphertexts(queries, layout)?;
        let groups = self.ring.expand_groups(&ciphertexts)?;
        let mut bodies = Vec::with_capacity(queries.len() * grid.columns);
        queries.iter().for_each(|query| extend_words(&mut bodies, layout.split(query.bytes).first));
        let folded = self.ring.backend.scalar_fold(&self.matrix, &bodies)?;
        let second = |query: &Query<'_>| {
            let mut words = Vec::new();
            extend_words(&mut words, layout.split(query.bytes).second);
            words.resize(self.params.second_layout().columns(), 0);
            words
        };
        let second: Vec<Vec<u32>> = queries.iter().map(second).collect();
        let mut answers = vec![Vec::new(); queries.len()];
        for group in groups {
            let (queries, leaves) = group?;
            let borrowed: Vec<_> = leaves.iter().collect();
            let mut seconds = Vec::new();
            for (part, plain) in self.parts.iter().enumerate() {
                let bodies = queries.clone().map(|query| grid.folded_part(Params::SPREAD, query, part));
                let packed = self.ring.pack(plain, &borrowed, &folded, bodies)?;
                for ((packed, query), leaves) in packed.iter().zip(&second[queries.clone()]).zip(&leaves) {
                    seconds.push(self.second(packed, query, leaves)?);
                }
            }
            self.ring.switch(&seconds, &mut answers[queries])?;
        }
        Ok(answers)
    }
}
