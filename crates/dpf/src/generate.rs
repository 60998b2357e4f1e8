use spirea_math::random::SecretRng;
use spirea_math::secret::declassify;
use subtle::{Choice, ConditionallySelectable};
use zeroize::Zeroize;

use crate::block::control_mask;
use crate::{
    Bit, Block, CONTROL, Domain, DpfError, Key, LEAF_BLOCKS, Leaf, Level, Output, OutputKind, Party, Prf,
    PrfKind, PrfVisitor,
};

/// Generates the keys of the function that is `value` at `point` and zero elsewhere (CCS 2016,
/// figure 1).
///
/// The running time does not depend on the point or the value: their bits select values but never a
/// branch or an index.
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
    if declassify(point >= domain.points(), "a point outside the domain is refused before a key is made") {
        return Err(DpfError::Outside);
    }
    let (path, place) = O::KIND.leaf_and_place(point);
    let mut roots = Party::BOTH.map(|_| random_block(rng) & !CONTROL);
    let mut leaves = [[0; LEAF_BLOCKS]; 2];
    let (levels, one_is_corrected) = descend(prf, domain.depth(), path, &roots, &mut leaves);
    // s0 - s1 + (t0 - t1) c must be the value, so c is value - s0 + s1, negated if party 1's node
    // is corrected.
    let mut correction = O::add_leaves(&O::negate_leaf(&leaves[0]), &leaves[1]);
    correction = O::add_leaves(&value.at(place), &correction);
    let mut negated = O::negate_leaf(&correction);
    let leaf: Leaf =
        std::array::from_fn(|i| Block::conditional_select(&correction[i], &negated[i], one_is_corrected));
    let keys = Party::BOTH.map(|party| Key {
        domain,
        party,
        root: roots[party.number() as usize] | Block::from(party.number()),
        levels: levels.clone(),
        leaf,
    });
    roots.zeroize();
    leaves.zeroize();
    correction.zeroize();
    negated.zeroize();
    Ok(keys)
}

/// Descends `path` from both parties' roots, and expands the seeds of its leaf into `leaves`.
/// Returns the corrections of the levels, and a choice. The choice is set if party 1's leaf is
/// corrected, and unset if party 0's leaf is corrected. Not generic over the outputs, so that
/// programs contain this code only once for each pseudorandom function.
fn descend<P: Prf>(
    prf: P,
    depth: u32,
    path: u64,
    roots: &[Block; 2],
    leaves: &mut [Leaf; 2],
) -> (Vec<Level>, Choice) {
    let mut levels = Vec::with_capacity(depth as usize);
    // The parties' nodes on the path; exactly one of them is corrected at any time.
    let mut nodes = [roots[0], roots[1] | CONTROL];
    for level in 0..depth {
        let right = Choice::from((path >> (depth - 1 - level) & 1) as u8);
        let mut children = [[0; 2]; 2];
        prf.blocks(&nodes.map(|node| node & !CONTROL), &mut children);
        // Off the path the corrected children are equal; on the path they differ, and so do their
        // control bits.
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
    prf.blocks(&nodes.map(|node| node & !CONTROL), leaves);
    let one_is_corrected = Choice::from((nodes[1] & CONTROL) as u8);
    nodes.zeroize();
    (levels, one_is_corrected)
}

/// Selects a point: generates the keys of the function that is 1 there and 0 elsewhere, for a
/// pseudorandom function named at run time and for any outputs of the domain.
///
/// # Errors
/// [`DpfError::Outside`] if the domain has no such point.
pub fn select(prf: PrfKind, domain: Domain, point: u64, rng: &mut SecretRng) -> Result<[Key; 2], DpfError> {
    prf.visit(Select { domain, point, rng })
}

struct Select<'a> {
    domain: Domain,
    point: u64,
    rng: &'a mut SecretRng,
}

impl PrfVisitor for Select<'_> {
    type Output = Result<[Key; 2], DpfError>;

    fn visit<P: Prf>(self, prf: P) -> Self::Output {
        let Self { domain, point, rng } = self;
        match domain.output() {
            OutputKind::Bit => generate(prf, domain, point, Bit(true), rng),
            OutputKind::U32 => generate(prf, domain, point, 1u32, rng),
            OutputKind::U64 => generate(prf, domain, point, 1u64, rng),
            OutputKind::U128 => generate(prf, domain, point, 1u128, rng),
        }
    }
}

fn random_block(rng: &mut SecretRng) -> Block {
    Block::from(rng.next_u64()) << 64 | Block::from(rng.next_u64())
}
