//! The server half of protocols that pack the fold of a matrix.

use spirea_backend::{Bodies, RingBackend};

use super::expand::Encrypted;
use super::packer::Packer;
use super::query::QueryLayout;
use super::ring::RingServer;
use super::scalar_fold::MatrixRows;
use crate::keys::PreparedKeys;
use crate::query::Query;
use crate::responder::{Shard, kept};
use crate::{ProtocolError, Sizes};

/// The steps after the fold.
pub(crate) trait Packing<B: RingBackend>: Send + Sync {
    /// A query's parsed ciphertext.
    type Asked<'a>
    where
        Self: 'a;

    /// Prepares a client's keys, if clients register keys.
    ///
    /// # Errors
    /// Those of [`Responder::prepare_keys`](crate::Responder::prepare_keys).
    fn prepare_keys(&self, _bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        Err(ProtocolError::malformed("keys", "this protocol needs none"))
    }

    /// Parses the ciphertexts of queries of this layout.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] if a ciphertext is invalid.
    fn ciphertexts<'a>(
        &'a self,
        queries: &[Query<'a>],
        layout: QueryLayout,
    ) -> Result<Vec<Self::Asked<'a>>, ProtocolError>;

    /// Makes the answers to queries with these ciphertexts from the fold of all rows.
    ///
    /// # Errors
    /// Those of the backend.
    fn pack(
        &self,
        queries: &[Query<'_>],
        ciphertexts: &[Self::Asked<'_>],
        folded: B::Folded,
    ) -> Result<Vec<Vec<u8>>, ProtocolError>;
}

/// Packs all blocks of each query, without selection.
pub(crate) trait BlockPacker<B: RingBackend>: Send + Sync {
    /// See [`Packing::Asked`].
    type Asked<'a>
    where
        Self: 'a;

    /// See [`Packing::prepare_keys`].
    ///
    /// # Errors
    /// Those of [`Packing::prepare_keys`].
    fn prepare_keys(&self, _bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        Err(ProtocolError::malformed("keys", "this protocol needs none"))
    }

    /// See [`Packing::ciphertexts`].
    ///
    /// # Errors
    /// Those of [`Packing::ciphertexts`].
    fn ciphertexts<'a>(
        &'a self,
        queries: &[Query<'a>],
        layout: QueryLayout,
    ) -> Result<Vec<Self::Asked<'a>>, ProtocolError>;

    /// Returns the results of each query as bytes for the wire. `bodies` returns the words of the
    /// folded rows for a query and those after it. `folded` is called while a device computes the
    /// steps that need only the ciphertexts.
    ///
    /// # Errors
    /// Those of the backend.
    fn answers(
        &self,
        ciphertexts: &[Self::Asked<'_>],
        folded: impl FnOnce() -> Result<B::Folded, ProtocolError>,
        bodies: impl Fn(usize) -> Bodies,
    ) -> Result<Vec<Vec<u8>>, ProtocolError>;
}

/// Blocks packed for clients that register keys.
pub(crate) struct PackedBlocks<B: RingBackend, S> {
    pub ring: RingServer<B, S>,
    pub plain: Vec<B::Plain>,
}

impl<B: RingBackend, S: Packer<B>> BlockPacker<B> for PackedBlocks<B, S> {
    type Asked<'a>
        = Encrypted<'a, B>
    where
        Self: 'a;

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

    fn answers(
        &self,
        ciphertexts: &[Encrypted<'_, B>],
        folded: impl FnOnce() -> Result<B::Folded, ProtocolError>,
        bodies: impl Fn(usize) -> Bodies,
    ) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let Self { ring, plain } = self;
        let groups = ring.unpack_groups(ciphertexts)?;
        let folded = folded()?;
        let mut answers = Vec::with_capacity(ciphertexts.len());
        for group in groups {
            let (queries, unpacked) = group?;
            let packed = ring.pack(plain, &unpacked, &folded, &bodies(queries.start))?;
            answers.extend(ring.switch(&[packed])?);
        }
        Ok(answers)
    }
}

/// The server half over a backend.
pub(crate) struct PackedServer<B: RingBackend, P> {
    pub sizes: Sizes,
    pub max_batch: usize,
    pub rows: MatrixRows<B>,
    /// The packing, if this server combines.
    pub packing: Option<P>,
}

impl<B: RingBackend, P: Packing<B>> Shard for PackedServer<B, P> {
    type Rows = MatrixRows<B>;
    type Ciphertexts<'a>
        = Vec<P::Asked<'a>>
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
        self.packing.as_ref().map_or_else(|| Ok(PreparedKeys::unused()), |it| it.prepare_keys(bytes))
    }

    /// Treats each encrypted unit vector of a query as a separate query.
    fn parse<'a>(&'a self, queries: &[Query<'a>]) -> Result<Vec<P::Asked<'a>>, ProtocolError> {
        let layout = self.rows.query().layout;
        let vectors: Vec<Query<'a>> = queries
            .iter()
            .flat_map(|query| query.bytes.chunks_exact(layout.bytes()).map(|bytes| Query { bytes, ..*query }))
            .collect();
        kept(&self.packing)?.ciphertexts(&vectors, layout)
    }

    fn finish(
        &self,
        queries: &[Query<'_>],
        ciphertexts: Vec<P::Asked<'_>>,
        folded: B::Folded,
    ) -> Result<Vec<Vec<u8>>, ProtocolError> {
        kept(&self.packing)?.pack(queries, &ciphertexts, folded)
    }
}
