//! The server half of protocols that pack what the fold of a matrix leaves.

use spirea_backend::RingBackend;

use super::expand::{Encrypted, Unpack};
use super::ring::RingServer;
use super::scalar_fold::MatrixRows;
use crate::keys::PreparedKeys;
use crate::query::Query;
use crate::responder::{Shard, kept};
use crate::{ProtocolError, Sizes};

/// All that follows the fold.
pub(crate) trait Packing<B: RingBackend>: Send + Sync {
    /// What it makes of queries' ciphertexts.
    type Shape: Unpack<B>;

    /// The ring that it packs in.
    fn ring(&self) -> &RingServer<B, Self::Shape>;

    /// The answers to queries with these ciphertexts, of what all rows leave.
    ///
    /// # Errors
    /// The backend's.
    fn pack(
        &self,
        queries: &[Query<'_>],
        ciphertexts: &[Encrypted<'_, B>],
        folded: B::Folded,
    ) -> Result<Vec<Vec<u8>>, ProtocolError>;
}

/// The server half over a backend.
pub(crate) struct PackedServer<B: RingBackend, P> {
    pub sizes: Sizes,
    pub max_batch: usize,
    pub rows: MatrixRows<B>,
    /// Where it combines.
    pub packing: Option<P>,
}

impl<B: RingBackend, P: Packing<B>> Shard for PackedServer<B, P> {
    type Rows = MatrixRows<B>;
    type Ciphertexts<'a>
        = Vec<Encrypted<'a, B>>
    where
        P: 'a;

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
        self.packing.as_ref().map_or_else(|| Ok(PreparedKeys::unused()), |it| it.ring().prepare_keys(bytes))
    }

    /// Each encrypted unit vector of a query goes the way of a query of its own.
    fn parse<'a>(&'a self, queries: &[Query<'a>]) -> Result<Vec<Encrypted<'a, B>>, ProtocolError> {
        let layout = self.rows.query().layout;
        let vectors: Vec<Query<'a>> = queries
            .iter()
            .flat_map(|query| query.bytes.chunks_exact(layout.bytes()).map(|bytes| Query { bytes, ..*query }))
            .collect();
        kept(&self.packing)?.ring().ciphertexts(&vectors, layout)
    }

    fn finish(
        &self,
        queries: &[Query<'_>],
        ciphertexts: Vec<Encrypted<'_, B>>,
        folded: B::Folded,
    ) -> Result<Vec<Vec<u8>>, ProtocolError> {
        kept(&self.packing)?.pack(queries, &ciphertexts, folded)
    }
}
