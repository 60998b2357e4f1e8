//! Packing for queries that carry their keys: all uniform halves are constants of a database.
//!
//! The cost of packing by rotations is the transforms of the digits of uniform halves. If the
//! uniform halves are the same for all clients, a server computes the transforms when it loads a
//! database, and clients download the uniform halves of all results as a hint. No keys are
//! registered, and queries share nothing that could link them.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use spirea_backend::{Bodies, FixedPacking, PackedEnds, RingBackend};
use spirea_lattice::rlwe::noise::RingNoise;
use spirea_lattice::rlwe::{KeyShape, OneShotQuery, UniformHalves};
use spirea_lattice::{LweSecret, LweSet, RingSet};
use spirea_math::SentChunks;
use spirea_math::random::{SecretRng, Seed};
use zeroize::Zeroizing;

use super::client::{PackClient, Reader};
use super::registered::{Packer, groups_in_memory};
use super::rotated::RotatedShape;
use super::scheme::{Asked, Folding, PackScheme};
use crate::ProtocolError;
use crate::choice::QueryForm;
use crate::keys::ClientKeys;
use crate::query::Query;
use crate::steps::ring::{RingServer, Shape, switched};
use crate::steps::{FirstRows, Unit, Work};

/// Bytes of memory traffic that take as long as a substitution with precomputed digits: the digits,
/// and an equal amount for keys and halves in the caches.
const SUBSTITUTION: f64 = 3e5;
/// Time of reading a byte of plaintexts relative to a byte of the database.
const PLAINTEXT: f64 = 1.2;
/// Number of results whose plaintexts are in memory at once when only their uniform halves are
/// needed.
const RESULTS_TOGETHER: usize = 16;

/// The shape whose columns are rotated chunks of an LWE secret, and whose queries carry their keys.
/// It supports no selection: the results of selectors depend on whole ciphertexts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneShotShape {
    rotated: RotatedShape,
    chunks: SentChunks,
    results: usize,
}

impl OneShotShape {
    /// Returns the shape of a protocol that packs into `results` ciphertexts for each query, under
    /// secrets of `lwe`.
    pub fn new(lwe: LweSet, set: RingSet, results: usize, queries: QueryForm) -> Self {
        let rotated = RotatedShape::new(lwe, set, results, 1);
        let chunks = match queries {
            QueryForm::Whole => SentChunks::Expanded(rotated.chunks()),
            QueryForm::Short => SentChunks::Apart,
        };
        Self { rotated, chunks, results }
    }

    fn query(&self) -> OneShotQuery {
        let (chunks, RotatedShape { rotations, .. }) = (self.chunks, self.rotated);
        OneShotQuery { set: self.set(), chunks, rotations }
    }

    fn packing(&self) -> FixedPacking {
        let (gadget, rotations) = (self.set().expansion_gadget(), self.rotated.rotations);
        FixedPacking { gadget, chunks: self.chunks, rotations }
    }

    /// Returns the number of bytes of half `a` of a result.
    fn uniform_bytes(&self) -> usize {
        switched(self.set()).a as usize * self.degree() / 8
    }
}

impl Shape for OneShotShape {
    fn set(&self) -> RingSet {
        self.rotated.set()
    }

    fn depth(&self) -> usize {
        0
    }

    fn levels(&self) -> u32 {
        match self.chunks {
            SentChunks::Expanded(expansion) => expansion.levels(),
            SentChunks::Apart => 0,
        }
    }

    fn key_shape(&self) -> Option<KeyShape> {
        None
    }

    fn query_bytes(&self) -> usize {
        self.query().bytes()
    }

    fn response_bytes(&self) -> usize {
        switched(self.set()).bytes(self.degree()) - self.uniform_bytes()
    }

    fn hint_bytes(&self) -> u64 {
        self.results as u64 * self.uniform_bytes() as u64
    }

    fn digits_bytes(&self) -> u64 {
        self.packing().digits_bytes(self.set().ring(), self.results) as u64
    }

    fn unpack_work(&self) -> Vec<Work> {
        let substitutions = self.packing().substitutions(self.set().ring(), 0);
        vec![Work::new("pack_fixed", Unit::FixedSubstitution(self.set()), substitutions)]
    }

    /// Returns the number of bytes of all `b` halves: of the ciphertexts in a query, of the chunks
    /// or the key derived from these ciphertexts, and of the chunks' images.
    fn leaves_bytes(&self) -> usize {
        let (ring, packing) = (self.set().ring(), self.packing());
        let made = match self.chunks {
            SentChunks::Expanded(expansion) => expansion.leaves(),
            SentChunks::Apart => self.rotated.rotations.chunks() + packing.gadget.levels(ring),
        };
        let leaves = made + 2 * self.rotated.rotations.leaves();
        (packing.polynomials(ring) + leaves) * ring.words() * 4
    }

    fn plaintexts(&self, blocks: usize) -> usize {
        self.rotated.plaintexts(blocks)
    }

    fn fold_work(&self, folds: usize, blocks: usize) -> Vec<Work> {
        let polynomials = folds * (self.plaintexts(blocks) + self.rotated.rotations.leaves());
        let rotated = folds * blocks * (self.rotated.rotations.big() - 1);
        let folded = Work::new("pack_fixed", Unit::FixedPolynomial(self.set()), polynomials);
        let rotated = Work::new("pack_fixed", Unit::FixedSubstitution(self.set()), rotated);
        [folded, rotated].into_iter().filter(|work| work.count > 0.0).collect()
    }

    fn switch_work(&self, _: usize) -> Option<Work> {
        None
    }

    fn pack_noise(&self, _: LweSet) -> f64 {
        match self.chunks {
            SentChunks::Expanded(_) => self.noise().pack_rotated(self.rotated.rotations),
            SentChunks::Apart => self.noise().pack_apart(self.rotated.rotations),
        }
    }

    fn noise(&self) -> RingNoise {
        match self.chunks {
            SentChunks::Expanded(expansion) => RingNoise::rounded(self.set(), expansion.levels()),
            SentChunks::Apart => RingNoise::apart(self.set()),
        }
    }

    fn pack_read_bytes(&self, blocks: usize) -> f64 {
        let substitutions = self.packing().substitutions(self.set().ring(), blocks);
        PLAINTEXT * self.plain_bytes(blocks) as f64 + substitutions as f64 * SUBSTITUTION
    }
}

/// The client half for queries that carry their keys.
pub(crate) struct OneShotClient {
    shape: OneShotShape,
    uniform: UniformHalves,
    /// The `a` halves of all results.
    results: Vec<u8>,
}

impl OneShotClient {
    /// Creates a client of the database of `seed`. The hint holds the results' uniform halves.
    pub fn new(shape: OneShotShape, seed: &Seed, hint: &[u8]) -> Self {
        Self { shape, uniform: UniformHalves::new(shape.query(), seed), results: hint.to_vec() }
    }
}

/// Each query has its own secret.
impl PackClient for OneShotClient {
    fn registered(&self) -> Option<&ClientKeys> {
        None
    }

    /// Ignores the group: there is only one, so nothing is selected.
    fn query_of_secret(&self, secret: &LweSecret, _: usize, rng: &mut SecretRng) -> (Vec<u8>, Reader) {
        let rotated = self.shape.rotated;
        let (query, answer_secret) = match self.shape.chunks {
            SentChunks::Expanded(_) => self.uniform.ask(&[rotated.numbers(secret.entries(), &[])], rng),
            SentChunks::Apart => self.uniform.ask(&rotated.numbers_of_chunks(secret.entries()), rng),
        };
        (query, Some(answer_secret))
    }

    fn phases_of(&self, reader: &Reader, answer: &[u8]) -> Result<Vec<Zeroizing<Vec<u64>>>, ProtocolError> {
        let secret = reader.as_ref().expect("the state of a query belongs to the client that made it");
        let (a_bits, b_bits) = self.shape.set().response_bits();
        let uniform = self.results.chunks_exact(self.shape.uniform_bytes());
        let halves = uniform.zip(answer.chunks_exact(self.shape.response_bytes()));
        halves.map(|(a, b)| Ok(secret.phases([a, b], a_bits, b_bits)?)).collect()
    }
}

/// The server half: packs all results of a query.
pub(crate) struct OneShotServer<B: RingBackend> {
    shape: OneShotShape,
    ring: RingServer<B, RotatedShape>,
    /// Number of rows of a query's fold.
    rows: usize,
    plain: Vec<B::Plain>,
    fixed: B::Fixed,
}

impl<B: RingBackend> OneShotServer<B> {
    /// Creates the server from the entries of `rows` LWE ciphertexts of the database of `seed`, N
    /// for each result. Also returns the `a` halves of all results, the hint for clients.
    pub fn new(
        shape: OneShotShape,
        backend: &Arc<B>,
        seed: &Seed,
        rows: usize,
        hint: FirstRows<'_>,
    ) -> Result<(Self, Vec<u8>), ProtocolError> {
        let ring = RingServer::new(Arc::clone(backend), shape.rotated)?;
        let uniform = UniformHalves::new(shape.query(), seed);
        let (plain, fixed, halves) = fix(&shape, &ring, &uniform, 0..shape.results, hint)?;
        Ok((Self { shape, ring, rows, plain, fixed }, halves))
    }
}

/// Writes the `a` halves of all results, for clients.
pub(crate) fn write_uniform<B: RingBackend>(
    shape: OneShotShape,
    backend: &Arc<B>,
    seed: &Seed,
    hint: FirstRows<'_>,
    out: &mut dyn Write,
) -> Result<(), ProtocolError> {
    let ring = RingServer::new(Arc::clone(backend), shape.rotated)?;
    let uniform = UniformHalves::new(shape.query(), seed);
    for first in (0..shape.results).step_by(RESULTS_TOGETHER) {
        let some = first..shape.results.min(first + RESULTS_TOGETHER);
        let (_, _, halves) = fix(&shape, &ring, &uniform, some, hint)?;
        out.write_all(&halves).map_err(ProtocolError::Write)?;
    }
    Ok(())
}

/// Plaintexts of some results, the data precomputed from these plaintexts, and the `a` halves of
/// these results.
type Fixed<B> = (Vec<<B as RingBackend>::Plain>, <B as RingBackend>::Fixed, Vec<u8>);

fn fix<B: RingBackend>(
    shape: &OneShotShape,
    ring: &RingServer<B, RotatedShape>,
    uniform: &UniformHalves,
    results: Range<usize>,
    hint: FirstRows<'_>,
) -> Result<Fixed<B>, ProtocolError> {
    let plain = RotatedShape::encode(ring, results, hint)?;
    let RingServer { backend, tables, .. } = ring;
    let bits = switched(shape.set());
    let (fixed, halves) = backend.fix_uniform(tables, shape.packing(), uniform.words(), &plain, bits)?;
    Ok((plain, fixed, halves))
}

impl<B: RingBackend> PackScheme<B> for OneShotServer<B> {
    fn parse(&self, _: &Query<'_>, ciphertext: &[u8]) -> Result<Vec<u32>, ProtocolError> {
        Ok(self.shape.query().parse(ciphertext)?)
    }

    /// Packs all blocks: nothing is selected.
    fn pack(&self, asked: &[Asked<'_>], folded: Folding<'_, B>) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let (RingServer { backend, tables, .. }, folded) = (&self.ring, folded()?);
        let mut results = Vec::with_capacity(asked.len());
        for group in groups_in_memory(&**backend, asked.len(), self.shape.leaves_bytes()) {
            let queries: Vec<&[u32]> =
                asked[group.clone()].iter().map(|asked| &asked.ciphertext[..]).collect();
            let ends = PackedEnds {
                folded: &folded,
                bodies: &Bodies::whole(group.start, self.rows),
                plaintext_bits: self.shape.set().plaintext_bits(),
                switched: switched(self.shape.set()),
            };
            results.extend(backend.pack_fixed(tables, &self.fixed, &self.plain, &queries, ends)?);
        }
        Ok(results)
    }
}
