//! The server half.

use std::sync::Arc;

use spirea_backend::{Bodies, RingBackend};

use super::Params;
use crate::ProtocolError;
use crate::bytes::extend_words;
use crate::keys::PreparedKeys;
use crate::packing::expanded::ExpandedShape;
use crate::packing::registered::{Registered, Unpacked};
use crate::packing::scheme::{Asked, Folding, PackScheme};
use crate::query::Query;
use crate::steps::LweHint;

/// Both packings and the fold between them.
pub(super) struct DoublePacking<B: RingBackend> {
    params: Params,
    first: Registered<B, ExpandedShape>,
    /// The columns of the second public matrix.
    columns: B::Columns,
}

impl<B: RingBackend> DoublePacking<B> {
    /// Creates the server part from the LWE hint of the database.
    pub fn new(params: &Params, backend: &Arc<B>, hint: &LweHint) -> Result<Self, ProtocolError> {
        let rows = params.rows();
        let first = Registered::new(params.ring_shape(), backend, rows, hint.first_rows(rows.rows)?)?;
        let columns = backend.columns(params.second_layout(), &second_columns(params))?;
        Ok(Self { params: params.clone(), first, columns })
    }

    /// Computes the second fold and packing for one part. The bytes of each query's packed blocks
    /// form a matrix, which is folded with the query's own words and packed.
    fn second(
        &self,
        packed: &B::Ciphertexts,
        queries: &[u32],
        unpacked: &Unpacked<'_, B>,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        let (ring, layout) = (&self.first.ring, self.params.second_layout());
        let matrices = ring.reinterpret(packed, layout)?;
        let folded = ring.backend.scalar_fold_own(&matrices, queries)?;
        let (blocks, bodies) = (self.params.second_blocks(), Bodies::whole(0, layout.rows()));
        ring.pack_folds(&matrices, &self.columns, blocks, unpacked, &folded, &bodies)
    }
}

/// Returns each column of the second public matrix as a query.
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

impl<B: RingBackend> PackScheme<B> for DoublePacking<B> {
    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        self.first.prepare_keys(bytes)
    }

    fn parse(&self, query: &Query<'_>, ciphertext: &[u8]) -> Result<Vec<u32>, ProtocolError> {
        self.first.parse(query, ciphertext)
    }

    fn pack(&self, asked: &[Asked<'_>], folded: Folding<'_, B>) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let width = self.params.second_layout().columns();
        let mut second = Vec::with_capacity(asked.len() * width);
        for (i, asked) in asked.iter().enumerate() {
            extend_words(&mut second, asked.second);
            second.resize((i + 1) * width, 0);
        }
        self.first.pack_then(asked, folded, |(queries, unpacked), packed| {
            self.second(&packed, &second[queries.start * width..queries.end * width], unpacked)
        })
    }
}
