//! Division of a batch into blocks. All functions are pure: they depend only on the shape of the
//! batch and on the device's properties.

use spirea_backend::{BackendError, RowLayout};
use spirea_dpf::{Domain, OutputKind};

use super::functions::Functions;
use crate::driver::{Compute, Properties};

/// Threads of a block, `THREADS` of `share_tree.cuh`.
pub(super) const THREADS: usize = 256;
/// Bytes of a node.
const NODE: usize = 16;
/// Bytes of one level of nodes for all threads.
const STACK_LEVEL: usize = THREADS * NODE;
/// Maximum size of the shares of a tile, in bytes.
const TILE_SHARES: usize = 24 << 10;
/// Minimum number of keys for which tensor cores multiply the keys' bits by rows. On an H100, 8
/// keys are faster without tensor cores, and 32 keys are faster with them. Numbers in between were
/// not measured.
const TENSOR_KEYS: usize = 12;
/// Number of keys in a product on tensor cores (`PRODUCT_KEYS` of `share_bits.cuh`), and maximum
/// number of keys in a group.
const PRODUCT_KEYS: usize = 16;
const TENSOR_GROUP: usize = 4 * PRODUCT_KEYS;
/// Words of a row in a block of the products on tensor cores.
const TENSOR_WORDS: usize = 64;
/// Number of blocks of a fold for each processor, which computes two blocks at a time in two
/// rounds.
const BLOCKS_PER_PROCESSOR: usize = 4;
/// Maximum height of a thread's subtree: computing its root costs 1/256 of the subtree.
const MAX_HEIGHT: u32 = 8;
/// Maximum size of the tops of all keys' trees, in bytes.
const TOPS_BYTES: usize = 64 << 20;
/// Maximum number of blocks in the first dimension of a grid.
const MAX_BLOCKS: u64 = (1 << 31) - 1;

/// Division of the tops of trees among blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tops {
    /// A block for each key.
    Apart,
    /// All blocks for all keys, in a cooperative launch with a barrier after each level (GPU-DPF
    /// section III-C, optimization 4).
    Together,
}

impl Tops {
    /// Chooses `Together` if there are fewer keys than processors and levels have more nodes than a
    /// block has threads.
    pub(super) fn of(keys: usize, top: u32, processors: usize) -> Self {
        if keys < processors && 1 << top > THREADS { Self::Together } else { Self::Apart }
    }
}

/// Returns true if the tensor cores of a device count ones that two words have in common: compute
/// capabilities 8.0 to 9.0. (Turing's count ones in which two words differ.)
pub fn multiplies_bits(compute: Compute) -> bool {
    (8..10).contains(&compute.major)
}

/// Properties of a device and a function that plans depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    /// Multiprocessors.
    pub processors: usize,
    /// Bytes of shared memory that a block may have.
    pub shared: usize,
    /// Bytes of shared memory that the function's tables take.
    pub tables: usize,
    /// Maximum number of keys of a group.
    pub group_keys: usize,
    /// True if tensor cores multiply bits.
    pub multiplies_bits: bool,
}

impl Machine {
    pub(super) fn new(properties: &Properties, functions: &Functions) -> Self {
        Self {
            processors: properties.processors.max(1) as usize,
            shared: properties.shared_bytes,
            tables: functions.tables(properties.compute),
            group_keys: functions.group_keys,
            multiplies_bits: multiplies_bits(properties.compute),
        }
    }

    /// Returns the maximum height of subtrees whose stacks fit in shared memory in addition to
    /// `room` bytes. If two blocks have room for the tables and `room`, they share a processor. (A
    /// block takes 1 KiB more than it asks for.)
    fn max_height(self, room: usize) -> u32 {
        let fixed = self.tables + room;
        let half = (self.shared + 1024) / 2 - 1024;
        let limit = if fixed <= half { half } else { self.shared };
        ((limit.saturating_sub(fixed) / STACK_LEVEL) as u32).min(MAX_HEIGHT)
    }

    /// Returns the bytes of shared memory of a block with stacks of `height` nodes and `room`
    /// bytes.
    fn block_bytes(self, height: u32, room: usize) -> usize {
        self.tables + height as usize * STACK_LEVEL + room
    }
}

/// Returns the levels in the tops of `keys` trees, which have `levels` levels above the threads'
/// subtrees: all levels, if [`TOPS_BYTES`] allows. Below the top each thread continues alone.
fn top(keys: usize, levels: u32) -> u32 {
    (TOPS_BYTES / (2 * NODE * keys)).max(1).ilog2().min(levels)
}

/// Kernel that multiplies rows by shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Products {
    /// Kernel of `share_fold.cuh`: each thread adds lanes of rows.
    Lanes,
    /// Kernel of `share_bits.cuh`, for bits and rows of whole words: tensor cores count ones.
    TensorCores,
}

impl Products {
    /// Chooses the kernel for `keys` keys.
    fn of(machine: Machine, output: OutputKind, layout: RowLayout, keys: usize) -> Self {
        let whole_words = layout.row_bytes().is_multiple_of(4);
        if machine.multiplies_bits && output == OutputKind::Bit && whole_words && keys >= TENSOR_KEYS {
            Self::TensorCores
        } else {
            Self::Lanes
        }
    }

    /// Returns the bytes that the shares of a leaf take in a tile for a group of keys: `put` in
    /// `share_rows.cuh` and `share_bits.cuh`.
    fn leaf_bytes(self, output: OutputKind, group: usize) -> usize {
        let stride = if group == 1 { 1 } else { group.next_multiple_of(4) };
        match (self, output) {
            (Self::TensorCores, _) => 20 * 4 * group.next_multiple_of(PRODUCT_KEYS),
            (Self::Lanes, OutputKind::Bit) if group == 1 => 17 * 4,
            (Self::Lanes, OutputKind::Bit) => 256 * 4,
            (Self::Lanes, OutputKind::U32) => 17 * 4 * stride,
            (Self::Lanes, _) => 9 * 8 * stride,
        }
    }
}

/// Division of a fold into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoldPlan {
    /// Kernel that multiplies.
    pub products: Products,
    /// Keys of a group.
    pub group: usize,
    /// Number of groups.
    pub groups: usize,
    /// Height of a thread's subtree.
    pub height: u32,
    /// Subtrees of a block, for each key of the group.
    pub subtrees: usize,
    /// Number of blocks for each combination of a group of keys, a part of the rows, and one of
    /// `columns`.
    pub pieces: usize,
    /// Parts of a row that have blocks of their own.
    pub columns: usize,
    /// Levels of the tops.
    pub top: u32,
    /// Bytes of shared memory of a block.
    pub shared: usize,
}

impl FoldPlan {
    pub(super) fn new(
        machine: Machine,
        domain: Domain,
        layout: RowLayout,
        keys: usize,
    ) -> Result<Self, BackendError> {
        let products = Products::of(machine, domain.output(), layout, keys);
        let (most_keys, columns) = match products {
            Products::Lanes => (machine.group_keys, 1),
            Products::TensorCores => (TENSOR_GROUP, layout.row_bytes().div_ceil(4 * TENSOR_WORDS)),
        };
        let groups = keys.div_ceil(most_keys);
        let group = keys.div_ceil(groups);
        let leaf_bytes = products.leaf_bytes(domain.output(), group);
        // Bytes of sums in shared memory, in addition to the shares.
        let sums = match products {
            Products::Lanes => 0,
            Products::TensorCores => group.div_ceil(PRODUCT_KEYS) * THREADS * NODE,
        };
        // One subtree for each thread, limited by the room for the subtrees' shares.
        let shares = TILE_SHARES.min(machine.shared.saturating_sub(machine.tables + sums));
        let most = (THREADS / group).min(shares / leaf_bytes).max(1);
        let others = groups.saturating_mul(layout.parts()).saturating_mul(columns);
        let wanted = (BLOCKS_PER_PROCESSOR * machine.processors).div_ceil(others);
        let leaves = domain.leaves() as usize;
        let of_block = leaves.div_ceil(wanted);
        let subtrees = most.min(of_block);
        let room = match products {
            Products::Lanes => (subtrees * leaf_bytes).max(THREADS * NODE * group.min(4)),
            Products::TensorCores => subtrees * leaf_bytes + sums,
        };
        let height = (of_block / subtrees).ilog2().min(machine.max_height(room));
        let pieces = leaves.div_ceil(1 << height).div_ceil(subtrees);
        if (pieces * groups) as u64 > MAX_BLOCKS {
            return Err(BackendError::Shape("a domain of more leaves than a device folds".into()));
        }
        Ok(Self {
            products,
            group,
            groups,
            height,
            subtrees,
            pieces,
            columns,
            top: top(keys, domain.depth() - height),
            shared: machine.block_bytes(height, room),
        })
    }

    /// Returns this plan with fewer levels in the tops if the tops of `keys` trees would not fit at
    /// once.
    pub(super) fn with_keys(self, keys: usize) -> Self {
        Self { top: top(keys, self.top), ..self }
    }
}

/// Division of an evaluation into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EvaluationPlan {
    /// Height of a thread's subtree.
    pub height: u32,
    /// Number of blocks for a key.
    pub blocks: usize,
    /// Levels of the tops.
    pub top: u32,
    /// Bytes of shared memory of a block.
    pub shared: usize,
}

impl EvaluationPlan {
    pub(super) fn new(machine: Machine, domain: Domain, keys: usize) -> Result<Self, BackendError> {
        let threads = (BLOCKS_PER_PROCESSOR * machine.processors * THREADS) as u64;
        let of_thread = (domain.leaves() * keys as u64 / threads).max(1);
        let height = of_thread.ilog2().min(machine.max_height(0)).min(domain.depth());
        let blocks = domain.leaves().div_ceil(1 << height).div_ceil(THREADS as u64);
        if blocks > MAX_BLOCKS {
            return Err(BackendError::Shape("a domain of more leaves than a device evaluates".into()));
        }
        Ok(Self {
            height,
            blocks: blocks as usize,
            top: top(keys, domain.depth() - height),
            shared: machine.block_bytes(height, 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of shared memory of compute capabilities 9.0, 8.0, 8.6 and 7.5.
    const SHARED: [usize; 4] = [227 << 10, 163 << 10, 99 << 10, 64 << 10];

    fn machines() -> impl Iterator<Item = Machine> {
        let of = |shared| {
            let aes = if shared == SHARED[3] { 32768 } else { 65536 };
            [(0, 12, true), (0, 16, false), (aes, 16, true)].map(|(tables, group_keys, multiplies_bits)| {
                Machine { processors: 132, shared, tables, group_keys, multiplies_bits }
            })
        };
        SHARED.into_iter().flat_map(of)
    }

    #[test]
    fn folds_fit_their_device_and_cover_their_domain() {
        let layout = RowLayout::new(1 << 26, 8, 3).unwrap();
        for machine in machines() {
            for output in [OutputKind::Bit, OutputKind::U32, OutputKind::U64] {
                for points in [1, 100, 5000, 1 << 20, (1 << 26) - 1] {
                    let domain = Domain::new(points, output).unwrap();
                    for keys in 1..=512 {
                        let plan = FoldPlan::new(machine, domain, layout, keys).unwrap();
                        let context = format!("{machine:?}, {domain:?}, {keys} keys: {plan:?}");
                        assert!(plan.shared <= machine.shared, "{context}");
                        assert!(
                            plan.group * plan.subtrees <= THREADS
                                && plan.group <= machine.group_keys.max(TENSOR_GROUP),
                            "{context}"
                        );
                        assert!(plan.group * plan.groups >= keys, "{context}");
                        assert!(plan.group * (plan.groups - 1) < keys, "{context}");
                        assert!(
                            (plan.pieces * plan.subtrees) << plan.height >= domain.leaves() as usize,
                            "{context}"
                        );
                        assert!(plan.top + plan.height <= domain.depth(), "{context}");
                        assert!((keys * (NODE * 2)) << plan.top <= TOPS_BYTES, "{context}");
                    }
                }
            }
        }
    }

    #[test]
    fn evaluations_fit_their_device_and_cover_their_domain() {
        for machine in machines() {
            for points in [1, 5000, 1 << 20, 1 << 30] {
                let domain = Domain::new(points, OutputKind::U128).unwrap();
                for keys in [1, 2, 64, 512] {
                    let plan = EvaluationPlan::new(machine, domain, keys).unwrap();
                    let context = format!("{machine:?}, {domain:?}, {keys} keys: {plan:?}");
                    assert!(plan.shared <= machine.shared, "{context}");
                    assert!(((plan.blocks * THREADS) as u64) << plan.height >= domain.leaves(), "{context}");
                    assert!(plan.top + plan.height <= domain.depth(), "{context}");
                }
            }
        }
    }

    #[test]
    fn a_domain_without_end_is_refused() {
        let machine =
            Machine { processors: 1, shared: 99 << 10, tables: 0, group_keys: 16, multiplies_bits: true };
        let domain = Domain::new(1 << 40, OutputKind::U64).unwrap();
        let layout = RowLayout::new(1 << 41, 8, 1).unwrap();
        assert!(matches!(FoldPlan::new(machine, domain, layout, 512), Err(BackendError::Shape(_))));
    }

    #[test]
    fn few_keys_of_large_trees_are_expanded_together() {
        assert_eq!(Tops::of(1, 9, 132), Tops::Together);
        assert_eq!(Tops::of(1, 8, 132), Tops::Apart);
        assert_eq!(Tops::of(132, 12, 132), Tops::Apart);
    }
}
