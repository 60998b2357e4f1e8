use crate::{DpfError, LEAF_BLOCKS, OutputKind, PrfKind};

/// The most points of a domain: 2^40.
pub const MAX_POINTS: u64 = 1 << 40;

/// The points of a function and what it gives at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Domain {
    points: u64,
    output: OutputKind,
}

impl Domain {
    /// Points 0 to `points - 1`; any number of them, not only powers of two.
    ///
    /// # Errors
    /// [`DpfError::Points`] unless they are 1 to [`MAX_POINTS`].
    pub fn new(points: u64, output: OutputKind) -> Result<Self, DpfError> {
        if points == 0 || points > MAX_POINTS {
            return Err(DpfError::Points(points));
        }
        Ok(Self { points, output })
    }

    /// Points.
    pub fn points(&self) -> u64 {
        self.points
    }

    /// What there is at a point.
    pub fn output(&self) -> OutputKind {
        self.output
    }

    /// Leaves that hold points: the last may hold fewer than the others.
    pub fn leaves(&self) -> u64 {
        self.points.div_ceil(self.output.per_leaf())
    }

    /// Levels of the tree: its 2^depth leaves cover all points.
    pub fn depth(&self) -> u32 {
        self.leaves().next_power_of_two().trailing_zeros()
    }

    /// Calls of a function that evaluate all points: those for two children of every inner node and those for every
    /// leaf.
    pub fn calls(&self, prf: PrfKind) -> u64 {
        let of_blocks = |blocks: u64| blocks.div_ceil(prf.blocks_per_call());
        let inner: u64 = (1..=self.depth()).map(|above| self.leaves().div_ceil(1 << above)).sum();
        inner * of_blocks(2) + self.leaves() * of_blocks(LEAF_BLOCKS as u64)
    }

    /// Bytes of a key: the party, the root, a block for each level, a bit for each level, the leaf's correction.
    pub fn key_bytes(&self) -> usize {
        let depth = self.depth() as usize;
        1 + 16 + 16 * depth + depth.div_ceil(8) + 16 * LEAF_BLOCKS
    }
}
