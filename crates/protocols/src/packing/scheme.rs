//! A packing on a server, and the server half of all protocols that pack.

use std::ops::Range;

use spirea_backend::{Bodies, RingBackend, map_each};
use spirea_lattice::RingSet;

use crate::keys::PreparedKeys;
use crate::query::Query;
use crate::responder::{Shard, kept};
use crate::steps::query::{QueryLayout, QueryParts};
use crate::steps::scalar_fold::MatrixRows;
use crate::{ProtocolError, Sizes};

/// Function that returns the result of the first fold, or of a second fold over it. A scheme calls
/// it while a device computes the steps that need only the ciphertexts.
pub(crate) type Folding<'a, B> =
    Box<dyn FnOnce() -> Result<<B as spirea_backend::Backend>::Folded, ProtocolError> + 'a>;

/// The parsed parts of a query with one encrypted unit vector for the first fold.
pub(crate) struct Asked<'a> {
    /// Keys of the query's client, if they are registered.
    pub keys: Option<&'a PreparedKeys>,
    /// Words of the second fold's query, as bytes.
    pub second: &'a [u8],
    /// Words of the ring ciphertext.
    pub ciphertext: Vec<u32>,
}

impl<'a> Asked<'a> {
    /// Parses queries of this layout on the backend's host threads; `parse` parses a query's ring
    /// ciphertext.
    ///
    /// # Errors
    /// Those of `parse`.
    pub fn parse<B: RingBackend>(
        backend: &B,
        queries: &[Query<'a>],
        layout: QueryLayout,
        parse: impl Fn(&Query<'a>, &[u8]) -> Result<Vec<u32>, ProtocolError> + Sync,
    ) -> Result<Vec<Self>, ProtocolError> {
        let parse = |query: &Query<'a>| {
            let QueryParts { second, ciphertext } = layout.split(query.bytes);
            Ok(Self { keys: query.keys, second, ciphertext: parse(query, ciphertext)? })
        };
        map_each(backend, queries, parse).into_iter().collect()
    }
}

/// The rows of a fold that are packed for each query, in parts of equal length. Each part starts a
/// ciphertext.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedRows {
    /// Number of parts.
    pub parts: usize,
    /// Number of rows of all parts.
    pub rows: usize,
}

impl PackedRows {
    /// Returns the numbers of the blocks of N rows of a part. Missing rows at the end of a block
    /// count as zeros.
    pub fn blocks(&self, part: usize) -> Range<usize> {
        let blocks = (self.rows / self.parts).div_ceil(RingSet::DEGREE);
        part * blocks..(part + 1) * blocks
    }

    /// Returns the words of a part in a batch's folded queries, for query `query` and those after
    /// it.
    pub fn bodies(&self, query: usize, part: usize) -> Bodies {
        let (own, first) = (self.rows / self.parts, query * self.rows);
        Bodies { first: first + part * own..first + (part + 1) * own, stride: self.rows }
    }
}

/// The steps of a packing protocol after the first fold, over a backend.
pub(crate) trait PackScheme<B: RingBackend>: Send + Sync {
    /// Prepares a client's keys, if clients register keys.
    ///
    /// # Errors
    /// Those of [`Responder::prepare_keys`](crate::Responder::prepare_keys).
    fn prepare_keys(&self, _bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        Err(ProtocolError::malformed("keys", "this protocol needs none"))
    }

    /// Parses the ring ciphertext of a query, and checks that its client's keys are there if it
    /// needs them.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if the ciphertext is invalid or keys are missing.
    fn parse(&self, query: &Query<'_>, ciphertext: &[u8]) -> Result<Vec<u32>, ProtocolError>;

    /// Packs the fold of all rows. Returns the results of each query as bytes for the wire.
    ///
    /// # Errors
    /// Those of the backend and of `folded`.
    fn pack(&self, asked: &[Asked<'_>], folded: Folding<'_, B>) -> Result<Vec<Vec<u8>>, ProtocolError>;
}

/// The server half over a backend.
pub(crate) struct PackedServer<B: RingBackend> {
    pub sizes: Sizes,
    pub max_batch: usize,
    pub rows: MatrixRows<B>,
    /// The steps after the rows, if this server combines.
    pub scheme: Option<Box<dyn PackScheme<B>>>,
}

impl<B: RingBackend> Shard for PackedServer<B> {
    type Rows = MatrixRows<B>;
    type Ciphertexts<'a> = Vec<Asked<'a>>;

    fn rows(&self) -> &MatrixRows<B> {
        &self.rows
    }

    fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn max_batch(&self) -> usize {
        self.max_batch
    }

    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        self.scheme.as_ref().map_or_else(|| Ok(PreparedKeys::unused()), |scheme| scheme.prepare_keys(bytes))
    }

    /// Treats each encrypted unit vector of a query as a separate query.
    fn parse<'a>(&'a self, queries: &[Query<'a>]) -> Result<Vec<Asked<'a>>, ProtocolError> {
        let (scheme, layout) = (kept(&self.scheme)?, self.rows.query().layout);
        let vectors: Vec<Query<'a>> = queries
            .iter()
            .flat_map(|query| query.bytes.chunks_exact(layout.bytes()).map(|bytes| Query { bytes, ..*query }))
            .collect();
        Asked::parse(&*self.rows.backend, &vectors, layout, |query, bytes| scheme.parse(query, bytes))
    }

    fn finish(
        &self,
        queries: &[Query<'_>],
        asked: Vec<Asked<'_>>,
        folded: B::Folded,
    ) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let mut results = kept(&self.scheme)?.pack(&asked, Box::new(|| Ok(folded)))?.into_iter();
        let join = |mut answer: Vec<u8>, result: Vec<u8>| {
            answer.extend(result);
            answer
        };
        let vectors = asked.len() / queries.len();
        Ok(queries.iter().filter_map(|_| results.by_ref().take(vectors).reduce(join)).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::grid::{Grid, Spread};

    proptest! {
        #[test]
        fn parts_are_the_rows_of_all_groups(
            record_bytes in 1usize..50, unit_rows in 1usize..30, groups in 1usize..6, query in 0usize..4,
        ) {
            for spread in [Spread::Columns, Spread::Rows] {
                let grid = Grid { records: 1, record_bytes, unit_rows, groups, columns: 64 };
                let parts = if spread == Spread::Rows { grid.parts() } else { 1 };
                let rows = PackedRows { parts, rows: grid.rows(spread) };
                for part in 0..parts {
                    let Bodies { first, stride } = rows.bodies(query, part);
                    prop_assert_eq!(stride, grid.rows(spread));
                    prop_assert_eq!(first.start, query * stride + grid.row(spread, part, 0));
                    let last = grid.row(spread, part, groups - 1) + unit_rows;
                    prop_assert_eq!(first.end, query * stride + last);
                }
            }
        }
    }

    #[test]
    fn blocks_cover_the_rows_of_each_part() {
        const DEGREE: usize = RingSet::DEGREE;
        for (parts, rows, last) in
            [(1, 1, 0..1), (1, DEGREE, 0..1), (1, DEGREE + 1, 0..2), (3, 6 * DEGREE, 4..6)]
        {
            assert_eq!(PackedRows { parts, rows }.blocks(parts - 1), last);
        }
    }
}
