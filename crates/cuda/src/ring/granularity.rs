//! Division of a stage into one kernel or several.

/// Amount of a stage that one kernel does (GPIR, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// Single operation: a block computes one limb of a polynomial, and intermediate results are
    /// written to memory.
    Operations,
    /// The whole stage: a block computes a node or a game, and intermediate results do not go
    /// through memory. Without the shared memory for a block, the stage is computed by operations.
    Stages,
    /// Whole stages of two items: a block computes two rotations or games of a query, which share
    /// the rows of its key in shared memory. Stages for which there are no such blocks, or no room
    /// for them, are computed item by item.
    Pairs,
}

/// Memory that a stage accesses if it is computed operation by operation; the granularity depends
/// on this memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkingSet {
    /// Number of nodes or games, of all queries.
    pub items: usize,
    /// Number of blocks if each computes two items of a query; 0 if none can, or if a query has an
    /// odd number of items.
    pub pairs: usize,
    /// Bytes that each item reads and writes, intermediate results included.
    pub of_item: usize,
    /// Bytes of all keys.
    pub keys: usize,
}

impl WorkingSet {
    /// Returns the granularity for a stage, from its shape alone (GPIR, section 4.4): operations,
    /// as long as the L2 cache holds all their intermediate results. Operations are also chosen for
    /// fewer items than the device has processors, because blocks of whole items would leave
    /// processors idle. On the paper's devices, which have large caches, the first bound covers
    /// more items. Whole stages are computed in pairs if every processor gets one.
    pub(super) fn granularity(self, cache: usize, processors: usize) -> Granularity {
        let bytes = self.items.saturating_mul(self.of_item).saturating_add(self.keys);
        if bytes <= cache || self.items < processors {
            Granularity::Operations
        } else if self.pairs >= processors {
            Granularity::Pairs
        } else {
            Granularity::Stages
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_whole_where_operations_would_leave_the_cache() {
        // Node of three primes and degree 4096 with residues as digits, on an H200.
        use Granularity::{Operations, Pairs, Stages};
        let granularity = |items, pairs| {
            WorkingSet { items, pairs, of_item: 480 << 10, keys: 288 << 10 }.granularity(60 << 20, 132)
        };
        assert_eq!([1, 127, 131, 132, 1000].map(|items| granularity(items, 0)), {
            [Operations, Operations, Operations, Stages, Stages]
        });
        assert_eq!([131, 132, 262, 263].map(|items: usize| granularity(items, items.div_ceil(2))), {
            [Operations, Stages, Stages, Pairs]
        });
    }
}
