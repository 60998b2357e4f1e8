//! External products: RGSW selectors from leaves, and the tournament that they decide.

use bytemuck::{Pod, Zeroable};
use spirea_backend::BackendError;
use spirea_math::Gadget;

use super::ciphertexts::{Ciphertexts, Leaves};
use super::keys::{DigitKeys, Keys};
use super::stages::{GAMES, Stage};
use super::tables::Tables;
use crate::driver::{Arg, Buffer, View};

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

/// Plays `count` games by the key number `selector`: each first, `stride` ciphertexts apart, becomes first plus
/// selector times (second - first), and of the second, `distance` ciphertexts further on, nothing is left.
fn play(
    tables: &Tables,
    ciphertexts: &Buffer<u32>,
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
        ciphertexts: ciphertexts.all().address(),
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

/// RGSW encryptions of the bits of an index, lowest first: rows for the digits of b, then for those of a.
#[derive(Debug)]
pub struct Selectors {
    bits: DigitKeys,
    depth: usize,
}

/// `selectors`: rows of b are the leaves themselves, rows of a their products with the conversion key, which are games
/// against zeros.
pub(super) fn selectors(
    tables: &Tables,
    keys: &Keys,
    leaves: &Leaves,
    first: usize,
    depth: usize,
    gadget: Gadget,
) -> Result<Selectors, BackendError> {
    let (one, levels) = (tables.ciphertext(), gadget.levels(tables.ring()));
    let end = depth.checked_mul(levels).and_then(|rows| rows.checked_add(first));
    let end = end.filter(|&end| end <= leaves.count && leaves.count * one <= leaves.buffer.len());
    let (Some(conversion), Some(end)) = (&keys.conversion, end) else {
        return Err(BackendError::Shape("too few leaves or no keys to make selectors of".into()));
    };
    let bits = DigitKeys::room(tables, gadget, 2, depth)?;
    if depth > 0 {
        let rows = leaves.buffer.range(first * one..end * one);
        bits.set(tables, 0, &rows)?;
        let (stream, count) = (tables.device.main(), end - first);
        let players = tables.device.alloc(2 * count * one)?;
        stream.zero(&players.range(0..count * one))?;
        stream.copy(&rows, &players.range(count * one..2 * count * one))?;
        play(tables, &players, conversion, conversion.key(0), count, [1, count])?;
        bits.set(tables, 1, &players.range(0..count * one))?;
    }
    Ok(Selectors { bits, depth })
}

/// `rgsw_fold` from bit `first` on: round by round, a winner takes the first one's place; one without a partner stays.
pub(super) fn rgsw_fold(
    tables: &Tables,
    selectors: &Selectors,
    first: usize,
    ciphertexts: Ciphertexts,
) -> Result<Ciphertexts, BackendError> {
    let Ciphertexts { buffer, count } = ciphertexts;
    let rounds = selectors.depth.saturating_sub(first);
    if count == 0 || rounds < usize::BITS as usize && count > 1 << rounds {
        return Err(BackendError::Shape("as many ciphertexts as selectors can tell apart".into()));
    }
    let mut distance = 1;
    for bit in first..selectors.depth {
        let games = count.div_ceil(distance) / 2;
        if games == 0 {
            break;
        }
        let selector = selectors.bits.key(bit);
        play(tables, &buffer, &selectors.bits, selector, games, [2 * distance, distance])?;
        distance *= 2;
    }
    Ok(Ciphertexts { buffer, count: 1 })
}
