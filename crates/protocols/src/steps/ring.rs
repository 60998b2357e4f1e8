//! `expand`, `pack`, `rgsw_fold` and `mod_switch`, with the keys they need: both halves.

use std::ops::Range;
use std::sync::Arc;

use spirea_backend::{Bodies, EvaluationKeys, FoldedBlocks, PanelLayout, RingBackend, SwitchedBits, centred};
use spirea_lattice::rlwe::{self, Conversion, KeyShape};
use spirea_lattice::{LweSecret, LweSet, RingSet};
use spirea_math::Expansion;
use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use crate::ProtocolError;
use crate::grid::Grid;
use crate::keys::{ClientKeys, PreparedKeys};
use crate::responder::Query;
use crate::steps::query::QueryLayout;
use crate::steps::{LweHint, Unit, Work};

/// What both halves of a protocol with a ring must agree on; follows from its parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingShape {
    /// The parameters of the ring.
    pub set: RingSet,
    /// Leaves that plaintext polynomials multiply: the LWE secret's entries or the first dimension.
    pub columns: usize,
    /// Bits of the index that select by tournament.
    pub depth: usize,
}

impl RingShape {
    /// The shape of a protocol that packs ciphertexts under secrets of `lwe` and selects among `groups`.
    pub fn packing(lwe: LweSet, set: RingSet, groups: usize) -> Self {
        Self { set, columns: lwe.degree(), depth: depth(groups) }
    }

    /// The expansion: leaves for columns, then for each bit and digit of the selectors' gadget.
    pub fn expansion(&self) -> Expansion {
        Expansion::covering(self.columns + self.depth * self.set.selector_gadget().levels(self.set.ring()))
    }

    /// The keys that clients register.
    pub fn keys(&self) -> KeyShape {
        let conversion = if self.depth > 0 { Conversion::Rgsw } else { Conversion::None };
        KeyShape { set: self.set, levels: self.expansion().levels(), conversion }
    }

    /// Coefficients of a polynomial.
    pub fn degree(&self) -> usize {
        self.set.ring().degree()
    }

    /// Bytes of a query's ciphertext.
    pub fn query_bytes(&self) -> usize {
        rlwe::query_bytes(self.set)
    }

    /// Bytes of a ciphertext of a response.
    pub fn response_bytes(&self) -> usize {
        self.switched().bytes(self.degree())
    }

    fn switched(&self) -> SwitchedBits {
        let (a, b) = self.set.response_bits();
        SwitchedBits { a, b }
    }

    /// Bytes that a query reads from memory to pack into `blocks` ciphertexts: the polynomials, and the
    /// leaves, written and read.
    pub fn pack_read_bytes(&self, blocks: usize) -> f64 {
        (blocks * self.columns * self.set.ring().words() * 4 + 2 * self.leaves_bytes()) as f64
    }

    /// Bytes of memory traffic that take as long as a tournament of `blocks` ciphertexts: an external product
    /// transforms some thirty polynomials, about the time in which two megabytes are read.
    pub fn select_read_bytes(&self, blocks: usize) -> f64 {
        (blocks << 21) as f64
    }

    /// Work of `expand`, and of the selectors if there are any.
    pub fn expand_work(&self) -> Vec<Work> {
        let mut work =
            vec![Work::new("expand", Unit::Substitution(self.set), self.expansion().substitutions())];
        if self.depth > 0 {
            let digits = self.depth * self.set.selector_gadget().levels(self.set.ring());
            work.push(Work::new("selectors", Unit::Conversion(self.set), digits));
        }
        work
    }

    /// Work of folding or packing `blocks` rows, `folds` times.
    pub fn fold_work(&self, folds: usize, blocks: usize) -> Work {
        Work::new("poly_fold", Unit::FoldedPolynomial(self.set), folds * (blocks + 2) * self.columns)
    }

    /// Work of selecting one of `groups` for each part.
    pub fn select_work(&self, groups: usize, parts: usize) -> Option<Work> {
        let products = parts * (groups - 1);
        (products > 0).then(|| Work::new("rgsw_fold", Unit::ExternalProduct(self.set), products))
    }

    /// Work of switching ciphertexts.
    pub fn switch_work(&self, ciphertexts: usize) -> Work {
        Work::new("mod_switch", Unit::SwitchedCiphertext(self.set), ciphertexts)
    }

    /// Bytes of `blocks` rows of plaintext polynomials.
    pub fn plain_bytes(&self, blocks: usize) -> u64 {
        (blocks * self.columns) as u64 * self.set.ring().words() as u64 * 4
    }

    /// Bytes of the leaves of one query in memory.
    pub fn leaves_bytes(&self) -> usize {
        self.expansion().leaves() * 2 * self.set.ring().words() * 4
    }
}

/// Bits that tell `groups` apart.
pub(crate) fn depth(groups: usize) -> usize {
    groups.next_power_of_two().trailing_zeros() as usize
}

/// The client's half.
pub(crate) struct RingClient {
    shape: RingShape,
    keys: ClientKeys,
}

impl RingClient {
    /// A client with keys among `known` that fit, or else with keys of its own.
    pub fn new(shape: RingShape, known: &[ClientKeys], rng: &mut SecretRng) -> Self {
        Self { shape, keys: ClientKeys::of_shape(shape.keys(), known, rng) }
    }

    /// The secret and its keys.
    pub fn keys(&self) -> &ClientKeys {
        &self.keys
    }

    /// The ciphertext that expands to the entries of an LWE secret and to the selectors of `group`.
    pub fn query_of_secret(&self, secret: &LweSecret, group: usize, rng: &mut SecretRng) -> Vec<u8> {
        self.query(secret.entries().iter().copied(), group, rng)
    }

    /// The ciphertext that expands to small integers, one for each column, and to the selectors of `group`.
    pub fn query(&self, columns: impl Iterator<Item = i8>, group: usize, rng: &mut SecretRng) -> Vec<u8> {
        let (set, ring) = (self.shape.set, self.shape.set.ring());
        let factors = set.selector_gadget().factors(ring);
        let selectors = (0..self.shape.depth).flat_map(|bit| {
            let value = (group >> bit & 1) as i8;
            factors.iter().map(move |&factor| (factor, value))
        });
        // As large as it gets at once: a vector that grows leaves what it held where it was.
        let mut leaves = Zeroizing::new(Vec::with_capacity(self.shape.expansion().leaves()));
        leaves.extend(columns.map(|value| (set.scale(), value)).chain(selectors));
        self.keys.with_secret(|secret| secret.encrypt_leaves(self.shape.expansion(), &leaves, rng))
    }

    /// The phases of a response's ciphertext, as fractions of 2^64.
    pub fn phases(&self, ciphertext: &[u8]) -> Result<Zeroizing<Vec<u64>>, ProtocolError> {
        let (a, b) = self.shape.set.response_bits();
        Ok(self.keys.with_secret(|secret| secret.phases(ciphertext, a, b))?)
    }

    /// How far the phases of a response's ciphertext are from the numbers of `bits` bits that they decode to,
    /// as shares of what decoding tolerates.
    pub fn errors(&self, ciphertext: &[u8], bits: u32) -> Result<Vec<f64>, ProtocolError> {
        // The low bits of a phase, centred: half a step is 2^(63 - bits).
        let error = |&phase: &u64| ((phase << bits) as i64) as f64 / 2f64.powi(63);
        Ok(self.phases(ciphertext)?.iter().map(error).collect())
    }

    /// [`RingClient::errors`] of several ciphertexts, one after another.
    pub fn errors_of<'a>(
        &self,
        ciphertexts: impl Iterator<Item = &'a [u8]>,
        bits: u32,
    ) -> Result<Vec<f64>, ProtocolError> {
        let errors = ciphertexts.map(|ciphertext| self.errors(ciphertext, bits));
        Ok(errors.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// The bytes that a response's ciphertext holds, one for each coefficient.
    pub fn bytes(&self, ciphertext: &[u8]) -> Result<Zeroizing<Vec<u8>>, ProtocolError> {
        let phases = self.phases(ciphertext)?;
        Ok(Zeroizing::new(phases.iter().map(|phase| (phase.wrapping_add(1 << 55) >> 56) as u8).collect()))
    }

    /// The bytes that a response's ciphertexts hold, one after another.
    pub fn bytes_of<'a>(
        &self,
        ciphertexts: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<Zeroizing<Vec<u8>>, ProtocolError> {
        let mut bytes = Zeroizing::new(Vec::with_capacity(ciphertexts.len() * self.shape.degree()));
        for ciphertext in ciphertexts {
            bytes.extend_from_slice(&self.bytes(ciphertext)?);
        }
        Ok(bytes)
    }
}

/// A query's ciphertext with its client's keys.
type Encrypted<'a, B> = (&'a <B as RingBackend>::Keys, &'a [u8]);
/// Queries of a batch with their leaves.
type Expanded<B> = (Range<usize>, <B as RingBackend>::Leaves);

/// The server's half.
pub(crate) struct RingServer<B: RingBackend> {
    pub backend: Arc<B>,
    pub tables: B::Tables,
    pub shape: RingShape,
}

impl<B: RingBackend> RingServer<B> {
    /// The tables of the shape's ring on a backend.
    pub fn new(backend: Arc<B>, shape: RingShape) -> Result<Self, ProtocolError> {
        let tables = backend.tables(shape.set.ring())?;
        Ok(Self { backend, tables, shape })
    }

    /// A client's keys, checked and brought to the backend.
    pub fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        let shape = self.shape.keys();
        let words = shape.parse(bytes)?;
        let keys = self.backend.keys(
            &self.tables,
            EvaluationKeys {
                expansion_gadget: self.shape.set.expansion_gadget(),
                expansion: &words.expansion,
                conversion_gadget: self.shape.set.conversion_gadget(),
                conversion: &words.conversion,
            },
        )?;
        let memory = (words.expansion.len() + words.conversion.len()) * 4;
        Ok(PreparedKeys::new(Arc::new(keys), memory))
    }

    /// The keys of a query's client.
    pub fn keys_of<'a>(&self, query: &Query<'a>) -> Result<&'a B::Keys, ProtocolError> {
        query
            .keys
            .and_then(PreparedKeys::get::<B::Keys>)
            .ok_or_else(|| ProtocolError::malformed("query", "it came without its client's evaluation keys"))
    }

    /// The ciphertexts of queries of this layout, each with its client's keys.
    pub fn ciphertexts<'a>(
        &self,
        queries: &[Query<'a>],
        layout: QueryLayout,
    ) -> Result<Vec<Encrypted<'a, B>>, ProtocolError> {
        queries.iter().map(|query| Ok((self.keys_of(query)?, layout.split(query.bytes).ciphertext))).collect()
    }

    /// Step `expand`, for the ciphertexts of several queries.
    fn expand(&self, queries: &[Encrypted<'_, B>]) -> Result<B::Leaves, ProtocolError> {
        let words = queries
            .iter()
            .map(|(_, bytes)| rlwe::parse_query(self.shape.set, bytes))
            .collect::<Result<Vec<_>, _>>()?;
        let queries: Vec<_> =
            queries.iter().zip(&words).map(|((keys, _), words)| (*keys, &words[..])).collect();
        Ok(self.backend.expand(&self.tables, self.shape.expansion(), &queries)?)
    }

    /// Step `expand` for a whole batch, in as few and as even groups as the backend has memory for the leaves of: which
    /// queries, and their leaves. The first group is expanded at once, so that a device does it while the host writes
    /// down what else the batch needs; each other one when it is asked for.
    pub fn expand_groups<'a>(
        &'a self,
        queries: &'a [Encrypted<'a, B>],
    ) -> Result<impl Iterator<Item = Result<Expanded<B>, ProtocolError>> + 'a, ProtocolError> {
        let most = self.backend.leaves_memory() / self.shape.leaves_bytes() as u64;
        let mut groups = even_groups(queries.len(), usize::try_from(most).unwrap_or(usize::MAX))
            .map(|group| Ok((group.clone(), self.expand(&queries[group])?)));
        let first = groups.next().transpose()?;
        Ok(first.into_iter().map(Ok).chain(groups))
    }

    /// The plaintext polynomials of `blocks` times N LWE ciphertexts of the shape's columns: coefficient j of
    /// polynomial (block, k) is entry k of ciphertext `block N + j`, rounded to the set's plaintext bits and
    /// centred (VIPIR appendix C.1). `entry(row, k)` gives the entries.
    pub fn encode_ciphertexts(
        &self,
        blocks: usize,
        entry: impl Fn(usize, usize) -> u32 + Sync,
    ) -> Result<B::Plain, ProtocolError> {
        let (degree, bits) = (self.shape.degree(), self.shape.set.plaintext_bits());
        let fill = |block: usize, k: usize, coefficients: &mut [i32]| {
            for (j, coefficient) in coefficients.iter_mut().enumerate() {
                *coefficient = centred(entry(block * degree + j, k), bits);
            }
        };
        Ok(self.backend.encode(&self.tables, blocks, self.shape.columns, &fill)?)
    }

    /// For each query a matrix with the bytes of its switched ciphertexts down its columns.
    pub fn reinterpret(
        &self,
        ciphertexts: &B::Ciphertexts,
        layout: PanelLayout,
    ) -> Result<B::Matrices, ProtocolError> {
        Ok(self.backend.reinterpret(&self.tables, ciphertexts, self.shape.switched(), layout)?)
    }

    /// [`Self::pack`] of the LWE ciphertexts whose entries k are the answer of a query's matrix to column k, and whose
    /// bodies are its answers in `folded`.
    pub fn pack_folds(
        &self,
        matrices: &B::Matrices,
        columns: &B::Columns,
        blocks: usize,
        leaves: &B::Leaves,
        folded: &B::Folded,
        bodies: &Bodies,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        let shape = FoldedBlocks { blocks, bits: self.shape.set.plaintext_bits() };
        let packed = self.backend.encode_fold(&self.tables, matrices, columns, shape, leaves)?;
        self.add_bodies(packed, folded, bodies)
    }

    /// The plaintext polynomials of the LWE hint of a matrix of blocks, for each part of a record.
    pub fn encode_blocks(&self, grid: &Grid, hint: &LweHint) -> Result<Vec<B::Plain>, ProtocolError> {
        let rows = grid.groups * grid.unit_rows;
        (0..grid.parts())
            .map(|part| self.encode_ciphertexts(grid.groups, hint.rows(part * rows..(part + 1) * rows)?))
            .collect()
    }

    /// Step `pack`: for each query, the LWE ciphertexts of `plain` and its bodies, N to a ciphertext; `bodies`
    /// says which words of `folded` are whose.
    pub fn pack(
        &self,
        plain: &B::Plain,
        leaves: &B::Leaves,
        folded: &B::Folded,
        bodies: &Bodies,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        let packed = self.backend.poly_fold(&self.tables, plain, leaves)?;
        self.add_bodies(packed, folded, bodies)
    }

    fn add_bodies(
        &self,
        mut packed: B::Ciphertexts,
        folded: &B::Folded,
        bodies: &Bodies,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        let bits = self.shape.set.plaintext_bits();
        self.backend.add_bodies(&self.tables, &mut packed, folded, bodies, bits)?;
        Ok(packed)
    }

    /// The selectors of queries; `None` where there is but one group to select.
    pub fn selectors(
        &self,
        queries: &[Encrypted<'_, B>],
        leaves: &B::Leaves,
    ) -> Result<Option<B::Selectors>, ProtocolError> {
        let RingShape { set, columns, depth } = self.shape;
        if depth == 0 {
            return Ok(None);
        }
        let keys: Vec<_> = queries.iter().map(|(keys, _)| *keys).collect();
        let gadget = set.selector_gadget();
        Ok(Some(self.backend.selectors(&self.tables, &keys, leaves, columns, depth, gadget)?))
    }

    /// Step `rgsw_fold`: for each query, the ciphertext that its selectors name.
    pub fn select(
        &self,
        selectors: &Option<B::Selectors>,
        ciphertexts: B::Ciphertexts,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        match selectors {
            None => Ok(ciphertexts),
            Some(selectors) => Ok(self.backend.rgsw_fold(&self.tables, selectors, ciphertexts)?),
        }
    }

    /// Step `mod_switch`: each query's bytes for the wire, part by part.
    pub fn switch(&self, parts: &[B::Ciphertexts]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let parts: Vec<_> = parts.iter().collect();
        Ok(self.backend.mod_switch(&self.tables, &parts, self.shape.switched())?)
    }
}

/// `count` queries in as few groups as have at most `most` queries each, or one; no group has two more than another.
fn even_groups(count: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let groups = count.div_ceil(most.max(1));
    (0..groups).map(move |group| group * count / groups..(group + 1) * count / groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_tell_groups_apart() {
        assert_eq!([1, 2, 3, 4, 5, 8, 9].map(depth), [0, 1, 2, 2, 3, 3, 4]);
    }
    #[test]
    fn groups_are_as_few_and_as_even_as_can_be() {
        for (count, most) in
            [(0, 4), (1, 4), (4, 4), (5, 4), (9, 4), (10, 4), (64, 7), (3, 0), (3, usize::MAX)]
        {
            let groups: Vec<_> = even_groups(count, most).collect();
            assert_eq!(groups.len(), count.div_ceil(most.max(1)));
            assert!(groups.iter().cloned().flatten().eq(0..count));
            let sizes = || groups.iter().map(Range::len);
            assert!(sizes().max().unwrap_or(0) <= most.max(1));
            assert!(sizes().max().unwrap_or(0) - sizes().min().unwrap_or(0) <= 1, "{groups:?}");
        }
    }
}
