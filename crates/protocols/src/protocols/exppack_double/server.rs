//! The server half.

use std::sync::Arc;

use spirea_backend::{Bodies, RingBackend};

use super::Params;
use crate::ProtocolError;
use crate::bytes::extend_words;
use crate::query::Query;
use crate::steps::LweHint;
use crate::steps::expand::Encrypted;
use crate::steps::packed_server::Packing;
use crate::steps::packer::Packer;
use crate::steps::reinterpret::SecondServer;
use crate::steps::ring::RingServer;

/// The second fold and packing.
pub(super) struct SecondPacking<B: RingBackend, S> {
    params: Params,
    second: SecondServer<B>,
    ring: RingServer<B, S>,
    /// The hint of the second fold's fixed rows.
    hint: Vec<B::Plain>,
}

impl<B: RingBackend, S: Packer<B>> SecondPacking<B, S> {
    /// Computes the hint of the fixed rows.
    pub fn new(params: &Params, shape: S, second: SecondServer<B>) -> Result<Self, ProtocolError> {
        let hint = LweHint::compute(&*second.backend, &second.public, &second.fixed, |_| ())?;
        let ring = RingServer::new(Arc::clone(&second.backend), shape)?;
        let rows = second.shape.fixed_rows();
        let entry = hint.rows(0..rows)?;
        let padded = |row, k| if row < rows { entry(row, k) } else { 0 };
        let hint = S::encode(&ring, params.blocks(), &padded)?;
        Ok(Self { params: params.clone(), second, ring, hint })
    }
}

impl<B: RingBackend, S: Packer<B>> Packing<B> for SecondPacking<B, S> {
    type Shape = S;

    fn ring(&self) -> &RingServer<B, S> {
        &self.ring
    }

    fn pack(
        &self,
        queries: &[Query<'_>],
        ciphertexts: &[Encrypted<'_, B>],
        folded: B::Folded,
    ) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let Self { params, second, ring, hint } = self;
        let groups = ring.unpack_groups(ciphertexts)?;
        let mut words = Vec::new();
        let layout = params.layout();
        queries.iter().for_each(|query| extend_words(&mut words, layout.split(query.bytes).second));
        let moving = second.moving(&second.backend.words(folded)?, &words)?;
        let (fixed, rows) = (second.fixed(&words)?, second.shape.fixed_rows());
        let mut answers = Vec::with_capacity(queries.len());
        for group in groups {
            let (queries, unpacked) = group?;
            let packed = ring.pack(hint, &unpacked, &fixed, &Bodies::whole(queries.start, rows))?;
            answers.extend(ring.switch(&[packed])?);
        }
        answers.iter_mut().zip(moving).for_each(|(answer, moving)| answer.extend(moving));
        Ok(answers)
    }
}
