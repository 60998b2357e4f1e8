//! From a key to the nodes at its leaves, in bounded memory.

use spirea_dpf::{Block, Key};

use super::tree::Tree;

/// Fills `nodes`, a power of two of them, with the nodes of leaves `chunk * nodes.len()` onward.
///
/// Down to the subtree that spans them one node at a time, then breadth first within it: a whole tree is covered
/// chunk by chunk with the memory of one chunk (GPU-DPF section III-C, "memory-bounded tree traversal", with the
/// subtrees' roots found again rather than kept: it costs as many calls as the tree has levels above a chunk).
pub(crate) fn leaf_nodes(tree: &dyn Tree, key: &Key, chunk: u64, nodes: &mut [Block]) {
    let below = nodes.len().trailing_zeros() as usize;
    let (above, within) = key.levels().split_at(key.levels().len() - below);
    let mut pair = [key.root(), 0];
    for (i, level) in above.iter().enumerate() {
        tree.expand(&mut pair, 1, level);
        pair[0] = pair[(chunk >> (above.len() - 1 - i) & 1) as usize];
    }
    nodes[0] = pair[0];
    for (i, level) in within.iter().enumerate() {
        tree.expand(nodes, 1 << i, level);
    }
}
