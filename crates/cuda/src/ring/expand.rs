//! Expansion of one ciphertext of each query to many, by trees of substitutions.
//!
//! All ciphertexts stay in the form of values. A node (a, b) is split with its image (a', b') under
//! X -> X^k: let S be the product of the digits of a' with the level's key, plus b'. The children
//! are (a, b) + S and ((a, b) - S) X^(-2^level). The trees of a batch are traversed together: level
//! by level down to the subtrees, then subtree by subtree (IVE, section IV: hierarchical search).

use spirea_backend::BackendError;
use spirea_math::Expansion;

use super::ciphertexts::Leaves;
use super::keys::Keys;
use super::stages::{self, SPLITS, Stage};
use super::substitutions::{Substituted, Substitution};
use super::tables::Tables;
use crate::driver::{Arg, Buffer, View};
use crate::upload::{RowWords, Staging};

/// Implements `expand`: the roots of the trees come from the host.
pub(super) fn expand(
    tables: &Tables,
    staging: &Staging,
    expansion: Expansion,
    queries: &[(&Keys, &[u32])],
) -> Result<Leaves, BackendError> {
    let one = tables.ciphertext();
    if queries.iter().any(|(_, words)| words.len() != one) {
        return Err(BackendError::Shape("words that are no ciphertext".into()));
    }
    check(tables, expansion, queries.iter().map(|&(keys, _)| keys))?;
    let words: Vec<&[u32]> = queries.iter().map(|(_, words)| *words).collect();
    staging.stage(&tables.device.main(), &RowWords(&words), |words| {
        let root = |(i, &(keys, _)): (usize, &(_, _))| (keys, words.range(i * one..(i + 1) * one));
        expand_roots(tables, expansion, &queries.iter().enumerate().map(root).collect::<Vec<_>>())
    })
}

/// Implements `expand_leaf`: the root of each tree is one leaf of its query.
pub(super) fn expand_leaf(
    tables: &Tables,
    expansion: Expansion,
    queries: &[(&Keys, View<'_, u32>)],
    leaf: usize,
) -> Result<Leaves, BackendError> {
    let one = tables.ciphertext();
    if queries.iter().any(|(_, leaves)| leaf >= leaves.len() / one) {
        return Err(BackendError::Shape(format!("no leaf {leaf}")));
    }
    let roots = queries.iter().map(|(keys, leaves)| (*keys, leaves.range(leaf * one..(leaf + 1) * one)));
    expand_roots(tables, expansion, &roots.collect::<Vec<_>>())
}

/// Checks that the keys suffice for an expansion.
fn check<'a>(
    tables: &Tables,
    expansion: Expansion,
    mut keys: impl Iterator<Item = &'a Keys>,
) -> Result<(), BackendError> {
    let last = expansion.first().saturating_add(expansion.levels());
    if last > tables.degree().ilog2() || !keys.all(|keys| last as usize <= keys.expansion.count()) {
        return Err(BackendError::Shape("keys that do not serve the expansion".into()));
    }
    Ok(())
}

/// Expands trees whose roots are on the device, each with its client's keys. Consecutive queries
/// whose keys have the same gadget are expanded together.
fn expand_roots(
    tables: &Tables,
    expansion: Expansion,
    queries: &[(&Keys, View<'_, u32>)],
) -> Result<Leaves, BackendError> {
    check(tables, expansion, queries.iter().map(|&(keys, _)| keys))?;
    let gadget = |keys: &Keys| keys.expansion.gadget();
    let leaves = Leaves::room(tables, queries.len(), expansion.leaves())?;
    let mut first = 0;
    for queries in queries.chunk_by(|(one, _), (other, _)| gadget(one) == gadget(other)) {
        Walk { tables, expansion, queries, leaves: &leaves, first }.run()?;
        first += queries.len();
    }
    Ok(leaves)
}

/// Returns the first level of the subtrees. Subtrees are so large that the last nodes that split in
/// one subtree, over all queries, satisfy two conditions. They give each processor two rounds of
/// two blocks, and they fill half of the L2 cache. With many queries or leaves, a subtree's
/// intermediate nodes stay in the cache. With few, the whole tree is one subtree.
fn first_of_subtrees(
    expansion: Expansion,
    queries: usize,
    ciphertext_bytes: usize,
    cache: usize,
    processors: usize,
) -> u32 {
    let wanted = (4 * processors).max(cache / 2 / ciphertext_bytes);
    let of_query = wanted.div_ceil(queries.max(1)).next_power_of_two();
    expansion.levels().saturating_sub(1 + of_query.ilog2())
}

/// Traversal of the trees of some queries of a batch.
struct Walk<'a> {
    tables: &'a Tables,
    expansion: Expansion,
    /// Keys and roots of the queries.
    queries: &'a [(&'a Keys, View<'a, u32>)],
    /// Leaves of the whole batch.
    leaves: &'a Leaves,
    /// Place of the first query in the batch.
    first: usize,
}

impl Walk<'_> {
    /// Queues the whole expansion.
    fn run(&self) -> Result<(), BackendError> {
        let Self { tables, expansion, queries, leaves, first } = *self;
        let (device, one) = (&tables.device, tables.ciphertext());
        let room = |ciphertexts: usize| {
            let words = queries.len().checked_mul(ciphertexts).and_then(|all| all.checked_mul(one));
            device.alloc::<u32>(words.unwrap_or(usize::MAX))
        };
        let levels = expansion.levels();
        if levels == 0 {
            return Ok(queries
                .iter()
                .zip(first..)
                .try_for_each(|((_, root), query)| device.main().copy(root, &leaves.of(tables, query)))?);
        }
        let top = first_of_subtrees(expansion, queries.len(), 4 * one, tables.cache, tables.processors());
        let tops = if top == 0 { None } else { Some(room(expansion.nodes(top))?) };
        // Intermediate levels alternate between two buffers, which are as large as the widest such
        // level, above the subtrees or in one subtree.
        let widest = |first: u32, last: u32| {
            if last > first + 1 { expansion.nodes(last - 1).min(1 << (last - 1 - first)) } else { 0 }
        };
        let between = widest(0, top).max(widest(top, levels));
        let [even, odd] = [room(between)?, room(between)?];

        let mut walk = Vec::new();
        let place = |buffer: &Buffer<u32>, of_query: usize, query: usize, node: usize| {
            buffer.all().address() + 4 * ((query * of_query + node) * one) as u64
        };
        let mut descend = |levels: std::ops::Range<u32>,
                           root: usize,
                           from: &dyn Fn(usize) -> u64,
                           to: &dyn Fn(usize) -> u64| {
            for level in levels.clone() {
                let below = |level: u32| {
                    let depth = level - levels.start;
                    ((root + 1) << depth).min(expansion.nodes(level)) - (root << depth)
                };
                let parity = (level - levels.start).is_multiple_of(2);
                let (source, target) = if parity { (&odd, &even) } else { (&even, &odd) };
                let number = expansion.first() + level;
                let expanded = |(query, (keys, _)): (usize, &(&Keys, View<'_, u32>))| Substituted {
                    sources: if level == levels.start {
                        from(query)
                    } else {
                        place(source, between, query, 0)
                    },
                    results: if level + 1 == levels.end {
                        to(query)
                    } else {
                        place(target, between, query, 0)
                    },
                    key: keys.expansion.key(number as usize).address(),
                };
                walk.push(Stage {
                    items: below(level),
                    queries: queries.iter().enumerate().map(expanded).collect(),
                    common: Arg::structure(&Substitution {
                        exponent: Expansion::exponent(tables.degree(), number) as u32,
                        source_stride: 1,
                        result_stride: 2,
                        level: number,
                        children: below(level + 1) as u32,
                        ..Substitution::default()
                    }),
                });
            }
        };
        let root = |query: usize| queries[query].1.address();
        let of_query = expansion.nodes(top);
        if let Some(tops) = &tops {
            descend(0..top, 0, &root, &|query| place(tops, of_query, query, 0));
        }
        for subtree in 0..of_query {
            let leaf = subtree << (levels - top);
            let to = |query: usize| leaves.of(tables, first + query).address() + 4 * (leaf * one) as u64;
            match &tops {
                Some(tops) => {
                    descend(top..levels, subtree, &|query| place(tops, of_query, query, subtree), &to);
                }
                None => descend(0..levels, 0, &root, &to),
            }
        }
        let Some((keys, _)) = queries.first() else { return Ok(()) };
        stages::run(tables, &keys.expansion.decomposition, &SPLITS, &walk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtrees_are_as_small_as_fills_the_device() {
        let (expansion, bytes) = (Expansion::covering(1024), 96 << 10);
        let top =
            |queries, cache, processors| first_of_subtrees(expansion, queries, bytes, cache, processors);
        // On an H200, 528 blocks are more than a whole tree of one query has.
        assert_eq!([1, 2, 4, 64, 1024].map(|queries| top(queries, 60 << 20, 132)), [0, 0, 1, 5, 9]);
        // A small device with a large cache splits 512 nodes last, 8 of each query.
        assert_eq!(top(64, 96 << 20, 10), 6);
        assert_eq!(first_of_subtrees(Expansion::covering(1), 64, bytes, 60 << 20, 132), 0);
    }
}
