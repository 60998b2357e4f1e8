//! The server half.

use std::ops::Range;
use std::sync::Arc;

use spirea_backend::{RingBackend, Share};

use super::Params;
use crate::bytes::{extend_words, words_to_bytes};
use crate::keys::PreparedKeys;
use crate::opening::Role;
use crate::packing::expanded::ExpandedShape;
use crate::query::Query;
use crate::responder::{Rows, Shard};
use crate::steps::ring::RingServer;
use crate::{ProtocolError, Sizes};

/// The plaintext polynomials of a share, over a backend: the rows of some groups, for each part.
pub(super) struct PolynomialRows<B: RingBackend> {
    params: Params,
    share: Share,
    ring: RingServer<B, ExpandedShape>,
    /// For each part, a row for each group. Empty if the share has no group.
    parts: Vec<B::Plain>,
}

impl<B: RingBackend> PolynomialRows<B> {
    /// Encodes the polynomials that a server of this role folds. `read` copies the bytes of unit
    /// number n of the file into a buffer. The pad is added during encoding.
    ///
    /// Transforming the polynomials on loading is faster than reading the result, which is four
    /// times larger, from a disk.
    ///
    /// # Errors
    /// Those of the backend, if there is not enough memory.
    pub fn new(
        params: Params,
        backend: Arc<B>,
        role: Role,
        read: impl Fn(usize, &mut [u8]) + Sync,
    ) -> Result<Self, ProtocolError> {
        let ring = RingServer::new(backend, params.ring_shape())?;
        let (grid, bits, pad) = (params.grid, params.ring_set().plaintext_bits(), params.pad());
        let share = role.share();
        let own = role.folds(share.competitors(grid.groups));
        let parts = (0..grid.parts()).filter(|_| !own.is_empty()).map(|part| {
            let fill = |row: usize, column: usize, coefficients: &mut [i32]| {
                let mut bytes = vec![0; grid.unit_rows];
                let unit = (part * grid.groups + own.start + row) * grid.columns + column;
                read(unit, &mut bytes);
                let padding = pad.of_unit(unit, coefficients.len());
                for (coefficient, (number, pad)) in
                    coefficients.iter_mut().zip(split_bits(&bytes, bits).zip(padding))
                {
                    // Reduces modulo 2^bits to the signed representative of least magnitude.
                    *coefficient = (((number + pad) << (64 - bits)) as i64 >> (64 - bits)) as i32;
                }
            };
            ring.backend.encode(&ring.tables, own.len(), grid.columns, &fill)
        });
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { params, share, ring, parts })
    }

    fn ciphertext_words(&self) -> usize {
        2 * self.params.ring_set().ring().words()
    }
}

impl<B: RingBackend> Rows for PolynomialRows<B> {
    /// The winners in each part, for consecutive groups of queries.
    type Folded = Vec<Vec<B::Ciphertexts>>;

    fn share(&self) -> Share {
        self.share
    }

    /// Folds the rows and plays the tournament's rounds among them.
    fn fold(&self, queries: &[Query<'_>]) -> Result<Option<Self::Folded>, ProtocolError> {
        if self.parts.is_empty() {
            return Ok(None);
        }
        let rounds = self.share.rounds(self.params.grid.groups);
        let asked = self.ring.parse_all(queries, self.params.layout())?;
        let mut won = Vec::new();
        for group in self.ring.unpack_groups(&asked)? {
            let (_, unpacked) = group?;
            let selectors = self.ring.selectors(&unpacked, 0..rounds)?;
            let winner = |plain| {
                let plain = std::slice::from_ref(plain);
                let rows = self.ring.backend.poly_fold(&self.ring.tables, plain, &unpacked.leaves)?;
                self.ring.select(&selectors, rows)
            };
            won.push(self.parts.iter().map(winner).collect::<Result<_, _>>()?);
        }
        Ok(Some(won))
    }

    fn check(&self, queries: &[Query<'_>]) -> Result<(), ProtocolError> {
        self.ring.parse_all(queries, self.params.layout()).map(drop)
    }

    fn keys_bytes(&self) -> usize {
        self.params.sizes().keys_bytes
    }

    fn folded_bytes(&self, share: Share) -> usize {
        let grid = self.params.grid;
        if share.competitors(grid.groups).is_empty() { 0 } else { grid.parts() * self.ciphertext_words() * 4 }
    }

    fn to_bytes(&self, folded: Self::Folded) -> Result<Vec<u8>, ProtocolError> {
        let mut bytes = Vec::new();
        for parts in folded {
            let words = parts.iter().map(|won| self.ring.backend.ciphertext_words(&self.ring.tables, won));
            let words = words.collect::<Result<Vec<_>, _>>()?;
            let of_part = |words: &Vec<u32>| words.len() / self.ciphertext_words();
            for query in 0..words.first().map_or(0, of_part) {
                let own = query * self.ciphertext_words()..(query + 1) * self.ciphertext_words();
                words.iter().for_each(|words| bytes.extend(words_to_bytes(&words[own.clone()])));
            }
        }
        Ok(bytes)
    }

    /// Plays the tournament's rounds among the winners of the shares.
    fn join(&self, queries: &[Query<'_>], parts: &[(Share, &[u8])]) -> Result<Self::Folded, ProtocolError> {
        let (grid, ring, bytes) = (self.params.grid, &self.ring, self.ciphertext_words() * 4);
        let own: Vec<&[u8]> = parts.iter().map(|(_, own)| *own).filter(|own| !own.is_empty()).collect();
        let met = |queries: Range<usize>, part: usize| {
            let mut words = Vec::with_capacity(queries.len() * own.len() * self.ciphertext_words());
            for query in queries.clone() {
                let start = (query * grid.parts() + part) * bytes;
                own.iter().for_each(|own| extend_words(&mut words, &own[start..start + bytes]));
            }
            ring.backend.ciphertexts(&ring.tables, queries.len(), &words)
        };
        let rounds = parts[0].0.rounds(grid.groups)..ring.shape.depth;
        if rounds.is_empty() {
            let won = (0..grid.parts()).map(|part| met(0..queries.len(), part));
            return Ok(vec![won.collect::<Result<_, _>>()?]);
        }
        let asked = ring.parse_all(queries, self.params.layout())?;
        let mut won = Vec::new();
        for group in ring.unpack_groups(&asked)? {
            let (queries, unpacked) = group?;
            let selectors = ring.selectors(&unpacked, rounds.clone())?;
            let winner = |part| ring.select(&selectors, met(queries.clone(), part)?);
            won.push((0..grid.parts()).map(winner).collect::<Result<_, _>>()?);
        }
        Ok(won)
    }
}

/// Splits bytes into numbers of `bits` bits each, lowest bit first, without gaps. Zeros follow the
/// last byte.
pub(super) fn split_bits(bytes: &[u8], bits: u32) -> impl Iterator<Item = u64> {
    let (mut bytes, mut pending, mut count) = (bytes.iter(), 0u64, 0);
    std::iter::repeat_with(move || {
        while count < bits {
            pending |= u64::from(*bytes.next().unwrap_or(&0)) << count;
            count += 8;
        }
        let number = pending & (u64::MAX >> (u64::BITS - bits));
        (pending, count) = (pending >> bits, count - bits);
        number
    })
}

/// The server half of OnionPIRv2 over a backend.
pub(super) struct Server<B: RingBackend>(pub PolynomialRows<B>);

impl<B: RingBackend> Shard for Server<B> {
    type Rows = PolynomialRows<B>;
    type Ciphertexts<'a> = ();

    fn rows(&self) -> &PolynomialRows<B> {
        &self.0
    }

    fn sizes(&self) -> Sizes {
        self.0.params.sizes()
    }

    fn max_batch(&self) -> usize {
        64
    }

    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        self.0.ring.prepare_keys(bytes)
    }

    fn parse(&self, _: &[Query<'_>]) -> Result<(), ProtocolError> {
        Ok(())
    }

    fn finish(
        &self,
        queries: &[Query<'_>],
        (): (),
        won: Vec<Vec<B::Ciphertexts>>,
    ) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let mut answers = Vec::with_capacity(queries.len());
        for parts in won {
            answers.extend(self.0.ring.switch(&parts)?);
        }
        Ok(answers)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_are_split_in_order(bytes in proptest::collection::vec(any::<u8>(), 0..40), bits in 1u32..57) {
            let bit = |at: usize| bytes.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
            for (i, number) in split_bits(&bytes, bits).take(50).enumerate() {
                let first = i * bits as usize;
                let expected: u64 = (0..bits).map(|k| u64::from(bit(first + k as usize)) << k).sum();
                prop_assert_eq!(number, expected);
            }
        }
    }
}
