//! The tree of fixed-key AES, over vectors of blocks.
//!
//! `F(s, i) = E(x) + x` with `x = sigma(s + i)`, and sigma is linear: `x = sigma(s) + sigma(i)`, and `sigma(i)`
//! is i in the upper half. What is added behind the cipher (x itself, and the correction where shares add by
//! exclusive or) goes into the last round's key, which the cipher adds anyway.

use spirea_dpf::{Block, Key, LEAF_BLOCKS, Leaf, Level, Output, OutputKind, Party};

use crate::prefetch::reread;

/// Rounds of AES-128.
pub(crate) const ROUNDS: usize = 10;
/// The fixed key's round keys.
pub(crate) type RoundKeys = [Block; ROUNDS + 1];
/// Vectors in the cipher's pipeline at a time: what hides the latency of a round.
const PIPELINE: usize = 8;

/// Vectors of blocks over the token of an instruction set.
pub(crate) trait AesLanes: Copy + Send + Sync + 'static {
    /// A register.
    type Vector: Copy;
    /// Blocks of a vector: 1, 2 or 4.
    const BLOCKS: usize;

    /// The round keys.
    fn round_keys(&self) -> &RoundKeys;
    /// A block everywhere.
    fn splat(self, block: Block) -> Self::Vector;
    /// The first [`Self::BLOCKS`] blocks.
    fn load(self, blocks: &[Block]) -> Self::Vector;
    /// Writes the first [`Self::BLOCKS`] blocks.
    fn store(self, vector: Self::Vector, blocks: &mut [Block]);
    /// Exclusive or.
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// And.
    fn and(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// sigma of each block without its control bit.
    fn sigma(self, nodes: Self::Vector) -> Self::Vector;
    /// All ones in blocks whose control bit is set, 0 in others.
    fn control_masks(self, nodes: Self::Vector) -> Self::Vector;
    /// A round.
    fn round(self, state: Self::Vector, key: Self::Vector) -> Self::Vector;
    /// The last round.
    fn last_round(self, state: Self::Vector, key: Self::Vector) -> Self::Vector;
    /// Sums of 32-bit words.
    fn add32(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Sums of 64-bit words.
    fn add64(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Sums of blocks.
    fn add128(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The blocks of two vectors in turns: `a0, b0, a1, b1, ...`, as two vectors.
    fn interleave(self, a: Self::Vector, b: Self::Vector) -> [Self::Vector; 2];
    /// The blocks of four vectors in turns: `a0, b0, c0, d0, a1, ...`, as four vectors.
    fn transpose(self, blocks: [Self::Vector; LEAF_BLOCKS]) -> [Self::Vector; LEAF_BLOCKS];
}

/// Encrypts; `last` are the last round's keys with what is added behind them.
///
/// The loop over rounds must stay one: unrolled, the compiler follows one vector through all rounds before the
/// next, to save registers, and the processor waits for each round's latency. So it is not told their number.
#[inline(always)]
fn encrypt<L: AesLanes>(
    lanes: L,
    mut states: [L::Vector; PIPELINE],
    last: [L::Vector; PIPELINE],
) -> [L::Vector; PIPELINE] {
    let keys = lanes.round_keys();
    let whitening = lanes.splat(keys[0]);
    states.iter_mut().for_each(|state| *state = lanes.xor(*state, whitening));
    for key in &keys[1..*reread(&ROUNDS)] {
        let key = lanes.splat(*key);
        states.iter_mut().for_each(|state| *state = lanes.round(*state, key));
    }
    states.iter_mut().zip(last).for_each(|(state, last)| *state = lanes.last_round(*state, last));
    states
}

/// `sigma(i)`.
#[inline(always)]
fn place<L: AesLanes>(lanes: L, i: usize) -> L::Vector {
    lanes.splat((i as Block) << 64)
}

/// [`Tree::expand`](super::tree::Tree::expand), to be compiled for an instruction set where it is called.
#[inline(always)]
pub(crate) fn expand<L: AesLanes>(lanes: L, nodes: &mut [Block], count: usize, level: &Level) {
    const VECTORS: usize = PIPELINE / 2;
    let group = VECTORS * L::BLOCKS;
    if count < group {
        let mut padded = [0; 8 * PIPELINE];
        padded[..count].copy_from_slice(&nodes[..count]);
        expand_group(lanes, &mut padded, 0, level);
        nodes[..2 * count].copy_from_slice(&padded[..2 * count]);
        return;
    }
    debug_assert!(count.is_multiple_of(group), "nodes double from one");
    // From the last group to the first: children never overwrite nodes that are still to come.
    for first in (0..count).step_by(group).rev() {
        expand_group(lanes, nodes, first, level);
    }
}

#[inline(always)]
fn expand_group<L: AesLanes>(lanes: L, nodes: &mut [Block], first: usize, level: &Level) {
    const VECTORS: usize = PIPELINE / 2;
    let group = VECTORS * L::BLOCKS;
    let (left, right) = (lanes.splat(level.left), lanes.splat(level.right));
    let (last_key, one) = (lanes.splat(lanes.round_keys()[ROUNDS]), place(lanes, 1));
    let mut states = [last_key; PIPELINE];
    let mut last = states;
    for (i, nodes) in nodes[first..first + group].chunks_exact(L::BLOCKS).enumerate() {
        let nodes = lanes.load(nodes);
        let (x, mask) = (lanes.sigma(nodes), lanes.control_masks(nodes));
        let behind = lanes.xor(x, last_key);
        states[2 * i] = x;
        states[2 * i + 1] = lanes.xor(x, one);
        last[2 * i] = lanes.xor(behind, lanes.and(left, mask));
        last[2 * i + 1] = lanes.xor(lanes.xor(behind, one), lanes.and(right, mask));
    }
    let children = encrypt(lanes, states, last);
    let to = &mut nodes[2 * first..2 * (first + group)];
    for (to, pair) in to.chunks_exact_mut(2 * L::BLOCKS).zip(children.chunks_exact(2)) {
        let [low, high] = lanes.interleave(pair[0], pair[1]);
        lanes.store(low, &mut to[..L::BLOCKS]);
        lanes.store(high, &mut to[L::BLOCKS..]);
    }
}

/// How blocks become a party's shares.
///
/// Party 0 adds the correction c where a node is corrected. Party 1 has the negative of that,
/// `-(F + t c) = not F + 1 - t c`: its blocks are inverted, in the last round, and it adds 1 or 1 - c. So each
/// party adds one of two blocks, chosen by the control bit.
struct Shares<V> {
    /// What is added to blocks in the last round.
    inverted: V,
    /// What is added to the shares of nodes that are not corrected.
    uncorrected: V,
    /// The difference, as an exclusive or, to what is added to those of corrected nodes.
    turn: [V; LEAF_BLOCKS],
}

impl<V: Copy> Shares<V> {
    #[inline(always)]
    fn new<L: AesLanes<Vector = V>, O: Output>(lanes: L, key: &Key) -> Self {
        let zero = [0; LEAF_BLOCKS];
        let one = O::negate_leaf(&[Block::MAX; LEAF_BLOCKS]);
        let (inverted, uncorrected, corrected) = match key.party() {
            Party::One if O::KIND != OutputKind::Bit => {
                (Block::MAX, one, O::add_leaves(&one, &O::negate_leaf(key.leaf())))
            }
            _ => (0, zero, *key.leaf()),
        };
        Self {
            inverted: lanes.splat(inverted),
            uncorrected: lanes.splat(uncorrected[0]),
            turn: std::array::from_fn(|i| lanes.splat(uncorrected[i] ^ corrected[i])),
        }
    }
}

/// [`Tree::leaves`](super::tree::Tree::leaves), to be compiled for an instruction set where it is called.
#[inline(always)]
pub(crate) fn leaves<L: AesLanes, O: Output>(lanes: L, nodes: &[Block], key: &Key, shares: &mut [Leaf]) {
    let of_party = Shares::new::<L, O>(lanes, key);
    let group = PIPELINE / LEAF_BLOCKS * L::BLOCKS;
    let whole = nodes.len() / group * group;
    for first in (0..whole).step_by(group) {
        let shares = &mut shares[first..first + group];
        leaves_group::<L, O>(lanes, &nodes[first..first + group], &of_party, shares);
    }
    if whole < nodes.len() {
        let (mut padded, mut padded_shares) = ([0; 2 * PIPELINE], [[0; LEAF_BLOCKS]; 2 * PIPELINE]);
        padded[..nodes.len() - whole].copy_from_slice(&nodes[whole..]);
        leaves_group::<L, O>(lanes, &padded[..group], &of_party, &mut padded_shares[..group]);
        shares[whole..nodes.len()].copy_from_slice(&padded_shares[..nodes.len() - whole]);
    }
}

#[inline(always)]
fn leaves_group<L: AesLanes, O: Output>(
    lanes: L,
    nodes: &[Block],
    of_party: &Shares<L::Vector>,
    shares: &mut [Leaf],
) {
    let last_key = lanes.xor(lanes.splat(lanes.round_keys()[ROUNDS]), of_party.inverted);
    let mut states = [last_key; PIPELINE];
    let mut last = states;
    let mut added = states;
    for (group, nodes) in nodes.chunks_exact(L::BLOCKS).enumerate() {
        let nodes = lanes.load(nodes);
        let (x, mask) = (lanes.sigma(nodes), lanes.control_masks(nodes));
        for (i, &turn) in of_party.turn.iter().enumerate() {
            let at = group * LEAF_BLOCKS + i;
            states[at] = lanes.xor(x, place(lanes, i));
            last[at] = lanes.xor(states[at], last_key);
            added[at] = lanes.xor(of_party.uncorrected, lanes.and(turn, mask));
            if O::KIND == OutputKind::Bit {
                last[at] = lanes.xor(last[at], added[at]);
            }
        }
    }
    let mut blocks = encrypt(lanes, states, last);
    for (block, added) in blocks.iter_mut().zip(added) {
        *block = match O::KIND {
            OutputKind::Bit => *block,
            OutputKind::U32 => lanes.add32(*block, added),
            OutputKind::U64 => lanes.add64(*block, added),
            OutputKind::U128 => lanes.add128(*block, added),
        };
    }
    let shares = shares.as_flattened_mut().chunks_exact_mut(LEAF_BLOCKS * L::BLOCKS);
    for (shares, blocks) in shares.zip(blocks.as_chunks::<LEAF_BLOCKS>().0) {
        for (to, vector) in shares.chunks_exact_mut(L::BLOCKS).zip(lanes.transpose(*blocks)) {
            lanes.store(vector, to);
        }
    }
}

/// Encrypts in registers only, `rounds` times [`PIPELINE`] vectors; returns the number of blocks.
#[inline(always)]
pub(crate) fn only_encrypt<L: AesLanes>(lanes: L, rounds: u64) -> u64 {
    let last = lanes.splat(lanes.round_keys()[ROUNDS]);
    let mut states: [L::Vector; PIPELINE] = std::array::from_fn(|i| place(lanes, i));
    for _ in 0..rounds {
        states = encrypt(lanes, states, [last; PIPELINE]);
    }
    let mut sum = [0; 4];
    for state in states {
        lanes.store(lanes.xor(state, lanes.load(&sum)), &mut sum);
    }
    std::hint::black_box(sum);
    rounds * (PIPELINE * L::BLOCKS) as u64
}

/// The tree over AES lanes, each function compiled for the lanes' instruction set.
macro_rules! aes_tree {
    ($token:ty, $features:literal) => {
        impl $crate::dpf::tree::Tree for $token {
            fn expand(&self, nodes: &mut [Block], count: usize, level: &Level) {
                #[target_feature(enable = $features)]
                fn compiled(lanes: $token, nodes: &mut [Block], count: usize, level: &Level) {
                    $crate::dpf::aes::expand(lanes, nodes, count, level);
                }
                // SAFETY: `self` proves the features.
                unsafe { compiled(*self, nodes, count, level) }
            }

            fn leaves(&self, nodes: &[Block], key: &Key, shares: &mut [Leaf]) {
                #[target_feature(enable = $features)]
                fn compiled<O: Output>(lanes: $token, nodes: &[Block], key: &Key, shares: &mut [Leaf]) {
                    $crate::dpf::aes::leaves::<$token, O>(lanes, nodes, key, shares);
                }
                // SAFETY: `self` proves the features.
                unsafe { $crate::dpf::tree::with_output!(key, compiled(*self, nodes, key, shares)) }
            }

            fn only_expand(&self, rounds: u64) -> u64 {
                #[target_feature(enable = $features)]
                fn compiled(lanes: $token, rounds: u64) -> u64 {
                    $crate::dpf::aes::only_encrypt(lanes, rounds)
                }
                // SAFETY: `self` proves the features.
                unsafe { compiled(*self, rounds) }
            }
        }
    };
}
pub(crate) use aes_tree;
