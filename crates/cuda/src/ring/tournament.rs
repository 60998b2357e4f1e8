//! External products: RGSW selectors from leaves, and the tournament that they decide.

use bytemuck::{Pod, Zeroable};
use spirea_backend::{BackendError, check_batches};
use spirea_math::Gadget;

use super::ciphertexts::{Ciphertexts, Leaves};
use super::keys::{DigitKeys, Keys};
use super::stages::{GAMES, Stage};
use super::tables::Tables;
use crate::driver::{Arg, View};

/// Games as kernels take them (`ring.cuh`): addresses, and distances in words.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Games {
    ciphertexts: u64,
    selector: u64,
    of_source: u64,
    stride: u64,
    distance: u64,
}

/// Plays `count` games by the key `selector`: each first, `stride` ciphertexts apart, becomes first plus
/// selector times (second - first), and of the second, `distance` ciphertexts further on, nothing is left.
fn play(
    tables: &Tables,
    ciphertexts: &View<'_, u32>,
    keys: &DigitKeys,
    selector: View<'_, u32>,
    count: usize,
    [stride, distance]: [usize; 2],
) -> Result<(), BackendError> {
    let one = tables.ciphertext();
    if count > 0 && ((count - 1) * stride + distance + 1) * one > ciphertexts.len() {
        return Err(BackendError::Shape("fewer ciphertexts than players".into()));
    }
    let games = Games {
        ciphertexts: ciphertexts.address(),
        selector: selector.address(),
        of_source: (keys.decomposition.levels * one) as u64,
        stride: (stride * one) as u64,
        distance: (distance * one) as u64,
    };
    let stage = Stage {
        tables,
        decomposition: &keys.decomposition,
        kernels: &GAMES,
        items: count,
        queries: 1,
        named: &[Arg::structure(&games)],
    };
    stage.run()
}

/// RGSW encryptions of the bits of each query's index, lowest first: rows for the digits of b, then for those of a.
#[derive(Debug)]
pub struct Selectors {
    queries: usize,
    depth: usize,
    /// Query by query.
    bits: DigitKeys,
}

/// `selectors`: rows of b are the leaves themselves, rows of a their products with the conversion key, which are games
/// against zeros. A game's kernel knows one key: each client's games are played by themselves.
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
        for query in 0..queries {
            let to = rows.range(query * of_query * one..(query + 1) * of_query * one);
            stream.copy(&leaves.of(tables, query).range(first * one..end * one), &to)?;
        }
        bits.set(tables, 0, &rows)?;
        for (query, conversion) in conversions.into_iter().enumerate() {
            let players = players.range(query * of_query * one..players.len());
            play(tables, &players, conversion, conversion.key(0), of_query, [1, all])?;
        }
        bits.set(tables, 1, &products)?;
    }
    Ok(Selectors { queries, depth, bits })
}

/// `rgsw_fold` from bit `first` on: round by round, a winner takes the first one's place; one without a partner stays.
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
    for query in 0..selectors.queries {
        let players = ciphertexts.of(tables, query);
        let mut distance = 1;
        for bit in first..selectors.depth {
            let games = count.div_ceil(distance) / 2;
            if games == 0 {
                break;
            }
            let selector = selectors.bits.key(query * selectors.depth + bit);
            play(tables, &players, &selectors.bits, selector, games, [2 * distance, distance])?;
            distance *= 2;
        }
    }
    Ok(ciphertexts.firsts())
}
