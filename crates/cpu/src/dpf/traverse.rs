//! From a key to the nodes at its leaves, in bounded memory.

use spirea_dpf::{Block, Key};

use super::tree::Tree;

/// Walk over the subtrees of a tree's leaves, chunk after chunk (GPU-DPF section III-C,
/// "memory-bounded tree traversal"). It covers the tree with the memory of one chunk and of one
/// path from the root to it.
pub(crate) struct Descent<'a> {
    tree: &'a dyn Tree,
    key: &'a Key,
    /// Children on the path to the last chunk's root, by level: one entry for each level above a
    /// chunk.
    path: Vec<[Block; 2]>,
    /// The chunk that the path leads to.
    chunk: Option<u64>,
}

impl<'a> Descent<'a> {
    /// Creates a walk over chunks of `leaves` leaves, a power of two that is at most the number of
    /// leaves.
    pub fn new(tree: &'a dyn Tree, key: &'a Key, leaves: usize) -> Self {
        let above = key.levels().len() - leaves.trailing_zeros() as usize;
        Self { tree, key, path: vec![[0; 2]; above], chunk: None }
    }

    /// Fills `nodes`, one for each leaf of a chunk, with the nodes of the leaves from
    /// `chunk * nodes.len()` on: descends to the root of their subtree, then expands it breadth
    /// first.
    ///
    /// The descent begins where the path to this chunk leaves the path to the previous chunk.
    /// Chunks in order therefore cost one expansion each, on average.
    pub fn leaf_nodes(&mut self, chunk: u64, nodes: &mut [Block]) {
        let (above, within) = self.key.levels().split_at(self.path.len());
        let side = |level: usize| (chunk >> (above.len() - 1 - level) & 1) as usize;
        let known = self.chunk.replace(chunk).map_or(0, |before| {
            // Number of levels from the fork of the two paths down. The children at the fork belong
            // to both paths.
            let differing = u64::BITS - (before ^ chunk).leading_zeros();
            (above.len() + 1 - differing as usize).min(above.len())
        });
        let mut node = self.key.root();
        for (level, (children, corrections)) in self.path.iter_mut().zip(above).enumerate() {
            if level >= known {
                children[0] = node;
                self.tree.expand(children, 1, corrections);
            }
            node = children[side(level)];
        }
        nodes[0] = node;
        for (i, level) in within.iter().enumerate() {
            self.tree.expand(nodes, 1 << i, level);
        }
    }
}
