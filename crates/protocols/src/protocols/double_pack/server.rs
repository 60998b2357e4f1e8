//! The server half.

use std::sync::Arc;

use spirea_backend::{Bodies, RingBackend};

use super::Params;
use crate::ProtocolError;
use crate::bytes::extend_words;
use crate::keys::PreparedKeys;
use crate::query::Query;
use crate::steps::LweHint;
use crate::steps::expand::{Encrypted, ExpandedShape, Unpacked};
use crate::steps::packed_server::Packing;
use crate::steps::query::QueryLayout;
use crate::steps::ring::RingServer;

/// Both packings and the fold between them.
pub(super) struct DoublePacking<B: RingBackend> {
    params: Params,
    ring: RingServer<B, ExpandedShape>,
    /// The first hint: for each part, the plaintexts of its blocks.
    parts: Vec<Vec<B::Plain>>,
    /// The columns of the second public matrix.
    columns: B::Columns,
}

impl<B: RingBackend> DoublePacking<B> {
    /// Creates the server part from the LWE hint of the database.
    pub fn new(params: &Params, backend: &Arc<B>, hint: &LweHint) -> Result<Self, ProtocolError> {
        let ring = RingServer::new(Arc::clone(backend), params.ring_shape())?;
        let parts = ring.encode_hint(params.0.grid.parts(), params.0.grid.groups, hint)?;
        let columns = ring.backend.columns(params.second_layout(), &second_columns(params))?;
        Ok(Self { params: params.clone(), ring, parts, columns })
    }

    /// Computes the second fold and packing for one part. The bytes of each query's packed blocks
    /// form a matrix, which is folded with the query's own words and packed.
    fn second(
        &self,
        packed: &B::Ciphertexts,
        queries: &[u32],
        unpacked: &Unpacked<'_, B>,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        let layout = self.params.second_layout();
        let matrices = self.ring.reinterpret(packed, layout)?;
        let folded = self.ring.backend.scalar_fold_own(&matrices, queries)?;
        let (blocks, bodies) = (self.params.second_blocks(), Bodies::whole(0, layout.rows()));
        self.ring.pack_folds(&matrices, &self.columns, blocks, unpacked, &folded, &bodies)
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

impl<B: RingBackend> Packing<B> for DoublePacking<B> {
    type Asked<'a> = Encrypted<'a, B>;

    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        self.ring.prepare_keys(bytes)
    }

    fn ciphertexts<'a>(
        &'a self,
        queries: &[Query<'a>],
        layout: QueryLayout,
    ) -> Result<Vec<Encrypted<'a, B>>, ProtocolError> {
        self.ring.ciphertexts(queries, layout)
    }

    fn pack(
        &self,
        queries: &[Query<'_>],
        ciphertexts: &[Encrypted<'_, B>],
        folded: B::Folded,
    ) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let (grid, layout, ring) = (self.params.0.grid, self.params.layout(), &self.ring);
        let groups = ring.unpack_groups(ciphertexts)?;
        let width = self.params.second_layout().columns();
        let mut second = Vec::with_capacity(queries.len() * width);
        for (i, query) in queries.iter().enumerate() {
            extend_words(&mut second, layout.split(query.bytes).second);
            second.resize((i + 1) * width, 0);
        }
        let mut answers = Vec::with_capacity(queries.len());
        for group in groups {
            let (queries, unpacked) = group?;
            let second = &second[queries.start * width..queries.end * width];
            let mut seconds = Vec::new();
            for (part, plain) in self.parts.iter().enumerate() {
                let bodies = grid.folded_part(Params::SPREAD, queries.start, part);
                let packed = ring.pack(plain, &unpacked, &folded, &bodies)?;
                seconds.push(self.second(&packed, second, &unpacked)?);
            }
            answers.extend(ring.switch(&seconds)?);
        }
        Ok(answers)
    }
}
