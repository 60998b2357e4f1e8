//! Common parts of the steps on rings: shapes, a client's secret, a server's tables.

use std::sync::Arc;

use spirea_backend::{EvaluationKeys, RingBackend, SwitchedBits};
use spirea_lattice::rlwe::noise::RingNoise;
use spirea_lattice::rlwe::{self, KeyShape, LatticeError, RingSecret};
use spirea_lattice::{LweSet, RingSet};
use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::work::Work;
use crate::ProtocolError;
use crate::keys::{ClientKeys, PreparedKeys};

/// Bytes read from memory in the time of a transform modulo one prime, with its digits and
/// products. With AVX-512 at 29 GB/s, a substitution of `onion-32`, with 28 transforms, takes as
/// long as reading 4.4 MB. An external product, with 32 transforms, takes as long as reading 4.8
/// MB.
pub(crate) const TRANSFORM: f64 = 1.5e5;

/// Content and processing of a query's ciphertext, on which both halves of a protocol with a ring
/// must agree. Follows from the protocol's parameters.
pub(crate) trait Shape: Send + Sync {
    /// Returns the ring set.
    fn set(&self) -> RingSet;

    /// Returns the number of index bits that a tournament selects by.
    fn depth(&self) -> usize;

    /// Returns the number of levels of its expansions.
    fn levels(&self) -> u32;

    /// Returns the shape of the keys that clients register; `None` if they register none.
    fn key_shape(&self) -> Option<KeyShape>;

    /// Returns the work of computing the leaves, which depends on a query's ciphertext only.
    fn unpack_work(&self) -> Vec<Work>;

    /// Returns the number of bytes of these leaves in memory.
    fn leaves_bytes(&self) -> usize;

    /// Returns the number of plaintext polynomials by which `blocks` ciphertexts are folded or
    /// packed.
    fn plaintexts(&self, blocks: usize) -> usize;

    /// Returns the work of folding or packing `blocks` ciphertexts, `folds` times.
    fn fold_work(&self, folds: usize, blocks: usize) -> Vec<Work>;

    /// Returns the variance that packing adds to ciphertexts under secrets of `lwe`.
    fn pack_noise(&self, lwe: LweSet) -> f64;

    /// Returns the number of coefficients of a polynomial.
    fn degree(&self) -> usize {
        self.set().ring().degree()
    }

    /// Returns the number of bytes of a query's ciphertext, including keys that it carries.
    fn query_bytes(&self) -> usize {
        rlwe::query_bytes(self.set())
    }

    /// Returns the number of bytes of the keys that clients register; 0 if they register none.
    fn keys_bytes(&self) -> usize {
        self.key_shape().map_or(0, |keys| keys.bytes())
    }

    /// Returns the number of bytes of the results' halves that clients download as a hint; 0 if
    /// answers contain both halves.
    fn hint_bytes(&self) -> u64 {
        0
    }

    /// Returns the number of bytes of precomputed digits, in addition to plaintexts; 0 if digits
    /// are computed for each query.
    fn digits_bytes(&self) -> u64 {
        0
    }

    /// Returns the work of switching `results` results; `None` if packing includes it.
    fn switch_work(&self, results: usize) -> Option<Work> {
        Some(Work::switching(self.set(), results))
    }

    /// Returns the noise of the results of a query's ciphertext.
    fn noise(&self) -> RingNoise {
        RingNoise::new(self.set(), self.levels())
    }

    /// Returns the number of bytes of one result in an answer.
    fn response_bytes(&self) -> usize {
        switched(self.set()).bytes(self.degree())
    }

    /// Returns the number of bytes of the plaintext polynomials of `blocks` ciphertexts.
    fn plain_bytes(&self, blocks: usize) -> u64 {
        self.plaintexts(blocks) as u64 * self.set().ring().words() as u64 * 4
    }

    /// Returns the number of bytes read from memory in the time that a query's packing into
    /// `blocks` ciphertexts takes.
    fn pack_read_bytes(&self, blocks: usize) -> f64;
}

/// A shape whose clients register keys.
pub(crate) trait RegisteredShape: Shape {
    /// Returns the shape of the keys.
    fn keys(&self) -> KeyShape;

    /// Encrypts a query: a small integer for each column, and numbers times scales for the
    /// selectors' rows.
    fn encrypt(
        &self,
        secret: &RingSecret,
        columns: &[i8],
        selectors: &[(u128, i8)],
        rng: &mut SecretRng,
    ) -> Vec<u8>;

    /// Parses a query's bytes into the ciphertext [a | b], as values.
    ///
    /// # Errors
    /// [`LatticeError`] if the bytes are no ciphertext.
    fn parse_query(&self, bytes: &[u8]) -> Result<Vec<u32>, LatticeError> {
        rlwe::parse_query(self.set(), bytes)
    }
}

/// Returns the bits of a coefficient in a response under `set`.
pub(crate) fn switched(set: RingSet) -> SwitchedBits {
    let (a, b) = set.response_bits();
    SwitchedBits { a, b }
}

/// The client half for registered keys.
pub(crate) struct RingClient {
    pub shape: Box<dyn RegisteredShape>,
    pub keys: ClientKeys,
}

impl RingClient {
    /// Creates a client. It reuses keys among `known` that fit, or else makes its own.
    pub fn new(shape: Box<dyn RegisteredShape>, known: &[ClientKeys], rng: &mut SecretRng) -> Self {
        let keys = ClientKeys::of_shape(shape.keys(), known, rng);
        Self { shape, keys }
    }

    /// Returns the secret and its keys.
    pub fn keys(&self) -> &ClientKeys {
        &self.keys
    }

    /// Encrypts small integers, one for each column, and the selectors of `group`.
    pub fn query(&self, columns: &[i8], group: usize, rng: &mut SecretRng) -> Vec<u8> {
        let set = self.shape.set();
        let factors = set.selector_gadget().factors(set.ring());
        let mut selectors = Zeroizing::new(Vec::with_capacity(self.shape.depth() * factors.len()));
        selectors.extend((0..self.shape.depth()).flat_map(|bit| {
            let value = (group >> bit & 1) as i8;
            factors.iter().map(move |&factor| (factor, value))
        }));
        self.keys.encrypt(|secret| self.shape.encrypt(secret, columns, &selectors, rng))
    }
}

/// The server half.
pub(crate) struct RingServer<B: RingBackend, S> {
    pub backend: Arc<B>,
    pub tables: B::Tables,
    pub shape: S,
}

impl<B: RingBackend, S: Shape> RingServer<B, S> {
    /// Creates the server, with the tables of the shape's ring on a backend.
    pub fn new(backend: Arc<B>, shape: S) -> Result<Self, ProtocolError> {
        let tables = backend.tables(shape.set().ring())?;
        Ok(Self { backend, tables, shape })
    }
}

impl<B: RingBackend, S: RegisteredShape> RingServer<B, S> {
    /// Checks a client's keys and loads them to the backend.
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

    /// Returns the keys of a query's client.
    pub fn keys_of<'a>(&self, keys: Option<&'a PreparedKeys>) -> Result<&'a B::Keys, ProtocolError> {
        keys.and_then(PreparedKeys::get::<B::Keys>)
            .ok_or_else(|| ProtocolError::malformed("query", "it came without its client's evaluation keys"))
    }
}
