//! What the steps on rings share: shapes, a client's secret, a server's tables.

use std::sync::Arc;

use spirea_backend::{EvaluationKeys, RingBackend, SwitchedBits};
use spirea_lattice::rlwe::noise::RingNoise;
use spirea_lattice::rlwe::{self, KeyShape, LatticeError, RingSecret};
use spirea_lattice::{LweSet, RingSet};
use spirea_math::random::SecretRng;

use super::work::Work;
use crate::ProtocolError;
use crate::keys::{ClientKeys, PreparedKeys};
use crate::query::Query;

/// What a transform modulo one prime takes, with the digits and products that belong to it, as bytes that are read from memory
/// meanwhile. With AVX-512 at 29 GB/s, a substitution of `onion-32` takes 4.4 MB for 28, an external product 4.8 MB for 32.
pub(crate) const TRANSFORM: f64 = 1.5e5;

/// What both halves of a protocol with a ring must agree on, and what follows of it: what a query's ciphertext holds, and
/// what becomes of it. Follows from the protocol's parameters.
pub(crate) trait Shape: Send + Sync {
    /// The parameters of the ring.
    fn set(&self) -> RingSet;

    /// Bits of the index that select by tournament.
    fn depth(&self) -> usize;

    /// Levels of its expansions.
    fn levels(&self) -> u32;

    /// The keys that clients register, if they do.
    fn key_shape(&self) -> Option<KeyShape>;

    /// Work of what is made of a query's ciphertext alone.
    fn unpack_work(&self) -> Vec<Work>;

    /// Bytes of it in memory.
    fn leaves_bytes(&self) -> usize;

    /// Plaintext polynomials that `blocks` ciphertexts are folded or packed with.
    fn plaintexts(&self, blocks: usize) -> usize;

    /// Work of folding or packing `blocks` ciphertexts, `folds` times.
    fn fold_work(&self, folds: usize, blocks: usize) -> Vec<Work>;

    /// The variance that packing ciphertexts under secrets of `lwe` leaves.
    fn pack_noise(&self, lwe: LweSet) -> f64;

    /// Coefficients of a polynomial.
    fn degree(&self) -> usize {
        self.set().ring().degree()
    }

    /// Bytes of a query's ciphertext, with what comes with it.
    fn query_bytes(&self) -> usize {
        rlwe::query_bytes(self.set())
    }

    /// Bytes of the keys that clients register; 0 if they register none.
    fn keys_bytes(&self) -> usize {
        self.key_shape().map_or(0, |keys| keys.bytes())
    }

    /// Bytes of the halves of all results that clients take beforehand; 0 if answers bring both.
    fn hint_bytes(&self) -> u64 {
        0
    }

    /// Bytes of digits that are computed beforehand, beside plaintexts; 0 if a query has them computed.
    fn digits_bytes(&self) -> u64 {
        0
    }

    /// Work of switching so many results, unless packing them has done so.
    fn switch_work(&self, results: usize) -> Option<Work> {
        Some(Work::switching(self.set(), results))
    }

    /// The noise of what a query's ciphertext becomes.
    fn noise(&self) -> RingNoise {
        RingNoise::new(self.set(), self.levels())
    }

    /// Bytes of what an answer brings of a result.
    fn response_bytes(&self) -> usize {
        switched(self.set()).bytes(self.degree())
    }

    /// Bytes of the plaintext polynomials of `blocks` ciphertexts.
    fn plain_bytes(&self, blocks: usize) -> u64 {
        self.plaintexts(blocks) as u64 * self.set().ring().words() as u64 * 4
    }

    /// What a query takes to pack into `blocks` ciphertexts, as bytes that are read from memory meanwhile.
    fn pack_read_bytes(&self, blocks: usize) -> f64;
}

/// A shape whose clients register keys.
pub(crate) trait RegisteredShape: Shape {
    /// The keys.
    fn keys(&self) -> KeyShape;

    /// A query's ciphertext: of a small integer for each column, and of numbers times scales for the selectors' rows.
    fn encrypt(
        &self,
        secret: &RingSecret,
        columns: &[i8],
        selectors: &[(u128, i8)],
        rng: &mut SecretRng,
    ) -> Vec<u8>;

    /// The ciphertext [a | b], as values, of a query's bytes.
    ///
    /// # Errors
    /// [`LatticeError`] if they are none.
    fn parse_query(&self, bytes: &[u8]) -> Result<Vec<u32>, LatticeError> {
        rlwe::parse_query(self.set(), bytes)
    }
}

/// Bits of a coefficient in a response under `set`.
pub(crate) fn switched(set: RingSet) -> SwitchedBits {
    let (a, b) = set.response_bits();
    SwitchedBits { a, b }
}

/// The half of a client that registers keys.
pub(crate) struct RingClient {
    pub shape: Box<dyn RegisteredShape>,
    pub keys: ClientKeys,
}

impl RingClient {
    /// A client with keys among `known` that fit, or else with keys of its own.
    pub fn new(shape: Box<dyn RegisteredShape>, known: &[ClientKeys], rng: &mut SecretRng) -> Self {
        let keys = ClientKeys::of_shape(shape.keys(), known, rng);
        Self { shape, keys }
    }

    /// The secret and its keys.
    pub fn keys(&self) -> &ClientKeys {
        &self.keys
    }
}

/// The server's half.
pub(crate) struct RingServer<B: RingBackend, S> {
    pub backend: Arc<B>,
    pub tables: B::Tables,
    pub shape: S,
}

impl<B: RingBackend, S: Shape> RingServer<B, S> {
    /// The tables of the shape's ring on a backend.
    pub fn new(backend: Arc<B>, shape: S) -> Result<Self, ProtocolError> {
        let tables = backend.tables(shape.set().ring())?;
        Ok(Self { backend, tables, shape })
    }
}

impl<B: RingBackend, S: RegisteredShape> RingServer<B, S> {
    /// A client's keys, checked and brought to the backend.
    pub fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        let (shape, set) = (self.shape.keys(), self.shape.set());
        let words = shape.parse(bytes)?;
        let keys = self.backend.keys(
            &self.tables,
            EvaluationKeys {
                expansion_gadget: set.expansion_gadget(),
                expansion: &words.expansion,
                rotations: &words.rotations,
                conversion_gadget: set.conversion_gadget(),
                conversion: &words.conversion,
            },
        )?;
        let memory = (words.expansion.len() + words.rotations.len() + words.conversion.len()) * 4;
        Ok(PreparedKeys::new(Arc::new(keys), memory))
    }

    /// The keys of a query's client.
    pub fn keys_of<'a>(&self, query: &Query<'a>) -> Result<&'a B::Keys, ProtocolError> {
        query
            .keys
            .and_then(PreparedKeys::get::<B::Keys>)
            .ok_or_else(|| ProtocolError::malformed("query", "it came without its client's evaluation keys"))
    }
}
