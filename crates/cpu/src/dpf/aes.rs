//! The tree of fixed-key AES, over vectors of blocks.
//!
//! `F(s, i) = E(x) + x` with `x = sigma(s + i)`, and sigma is linear: `x = sigma(s) + sigma(i)`,
//! and `sigma(i)` is i in the upper half. The values added after the cipher are x itself and, if
//! shares add by exclusive or, the correction. They go into the last round's key, which the cipher
//! adds anyway.
//!
//! A vector holds blocks of one seed or of several, in the order of the output: for example blocks
//! 0 and 1 of two seeds. Nothing is therefore rearranged after the cipher. Before the cipher, sigma
//! of a seed is read from memory once for each of its blocks, which costs no arithmetic.

use bytemuck::Pod;
use spirea_dpf::{Bit, Block, CONTROL, Key, LEAF_BLOCKS, Leaf, Level, Output, OutputKind, Party};

use crate::isa::{load, store};
use crate::prefetch::reread;

/// Rounds of AES-128.
pub(crate) const ROUNDS: usize = 10;
/// The fixed key's round keys.
pub(crate) type RoundKeys = [Block; ROUNDS + 1];
/// Vectors in the cipher's pipeline at a time, enough to hide the latency of a round.
const PIPELINE: usize = 8;
/// Nodes prepared at a time.
const NODES: usize = 32;

/// Operations on vectors of blocks, implemented by the token of an instruction set.
pub(crate) trait AesLanes: Copy + Send + Sync + 'static {
    /// Vector register.
    type Vector: Pod;
    /// Blocks of a vector: 1, 2 or 4.
    const BLOCKS: usize;

    /// Returns the round keys.
    fn round_keys(self) -> &'static RoundKeys;
    /// Returns a vector with `block` in every place.
    fn splat(self, block: Block) -> Self::Vector;
    /// Loads the first [`Self::BLOCKS`] blocks.
    #[inline(always)]
    fn load(self, blocks: &[Block]) -> Self::Vector {
        load(blocks)
    }
    /// Returns the first [`Self::BLOCKS`] blocks of the sequence in which every block is repeated N
    /// times, 2 or 4.
    #[inline(always)]
    fn repeat<const N: usize>(self, blocks: &[Block]) -> Self::Vector {
        const { assert!(N >= Self::BLOCKS, "a vector of several blocks") };
        self.splat(blocks[0])
    }
    /// Writes the first [`Self::BLOCKS`] blocks.
    #[inline(always)]
    fn store(self, vector: Self::Vector, blocks: &mut [Block]) {
        store(vector, blocks);
    }
    /// Returns the exclusive or.
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the bitwise and.
    fn and(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns sigma of each block without its control bit.
    fn sigma(self, nodes: Self::Vector) -> Self::Vector;
    /// Computes a round of the cipher.
    fn round(self, state: Self::Vector, key: Self::Vector) -> Self::Vector;
    /// Computes the last round of the cipher.
    fn last_round(self, state: Self::Vector, key: Self::Vector) -> Self::Vector;
    /// Returns the sums of 32-bit words.
    fn add32(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the sums of 64-bit words.
    fn add64(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Returns the sums of blocks. `a` and `b` have the top bits of their lower halves inverted;
    /// `not_b` is the complement of `b`.
    ///
    /// The inverted bits cancel in the sum of lower halves. This sum has a carry if a > not b,
    /// unsigned, which with inverted bits is a comparison of signed words.
    fn add128(self, a: Self::Vector, b: Self::Vector, not_b: Self::Vector) -> Self::Vector;
}

/// Runs all rounds but the last, on states to which the first key has been added.
///
/// The loop must not be unrolled. Unrolled, the compiler follows one vector through all rounds
/// before the next, to save registers, and the processor waits for each round's latency. The number
/// of rounds is therefore hidden from the compiler.
#[inline(always)]
fn encrypt<L: AesLanes>(lanes: L, mut states: [L::Vector; PIPELINE]) -> [L::Vector; PIPELINE] {
    for key in &lanes.round_keys()[1..*reread(&ROUNDS)] {
        let key = lanes.splat(*key);
        states.iter_mut().for_each(|state| *state = lanes.round(*state, key));
    }
    states
}

/// Top bit of a block's lower half: see [`AesLanes::add128`].
pub(crate) const TURNED: Block = 1 << 63;

/// Vectors by pattern, then by the control bits of their nodes; the first node's bit is the lowest.
/// They are looked up rather than masked because the vector units are the bottleneck. The bits are
/// pseudorandom for any index that a key selects.
type ByControls<V> = [[V; COMBINATIONS]; PATTERNS];

/// Constants in which the N blocks of a seed differ, as vectors: pattern p has the blocks from
/// `p * BLOCKS` on, modulo N.
struct Constants<V> {
    /// Values added before the cipher, by pattern: `sigma(i)` and the first round's key.
    first: [V; PATTERNS],
    /// Values added in the last round: `sigma(i)`, the round's key and, if shares add by exclusive
    /// or, the correction.
    last: ByControls<V>,
    /// Corrections that are added after the cipher if shares add as numbers.
    summands: ByControls<V>,
    /// Complements of the corrections, used if the numbers are whole blocks.
    complements: ByControls<V>,
}

/// Maximum number of patterns: N blocks of a seed, one in each vector.
const PATTERNS: usize = LEAF_BLOCKS;
/// Maximum number of combinations of control bits: those of two nodes in a vector.
const COMBINATIONS: usize = 4;

impl<V: Copy> Constants<V> {
    /// Returns the constants of N blocks, which are inverted if `inverted` is all ones. The blocks
    /// get the first of `corrections` if their node is not corrected, and the second if it is.
    #[inline(always)]
    fn new<L: AesLanes<Vector = V>, O: Output, const N: usize>(
        lanes: L,
        inverted: Block,
        corrections: [[Block; N]; 2],
    ) -> Self {
        let keys = lanes.round_keys();
        let zero = lanes.splat(0);
        let by_controls = [[zero; COMBINATIONS]; PATTERNS];
        let mut constants = Self {
            first: [zero; PATTERNS],
            last: by_controls,
            summands: by_controls,
            complements: by_controls,
        };
        for p in 0..patterns::<L, N>() {
            let mut first = [0; 4];
            for (lane, first) in first[..L::BLOCKS].iter_mut().enumerate() {
                *first = sigma_of_index((p * L::BLOCKS + lane) % N) ^ keys[0];
            }
            constants.first[p] = lanes.load(&first);
            for controls in 0..1 << nodes_of_vector::<L, N>() {
                let (mut last, mut summand) = ([0; 4], [0; 4]);
                for lane in 0..L::BLOCKS {
                    let i = (p * L::BLOCKS + lane) % N;
                    let correction = corrections[controls >> (lane / N) & 1][i];
                    last[lane] = sigma_of_index(i) ^ keys[ROUNDS] ^ inverted;
                    match O::KIND {
                        OutputKind::Bit => last[lane] ^= correction,
                        OutputKind::U128 => {
                            last[lane] ^= TURNED;
                            summand[lane] = correction ^ TURNED;
                        }
                        _ => summand[lane] = correction,
                    }
                }
                let summand = lanes.load(&summand);
                constants.last[p][controls] = lanes.load(&last);
                constants.summands[p][controls] = summand;
                constants.complements[p][controls] = lanes.xor(summand, lanes.splat(Block::MAX));
            }
        }
        constants
    }

    /// Returns the constants of a level: children of corrected nodes get its corrections.
    #[inline(always)]
    fn of_level<L: AesLanes<Vector = V>>(lanes: L, level: &Level) -> Self {
        Self::new::<L, Bit, 2>(lanes, 0, [[0; 2], [level.left, level.right]])
    }

    /// Returns the constants of a key's leaves. Party 0 adds the correction c if a node is
    /// corrected. Party 1 needs the negative, `-(F + t c) = not F + 1 - t c`. Its blocks are
    /// therefore inverted in the last round, and it adds 1 or 1 - c.
    #[inline(always)]
    fn of_leaves<L: AesLanes<Vector = V>, O: Output>(lanes: L, key: &Key) -> Self {
        match key.party() {
            Party::One if O::KIND != OutputKind::Bit => {
                let one = O::negate_leaf(&[Block::MAX; LEAF_BLOCKS]);
                let corrected = O::add_leaves(&one, &O::negate_leaf(key.leaf()));
                Self::new::<L, O, LEAF_BLOCKS>(lanes, Block::MAX, [one, corrected])
            }
            _ => Self::new::<L, O, LEAF_BLOCKS>(lanes, 0, [[0; LEAF_BLOCKS], *key.leaf()]),
        }
    }
}

/// Returns sigma of a block's number.
#[inline(always)]
fn sigma_of_index(i: usize) -> Block {
    (i as Block) << 64
}

/// Returns the number of vectors after which the N blocks of a seed repeat.
#[inline(always)]
fn patterns<L: AesLanes, const N: usize>() -> usize {
    N.div_ceil(L::BLOCKS)
}

/// Returns the number of nodes whose N blocks share a vector.
#[inline(always)]
fn nodes_of_vector<L: AesLanes, const N: usize>() -> usize {
    L::BLOCKS.div_ceil(N)
}

/// Runs a block of code for each vector of the pipeline, in order. A loop would be too long for the
/// compiler to unroll, and the vectors would leave their registers.
macro_rules! for_each_vector {
    ($v:ident => $body:block) => {
        for_each_vector!($v, $body, 0 1 2 3 4 5 6 7);
    };
    ($v:ident, $body:block, $($i:literal)*) => {
        const { assert!([$($i),*].len() == PIPELINE) };
        $({
            let $v = $i;
            $body
        })*
    };
}

/// Nodes in the form that the cipher takes.
#[repr(align(64))]
struct Prepared {
    /// sigma of each seed.
    sigmas: [Block; NODES],
    /// The control bit of each node.
    controls: [Block; NODES],
}

impl Prepared {
    const EMPTY: Self = Self { sigmas: [0; NODES], controls: [0; NODES] };

    /// Prepares up to [`NODES`] nodes.
    #[inline(always)]
    fn set<L: AesLanes>(&mut self, lanes: L, nodes: &[Block]) {
        let whole = nodes.len() / L::BLOCKS * L::BLOCKS;
        for first in (0..whole).step_by(L::BLOCKS) {
            self.set_vector(lanes, first, &nodes[first..]);
        }
        if whole < nodes.len() {
            let mut padded = [0; 4];
            padded[..nodes.len() - whole].copy_from_slice(&nodes[whole..]);
            self.set_vector(lanes, whole, &padded);
        }
    }

    /// Prepares the first [`AesLanes::BLOCKS`] of `nodes`, which become the nodes from number
    /// `first` on.
    #[inline(always)]
    fn set_vector<L: AesLanes>(&mut self, lanes: L, first: usize, nodes: &[Block]) {
        let nodes = lanes.load(nodes);
        lanes.store(lanes.sigma(nodes), &mut self.sigmas[first..]);
        lanes.store(lanes.and(nodes, lanes.splat(CONTROL)), &mut self.controls[first..]);
    }

    /// Writes the N blocks of each node one after another, corrected, as outputs of O.
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

    /// Computes [`Self::blocks`] for the nodes from `first` on whose blocks fill the pipeline.
    #[inline(always)]
    fn group<L: AesLanes, O: Output, const N: usize>(
        &self,
        lanes: L,
        constants: &Constants<L::Vector>,
        first: usize,
        to: &mut [Block],
    ) {
        let nodes = first..first + PIPELINE * L::BLOCKS / N;
        let (sigmas, controls) = (&self.sigmas[nodes.clone()], &self.controls[nodes]);
        let patterns = patterns::<L, N>();
        let to = &mut to[..PIPELINE * L::BLOCKS];
        // Plain loops, because a closure would be compiled without the caller's instruction set.
        let mut pipeline = [constants.first[0]; PIPELINE];
        for (v, state) in pipeline.iter_mut().enumerate() {
            let sigma = lanes.repeat::<N>(&sigmas[v * L::BLOCKS / N..]);
            *state = lanes.xor(sigma, constants.first[v % patterns]);
        }
        let pipeline = encrypt(lanes, pipeline);
        for_each_vector!(v => {
            let node = v * L::BLOCKS / N;
            // Reads one word at a time. If bits were gathered in a vector, extracting each bit
            // would cost instructions.
            let mut combination = *reread(&controls[node]) as usize;
            if nodes_of_vector::<L, N>() == 2 {
                combination |= (*reread(&controls[node + 1]) as usize) << 1;
            }
            let (pattern, controls) = (v % patterns, combination % COMBINATIONS);
            let sigma = lanes.repeat::<N>(&sigmas[node..]);
            let block = lanes.last_round(pipeline[v], lanes.xor(sigma, constants.last[pattern][controls]));
            let summand = constants.summands[pattern][controls];
            let block = match O::KIND {
                OutputKind::Bit => block,
                OutputKind::U32 => lanes.add32(block, summand),
                OutputKind::U64 => lanes.add64(block, summand),
                OutputKind::U128 => lanes.add128(block, summand, constants.complements[pattern][controls]),
            };
            lanes.store(block, &mut to[v * L::BLOCKS..]);
        });
    }
}

/// Implements [`Tree::expand`](super::tree::Tree::expand). It is inlined, so that it is compiled
/// for the caller's instruction set.
#[inline(always)]
pub(crate) fn expand<L: AesLanes>(lanes: L, nodes: &mut [Block], count: usize, level: &Level) {
    let constants = Constants::of_level(lanes, level);
    let mut prepared = Prepared::EMPTY;
    // Expands the last nodes first, so that children never overwrite nodes that are not expanded
    // yet.
    for first in (0..count).step_by(NODES).rev() {
        let end = count.min(first + NODES);
        prepared.set(lanes, &nodes[first..end]);
        prepared.blocks::<L, Bit, 2>(lanes, &constants, &mut nodes[2 * first..2 * end]);
    }
}

/// Implements [`Tree::leaves`](super::tree::Tree::leaves). It is inlined, so that it is compiled
/// for the caller's instruction set.
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

/// Implements the tree over AES lanes, with each function compiled for the lanes' instruction set.
macro_rules! aes_tree {
    ($token:ident) => {
        #[allow(unsafe_code)]
        impl $crate::dpf::tree::Tree for $token {
            fn expand(&self, nodes: &mut [Block], count: usize, level: &Level) {
                $crate::isa::enabled!(
                    $token,
                    fn compiled(lanes: $token, nodes: &mut [Block], count: usize, level: &Level) {
                        $crate::dpf::aes::expand(lanes, nodes, count, level);
                    }
                );
                // SAFETY: `self` proves the features.
                unsafe { compiled(*self, nodes, count, level) }
            }

            fn leaves(&self, nodes: &[Block], key: &Key, shares: &mut [Leaf]) {
                $crate::isa::enabled!(
                    $token,
                    fn compiled<O: Output>(lanes: $token, nodes: &[Block], key: &Key, shares: &mut [Leaf]) {
                        $crate::dpf::aes::leaves::<$token, O>(lanes, nodes, key, shares);
                    }
                );
                // SAFETY: `self` proves the features.
                unsafe { $crate::dpf::tree::with_output!(key, compiled(*self, nodes, key, shares)) }
            }

            fn only_expand(&self, rounds: u64) -> u64 {
                $crate::isa::enabled!(
                    $token,
                    fn compiled(lanes: $token, rounds: u64) -> u64 {
                        $crate::dpf::aes::only_encrypt(lanes, rounds)
                    }
                );
                // SAFETY: `self` proves the features.
                unsafe { compiled(*self, rounds) }
            }
        }
    };
}
pub(crate) use aes_tree;
