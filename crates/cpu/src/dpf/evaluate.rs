//! Evaluation of a whole domain, by the strategies that GPU-DPF compares (section III-C).

use rayon::prelude::*;
use spirea_dpf::{Block, Key, LEAF_BLOCKS, Leaf, PrfKind};

use super::driver::{MAX_CHUNK as CHUNK, MAX_TILE as TILE};
use super::kernels;
use super::traverse::leaf_nodes;
use super::tree::Tree;
use crate::CpuBackend;

/// In which order a tree is expanded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Subtrees of as many leaves as the cache has room for, each breadth first: what folds do.
    #[default]
    MemoryBounded,
    /// One whole level after another, in memory as large as the last.
    LevelByLevel,
    /// Every leaf from the root on, as if there were no others: as many times more calls as the tree has levels.
    BranchParallel,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::MemoryBounded, Self::LevelByLevel, Self::BranchParallel];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::MemoryBounded => "memory-bounded",
            Self::LevelByLevel => "level-by-level",
            Self::BranchParallel => "branch-parallel",
        }
    }
}

impl CpuBackend {
    /// Expands the whole domain of each key and returns the exclusive or of all its leaves' shares: each is computed,
    /// and none leaves the cache.
    pub fn evaluate_domain(&self, prf: PrfKind, keys: &[Key], strategy: Strategy) -> Vec<Leaf> {
        let tree = kernels::tree(self.isa, prf);
        let of_key = match strategy {
            Strategy::MemoryBounded => memory_bounded,
            Strategy::LevelByLevel => level_by_level,
            Strategy::BranchParallel => branch_parallel,
        };
        self.pool.install(|| keys.par_iter().map(|key| of_key(&*tree, key)).collect())
    }
}

/// Exclusive or, in words that the compiler's vectors take.
fn add(a: Leaf, b: Leaf) -> Leaf {
    let (a, b): ([u64; 8], [u64; 8]) = (bytemuck::cast(a), bytemuck::cast(b));
    bytemuck::cast::<[u64; 8], Leaf>(std::array::from_fn(|i| a[i] ^ b[i]))
}

/// The sum of the shares of the first `count` of `nodes`.
fn sum(tree: &dyn Tree, key: &Key, nodes: &[Block], count: usize) -> Leaf {
    let mut shares = [[0; LEAF_BLOCKS]; TILE];
    nodes[..count].chunks(TILE).fold([0; LEAF_BLOCKS], |total, nodes| {
        tree.leaves(nodes, key, &mut shares);
        shares[..nodes.len()].iter().fold(total, |total, &share| add(total, share))
    })
}

fn memory_bounded(tree: &dyn Tree, key: &Key) -> Leaf {
    let leaves = key.domain().leaves();
    let chunk = CHUNK.min(1 << key.domain().depth());
    let of_chunk = |nodes: &mut Vec<Block>, i: u64| {
        leaf_nodes(tree, key, i, nodes);
        sum(tree, key, nodes, (leaves - i * chunk as u64).min(chunk as u64) as usize)
    };
    let chunks = (0..leaves.div_ceil(chunk as u64)).into_par_iter();
    chunks.map_init(|| vec![0; chunk], of_chunk).reduce(|| [0; LEAF_BLOCKS], add)
}

fn level_by_level(tree: &dyn Tree, key: &Key) -> Leaf {
    let mut nodes = vec![key.root()];
    for level in key.levels() {
        let mut children = vec![0; 2 * nodes.len()];
        let pairs = nodes.par_chunks(CHUNK).zip(children.par_chunks_mut(2 * CHUNK));
        pairs.for_each(|(nodes, children)| {
            children[..nodes.len()].copy_from_slice(nodes);
            tree.expand(children, nodes.len(), level);
        });
        nodes = children;
    }
    nodes.truncate(key.domain().leaves() as usize);
    let sums = nodes.par_chunks(CHUNK).map(|nodes| sum(tree, key, nodes, nodes.len()));
    sums.reduce(|| [0; LEAF_BLOCKS], add)
}

fn branch_parallel(tree: &dyn Tree, key: &Key) -> Leaf {
    let (leaves, depth) = (key.domain().leaves(), key.domain().depth());
    let of_tile = |first: u64| {
        let (mut nodes, mut pairs) = ([key.root(); TILE], [0; 2 * TILE]);
        for (i, level) in key.levels().iter().enumerate() {
            pairs[..TILE].copy_from_slice(&nodes);
            tree.expand(&mut pairs, TILE, level);
            for (j, node) in nodes.iter_mut().enumerate() {
                let side = (first + j as u64) >> (depth as usize - 1 - i) & 1;
                *node = pairs[2 * j + side as usize];
            }
        }
        sum(tree, key, &nodes, (leaves - first).min(TILE as u64) as usize)
    };
    let tiles = (0..leaves.div_ceil(TILE as u64)).into_par_iter().map(|tile| of_tile(tile * TILE as u64));
    tiles.reduce(|| [0; LEAF_BLOCKS], add)
}
