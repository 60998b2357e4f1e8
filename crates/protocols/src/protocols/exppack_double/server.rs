//! The server half.

use std::sync::Arc;

use spirea_backend::{Bodies, RingBackend};

use super::Params;
use crate::ProtocolError;
use crate::bytes::extend_words;
use crate::keys::PreparedKeys;
use crate::query::Query;
use crate::steps::LweHint;
use crate::steps::one_shot::{OneShotServer, OneShotShape};
use crate::steps::packed_server::{BlockPacker, PackedBlocks, Packing};
use crate::steps::packer::Packer;
use crate::steps::query::QueryLayout;
use crate::steps::reinterpret::SecondServer;
use crate::steps::ring::RingServer;

/// The second fold and packing.
pub(super) struct SecondPacking<B: RingBackend, P> {
    params: Params,
    second: SecondServer<B>,
    /// The packed blocks of the second fold's fixed rows.
    blocks: P,
}

impl<B: RingBackend, S: Packer<B>> SecondPacking<B, PackedBlocks<B, S>> {
    /// Serves clients that register keys. Computes the hint of the fixed rows.
    pub fn registered(params: &Params, shape: S, second: SecondServer<B>) -> Result<Self, ProtocolError> {
        let hint = hint(&second)?;
        let ring = RingServer::new(Arc::clone(&second.backend), shape)?;
        let plain = S::encode(&ring, params.blocks(), &params.packed_rows(&hint)?)?;
        Ok(Self { params: params.clone(), second, blocks: PackedBlocks { ring, plain } })
    }
}

impl<B: RingBackend> SecondPacking<B, OneShotServer<B>> {
    /// Serves queries that carry their keys. Computes the hint of the fixed rows.
    pub fn one_shot(
        params: &Params,
        shape: OneShotShape,
        second: SecondServer<B>,
    ) -> Result<Self, ProtocolError> {
        let hint = hint(&second)?;
        let rows = params.packed_rows(&hint)?;
        let blocks = OneShotServer::new(shape, &second.backend, &params.0.seed, &rows)?;
        Ok(Self { params: params.clone(), second, blocks })
    }
}

fn hint<B: RingBackend>(second: &SecondServer<B>) -> Result<LweHint, ProtocolError> {
    LweHint::compute(&*second.backend, &second.public, &second.fixed, |_| ())
}

impl<B: RingBackend, P: BlockPacker<B>> Packing<B> for SecondPacking<B, P> {
    type Asked<'a>
        = P::Asked<'a>
    where
        Self: 'a;

    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        self.blocks.prepare_keys(bytes)
    }

    fn ciphertexts<'a>(
        &'a self,
        queries: &[Query<'a>],
        layout: QueryLayout,
    ) -> Result<Vec<P::Asked<'a>>, ProtocolError> {
        self.blocks.ciphertexts(queries, layout)
    }

    fn pack(
        &self,
        queries: &[Query<'_>],
        ciphertexts: &[P::Asked<'_>],
        folded: B::Folded,
    ) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let Self { params, second, blocks } = self;
        let (layout, rows) = (params.layout(), second.shape.fixed_rows());
        let mut words = Vec::new();
        queries.iter().for_each(|query| extend_words(&mut words, layout.split(query.bytes).second));
        let mut moving = Vec::new();
        let fixed = || {
            moving = second.moving(&second.backend.words(folded)?, &words)?;
            second.fixed(&words)
        };
        let mut answers = blocks.answers(ciphertexts, fixed, |first| Bodies::whole(first, rows))?;
        answers.iter_mut().zip(moving).for_each(|(answer, moving)| answer.extend(moving));
        Ok(answers)
    }
}
