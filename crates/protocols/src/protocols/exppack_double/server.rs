//! The server half.

use std::sync::Arc;

use spirea_backend::{Bodies, RingBackend};

use super::Params;
use crate::bytes::extend_words;
use crate::keys::PreparedKeys;
use crate::parameters::Parameters;
use crate::query::Query;
use crate::responder::{Shard, kept};
use crate::steps::LweHint;
use crate::steps::expand::Encrypted;
use crate::steps::reinterpret::SecondServer;
use crate::steps::ring::RingServer;
use crate::steps::scalar_fold::MatrixRows;
use crate::{ProtocolError, Sizes};

/// The server half of ExpPack (D) over a backend.
pub(super) struct Server<B: RingBackend> {
    pub params: Params,
    pub rows: MatrixRows<B>,
    /// Where it combines.
    pub packing: Option<Packing<B>>,
}

/// The second fold and packing.
pub(super) struct Packing<B: RingBackend> {
    second: SecondServer<B>,
    ring: RingServer<B>,
    /// The hint of the second fold's fixed rows.
    hint: B::Plain,
}

impl<B: RingBackend> Packing<B> {
    /// Computes the hint of the fixed rows.
    pub fn new(params: &Params, second: SecondServer<B>) -> Result<Self, ProtocolError> {
        let hint = LweHint::compute(&*second.backend, &second.public, &second.fixed, |_| ())?;
        let ring = RingServer::new(Arc::clone(&second.backend), params.ring_shape())?;
        let rows = second.shape.fixed_rows();
        let entry = hint.rows(0..rows)?;
        let hint =
            ring.encode_ciphertexts(params.blocks(), |row, k| if row < rows { entry(row, k) } else { 0 })?;
        Ok(Self { second, ring, hint })
    }
}

impl<B: RingBackend> Shard for Server<B> {
    type Rows = MatrixRows<B>;
    type Ciphertexts<'a> = Vec<Encrypted<'a, B>>;

    fn rows(&self) -> &MatrixRows<B> {
        &self.rows
    }

    fn sizes(&self) -> Sizes {
        self.params.sizes()
    }

    fn max_batch(&self) -> usize {
        self.params.0.max_batch(self.params.second().parts)
    }

    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        self.packing.as_ref().map_or_else(|| Ok(PreparedKeys::unused()), |it| it.ring.prepare_keys(bytes))
    }

    fn parse<'a>(&'a self, queries: &[Query<'a>]) -> Result<Vec<Encrypted<'a, B>>, ProtocolError> {
        kept(&self.packing)?.ring.ciphertexts(queries, self.params.layout())
    }

    fn finish(
        &self,
        queries: &[Query<'_>],
        ciphertexts: Vec<Encrypted<'_, B>>,
        folded: B::Folded,
    ) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let (layout, Packing { second, ring, hint }) = (self.params.layout(), kept(&self.packing)?);
        let groups = ring.expand_groups(&ciphertexts)?;
        let mut words = Vec::new();
        queries.iter().for_each(|query| extend_words(&mut words, layout.split(query.bytes).second));
        let moving = second.moving(&self.rows.backend.words(folded)?, &words)?;
        let (fixed, rows) = (second.fixed(&words)?, second.shape.fixed_rows());
        let mut answers = Vec::with_capacity(queries.len());
        for group in groups {
            let (queries, leaves) = group?;
            let packed = ring.pack(hint, &leaves, &fixed, &Bodies::whole(queries.start, rows))?;
            answers.extend(ring.switch(&[packed])?);
        }
        answers.iter_mut().zip(moving).for_each(|(answer, moving)| answer.extend(moving));
        Ok(answers)
    }
}
