//! External products: RGSW selectors from leaves, and the tournament that they decide.

use bytemuck::{Pod, Zeroable};
use spirea_backend::{BackendError, check_batches};
use spirea_math::Gadget;

use super::ciphertexts::{Ciphertexts, Leaves};
use super::decomposition::Decomposition;
use super::keys::{DigitKeys, Keys};
use super::stages::{self, GAMES, Stage};
use super::tables::Tables;
use crate::driver::{Arg, View};

/// Addresses for a query whose ciphertexts play, as kernels take them (`ring.cuh`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Playing {
    ciphertexts: u64,
    selector: u64,
}

/// Numbers of words that describe the games, as kernels take them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Games {
    of_source: u64,
    stride: u64,
    distance: u64,
}

/// Round: `count` games of each query, at least one, with one selector. The first ciphertexts of
/// the games are `stride` ciphertexts apart, and the second of a game follows `distance`
/// ciphertexts after its first. The first becomes first + selector * (second - first); the second
/// is destroyed.
#[derive(Clone, Copy)]
struct Round {
    count: usize,
    stride: usize,
    distance: usize,
}

impl Round {
    /// Converts the round to a stage, for queries that have ciphertexts and a selector each.
    fn stage<'a>(
        self,
        tables: &Tables,
        decomposition: &Decomposition,
        queries: impl Iterator<Item = (View<'a, u32>, View<'a, u32>)>,
    ) -> Result<Stage<Playing>, BackendError> {
        let Self { count, stride, distance } = self;
        let one = tables.ciphertext();
        let (of_source, players) = (decomposition.levels * one, (count - 1) * stride + distance + 1);
        let playing = |(ciphertexts, selector): (View<'a, u32>, View<'a, u32>)| {
            if players * one > ciphertexts.len() || selector.len() != 2 * of_source {
                return Err(BackendError::Shape("fewer ciphertexts than players, or another key".into()));
            }
            Ok(Playing { ciphertexts: ciphertexts.address(), selector: selector.address() })
        };
        let [of_source, stride, distance] = [of_source, stride * one, distance * one].map(|n| n as u64);
        Ok(Stage {
            items: count,
            queries: queries.map(playing).collect::<Result<_, _>>()?,
            common: Arg::structure(&Games { of_source, stride, distance }),
        })
    }
}

/// RGSW encryptions of the bits of each query's index, lowest first. Each has rows for the digits
/// of `b`, then for those of `a`.
#[derive(Debug)]
pub struct Selectors {
    queries: usize,
    depth: usize,
    /// Keys, query by query.
    bits: DigitKeys,
}

/// Implements `selectors`. The rows for `b` are the leaves themselves. The rows for `a` are the
/// leaves' products with the conversion key, computed as games against zeros. Consecutive queries
/// whose keys have the same gadget are processed together.
pub(super) fn selectors(
    tables: &Tables,
    keys: &[&Keys],
    leaves: &Leaves,
    first: usize,
    depth: usize,
    gadget: Gadget,
) -> Result<Selectors, BackendError> {
    check_batches(keys.len(), leaves.queries())?;
    let (one, queries) = (tables.ciphertext(), keys.len());
    let of_query = depth.checked_mul(gadget.levels(tables.ring()));
    let end = of_query.and_then(|rows| rows.checked_add(first)).filter(|&end| end <= leaves.count());
    let conversions: Option<Vec<&DigitKeys>> = keys.iter().map(|keys| keys.conversion.as_ref()).collect();
    let (Some(conversions), Some(end)) = (conversions, end) else {
        return Err(BackendError::Shape("too few leaves or no keys to make selectors of".into()));
    };
    let bits = DigitKeys::room(tables, gadget, 2, queries * depth)?;
    let (of_query, all) = (end - first, queries * (end - first));
    if all > 0 {
        let stream = tables.device.main();
        let players = tables.device.alloc(2 * all * one)?;
        let (products, rows) = (players.range(0..all * one), players.range(all * one..2 * all * one));
        stream.zero(&products)?;
        // Games destroy their second ciphertext, but the leaves must stay, so they are copied. One
        // copy for each query is queued, and the host does not wait. A single copy of several rows
        // is no alternative: the driver guarantees such copies only for memory whose rows it has
        // laid out itself.
        for query in 0..queries {
            let to = rows.range(query * of_query * one..(query + 1) * of_query * one);
            stream.copy(&leaves.of(tables, query).range(first * one..end * one), &to)?;
        }
        bits.set(tables, 0, &rows)?;
        let round = Round { count: of_query, stride: 1, distance: all };
        let mut first = 0;
        for conversions in conversions.chunk_by(|one, other| one.gadget() == other.gadget()) {
            let queries = conversions.iter().zip(first..).map(|(conversion, query)| {
                (players.range(query * of_query * one..players.len()), conversion.key(0))
            });
            let decomposition = &conversions[0].decomposition;
            stages::run(tables, decomposition, &GAMES, &[round.stage(tables, decomposition, queries)?])?;
            first += conversions.len();
        }
        bits.set(tables, 1, &products)?;
    }
    Ok(Selectors { queries, depth, bits })
}

/// Implements `rgsw_fold` from bit `first` on. In each round the winner takes the place of the
/// game's first ciphertext; a ciphertext without a partner stays.
pub(super) fn rgsw_fold(
    tables: &Tables,
    selectors: &Selectors,
    first: usize,
    ciphertexts: Ciphertexts,
) -> Result<Ciphertexts, BackendError> {
    check_batches(selectors.queries, ciphertexts.queries())?;
    let (count, rounds) = (ciphertexts.count(), selectors.depth.saturating_sub(first));
    if count == 0 || rounds < usize::BITS as usize && count > 1 << rounds {
        return Err(BackendError::Shape("more ciphertexts than the selectors tell apart, or none".into()));
    }
    let (bits, decomposition) = (&selectors.bits, &selectors.bits.decomposition);
    let distances = (0..).map(|round| 1 << round).take_while(|&distance| distance < count);
    let rounds = (first..selectors.depth).zip(distances).map(|(bit, distance)| {
        let round = Round { count: count.div_ceil(distance) / 2, stride: 2 * distance, distance };
        let queries = (0..selectors.queries)
            .map(|query| (ciphertexts.of(tables, query), bits.key(query * selectors.depth + bit)));
        round.stage(tables, decomposition, queries)
    });
    stages::run(tables, decomposition, &GAMES, &rounds.collect::<Result<Vec<_>, _>>()?)?;
    Ok(ciphertexts.firsts())
}
