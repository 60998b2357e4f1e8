use crate::{DpfError, LEAF_BLOCKS, OutputKind, PrfKind};

/// Maximum number of points of a domain: 2^40.
pub const MAX_POINTS: u64 = 1 << 40;

/// Points of a function, and the kind of its output at each point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Domain {
    points: u64,
    output: OutputKind,
}

impl Domain {
    /// Returns the domain of points 0 to `points - 1`; `points` need not be a power of two.
    ///
    /// # Errors
    /// [`DpfError::Points`] unless `points` is 1 to [`MAX_POINTS`].
    pub fn new(points: u64, output: OutputKind) -> Result<Self, DpfError> {
        if points == 0 || points > MAX_POINTS {
            return Err(DpfError::Points(points));
        }
        Ok(Self { points, output })
    }

    /// Returns the number of points.
    pub fn points(&self) -> u64 {
        self.points
    }

    /// Returns the kind of output at a point.
    pub fn output(&self) -> OutputKind {
        self.output
    }

    /// Returns the number of leaves that hold points; the last leaf may hold fewer points than the
    /// others.
    pub fn leaves(&self) -> u64 {
        self.points.div_ceil(self.output.per_leaf())
    }

    /// Returns the number of levels of the tree, whose 2^depth leaves cover all points.
    pub fn depth(&self) -> u32 {
        self.leaves().next_power_of_two().trailing_zeros()
    }

    /// Returns the number of calls of a function that evaluate all points: those for two children
    /// of every inner node and those for every leaf.
    pub fn calls(&self, prf: PrfKind) -> u64 {
        let of_blocks = |blocks: u64| blocks.div_ceil(prf.blocks_per_call());
        let inner: u64 = (1..=self.depth()).map(|above| self.leaves().div_ceil(1 << above)).sum();
        inner * of_blocks(2) + self.leaves() * of_blocks(LEAF_BLOCKS as u64)
    }

    /// Returns the number of bytes of a key: the party, the root, a block for each level, a bit for
    /// each level, the leaf's correction.
    pub fn key_bytes(&self) -> usize {
        let depth = self.depth() as usize;
        1 + 16 + 16 * depth + depth.div_ceil(8) + 16 * LEAF_BLOCKS
    }
}
