use std::ops::Range;

use crate::block::control_mask;
use crate::{Block, CONTROL, Domain, DpfError, Key, LEAF_BLOCKS, Leaf, Level, Output, Prf, PrfVisitor};

/// Returns a party's share of the function at `point`, which is public. The two parties' shares add
/// up to the function's output.
///
/// # Panics
/// If the key's domain does not contain the point or has other outputs than `O`.
pub fn evaluate<P: Prf, O: Output>(prf: P, key: &Key, point: u64) -> O {
    let domain = key.domain();
    assert!(domain.output() == O::KIND && point < domain.points());
    let (path, place) = O::KIND.leaf_and_place(point);
    let mut node = key.root();
    for (level, correction) in key.levels().iter().enumerate() {
        let side = path >> (key.levels().len() - 1 - level) & 1;
        node = children(prf, node, correction)[side as usize];
    }
    O::of(&leaf::<P, O>(prf, node, key), place as usize)
}

/// Returns a party's shares of all points, leaf by leaf; outputs after the last point are
/// meaningless. It computes one node after another and is the reference for every faster traversal.
///
/// # Panics
/// If the key's domain has other outputs than `O`.
pub fn evaluate_all<P: Prf, O: Output>(prf: P, key: &Key) -> Vec<Leaf> {
    assert_eq!(key.domain().output(), O::KIND, "the domain has other outputs");
    let mut nodes = vec![key.root()];
    for correction in key.levels() {
        nodes = nodes.into_iter().flat_map(|node| children(prf, node, correction)).collect();
    }
    nodes.truncate(key.domain().leaves() as usize);
    nodes.into_iter().map(|node| leaf::<P, O>(prf, node, key)).collect()
}

/// Visitor that makes a key for some of a key's points, for a server that holds only these points'
/// records. Point 0 of the new key is the first of these points.
pub struct Subtree<'a> {
    /// The key.
    pub key: &'a Key,
    /// The points. They must begin at a leaf whose number is a multiple of the number of leaves of
    /// the smallest tree that has room for them.
    pub points: Range<u64>,
}

impl PrfVisitor for Subtree<'_> {
    type Output = Result<Key, DpfError>;

    fn visit<P: Prf>(self, prf: P) -> Self::Output {
        let Self { key, points } = self;
        let whole = key.domain();
        if points.is_empty() || points.end > whole.points() {
            return Err(DpfError::Outside);
        }
        let domain = Domain::new(points.end - points.start, whole.output())?;
        let (height, per_leaf) = (domain.depth(), whole.output().per_leaf());
        let of_subtree = per_leaf << height;
        if !points.start.is_multiple_of(of_subtree) {
            return Err(DpfError::Subtree);
        }
        let path = points.start / of_subtree;
        let (above, levels) = key.levels().split_at((whole.depth() - height) as usize);
        let mut root = key.root();
        for (level, correction) in above.iter().enumerate() {
            let side = path >> (above.len() - 1 - level) & 1;
            root = children(prf, root, correction)[side as usize];
        }
        Ok(Key { domain, party: key.party(), root, levels: levels.to_vec(), leaf: *key.leaf() })
    }
}

fn children<P: Prf>(prf: P, node: Block, correction: &Level) -> [Block; 2] {
    let mut children = [[0; 2]];
    prf.blocks(&[node & !CONTROL], &mut children);
    let mask = control_mask(node);
    [children[0][0] ^ (correction.left & mask), children[0][1] ^ (correction.right & mask)]
}

fn leaf<P: Prf, O: Output>(prf: P, node: Block, key: &Key) -> Leaf {
    let mut expanded = [[0; LEAF_BLOCKS]];
    prf.blocks(&[node & !CONTROL], &mut expanded);
    O::share(&expanded[0], control_mask(node), key.leaf(), key.party())
}
