//! The tree of fixed-key AES, over vectors of blocks.
//!
//! `F(s, i) = E(x) + x` with `x = sigma(s + i)`, and sigma is linear: `x = sigma(s) + sigma(i)`, and `sigma(i)`
//! is i in the upper half. What is added behind the cipher (x itself, and the correction where shares add by
//! exclusive or) goes into the last round's key, which the cipher adds anyway.
//!
//! A vector holds blocks of one seed, or of several in order, as they are written: blocks 0 and 1 of two seeds, say.
//! So nothing is rearranged behind the cipher, and before it sigma of a seed is read from memory as often as it has
//! blocks, which costs no arithmetic.

use spirea_dpf::{Bit, Block, Key, LEAF_BLOCKS, Leaf, Level, Output, OutputKind, Party};

use crate::prefetch::reread;

/// Rounds of AES-128.
pub(crate) const ROUNDS: usize = 10;
/// The fixed key's round keys.
pub(crate) type RoundKeys = [Block; ROUNDS + 1];
/// Vectors in the cipher's pipeline at a time: what hides the latency of a round.
const PIPELINE: usize = 8;
/// Nodes that are prepared at a time.
const NODES: usize = 32;

/// Vectors of blocks over the token of an instruction set.
pub(crate) trait AesLanes: Copy + Send + Sync + 'static {
    /// A register.
    type Vector: Copy;
    /// Blocks of a vector: 1, 2 or 4.
    const BLOCKS: usize;

    /// The round keys.
    fn round_keys(self) -> &'static RoundKeys;
    /// A block everywhere.
    fn splat(self, block: Block) -> Self::Vector;
    /// The first [`Self::BLOCKS`] blocks.
    fn load(self, blocks: &[Block]) -> Self::Vector;
    /// The first [`Self::BLOCKS`] of the sequence that repeats every block N times, 2 or 4.
    fn repeat<const N: usize>(self, blocks: &[Block]) -> Self::Vector;
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
}

/// All rounds but the last, behind the first key.
///
/// The loop must stay one: unrolled, the compiler follows one vector through all rounds before the next, to save
/// registers, and the processor waits for each round's latency. So it is not told their number.
#[inline(always)]
fn encrypt<L: AesLanes>(lanes: L, mut states: [L::Vector; PIPELINE]) -> [L::Vector; PIPELINE] {
    for key in &lanes.round_keys()[1..*reread(&ROUNDS)] {
        let key = lanes.splat(*key);
        states.iter_mut().for_each(|state| *state = lanes.round(*state, key));
    }
    states
}

/// What the N blocks of a seed differ in, as vectors: pattern p has blocks `p * BLOCKS` onward, in a circle.
struct Constants<V> {
    /// `sigma(i)` and the first round's key.
    first: [V; LEAF_BLOCKS],
    /// `sigma(i)` and the last round's key.
    last: [V; LEAF_BLOCKS],
    /// What is added where a node is not corrected.
    uncorrected: V,
    /// The difference, as an exclusive or, to what is added where it is.
    turn: [V; LEAF_BLOCKS],
}

impl<V: Copy> Constants<V> {
    #[inline(always)]
    fn new<L: AesLanes<Vector = V>, const N: usize>(
        lanes: L,
        inverted: Block,
        uncorrected: Block,
        corrected: [Block; N],
    ) -> Self {
        let keys = lanes.round_keys();
        let zero = lanes.splat(0);
        let mut constants = Self {
            first: [zero; LEAF_BLOCKS],
            last: [zero; LEAF_BLOCKS],
            uncorrected: lanes.splat(uncorrected),
            turn: [zero; LEAF_BLOCKS],
        };
        for p in 0..LEAF_BLOCKS {
            let (mut first, mut last, mut turn) = ([0; 4], [0; 4], [0; 4]);
            for lane in 0..L::BLOCKS {
                let i = (p * L::BLOCKS + lane) % N;
                let sigma = (i as Block) << 64;
                first[lane] = sigma ^ keys[0];
                last[lane] = sigma ^ keys[ROUNDS] ^ inverted;
                turn[lane] = uncorrected ^ corrected[i];
            }
            constants.first[p] = lanes.load(&first);
            constants.last[p] = lanes.load(&last);
            constants.turn[p] = lanes.load(&turn);
        }
        constants
    }

    /// Those of a level: children of corrected nodes get its corrections.
    #[inline(always)]
    fn of_level<L: AesLanes<Vector = V>>(lanes: L, level: &Level) -> Self {
        Self::new(lanes, 0, 0, [level.left, level.right])
    }

    /// Those of a key's leaves. Party 0 adds the correction c where a node is corrected. Party 1 has the negative of
    /// that, `-(F + t c) = not F + 1 - t c`: its blocks are inverted, in the last round, and it adds 1 or 1 - c.
    #[inline(always)]
    fn of_leaves<L: AesLanes<Vector = V>, O: Output>(lanes: L, key: &Key) -> Self {
        match key.party() {
            Party::One if O::KIND != OutputKind::Bit => {
                let one = O::negate_leaf(&[Block::MAX; LEAF_BLOCKS]);
                let corrected = O::add_leaves(&one, &O::negate_leaf(key.leaf()));
                Self::new(lanes, Block::MAX, one[0], corrected)
            }
            _ => Self::new(lanes, 0, 0, *key.leaf()),
        }
    }
}

/// Nodes as the cipher takes them.
struct Prepared {
    /// sigma of each seed.
    sigmas: [Block; NODES],
    /// All ones for nodes that are corrected.
    masks: [Block; NODES],
}

impl Prepared {
    const EMPTY: Self = Self { sigmas: [0; NODES], masks: [0; NODES] };

    /// Prepares up to [`NODES`] nodes.
    #[inline(always)]
    fn set<L: AesLanes>(&mut self, lanes: L, nodes: &[Block]) {
        let to = self.sigmas.chunks_exact_mut(L::BLOCKS).zip(self.masks.chunks_exact_mut(L::BLOCKS));
        let mut padded = [0; 4];
        for (nodes, (sigmas, masks)) in nodes.chunks(L::BLOCKS).zip(to) {
            let nodes = if nodes.len() < L::BLOCKS {
                padded[..nodes.len()].copy_from_slice(nodes);
                &padded
            } else {
                nodes
            };
            let nodes = lanes.load(nodes);
            lanes.store(lanes.sigma(nodes), sigmas);
            lanes.store(lanes.control_masks(nodes), masks);
        }
    }

    /// The N blocks of each node, corrected, as outputs of O, written one after another.
    #[inline(always)]
    fn blocks<L: AesLanes, O: Output, const N: usize>(
        &self,
        lanes: L,
        constants: &Constants<L::Vector>,
        to: &mut [Block],
    ) {
        let group = PIPELINE * L::BLOCKS;
        let whole = to.len() / group * group;
        for first in (0..whole).step_by(group) {
            self.group::<L, O, N>(lanes, constants, first / N, &mut to[first..first + group]);
        }
        if whole < to.len() {
            let mut padded = [0; 4 * PIPELINE];
            self.group::<L, O, N>(lanes, constants, whole / N, &mut padded[..group]);
            let behind = to.len() - whole;
            to[whole..].copy_from_slice(&padded[..behind]);
        }
    }

    /// [`Self::blocks`] for the nodes from `first` on whose blocks fill the pipeline.
    #[inline(always)]
    fn group<L: AesLanes, O: Output, const N: usize>(
        &self,
        lanes: L,
        constants: &Constants<L::Vector>,
        first: usize,
        to: &mut [Block],
    ) {
        let sigmas = &self.sigmas[first..first + PIPELINE * L::BLOCKS / N];
        let masks = &self.masks[first..first + PIPELINE * L::BLOCKS / N];
        let patterns = N.div_ceil(L::BLOCKS);
        // Plain loops: a closure would be compiled without the caller's instruction set.
        let mut pipeline = [constants.uncorrected; PIPELINE];
        for (v, state) in pipeline.iter_mut().enumerate() {
            let sigma = lanes.repeat::<N>(&sigmas[v * L::BLOCKS / N..]);
            *state = lanes.xor(sigma, constants.first[v % patterns]);
        }
        let pipeline = encrypt(lanes, pipeline);
        for (v, (state, to)) in pipeline.into_iter().zip(to.chunks_exact_mut(L::BLOCKS)).enumerate() {
            let node = v * L::BLOCKS / N;
            let sigma = lanes.repeat::<N>(&sigmas[node..]);
            let last = lanes.xor(sigma, constants.last[v % patterns]);
            let turned = lanes.and(constants.turn[v % patterns], lanes.repeat::<N>(&masks[node..]));
            let block = match O::KIND {
                OutputKind::Bit => lanes.last_round(state, lanes.xor(last, turned)),
                output => {
                    let block = lanes.last_round(state, last);
                    let added = lanes.xor(constants.uncorrected, turned);
                    match output {
                        OutputKind::U32 => lanes.add32(block, added),
                        OutputKind::U64 => lanes.add64(block, added),
                        _ => lanes.add128(block, added),
                    }
                }
            };
            lanes.store(block, to);
        }
    }
}

/// [`Tree::expand`](super::tree::Tree::expand), to be compiled for an instruction set where it is called.
#[inline(always)]
pub(crate) fn expand<L: AesLanes>(lanes: L, nodes: &mut [Block], count: usize, level: &Level) {
    let constants = Constants::of_level(lanes, level);
    let mut prepared = Prepared::EMPTY;
    // From the last to the first: children never overwrite nodes that are still to come.
    for first in (0..count).step_by(NODES).rev() {
        let end = count.min(first + NODES);
        prepared.set(lanes, &nodes[first..end]);
        prepared.blocks::<L, Bit, 2>(lanes, &constants, &mut nodes[2 * first..2 * end]);
    }
}

/// [`Tree::leaves`](super::tree::Tree::leaves), to be compiled for an instruction set where it is called.
#[inline(always)]
pub(crate) fn leaves<L: AesLanes, O: Output>(lanes: L, nodes: &[Block], key: &Key, shares: &mut [Leaf]) {
    let constants = Constants::of_leaves::<L, O>(lanes, key);
    let mut prepared = Prepared::EMPTY;
    for (nodes, shares) in nodes.chunks(NODES).zip(shares.chunks_mut(NODES)) {
        prepared.set(lanes, nodes);
        let shares = &mut shares.as_flattened_mut()[..nodes.len() * LEAF_BLOCKS];
        prepared.blocks::<L, O, LEAF_BLOCKS>(lanes, &constants, shares);
    }
}

/// Encrypts in registers only, `rounds` times [`PIPELINE`] vectors; returns the number of blocks.
#[inline(always)]
pub(crate) fn only_encrypt<L: AesLanes>(lanes: L, rounds: u64) -> u64 {
    let keys = lanes.round_keys();
    let (first, last) = (lanes.splat(keys[0]), lanes.splat(keys[ROUNDS]));
    let mut states: [L::Vector; PIPELINE] = std::array::from_fn(|i| lanes.splat(i as Block));
    for _ in 0..rounds {
        states.iter_mut().for_each(|state| *state = lanes.xor(*state, first));
        states = encrypt(lanes, states);
        states.iter_mut().for_each(|state| *state = lanes.last_round(*state, last));
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
