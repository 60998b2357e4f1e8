//! Step `expand`: one ciphertext of a query to a ciphertext for each leaf (VIPIR section 2.6).

use std::ops::Range;

use spirea_backend::RingBackend;
use spirea_lattice::LweSecret;
use spirea_lattice::rlwe::{self, Conversion, KeyShape};
use spirea_math::Expansion;
use spirea_math::random::SecretRng;
use zeroize::Zeroizing;

use super::query::QueryLayout;
use super::ring::{RingClient, RingServer, RingShape};
use super::work::{Unit, Work};
use crate::ProtocolError;
use crate::query::Query;

impl RingShape {
    /// The expansion: leaves for columns, then for each bit and digit of the selectors' gadget.
    pub fn expansion(&self) -> Expansion {
        Expansion::covering(self.columns + self.depth * self.set.selector_gadget().levels(self.set.ring()))
    }

    /// The keys that clients register.
    pub fn keys(&self) -> KeyShape {
        let conversion = if self.depth > 0 { Conversion::Rgsw } else { Conversion::None };
        KeyShape { set: self.set, levels: self.expansion().levels(), conversion }
    }

    /// Bytes of a query's ciphertext.
    pub fn query_bytes(&self) -> usize {
        rlwe::query_bytes(self.set)
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

    /// Bytes of the leaves of one query in memory.
    pub fn leaves_bytes(&self) -> usize {
        self.expansion().leaves() * 2 * self.set.ring().words() * 4
    }
}

impl RingClient {
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
}

/// The words of a query's ciphertext, with its client's keys.
pub(crate) type Encrypted<'a, B> = (&'a <B as RingBackend>::Keys, Vec<u32>);

/// Queries of a batch with their leaves.
type Expanded<B> = (Range<usize>, <B as RingBackend>::Leaves);

impl<B: RingBackend> RingServer<B> {
    /// Parses the ciphertexts of queries of this layout.
    pub fn ciphertexts<'a>(
        &self,
        queries: &[Query<'a>],
        layout: QueryLayout,
    ) -> Result<Vec<Encrypted<'a, B>>, ProtocolError> {
        let parse = |query: &Query<'a>| {
            let keys = self.keys_of(query)?;
            Ok((keys, rlwe::parse_query(self.shape.set, layout.split(query.bytes).ciphertext)?))
        };
        queries.iter().map(parse).collect()
    }

    /// Step `expand`, for the ciphertexts of several queries.
    fn expand(&self, queries: &[Encrypted<'_, B>]) -> Result<B::Leaves, ProtocolError> {
        let queries: Vec<_> = queries.iter().map(|(keys, words)| (*keys, &words[..])).collect();
        Ok(self.backend.expand(&self.tables, self.shape.expansion(), &queries)?)
    }

    /// Step `expand` for a whole batch, in as few and as even groups as the backend has memory for the leaves of: which
    /// queries, and their leaves. The first group is expanded at once, so that a device does it while the host goes
    /// on; each other one when it is asked for.
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
