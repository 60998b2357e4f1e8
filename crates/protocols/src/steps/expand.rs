//! Step `expand`: expands one ciphertext of a query to a ciphertext for each leaf (VIPIR section
//! 2.6).

use std::ops::Range;

use spirea_backend::{RingBackend, map_each};
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

/// The shape whose leaves of one expansion are the columns, followed by the rows of selectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpandedShape {
    /// The parameters of the ring.
    pub set: RingSet,
    /// Number of leaves that plaintext polynomials multiply: the LWE secret's entries or the first
    /// dimension.
    pub columns: usize,
    /// Number of index bits that a tournament selects by.
    pub depth: usize,
}

impl ExpandedShape {
    /// Returns the expansion. Its leaves are the columns, then one for each bit and digit of the
    /// selectors' gadget.
    pub fn expansion(&self) -> Expansion {
        Expansion::covering(self.columns + selector_rows(self))
    }
}

/// Returns the number of selector rows: one for each bit and digit of the selectors' gadget.
pub(crate) fn selector_rows(shape: &impl Shape) -> usize {
    shape.depth() * shape.set().selector_gadget().levels(shape.set().ring())
}

/// Returns the shape of the evaluation keys for `shape`.
pub(crate) fn key_shape(shape: &impl Shape, rotations: Option<Rotations>) -> KeyShape {
    let conversion = if shape.depth() > 0 { Conversion::Rgsw } else { Conversion::None };
    KeyShape { set: shape.set(), levels: shape.levels(), rotations, conversion }
}

/// Returns the work of `substitutions` substitutions in expansions, and of the selectors, if there
/// are any.
pub(crate) fn expand_work(shape: &impl Shape, substitutions: usize) -> Vec<Work> {
    let mut work = vec![Work::new("expand", Unit::Substitution(shape.set()), substitutions)];
    if shape.depth() > 0 {
        work.push(Work::new("selectors", Unit::Conversion(shape.set()), selector_rows(shape)));
    }
    work
}

/// Returns the number of transforms modulo one prime in a substitution: of the digits of a, and of
/// the polynomial that they are taken from.
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
        // Allocated at full capacity: a growing vector would leave copies of its content in freed
        // memory.
        let mut leaves = Zeroizing::new(Vec::with_capacity(self.expansion().leaves()));
        leaves.extend(columns.iter().map(|&value| (self.set.scale(), value)));
        leaves.extend(selectors);
        secret.encrypt_leaves(self.expansion(), &leaves, rng)
    }
}

impl RingClient {
    /// Encrypts an LWE secret's entries and the selectors of `group`.
    pub fn query_of_secret(&self, secret: &LweSecret, group: usize, rng: &mut SecretRng) -> Vec<u8> {
        self.query(secret.entries(), group, rng)
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

/// Words of a query's ciphertext, with its client's keys.
pub(crate) type Encrypted<'a, B> = (&'a <B as RingBackend>::Keys, Vec<u32>);

/// The expanded ciphertexts of some queries of a batch.
pub(crate) struct Unpacked<'a, B: RingBackend> {
    /// Keys of each query's client.
    pub keys: Vec<&'a B::Keys>,
    /// Leaves that plaintexts multiply.
    pub leaves: B::Leaves,
    /// Location of the selector rows.
    pub rows: Rows<B>,
}

/// Location of the selector rows.
pub(crate) enum Rows<B: RingBackend> {
    /// The selector rows follow the first `n` leaves.
    Behind(usize),
    /// The selector rows have separate leaves.
    Own(B::Leaves),
}

/// A shape's computation on a server with a backend.
pub(crate) trait Unpack<B: RingBackend>: RegisteredShape + Sized {
    /// Computes the leaves of queries.
    ///
    /// # Errors
    /// Those of the backend.
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
    /// Parses the ciphertexts of queries of this layout, on the backend's host threads.
    pub fn ciphertexts<'a>(
        &self,
        queries: &[Query<'a>],
        layout: QueryLayout,
    ) -> Result<Vec<Encrypted<'a, B>>, ProtocolError> {
        let parse = |query: &Query<'a>| {
            let keys = self.keys_of(query)?;
            Ok((keys, self.shape.parse_query(layout.split(query.bytes).ciphertext)?))
        };
        map_each(&*self.backend, queries, parse).into_iter().collect()
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

    /// Computes the leaves of a whole batch. The batch is split evenly into the fewest groups that
    /// fit the backend's memory; each item holds a group's query range and leaves. The first group
    /// is started immediately, so that a device computes while the host continues; the others when
    /// they are requested.
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

/// Splits `count` queries into the fewest groups of at most `most` queries, or of one query if
/// `most` is 0. Group sizes differ by at most 1.
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
