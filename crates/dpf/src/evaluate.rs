use crate::generate::control_mask;
use crate::{Block, CONTROL, Key, LEAF_BLOCKS, Leaf, Level, Output, Prf};

/// A party's share of the function at `point`, which is public: the two parties' shares add up to its output.
///
/// # Panics
/// If the key's domain has no such point or other outputs than `O`.
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

/// A party's shares of all points, leaf by leaf; outputs behind the last point are without meaning. One node
/// after another: the twin of every faster traversal.
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
