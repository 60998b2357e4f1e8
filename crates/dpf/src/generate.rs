use spirea_math::random::SecretRng;
use subtle::{Choice, ConditionallySelectable};
use zeroize::Zeroize;

use crate::{Block, CONTROL, Domain, DpfError, Key, LEAF_BLOCKS, Leaf, Level, Output, Party, Prf};

/// The keys of the function that is `value` at `point` and zero elsewhere.
///
/// (CCS 2016, figure 1.) In time that does not depend on the point or the value: their bits select, they
/// never branch or index.
///
/// # Errors
/// [`DpfError::Outside`] if the domain has no such point.
///
/// # Panics
/// If the domain has other outputs than `O`.
pub fn generate<P: Prf, O: Output>(
    prf: P,
    domain: Domain,
    point: u64,
    value: O,
    rng: &mut SecretRng,
) -> Result<[Key; 2], DpfError> {
    assert_eq!(domain.output(), O::KIND, "the domain has other outputs");
    if point >= domain.points() {
        return Err(DpfError::Outside);
    }
    let depth = domain.depth();
    let (path, place) = (point / O::KIND.per_leaf(), point % O::KIND.per_leaf());
    let roots = Party::BOTH.map(|_| random_block(rng) & !CONTROL);
    let mut levels = Vec::with_capacity(depth as usize);
    // The parties' nodes on the path; always one of them is corrected.
    let mut nodes = [roots[0], roots[1] | CONTROL];
    for level in 0..depth {
        let right = Choice::from((path >> (depth - 1 - level) & 1) as u8);
        let mut children = [[0; 2]; 2];
        prf.blocks(&nodes.map(|node| node & !CONTROL), &mut children);
        // Off the path the corrected children agree; on it they differ, and so do their control bits.
        let [lefts, rights] = [0, 1].map(|side: usize| children[0][side] ^ children[1][side]);
        let off = Block::conditional_select(&rights, &lefts, right) & !CONTROL;
        let turn = Block::from(right.unwrap_u8());
        let correction =
            Level { left: off | (lefts & CONTROL) ^ turn ^ CONTROL, right: off | (rights & CONTROL) ^ turn };
        let ours = Block::conditional_select(&correction.left, &correction.right, right);
        for (node, children) in nodes.iter_mut().zip(&mut children) {
            let child = Block::conditional_select(&children[0], &children[1], right);
            *node = child ^ (ours & control_mask(*node));
            children.zeroize();
        }
        levels.push(correction);
    }
    let mut leaves = [[0; LEAF_BLOCKS]; 2];
    prf.blocks(&nodes.map(|node| node & !CONTROL), &mut leaves);
    // s0 - s1 + (t0 - t1) c is the value: c is value - s0 + s1, negated where party 1 is the corrected one.
    let difference = O::add_leaves(&O::negate_leaf(&leaves[0]), &leaves[1]);
    let correction = O::add_leaves(&value.at(place), &difference);
    let negated = O::negate_leaf(&correction);
    let one_is_corrected = Choice::from((nodes[1] & CONTROL) as u8);
    let leaf: Leaf =
        std::array::from_fn(|i| Block::conditional_select(&correction[i], &negated[i], one_is_corrected));
    nodes.zeroize();
    leaves.zeroize();
    Ok(Party::BOTH.map(|party| Key {
        domain,
        party,
        root: roots[party.number() as usize],
        levels: levels.clone(),
        leaf,
    }))
}

/// All ones where a node is corrected, else 0.
#[inline(always)]
pub(crate) fn control_mask(node: Block) -> Block {
    (node & CONTROL).wrapping_neg()
}

fn random_block(rng: &mut SecretRng) -> Block {
    Block::from(rng.next_u64()) << 64 | Block::from(rng.next_u64())
}
