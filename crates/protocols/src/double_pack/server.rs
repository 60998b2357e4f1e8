//! The server half.

use std::sync::Arc;

use spirea_backend::RingBackend;
use spirea_lattice::lwe::DEGREE;

use super::Params;
use crate::bytes::extend_words;
use crate::index::{PreparedKeys, Query};
use crate::parameters::Parameters;
use crate::steps::LweHint;
use crate::steps::check::check_batch;
use crate::steps::ring::RingServer;
use crate::{ProtocolError, Responder, Sizes};

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

/// A query's parts.
struct Parsed<'a, K> {
    keys: &'a K,
    second: Vec<u32>,
    ciphertext: &'a [u8],
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
    let entries = params.second_matrix().entries();
    let (groups, columns) = (params.0.grid.groups, params.second_layout().columns());
    let mut queries = Vec::with_capacity(DEGREE * columns);
    for k in 0..DEGREE {
        queries.extend(
            (0..columns).map(|column| if column < groups { entries[column * DEGREE + k] } else { 0 }),
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
        let grid = self.params.0.grid;
        let (mut bodies, mut parsed) = (Vec::new(), Vec::new());
        for query in queries {
            let (first, rest) = query.bytes.split_at(grid.columns * 4);
            let (second, ciphertext) = rest.split_at(grid.groups * 4);
            extend_words(&mut bodies, first);
            let mut words = Vec::new();
            extend_words(&mut words, second);
            words.resize(self.params.second_layout().columns(), 0);
            parsed.push(Parsed { keys: self.ring.keys_of(query)?, second: words, ciphertext });
        }
        let folded = self.ring.backend.scalar_fold(&self.matrix, &bodies)?;
        let mut answers = vec![Vec::new(); queries.len()];
        let group = self.ring.group();
        let groups = parsed.chunks(group).zip(answers.chunks_mut(group));
        for ((parsed, answers), first) in groups.zip((0..).step_by(group)) {
            let ciphertexts: Vec<_> = parsed.iter().map(|query| (query.keys, query.ciphertext)).collect();
            let leaves = self.ring.expand(&ciphertexts)?;
            let borrowed: Vec<_> = leaves.iter().collect();
            // Switched when all are queued: a device need not wait for the host to read one.
            let mut seconds: Vec<Vec<B::Ciphertexts>> = parsed.iter().map(|_| Vec::new()).collect();
            for (part, plain) in self.parts.iter().enumerate() {
                let bodies = (first..).map(|query| grid.folded_part(Params::SPREAD, query, part));
                let packed = self.ring.pack(plain, &borrowed, &folded, bodies)?;
                for (((packed, query), leaves), seconds) in
                    packed.iter().zip(parsed).zip(&leaves).zip(&mut seconds)
                {
                    seconds.push(self.second(packed, &query.second, leaves)?);
                }
            }
            for (seconds, answer) in seconds.iter().zip(answers) {
                for second in seconds {
                    answer.extend(self.ring.switch(second)?);
                }
            }
        }
        Ok(answers)
    }
}
