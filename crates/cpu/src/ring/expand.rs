//! Expansion: one ciphertext to many, by a tree of substitutions.
//!
//! All ciphertexts stay values. A node (a, b) splits with its image (a', b') under X -> X^k: the product of the
//! digits of a' with the level's key, plus b', is S; the children are (a, b) + S and ((a, b) - S) X^(-2^level).
//! Nothing but a' is ever transformed back, and every child is written once.

use rayon::prelude::*;
use spirea_backend::BackendError;
use spirea_math::Expansion;

use super::lanes::{Kernel, WordLanes};
use super::layout::{BLOCK, LeafBlock, Place, RingLeaves};
use super::modular::{Factor, Prime};
use super::product::{DigitKeys, Finish, Scratch, multiply};
use super::tables::{Monomial, RingTables, Substitution};

/// The order in which a tree of substitutions is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Schedule {
    /// Level by level over the whole tree: a level's key is read once, and the nodes of a level go through
    /// memory.
    BreadthFirst,
    /// Level by level down to subtrees, then subtree by subtree (IVE, section IV: hierarchical search): nodes
    /// stay in the caches.
    #[default]
    Hierarchical,
}

/// Levels of the subtrees that make a block of leaves.
const BLOCK_LEVELS: u32 = BLOCK.trailing_zeros();
const _: () = assert!(BLOCK.is_power_of_two());

/// Levels of a subtree that is walked level by level: with 2^2 nodes of 96 KiB beside a level's key, about
/// 300 KiB, it stays near the second-level cache.
const SUBTREE_LEVELS: u32 = 2;

/// The leaves of one query. `keys` has at least as many levels as the expansion; `words` is a ciphertext.
pub(super) fn expand<L: WordLanes<W>, const W: usize>(
    lanes: L,
    tables: &RingTables,
    schedule: Schedule,
    expansion: Expansion,
    keys: &[DigitKeys],
    words: &[u32],
) -> Result<RingLeaves, BackendError> {
    let tree = Tree { lanes, tables, levels: expansion.levels(), keys };
    let ciphertext = 2 * tables.words();
    let mut leaves = RingLeaves::room(tables, expansion.leaves())?;
    let block_level = tree.levels.saturating_sub(BLOCK_LEVELS);
    let whole_levels = match schedule {
        Schedule::BreadthFirst => tree.levels.saturating_sub(1),
        Schedule::Hierarchical => block_level,
    };
    let room = || tables.pool().take(expansion.nodes(whole_levels).checked_mul(ciphertext), "nodes");
    let (mut nodes, mut children) = (room()?, room()?);
    reduce(tables, words, &mut nodes[..ciphertext]);
    for level in 0..whole_levels {
        let count = |level| expansion.nodes(level) * ciphertext;
        let pairs = children[..count(level + 1)].par_chunks_mut(2 * ciphertext);
        let pairs = pairs.zip(nodes[..count(level)].par_chunks(ciphertext));
        pairs.for_each_init(Scratch::default, |scratch, (children, node)| {
            let odd = (children.len() > ciphertext).then(|| Place::node(tables, 1));
            let children = Children { words: children, even: Place::node(tables, 0), odd };
            tree.split(scratch, level, node, children);
        });
        std::mem::swap(&mut nodes, &mut children);
    }
    let of_block = ciphertext << (whole_levels - block_level);
    let blocks = leaves.blocks_mut(tables).zip(nodes.par_chunks(of_block));
    blocks.for_each_init(
        || Walk { tree: &tree, scratch: Scratch::default(), nodes: vec![Vec::new(); tree.levels as usize] },
        |walk, (mut block, nodes)| {
            for (i, node) in nodes.chunks_exact(ciphertext).enumerate() {
                walk.subtree(whole_levels, node, i << (tree.levels - whole_levels), &mut block);
            }
        },
    );
    Ok(leaves)
}

/// Takes a ciphertext, a and then b in the order of the plans and in any words, tile by tile and below the primes.
fn reduce(tables: &RingTables, words: &[u32], ciphertext: &mut [u32]) {
    let lanes = tables.lanes();
    for (polynomial, words) in words.chunks_exact(tables.words()).enumerate() {
        let to = ciphertext.chunks_exact_mut(2 * lanes).zip(words.chunks_exact(lanes));
        for (tile, (to, from)) in to.enumerate() {
            let q = tables.prime_of(tile);
            let one = q.shoup(1);
            for (to, &from) in to[polynomial * lanes..].iter_mut().zip(from) {
                *to = q.reduce_lazy(q.mul_lazy(from, one));
            }
        }
    }
}

/// A tree of substitutions with its keys, level by level.
struct Tree<'a, L> {
    lanes: L,
    tables: &'a RingTables,
    levels: u32,
    keys: &'a [DigitKeys],
}

/// Where the children of a node go.
struct Children<'a> {
    words: &'a mut [u32],
    even: Place,
    /// None where no wanted leaf is below.
    odd: Option<Place>,
}

impl<L> Tree<'_, L> {
    fn split<const W: usize>(&self, scratch: &mut Scratch, level: u32, node: &[u32], children: Children<'_>)
    where
        L: WordLanes<W>,
    {
        let Self { lanes, tables, keys, .. } = *self;
        let (key, substitution) = (&keys[level as usize], tables.substitution(level));
        let image = scratch.image(tables, key);
        lanes.run(Image { substitution, degree: tables.degree(), from: node, to: image });
        multiply(
            lanes,
            tables,
            key,
            scratch,
            &mut Split { degree: tables.degree(), substitution, node, children },
        );
    }
}

impl Substitution {
    /// A tile of the image of one polynomial of a ciphertext.
    #[inline(always)]
    fn image<L: WordLanes<W>, const W: usize>(
        &self,
        lanes: L,
        vectors: usize,
        ciphertext: &[[u32; W]],
        tile: usize,
        polynomial: usize,
    ) -> L::Vector {
        let vector = tile & (vectors - 1);
        let (source, permutation) = self.sources[vector];
        let places = lanes.load(&self.places.as_chunks::<W>().0[permutation as usize]);
        let from = 2 * (tile - vector + source as usize) + polynomial;
        lanes.permute(lanes.load(&ciphertext[from]), places)
    }
}

/// The image of a ciphertext's a under a substitution.
struct Image<'a> {
    substitution: &'a Substitution,
    degree: usize,
    from: &'a [u32],
    to: &'a mut [u32],
}

impl Kernel for Image<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: WordLanes<W>, const W: usize>(self, lanes: L) {
        let (from, vectors) = (self.from.as_chunks::<W>().0, self.degree / W);
        for (tile, to) in self.to.as_chunks_mut::<W>().0.iter_mut().enumerate() {
            lanes.store(self.substitution.image(lanes, vectors, from, tile, 0), to);
        }
    }
}

/// A node and the key's product to the node's children.
struct Split<'a> {
    degree: usize,
    substitution: &'a Substitution,
    node: &'a [u32],
    children: Children<'a>,
}

impl Finish for Split<'_> {
    #[inline(always)]
    fn finish<L: WordLanes<W>, const W: usize>(
        &mut self,
        lanes: L,
        prime: Prime<L::Vector>,
        tile: usize,
        product: [L::Vector; 2],
    ) {
        let node = self.node.as_chunks::<W>().0;
        let image_b = self.substitution.image(lanes, self.degree / W, node, tile, 1);
        let substituted = [product[0], prime.add(lanes, product[1], image_b)];
        let node = [lanes.load(&node[2 * tile]), lanes.load(&node[2 * tile + 1])];
        let Children { words, even, odd } = &mut self.children;
        let a = prime.add(lanes, node[0], substituted[0]);
        let b = prime.add(lanes, node[1], substituted[1]);
        even.store(lanes, words, tile, [a, b]);
        if let Some(odd) = odd {
            let monomial = self.substitution.monomial.factor(lanes, tile);
            let a = prime.mul(lanes, prime.sub_lazy(lanes, node[0], substituted[0]), monomial);
            let b = prime.mul(lanes, prime.sub_lazy(lanes, node[1], substituted[1]), monomial);
            odd.store(lanes, words, tile, [a, b]);
        }
    }
}

impl Monomial {
    /// The values in a tile.
    #[inline(always)]
    fn factor<L: WordLanes<W>, const W: usize>(&self, lanes: L, tile: usize) -> Factor<L::Vector> {
        match self {
            Self::Slots(words) => {
                let words = words.as_chunks::<W>().0;
                Factor::load(lanes, [&words[2 * tile], &words[2 * tile + 1]])
            }
            Self::Vectors(words) => Factor::splat(lanes, words[tile]),
        }
    }
}

/// The depth-first walk of one thread.
struct Walk<'a, L> {
    tree: &'a Tree<'a, L>,
    scratch: Scratch,
    /// The nodes of the current subtree, level by level.
    nodes: Vec<Vec<u32>>,
}

impl<L> Walk<'_, L> {
    /// Expands `node` to its leaves, the block's leaves from `first` onward.
    fn subtree<const W: usize>(&mut self, level: u32, node: &[u32], first: usize, block: &mut LeafBlock<'_>)
    where
        L: WordLanes<W>,
    {
        let Tree { tables, levels, .. } = *self.tree;
        let ciphertext = 2 * tables.words();
        if level == levels {
            return block.set(first, node);
        }
        let bottom = (level + SUBTREE_LEVELS).min(levels);
        // Nodes at a level of the subtree that have a wanted leaf below them.
        let leaves = block.leaves() - first;
        let wanted = |at: u32| leaves.div_ceil(1 << (levels - at)).min(1 << (at - level));
        for at in level..bottom {
            let parents = std::mem::take(&mut self.nodes[at as usize]);
            for i in 0..wanted(at) {
                let parent = if at == level { node } else { &parents[i * ciphertext..][..ciphertext] };
                let both = 2 * i + 1 < wanted(at + 1);
                let children = if at + 1 == levels {
                    block.children(first + 2 * i, both)
                } else {
                    let words = &mut self.nodes[at as usize + 1];
                    let end = 2 * (i + 1) * ciphertext;
                    if words.len() < end {
                        words.resize(end, 0);
                    }
                    let place = |child: usize| Place::node(tables, 2 * i + child);
                    Children { words, even: place(0), odd: both.then(|| place(1)) }
                };
                self.tree.split(&mut self.scratch, at, parent, children);
            }
            self.nodes[at as usize] = parents;
        }
        if bottom < levels {
            let roots = std::mem::take(&mut self.nodes[bottom as usize]);
            for (i, root) in roots.chunks_exact(ciphertext).take(wanted(bottom)).enumerate() {
                self.subtree(bottom, root, first + (i << (levels - bottom)), block);
            }
            self.nodes[bottom as usize] = roots;
        }
    }
}

impl LeafBlock<'_> {
    /// Room for leaf `first` and, if wanted, the next.
    fn children(&mut self, first: usize, both: bool) -> Children<'_> {
        let (even, odd) = (self.place(first), both.then(|| self.place(first + 1)));
        Children { words: self.words_mut(), even, odd }
    }
}
