//! Working memory of a thread.

/// Working memory of one thread, for any keys.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Nodes of two levels of a tree.
    pub nodes: [Vec<u32>; 2],
    /// Polynomials as values, from which the operands of products with keys are computed.
    pub images: Vec<u32>,
    pub residues: Vec<u32>,
    pub fields: Vec<u32>,
    pub terms: Vec<u32>,
}

/// Returns `count` words of a buffer that grows as needed, with arbitrary content.
pub(super) fn room(words: &mut Vec<u32>, count: usize) -> &mut [u32] {
    if words.len() < count {
        words.resize(count, 0);
    }
    &mut words[..count]
}
