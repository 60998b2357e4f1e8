//! Expansion: one ciphertext to many, by a tree of substitutions.
//!
//! All ciphertexts stay values. A node (a, b) is split with its image (a', b') under X -> X^k. Let
//! S be the product of the digits of a' with the level's key, plus b'. The children are (a, b) + S
//! and ((a, b) - S) X^(-2^level). Only a' is ever transformed back, and every child is written
//! once.

use std::ops::Range;

use rayon::prelude::*;
use spirea_backend::{BackendError, check_batches};
use spirea_math::Expansion;

use super::image::{Image, Substituted, write_image};
use super::keys::RingKeys;
use super::lanes::WordLanes;
use super::layout::{BLOCK, LeafBlock, Read, RingLeaves, TilePlace, in_tiles, store_tile};
use super::modular::{Factor, Prime};
use super::pool::WorkingMemory;
use super::product::{DigitKeys, Operands, Results, multiply};
use super::scratch::{Scratch, room};
use super::tables::{Monomial, RingTables, Substitution};
use crate::parallel::Each as _;

/// Order in which a tree of substitutions is traversed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Schedule {
    /// Traverses the whole tree level by level. A level's key is read once, and the nodes of a
    /// level go through memory.
    BreadthFirst,
    /// Traverses the tree level by level down to subtrees, then subtree by subtree (IVE, section
    /// IV: hierarchical search). Nodes stay in the caches.
    #[default]
    Hierarchical,
}

/// Levels of the subtrees that fill a block of leaves.
const BLOCK_LEVELS: u32 = BLOCK.trailing_zeros();
const _: () = assert!(BLOCK.is_power_of_two());

/// Nodes split together. Their digits and one prime's part of a level's key, 350 KiB in all for
/// three primes and degree 4096, stay in a second-level cache of 512 KiB.
const GROUP: usize = 4;

/// Returns the leaves of a batch.
pub(super) fn expand<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    memory: &WorkingMemory,
    schedule: Schedule,
    expansion: Expansion,
    queries: &[(&RingKeys, &[u32])],
) -> Result<Vec<RingLeaves>, BackendError> {
    if queries.iter().any(|(_, words)| words.len() != 2 * tables.words()) {
        return Err(BackendError::Shape("words that are no ciphertext".into()));
    }
    let of_query = |&(keys, words): &(&RingKeys, &[u32])| {
        let tree = Tree::new(lanes, tables, expansion, keys)?;
        tree.grow(memory, schedule, expansion, |root| in_tiles(tables, words, root))
    };
    queries.par_iter().collected(&of_query)
}

/// One leaf of each query of a batch, as root.
#[derive(Clone, Copy)]
pub(super) struct Roots<'a> {
    pub leaves: &'a [RingLeaves],
    pub leaf: usize,
}

/// Returns the leaves of a batch whose trees begin at a leaf of each query.
pub(super) fn expand_leaf<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    memory: &WorkingMemory,
    schedule: Schedule,
    expansion: Expansion,
    keys: &[&RingKeys],
    Roots { leaves, leaf }: Roots<'_>,
) -> Result<Vec<RingLeaves>, BackendError> {
    check_batches(keys.len(), leaves.len())?;
    if leaves.iter().any(|leaves| leaf >= leaves.count()) {
        return Err(BackendError::Shape(format!("no leaf {leaf}")));
    }
    let of_query = |(keys, leaves): (&&RingKeys, &RingLeaves)| {
        let tree = Tree::new(lanes, tables, expansion, keys)?;
        tree.grow(memory, schedule, expansion, |root| leaves.copy(tables, leaf, root))
    };
    keys.par_iter().zip(leaves).collected(&of_query)
}

/// A tree of substitutions with its keys, level by level.
struct Tree<'a, L> {
    lanes: L,
    tables: &'a RingTables,
    /// Level of the root.
    first: u32,
    keys: &'a [DigitKeys],
}

impl<'a, L> Tree<'a, L> {
    /// Creates the tree of an expansion with a client's keys.
    fn new(
        lanes: L,
        tables: &'a RingTables,
        expansion: Expansion,
        keys: &'a RingKeys,
    ) -> Result<Self, BackendError> {
        let (first, most) = (expansion.first(), tables.ring().degree().trailing_zeros());
        let last = first.checked_add(expansion.levels()).filter(|&last| last <= most);
        let keys = last.and_then(|last| keys.expansion.get(first as usize..last as usize));
        let keys = keys.ok_or_else(|| BackendError::Shape("keys that do not serve the expansion".into()))?;
        Ok(Self { lanes, tables, first, keys })
    }

    /// Returns the leaves of one query; `root` writes its root.
    fn grow<const W: usize>(
        &self,
        memory: &WorkingMemory,
        schedule: Schedule,
        expansion: Expansion,
        root: impl FnOnce(&mut [u32]),
    ) -> Result<RingLeaves, BackendError>
    where
        L: WordLanes<W>,
    {
        let tables = self.tables;
        let (levels, ciphertext) = (expansion.levels(), 2 * tables.words());
        let block_level = levels.saturating_sub(BLOCK_LEVELS);
        let whole_levels = match schedule {
            Schedule::BreadthFirst => levels.saturating_sub(1),
            Schedule::Hierarchical => block_level,
        };
        let room = || {
            let words = expansion.nodes(whole_levels).checked_mul(ciphertext);
            memory.words(words, "the nodes")
        };
        let (mut parents, mut children) = (room()?, room()?);
        root(&mut parents.as_words_mut()[..ciphertext]);
        for level in 0..whole_levels {
            let count = |level| expansion.nodes(level) * ciphertext;
            let groups = children.as_words_mut()[..count(level + 1)].par_chunks_mut(2 * GROUP * ciphertext);
            let groups = groups.zip(parents.as_words()[..count(level)].par_chunks(GROUP * ciphertext));
            groups.each_with(&|| memory.scratch(), &|scratch, (children, nodes)| {
                self.split(scratch, level, nodes, Children::nodes(tables, children));
            });
            std::mem::swap(&mut parents, &mut children);
        }
        let mut leaves = RingLeaves::room(tables, memory, expansion.leaves())?;
        let of_block = ciphertext << (whole_levels - block_level);
        let roots = parents.as_words()[..expansion.nodes(whole_levels) * ciphertext].par_chunks(of_block);
        leaves.blocks_mut(tables).zip(roots).each_with(&|| memory.scratch(), &|scratch, (block, roots)| {
            self.fill(scratch, whole_levels..levels, block, roots)
        });
        Ok(leaves)
    }

    /// Expands nodes through the remaining levels to a block of leaves.
    fn fill<const W: usize>(
        &self,
        scratch: &mut Scratch,
        mut levels: Range<u32>,
        mut block: LeafBlock<'_>,
        roots: &[u32],
    ) where
        L: WordLanes<W>,
    {
        let ciphertext = 2 * self.tables.words();
        let Some(last) = levels.next_back() else { return block.set(0, roots) };
        let [mut parents, mut children] = std::mem::take(&mut scratch.nodes);
        room(&mut parents, roots.len()).copy_from_slice(roots);
        let mut count = roots.len();
        for level in levels {
            let of_level = block.leaves().div_ceil(1 << (last - level)) * ciphertext;
            let groups = room(&mut children, of_level).chunks_mut(2 * GROUP * ciphertext);
            for (children, nodes) in groups.zip(parents[..count].chunks(GROUP * ciphertext)) {
                self.split(scratch, level, nodes, Children::nodes(self.tables, children));
            }
            (parents, children, count) = (children, parents, of_level);
        }
        for (i, nodes) in parents[..count].chunks(GROUP * ciphertext).enumerate() {
            self.split(scratch, last, nodes, Children::leaves(&mut block, 2 * GROUP * i));
        }
        self.lanes.fence();
        scratch.nodes = [parents, children];
    }

    /// Splits nodes that are stored one after another.
    fn split<const W: usize>(&self, scratch: &mut Scratch, level: u32, nodes: &[u32], children: Children<'_>)
    where
        L: WordLanes<W>,
    {
        let Self { lanes, tables, first, keys } = *self;
        let substitution = tables.substitution(first + level);
        let mut split = Split { tables, substitution, nodes, children };
        multiply(lanes, tables, &keys[level as usize], scratch, &mut split);
    }
}

/// Places of the children of some nodes: an even and an odd child for each node. Children beyond
/// the wanted number have no place.
struct Children<'a> {
    words: &'a mut [u32],
    first: TilePlace,
    /// Words from one child to the next.
    step: usize,
    wanted: usize,
    read: Read,
}

impl<'a> Children<'a> {
    fn nodes(tables: &RingTables, words: &'a mut [u32]) -> Self {
        let (first, step) = (TilePlace::node(tables), 2 * tables.words());
        Self { wanted: words.len() / step, words, first, step, read: Read::Soon }
    }

    /// Returns the places of a block's leaves from `first` on.
    fn leaves(block: &'a mut LeafBlock<'_>, first: usize) -> Self {
        let (wanted, place, step) = (block.leaves() - first, block.place(first), block.step());
        Self { words: block.words_mut(), first: place, step, wanted, read: Read::Later }
    }
}

/// Nodes whose images under a substitution are multiplied by the level's key, and places for their
/// children.
struct Split<'a> {
    tables: &'a RingTables,
    substitution: &'a Substitution,
    nodes: &'a [u32],
    children: Children<'a>,
}

impl Operands for Split<'_> {
    type Results<'b>
        = Substituted<'b, Pair<'b>>
    where
        Self: 'b;

    fn count(&self) -> usize {
        self.nodes.len() / (2 * self.tables.words())
    }

    fn write<L: WordLanes<W>, const W: usize>(&self, lanes: L, i: usize, polynomial: usize, to: &mut [u32]) {
        let ciphertext = 2 * self.tables.words();
        let node = &self.nodes[i * ciphertext..][..ciphertext];
        write_image(lanes, self.tables, &self.substitution.automorphism, node, polynomial, to);
    }

    fn results(&mut self, i: usize, prime: usize) -> Self::Results<'_> {
        let of_prime = 2 * self.tables.degree();
        let node = &self.nodes[(i * self.tables.primes().len() + prime) * of_prime..][..of_prime];
        let vectors = self.tables.degree() / self.tables.lanes();
        let Children { words, first, step, wanted, read } = &mut self.children;
        let even = first.after(2 * i * *step).at(prime * vectors);
        let pair = Pair {
            node,
            monomial: &self.substitution.monomials[prime],
            words,
            even,
            odd: (2 * i + 1 < *wanted).then_some(even + *step),
            stride: first.stride(),
            read: *read,
        };
        let image = Image { automorphism: &self.substitution.automorphism, tiles: node };
        Substituted { image, results: pair }
    }
}

/// The two children of a node modulo one prime.
struct Pair<'a> {
    node: &'a [u32],
    monomial: &'a Monomial,
    words: &'a mut [u32],
    even: usize,
    odd: Option<usize>,
    stride: usize,
    read: Read,
}

impl Results for Pair<'_> {
    #[inline(always)]
    fn store<L: WordLanes<W>, const W: usize>(
        &mut self,
        lanes: L,
        prime: Prime<L::Vector>,
        vector: usize,
        substituted: [L::Vector; 2],
    ) {
        let node = &self.node.as_chunks::<W>().0.as_chunks::<2>().0[vector];
        let node = [lanes.load(&node[0]), lanes.load(&node[1])];
        let a = prime.add(lanes, node[0], substituted[0]);
        let b = prime.add(lanes, node[1], substituted[1]);
        store_tile(lanes, self.words, self.even + vector * self.stride, [a, b], self.read);
        if let Some(odd) = self.odd {
            let monomial = self.monomial.factor(lanes, vector);
            let a = prime.mul(lanes, prime.sub_lazy(lanes, node[0], substituted[0]), monomial);
            let b = prime.mul(lanes, prime.sub_lazy(lanes, node[1], substituted[1]), monomial);
            store_tile(lanes, self.words, odd + vector * self.stride, [a, b], self.read);
        }
    }
}

impl Monomial {
    /// Returns the values in a vector of slots.
    #[inline(always)]
    pub(super) fn factor<L: WordLanes<W>, const W: usize>(
        &self,
        lanes: L,
        vector: usize,
    ) -> Factor<L::Vector> {
        match self {
            Self::Slots(words) => {
                let [values, companions] = &words.as_chunks::<W>().0.as_chunks::<2>().0[vector];
                Factor::load(lanes, [values, companions])
            }
            Self::Vectors(words) => Factor::splat(lanes, words[vector]),
        }
    }
}
