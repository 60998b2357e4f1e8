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
        let parts = ring.encode_hint(params.0.grid.parts(), params.0.grid.groups, hint)?;
        let columns = ring.backend.columns(params.second_layout(), &second_columns(&params))?;
        Ok(Self { params, matrix, ring, parts, columns })
    }

    /// The second half for one part: each query's packed blocks' bytes as a matrix, folded with its own words and packed.
    fn second(
        &self,
        packed: &B::Ciphertexts,
        queries: &[u32],
        leaves: &B::Leaves,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        let layout = self.params.second_layout();
        let matrices = self.ring.reinterpret(packed, layout)?;
        let folded = self.ring.backend.scalar_fold_own(&matrices, queries)?;
        let (blocks, bodies) = (self.params.second_blocks(), Bodies::whole(0, layout.rows()));
        self.ring.pack_folds(&matrices, &self.columns, blocks, leaves, &folded, &bodies)
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
        let width = self.params.second_layout().columns();
        let mut second = Vec::with_capacity(queries.len() * width);
        for (i, query) in queries.iter().enumerate() {
            extend_words(&mut second, layout.split(query.bytes).second);
            second.resize((i + 1) * width, 0);
        }
        let mut answers = Vec::with_capacity(queries.len());
        for group in groups {
            let (queries, leaves) = group?;
            let second = &second[queries.start * width..queries.end * width];
            let mut seconds = Vec::new();
            for (part, plain) in self.parts.iter().enumerate() {
                let bodies = grid.folded_part(Params::SPREAD, queries.start, part);
                let packed = self.ring.pack(plain, &leaves, &folded, &bodies)?;
                seconds.push(self.second(&packed, second, &leaves)?);
            }
            answers.extend(self.ring.switch(&seconds)?);
        }
        Ok(answers)
    }
}
