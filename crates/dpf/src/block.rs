/// A node of a tree: 127 bits of seed and, in the lowest bit, the control bit, which is set if the
/// node is corrected.
///
/// As bytes, the 128 bits are in little-endian order.
pub type Block = u128;

/// The lowest bit of a [`Block`].
pub const CONTROL: Block = 1;

/// Blocks of a leaf.
pub const LEAF_BLOCKS: usize = 4;

/// Expansion of the seed at the end of a path: a cache line, one call of a stream cipher, four
/// calls of a block cipher. A tree ends as soon as the remaining outputs fit a leaf (early
/// termination, CCS 2016 section 3.2.1). Wider leaves need fewer levels, and so fewer calls for
/// each output: a leaf of 4 blocks needs 6 calls, and 4 leaves of one block would need 12. The key
/// is 16 bytes longer.
pub type Leaf = [Block; LEAF_BLOCKS];

/// Returns all ones if the node is corrected, else 0.
#[inline(always)]
pub(crate) fn control_mask(node: Block) -> Block {
    (node & CONTROL).wrapping_neg()
}
