//! Packing for clients that register keys: steps `expand` or `rotate`, then `pack`, `rgsw_fold` and
//! `mod_switch` (VIPIR sections 2.6 and 3.5).
//!
//! The leaves of the query's ciphertext encrypt its LWE secret's entries. Their products with the
//! hint's polynomials add up to the mask A s that is subtracted from the bodies.

use std::ops::Range;
use std::sync::Arc;

use spirea_backend::{Bodies, RingBackend};
use spirea_math::Expansion;

use super::scheme::{Asked, Folding, PackScheme, PackedRows};
use crate::ProtocolError;
use crate::keys::PreparedKeys;
use crate::query::Query;
use crate::steps::FirstRows;
use crate::steps::query::QueryLayout;
use crate::steps::ring::{RegisteredShape, RingServer};

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
pub(crate) trait Packer<B: RingBackend>: RegisteredShape + Sized {
    /// Computes the leaves of queries, from the keys of each query's client and the words of its
    /// ciphertext.
    ///
    /// # Errors
    /// Those of the backend.
    fn unpack<'a>(
        ring: &RingServer<B, Self>,
        queries: &[(&'a B::Keys, &[u32])],
    ) -> Result<Unpacked<'a, B>, ProtocolError>;

    /// Encodes the plaintext polynomials of some blocks of N LWE ciphertexts. Their entries are
    /// rounded to the set's plaintext bits and centred (VIPIR appendix C.1).
    ///
    /// # Errors
    /// Those of the backend.
    fn encode(
        ring: &RingServer<B, Self>,
        blocks: Range<usize>,
        hint: FirstRows<'_>,
    ) -> Result<Vec<B::Plain>, ProtocolError>;

    /// Computes the ciphertext of the mask that is subtracted from the bodies, for each query and
    /// block.
    ///
    /// # Errors
    /// Those of the backend.
    fn fold(
        ring: &RingServer<B, Self>,
        plain: &[B::Plain],
        unpacked: &Unpacked<'_, B>,
    ) -> Result<B::Ciphertexts, ProtocolError>;
}

/// Queries of a batch with their leaves.
type Group<'a, B> = (Range<usize>, Unpacked<'a, B>);

impl<B: RingBackend, S: Packer<B>> RingServer<B, S> {
    /// Parses a query's ciphertext, after checking that its client's keys are there.
    pub fn parse(&self, query: &Query<'_>, ciphertext: &[u8]) -> Result<Vec<u32>, ProtocolError> {
        self.keys_of(query.keys)?;
        Ok(self.shape.parse_query(ciphertext)?)
    }

    /// Parses queries of this layout, on the backend's host threads.
    pub fn parse_all<'a>(
        &self,
        queries: &[Query<'a>],
        layout: QueryLayout,
    ) -> Result<Vec<Asked<'a>>, ProtocolError> {
        Asked::parse(&*self.backend, queries, layout, |query, bytes| self.parse(query, bytes))
    }

    /// Step `expand`, for the ciphertexts of several queries.
    pub fn expand(
        &self,
        expansion: Expansion,
        queries: &[(&B::Keys, &[u32])],
    ) -> Result<B::Leaves, ProtocolError> {
        Ok(self.backend.expand(&self.tables, expansion, queries)?)
    }

    /// Computes the leaves of a whole batch. The batch is split evenly into the fewest groups that
    /// fit the backend's memory; each item holds a group's query range and leaves. The first group
    /// is started immediately, so that a device computes while the host continues. Each other group
    /// is started when it is requested.
    pub fn unpack_groups<'a, 'b>(
        &'b self,
        asked: &'b [Asked<'a>],
    ) -> Result<impl Iterator<Item = Result<Group<'a, B>, ProtocolError>> + use<'a, 'b, B, S>, ProtocolError>
    {
        let encrypted = |asked: &'b Asked<'a>| Ok((self.keys_of(asked.keys)?, &asked.ciphertext[..]));
        let encrypted = asked.iter().map(encrypted).collect::<Result<Vec<_>, ProtocolError>>()?;
        let mut groups = groups_in_memory(&*self.backend, asked.len(), self.shape.leaves_bytes())
            .map(move |group| Ok((group.clone(), S::unpack(self, &encrypted[group])?)));
        let first = groups.next().transpose()?;
        Ok(first.into_iter().map(Ok).chain(groups))
    }

    /// Runs step `pack`: for each query, packs the LWE ciphertexts that consist of `plain` and the
    /// query's bodies, N into each RLWE ciphertext. `bodies` selects each query's words of
    /// `folded`.
    pub fn pack(
        &self,
        plain: &[B::Plain],
        unpacked: &Unpacked<'_, B>,
        folded: &B::Folded,
        bodies: &Bodies,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        self.add_bodies(S::fold(self, plain, unpacked)?, folded, bodies)
    }

    /// Adds the bodies, the last part of step `pack`.
    pub fn add_bodies(
        &self,
        mut packed: B::Ciphertexts,
        folded: &B::Folded,
        bodies: &Bodies,
    ) -> Result<B::Ciphertexts, ProtocolError> {
        let bits = self.shape.set().plaintext_bits();
        self.backend.add_bodies(&self.tables, &mut packed, folded, bodies, bits)?;
        Ok(packed)
    }
}

/// Splits `count` queries, each with leaves of `leaves_bytes` bytes, evenly into the fewest groups
/// that fit the backend's memory.
pub(super) fn groups_in_memory<B: RingBackend>(
    backend: &B,
    count: usize,
    leaves_bytes: usize,
) -> impl Iterator<Item = Range<usize>> + use<B> {
    let most = backend.leaves_memory() / leaves_bytes as u64;
    even_groups(count, usize::try_from(most).unwrap_or(usize::MAX))
}

/// Splits `count` queries into the fewest groups of at most `most` queries, or of one query if
/// `most` is 0. Group sizes differ by at most 1.
fn even_groups(count: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let groups = count.div_ceil(most.max(1));
    (0..groups).map(move |group| group * count / groups..(group + 1) * count / groups)
}

/// The scheme: packs all parts of a fold, and selects a block of each if the shape selects.
pub(crate) struct Registered<B: RingBackend, S> {
    pub ring: RingServer<B, S>,
    rows: PackedRows,
    /// The plaintexts of each part's blocks.
    pub(super) parts: Vec<Vec<B::Plain>>,
}

impl<B: RingBackend, S: Packer<B>> Registered<B, S> {
    /// Encodes the LWE ciphertexts of `rows`.
    pub fn new(
        shape: S,
        backend: &Arc<B>,
        rows: PackedRows,
        hint: FirstRows<'_>,
    ) -> Result<Self, ProtocolError> {
        let ring = RingServer::new(Arc::clone(backend), shape)?;
        let parts = (0..rows.parts).map(|part| S::encode(&ring, rows.blocks(part), hint));
        Ok(Self { parts: parts.collect::<Result<_, _>>()?, ring, rows })
    }

    /// Packs a fold as [`PackScheme::pack`] does. `then` takes the ciphertexts of each part of a
    /// group of queries before they are switched.
    pub fn pack_then(
        &self,
        asked: &[Asked<'_>],
        folded: Folding<'_, B>,
        then: impl Fn(&Group<'_, B>, B::Ciphertexts) -> Result<B::Ciphertexts, ProtocolError>,
    ) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let Self { ring, rows, parts } = self;
        let groups = ring.unpack_groups(asked)?;
        let folded = folded()?;
        let mut results = Vec::with_capacity(asked.len());
        for group in groups {
            let group = group?;
            let (queries, unpacked) = &group;
            let selectors = ring.selectors(unpacked, 0..ring.shape.depth())?;
            let part = |(part, plain): (usize, &Vec<B::Plain>)| {
                let packed = ring.pack(plain, unpacked, &folded, &rows.bodies(queries.start, part))?;
                then(&group, ring.select(&selectors, packed)?)
            };
            let parts = parts.iter().enumerate().map(part).collect::<Result<Vec<_>, _>>()?;
            results.extend(ring.switch(&parts)?);
        }
        Ok(results)
    }
}

impl<B: RingBackend, S: Packer<B>> PackScheme<B> for Registered<B, S> {
    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        self.ring.prepare_keys(bytes)
    }

    fn parse(&self, query: &Query<'_>, ciphertext: &[u8]) -> Result<Vec<u32>, ProtocolError> {
        self.ring.parse(query, ciphertext)
    }

    fn pack(&self, asked: &[Asked<'_>], folded: Folding<'_, B>) -> Result<Vec<Vec<u8>>, ProtocolError> {
        self.pack_then(asked, folded, |_, selected| Ok(selected))
    }
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
