//! Evaluation of a whole domain, by the strategies that GPU-DPF compares (section III-C).

use rayon::prelude::*;
use spirea_dpf::{Block, Key, LEAF_BLOCKS, Leaf, PrfKind};

use super::driver::MAX_CHUNK as CHUNK;
use super::fold::XorLeaves;
use super::lanes::ByteLanes as _;
use super::traverse::Descent;
use super::tree::Tree;
use super::trees;
use crate::CpuBackend;
use crate::aligned::Aligned;
use crate::isa::{Found, Portable, with_token};

/// Number of leaves whose shares are summed at a time; they fill half of a first-level cache of 32
/// KiB.
const TILE: usize = 256;

/// Order in which a tree is expanded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Traversal {
    /// Expands one subtree after another, each breadth first. The leaves of a subtree fit the
    /// cache. Folds use this order.
    #[default]
    MemoryBounded,
    /// Expands one whole level after another, in memory of the size of the last level.
    LevelByLevel,
    /// Computes every leaf separately, from the root on. The number of calls is multiplied by the
    /// number of levels.
    BranchParallel,
}

impl Traversal {
    /// All traversals.
    pub const ALL: [Self; 3] = [Self::MemoryBounded, Self::LevelByLevel, Self::BranchParallel];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::MemoryBounded => "memory-bounded",
            Self::LevelByLevel => "level-by-level",
            Self::BranchParallel => "branch-parallel",
        }
    }
}

impl CpuBackend {
    /// Expands the whole domain of each key and returns the exclusive or of the shares of all its
    /// leaves. Every share is computed, and no share leaves the cache.
    pub fn evaluate_domain(&self, prf: PrfKind, keys: &[Key], strategy: Traversal) -> Vec<Leaf> {
        let tree = trees::tree(self.isa(), prf);
        let evaluation = Evaluation { tree: &*tree, found: self.found };
        let of_key = match strategy {
            Traversal::MemoryBounded => memory_bounded,
            Traversal::LevelByLevel => level_by_level,
            Traversal::BranchParallel => branch_parallel,
        };
        self.install(|| keys.par_iter().map(|key| of_key(evaluation, key)).collect())
    }

    /// Expands the whole domain of each key. As soon as the shares of a key's leaves are complete,
    /// passes them and the key's place among the keys to `done`. The evaluation workers of IM-PIR
    /// do the same (section 3.4). Outputs after the last point are meaningless.
    ///
    /// Keys are processed in parallel. Subtrees of a level are independent (section 3.2), so idle
    /// threads help with the remaining keys. `done` may block, for instance until there is room for
    /// more shares.
    pub fn evaluate_shares(&self, prf: PrfKind, keys: &[Key], done: impl Fn(usize, Vec<Leaf>) + Sync) {
        let tree = trees::tree(self.isa(), prf);
        let each = keys.par_iter().enumerate().with_max_len(1);
        self.install(|| each.for_each(|(place, key)| done(place, shares(&*tree, key))));
    }
}

/// Returns the shares of all leaves of a key.
fn shares(tree: &dyn Tree, key: &Key) -> Vec<Leaf> {
    let mut leaves = vec![[0; LEAF_BLOCKS]; key.domain().leaves() as usize];
    let chunk = CHUNK.min(1 << key.domain().depth());
    let init = || {
        (
            Descent::new(tree, key, chunk),
            Aligned::<Block>::zeros(chunk),
            Aligned::<Leaf>::zeros(TILE.min(chunk)),
        )
    };
    leaves.par_chunks_mut(chunk).enumerate().for_each_init(init, |(descent, nodes, shares), (i, leaves)| {
        descent.leaf_nodes(i as u64, nodes);
        for (nodes, leaves) in nodes.chunks(TILE).zip(leaves.chunks_mut(TILE)) {
            // Copied, because vectors need aligned shares.
            tree.leaves(nodes, key, shares);
            leaves.copy_from_slice(&shares[..leaves.len()]);
        }
    });
    leaves
}

/// Tree and instruction set of an evaluation.
#[derive(Clone, Copy)]
struct Evaluation<'a> {
    tree: &'a dyn Tree,
    found: Found,
}

impl Evaluation<'_> {
    /// Returns the exclusive or of the shares of all `nodes`.
    fn sum(&self, key: &Key, nodes: &[Block]) -> Leaf {
        let mut shares = Aligned::<Leaf>::zeros(TILE.min(nodes.len()));
        let mut total = [0; LEAF_BLOCKS];
        for nodes in nodes.chunks(TILE) {
            self.tree.leaves(nodes, key, &mut shares);
            let kernel = XorLeaves { leaves: &shares[..nodes.len()], sum: &mut total };
            with_token!(self.found, Portable::<8>, lanes => lanes.run(kernel));
        }
        total
    }
}

/// Returns the exclusive or of two leaves.
fn add(a: Leaf, b: Leaf) -> Leaf {
    std::array::from_fn(|i| a[i] ^ b[i])
}

fn memory_bounded(evaluation: Evaluation<'_>, key: &Key) -> Leaf {
    let leaves = key.domain().leaves();
    let chunk = CHUNK.min(1 << key.domain().depth());
    let init = || (Descent::new(evaluation.tree, key, chunk), Aligned::<Block>::zeros(chunk));
    let of_chunk = |(descent, nodes): &mut (Descent<'_>, Aligned<Block>), i: u64| {
        descent.leaf_nodes(i, nodes);
        evaluation.sum(key, &nodes[..(leaves - i * chunk as u64).min(chunk as u64) as usize])
    };
    let chunks = (0..leaves.div_ceil(chunk as u64)).into_par_iter();
    chunks.map_init(init, of_chunk).reduce(|| [0; LEAF_BLOCKS], add)
}

fn level_by_level(evaluation: Evaluation<'_>, key: &Key) -> Leaf {
    let mut nodes = vec![key.root()];
    for level in key.levels() {
        let mut children = vec![0; 2 * nodes.len()];
        let pairs = nodes.par_chunks(CHUNK).zip(children.par_chunks_mut(2 * CHUNK));
        pairs.for_each(|(nodes, children)| {
            children[..nodes.len()].copy_from_slice(nodes);
            evaluation.tree.expand(children, nodes.len(), level);
        });
        nodes = children;
    }
    nodes.truncate(key.domain().leaves() as usize);
    let sums = nodes.par_chunks(CHUNK).map(|nodes| evaluation.sum(key, nodes));
    sums.reduce(|| [0; LEAF_BLOCKS], add)
}

fn branch_parallel(evaluation: Evaluation<'_>, key: &Key) -> Leaf {
    let (leaves, depth) = (key.domain().leaves(), key.domain().depth());
    let of_tile = |first: u64| {
        let (mut nodes, mut pairs) = ([key.root(); TILE], [0; 2 * TILE]);
        for (i, level) in key.levels().iter().enumerate() {
            pairs[..TILE].copy_from_slice(&nodes);
            evaluation.tree.expand(&mut pairs, TILE, level);
            for (j, node) in nodes.iter_mut().enumerate() {
                let side = (first + j as u64) >> (depth as usize - 1 - i) & 1;
                *node = pairs[2 * j + side as usize];
            }
        }
        evaluation.sum(key, &nodes[..(leaves - first).min(TILE as u64) as usize])
    };
    let tiles = (0..leaves.div_ceil(TILE as u64)).into_par_iter().map(|tile| of_tile(tile * TILE as u64));
    tiles.reduce(|| [0; LEAF_BLOCKS], add)
}
