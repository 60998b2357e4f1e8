//! Step `expand`: one ciphertext of a query to a ciphertext for each leaf (VIPIR section 2.6).

use std::ops::Range;

use spirea_backend::RingBackend;
use spirea_lattice::rlwe::noise::RingNoise;
use spirea_lattice::rlwe::{Conversion, KeyShape, RingSecret};
use spirea_lattice::{LweSecret, LweSet, RingSet};
use spirea_math::random::SecretRng;
use spirea_math::{Expansion, Rotations};
use zeroize::Zeroizing;

use super::query::QueryLayout;
use super::ring::{RegisteredShape, RingClient, RingServer, Shape, TRANSFORM};
use super::work::{Unit, Work};
use crate::ProtocolError;
use crate::query::Query;

/// The shape whose columns and selectors' rows are leaves of one expansion, in this order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpandedShape {
    /// The parameters of the ring.
    pub set: RingSet,
    /// Leaves that plaintext polynomials multiply: the LWE secret's entries or the first dimension.
    pub columns: usize,
    /// Bits of the index that select by tournament.
    pub depth: usize,
}

impl ExpandedShape {
    /// The expansion: leaves for columns, then for each bit and digit of the selectors' gadget.
    pub fn expansion(&self) -> Expansion {
        Expansion::covering(self.columns + selector_rows(self))
    }
}

/// Rows of selectors: one for each bit and digit of their gadget.
pub(crate) fn selector_rows(shape: &impl Shape) -> usize {
    shape.depth() * shape.set().selector_gadget().levels(shape.set().ring())
}

/// The keys of a shape.
pub(crate) fn key_shape(shape: &impl Shape, rotations: Option<Rotations>) -> KeyShape {
    let conversion = if shape.depth() > 0 { Conversion::Rgsw } else { Conversion::None };
    KeyShape { set: shape.set(), levels: shape.levels(), rotations, conversion }
}

/// Work of so many substitutions of expansions, and of the selectors if there are any.
pub(crate) fn expand_work(shape: &impl Shape, substitutions: usize) -> Vec<Work> {
    let mut work = vec![Work::new("expand", Unit::Substitution(shape.set()), substitutions)];
    if shape.depth() > 0 {
        work.push(Work::new("selectors", Unit::Conversion(shape.set()), selector_rows(shape)));
    }
    work
}

/// Transforms modulo one prime that a substitution takes: of a's digits, and of what they are taken from.
fn substitution_transforms(set: RingSet) -> usize {
    set.expansion_gadget().forward_transforms(set.ring()) + set.ring().limbs().len()
}

impl Shape for ExpandedShape {
    fn set(&self) -> RingSet {
        self.set
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn levels(&self) -> u32 {
        self.expansion().levels()
    }

    fn key_shape(&self) -> Option<KeyShape> {
        Some(self.keys())
    }

    fn unpack_work(&self) -> Vec<Work> {
        expand_work(self, self.expansion().substitutions())
    }

    fn leaves_bytes(&self) -> usize {
        self.expansion().leaves() * 2 * self.set.ring().words() * 4
    }

    fn plaintexts(&self, blocks: usize) -> usize {
        blocks * self.columns
    }

    fn pack_read_bytes(&self, blocks: usize) -> f64 {
        let leaves = 2.0 * self.leaves_bytes() as f64;
        let substitutions = self.expansion().substitutions() * substitution_transforms(self.set);
        self.plain_bytes(blocks) as f64 + leaves + substitutions as f64 * TRANSFORM
    }

    fn fold_work(&self, folds: usize, blocks: usize) -> Vec<Work> {
        let polynomials = folds * (self.plaintexts(blocks) + 2 * self.columns);
        vec![Work::new("poly_fold", Unit::FoldedPolynomial(self.set), polynomials)]
    }

    fn pack_noise(&self, lwe: LweSet) -> f64 {
        RingNoise::new(self.set, self.expansion().levels()).pack(lwe)
    }
}

impl RegisteredShape for ExpandedShape {
    fn keys(&self) -> KeyShape {
        key_shape(self, None)
    }

    fn encrypt(
        &self,
        secret: &RingSecret,
        columns: &[i8],
        selectors: &[(u128, i8)],
        rng: &mut SecretRng,
    ) -> Vec<u8> {
        // As large as it gets at once: a vector that grows leaves what it held where it was.
        let mut leaves = Zeroizing::new(Vec::with_capacity(self.expansion().leaves()));
        leaves.extend(columns.iter().map(|&value| (self.set.scale(), value)));
        leaves.extend(selectors);
        secret.encrypt_leaves(self.expansion(), &leaves, rng)
    }
}

impl RingClient {
    /// The ciphertext of an LWE secret's entries and of the selectors of `group`.
    pub fn query_of_secret(&self, secret: &LweSecret, group: usize, rng: &mut SecretRng) -> Vec<u8> {
        self.query(secret.entries(), group, rng)
    }

    /// The ciphertext of small integers, one for each column, and of the selectors of `group`.
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

/// The words of a query's ciphertext, with its client's keys.
pub(crate) type Encrypted<'a, B> = (&'a <B as RingBackend>::Keys, Vec<u32>);

/// What is made of the ciphertexts of some queries of a batch.
pub(crate) struct Unpacked<'a, B: RingBackend> {
    /// Of each query's client.
    pub keys: Vec<&'a B::Keys>,
    /// What plaintexts multiply.
    pub leaves: B::Leaves,
    /// Where the rows of selectors are.
    pub rows: Rows<B>,
}

/// Where the rows of selectors are.
pub(crate) enum Rows<B: RingBackend> {
    /// Among the leaves, behind so many columns.
    Behind(usize),
    /// Leaves of their own.
    Own(B::Leaves),
}

/// A shape as a backend's server computes with it.
pub(crate) trait Unpack<B: RingBackend>: RegisteredShape + Sized {
    /// The leaves of queries.
    ///
    /// # Errors
    /// The backend's.
    fn unpack<'a>(
        ring: &RingServer<B, Self>,
        queries: &[Encrypted<'a, B>],
    ) -> Result<Unpacked<'a, B>, ProtocolError>;
}

impl<B: RingBackend> Unpack<B> for ExpandedShape {
    fn unpack<'a>(
        ring: &RingServer<B, Self>,
        queries: &[Encrypted<'a, B>],
    ) -> Result<Unpacked<'a, B>, ProtocolError> {
        let leaves = ring.expand(ring.shape.expansion(), queries)?;
        let keys = queries.iter().map(|(keys, _)| *keys).collect();
        Ok(Unpacked { keys, leaves, rows: Rows::Behind(ring.shape.columns) })
    }
}

/// Queries of a batch with their leaves.
type Group<'a, B> = (Range<usize>, Unpacked<'a, B>);

impl<B: RingBackend, S: Unpack<B>> RingServer<B, S> {
    /// Parses the ciphertexts of queries of this layout.
    pub fn ciphertexts<'a>(
        &self,
        queries: &[Query<'a>],
        layout: QueryLayout,
    ) -> Result<Vec<Encrypted<'a, B>>, ProtocolError> {
        let parse = |query: &Query<'a>| {
            let keys = self.keys_of(query)?;
            Ok((keys, self.shape.parse_query(layout.split(query.bytes).ciphertext)?))
        };
        queries.iter().map(parse).collect()
    }

    /// Step `expand`, for the ciphertexts of several queries.
    pub fn expand(
        &self,
        expansion: Expansion,
        queries: &[Encrypted<'_, B>],
    ) -> Result<B::Leaves, ProtocolError> {
        let queries: Vec<_> = queries.iter().map(|(keys, words)| (*keys, &words[..])).collect();
        Ok(self.backend.expand(&self.tables, expansion, &queries)?)
    }

    /// The leaves of a whole batch, in as few and as even groups as the backend has memory for: which queries, and their
    /// leaves. The first group's are made at once, so that a device does it while the host goes on; those of each other
    /// one when it is asked for.
    pub fn unpack_groups<'a, 'b>(
        &'b self,
        queries: &'b [Encrypted<'a, B>],
    ) -> Result<impl Iterator<Item = Result<Group<'a, B>, ProtocolError>> + use<'a, 'b, B, S>, ProtocolError>
    {
        let most = self.backend.leaves_memory() / self.shape.leaves_bytes() as u64;
        let mut groups = even_groups(queries.len(), usize::try_from(most).unwrap_or(usize::MAX))
            .map(|group| Ok((group.clone(), S::unpack(self, &queries[group])?)));
        let first = groups.next().transpose()?;
        Ok(first.into_iter().map(Ok).chain(groups))
    }
}

/// `count` queries in as few groups as have at most `most` queries each, or one; no group has two more than another.
pub(super) fn even_groups(count: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let groups = count.div_ceil(most.max(1));
    (0..groups).map(move |group| group * count / groups..(group + 1) * count / groups)
}

#[cfg(test)]
mod tests {
    use super::*;

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
