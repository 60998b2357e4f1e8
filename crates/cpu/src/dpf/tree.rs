//! Trees over any pseudorandom function: they expand nodes to children, and seeds to shares.

use spirea_dpf::{Bit, Block, CONTROL, Key, LEAF_BLOCKS, Leaf, Level, Output, OutputKind, Prf};

/// Expansion of nodes: a pseudorandom function compiled for an instruction set.
pub(crate) trait Tree: Send + Sync {
    /// Replaces nodes 0 to `count - 1`, a power of two, by their corrected children, 0 to
    /// `2 count - 1`, in order.
    fn expand(&self, nodes: &mut [Block], count: usize, level: &Level);

    /// Computes the key's shares of the leaves at `nodes`.
    fn leaves(&self, nodes: &[Block], key: &Key, shares: &mut [Leaf]);

    /// Expands seeds repeatedly, for `rounds` rounds and with no other work; returns the number of
    /// blocks.
    fn only_expand(&self, rounds: u64) -> u64;
}

/// Number of nodes expanded at a time, large enough for every function's lanes.
const GROUP: usize = 32;

/// Implements [`Tree::expand`] by the function's own code. It is inlined, so that it is compiled
/// for the caller's instruction set.
#[inline(always)]
pub(crate) fn expand<P: Prf>(prf: P, nodes: &mut [Block], count: usize, level: &Level) {
    let mut seeds = [0; GROUP];
    let mut children = [[0; 2]; GROUP];
    // Expands the last group first, so that children never overwrite nodes that are not expanded
    // yet.
    for first in (0..count).step_by(GROUP).rev() {
        let group = GROUP.min(count - first);
        let masks: [Block; GROUP] = seeds_and_masks(&nodes[first..first + group], &mut seeds);
        prf.blocks(&seeds[..group], &mut children[..group]);
        let pairs = nodes[2 * first..2 * (first + group)].as_chunks_mut::<2>().0;
        for ((to, children), mask) in pairs.iter_mut().zip(&children).zip(masks) {
            *to = [children[0] ^ (level.left & mask), children[1] ^ (level.right & mask)];
        }
    }
}

/// Implements [`Tree::leaves`] by the function's own code. It is inlined, so that it is compiled
/// for the caller's instruction set.
#[inline(always)]
pub(crate) fn leaves<P: Prf, O: Output>(prf: P, nodes: &[Block], key: &Key, shares: &mut [Leaf]) {
    let mut seeds = [0; GROUP];
    let mut expanded = [[0; LEAF_BLOCKS]; GROUP];
    for (nodes, shares) in nodes.chunks(GROUP).zip(shares.chunks_mut(GROUP)) {
        let masks: [Block; GROUP] = seeds_and_masks(nodes, &mut seeds);
        prf.blocks(&seeds[..nodes.len()], &mut expanded[..nodes.len()]);
        for ((share, expanded), mask) in shares.iter_mut().zip(&expanded).zip(masks) {
            *share = O::share(expanded, mask, key.leaf(), key.party());
        }
    }
}

/// Splits nodes into seeds and masks of their control bits.
#[inline(always)]
fn seeds_and_masks(nodes: &[Block], seeds: &mut [Block; GROUP]) -> [Block; GROUP] {
    let mut masks = [0; GROUP];
    for ((node, seed), mask) in nodes.iter().zip(seeds).zip(&mut masks) {
        *seed = node & !CONTROL;
        *mask = (node & CONTROL).wrapping_neg();
    }
    masks
}

/// Implements [`Tree::only_expand`] by the function's own code. It is inlined, so that it is
/// compiled for the caller's instruction set.
#[inline(always)]
pub(crate) fn only_expand<P: Prf>(prf: P, rounds: u64) -> u64 {
    let (mut seeds, mut expanded) = ([0; GROUP], [[0; LEAF_BLOCKS]; GROUP]);
    for _ in 0..rounds {
        prf.blocks(&seeds, &mut expanded);
        seeds.iter_mut().zip(&expanded).for_each(|(seed, blocks)| *seed = blocks[0] & !CONTROL);
    }
    std::hint::black_box(seeds);
    rounds * (GROUP * LEAF_BLOCKS) as u64
}

/// Calls a function that is generic over the output of a key's domain.
macro_rules! with_output {
    ($key:expr, $function:ident ( $($argument:expr),* ) $(, <$($generic:ty),*>)?) => {
        match $key.domain().output() {
            OutputKind::Bit => $function::<$($($generic,)*)? Bit>($($argument),*),
            OutputKind::U32 => $function::<$($($generic,)*)? u32>($($argument),*),
            OutputKind::U64 => $function::<$($($generic,)*)? u64>($($argument),*),
            OutputKind::U128 => $function::<$($($generic,)*)? u128>($($argument),*),
        }
    };
}
pub(crate) use with_output;

/// A pseudorandom function, compiled for the compilation target.
#[derive(Clone, Copy)]
pub(crate) struct TargetTree<P>(pub P);

impl<P: Prf> Tree for TargetTree<P> {
    fn expand(&self, nodes: &mut [Block], count: usize, level: &Level) {
        expand(self.0, nodes, count, level);
    }

    fn leaves(&self, nodes: &[Block], key: &Key, shares: &mut [Leaf]) {
        with_output!(key, leaves(self.0, nodes, key, shares), <P>);
    }

    fn only_expand(&self, rounds: u64) -> u64 {
        only_expand(self.0, rounds)
    }
}
