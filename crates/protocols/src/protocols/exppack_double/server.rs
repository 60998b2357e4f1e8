//! The server half.

use spirea_backend::RingBackend;

use super::Params;
use crate::ProtocolError;
use crate::bytes::extend_words;
use crate::keys::PreparedKeys;
use crate::packing::scheme::{Asked, Folding, PackScheme};
use crate::query::Query;
use crate::steps::LweHint;
use crate::steps::reinterpret::SecondServer;

/// The second fold, and the packing of its fixed rows.
pub(super) struct SecondFold<B: RingBackend> {
    second: SecondServer<B>,
    packing: Box<dyn PackScheme<B>>,
}

impl<B: RingBackend> SecondFold<B> {
    /// Computes the hint of the fixed rows, and opens their packing.
    pub fn new(params: &Params, second: SecondServer<B>) -> Result<Self, ProtocolError> {
        let hint = LweHint::compute(&*second.backend, &second.public, &second.fixed, |_| ())?;
        let packing = params.ring_shape().open(&second.backend, &params.0.seed, params.rows(), &hint)?;
        Ok(Self { second, packing })
    }
}

impl<B: RingBackend> PackScheme<B> for SecondFold<B> {
    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        self.packing.prepare_keys(bytes)
    }

    fn parse(&self, query: &Query<'_>, ciphertext: &[u8]) -> Result<Vec<u32>, ProtocolError> {
        self.packing.parse(query, ciphertext)
    }

    fn pack(&self, asked: &[Asked<'_>], folded: Folding<'_, B>) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let Self { second, packing } = self;
        let mut words = Vec::new();
        asked.iter().for_each(|asked| extend_words(&mut words, asked.second));
        let mut moving = Vec::new();
        let fixed = || {
            moving = second.moving(&second.backend.words(folded()?)?, &words)?;
            second.fixed(&words)
        };
        let mut answers = packing.pack(asked, Box::new(fixed))?;
        answers.iter_mut().zip(moving).for_each(|(answer, moving)| answer.extend(moving));
        Ok(answers)
    }
}
