//! Whether a stage is one kernel or several.

/// How much of a stage one kernel does (GPIR, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// An operation: a block is a limb of a polynomial, and what goes between operations is written to memory.
    Operations,
    /// All of it: a block is a node or a game, and nothing goes through memory.
    Stages,
}

/// What decides between granularities: bytes of a stage done by operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkingSet {
    /// Nodes or games, of all queries.
    pub items: usize,
    /// Bytes that one reads and writes, intermediate results included.
    pub of_item: usize,
    /// Bytes of all keys.
    pub keys: usize,
}

impl WorkingSet {
    /// The granularity for a stage, from its shape alone (GPIR, section 4.4): operations as long as the second-level
    /// cache holds everything that they hand on. They are also chosen for fewer items than the device has
    /// processors, which blocks of whole items would leave idle; the paper's devices, with large caches, reach the
    /// first bound later.
    pub(super) fn granularity(self, cache: usize, processors: usize) -> Granularity {
        let bytes = self.items.saturating_mul(self.of_item).saturating_add(self.keys);
        if bytes <= cache || self.items < processors { Granularity::Operations } else { Granularity::Stages }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_whole_where_operations_would_leave_the_cache() {
        // A node of three primes and degree 4096 with residues as digits; an H200.
        let granularity =
            |items| WorkingSet { items, of_item: 480 << 10, keys: 288 << 10 }.granularity(60 << 20, 132);
        assert_eq!([1, 127, 131, 132, 1000].map(granularity), {
            use Granularity::{Operations, Stages};
            [Operations, Operations, Operations, Stages, Stages]
        });
    }
}
