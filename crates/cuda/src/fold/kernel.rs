//! Which kernel serves which batch.

use crate::driver::Compute;

/// A way to do `scalar_fold`. All give the same answers; docs/kernels/cuda-scalar-fold.md compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarFoldKernel {
    /// Dot products of four bytes (`dp4a`), the matrix streaming past.
    Vector,
    /// Tensor cores, a warp at a time (`mma.sync`).
    Mma,
    /// Hopper's tensor cores, four warps at a time (`wgmma`).
    Wgmma,
}

/// The compute capability whose tensor cores take products of a warpgroup.
const WARPGROUPS: Compute = Compute { major: 9, minor: 0 };

impl ScalarFoldKernel {
    /// The kernel for a batch.
    ///
    /// A query takes 4 dot products for each 4 bytes: from the third query on, these would bound the scan of a
    /// device with a memory as fast as an H200's. From 17 queries on, padding to 32 and `mma.sync` would take all of
    /// Hopper's rate for it, where `wgmma` has room.
    pub(crate) fn for_batch(compute: Compute, batch: usize) -> Self {
        match batch {
            0..=2 => Self::Vector,
            17.. if compute == WARPGROUPS => Self::Wgmma,
            _ => Self::Mma,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_batches_stream_and_large_ones_multiply() {
        use ScalarFoldKernel::{Mma, Vector, Wgmma};
        let ampere = Compute { major: 8, minor: 6 };
        let blackwell = Compute { major: 10, minor: 0 };
        for (batch, elsewhere, hopper) in [
            (1, Vector, Vector),
            (2, Vector, Vector),
            (3, Mma, Mma),
            (16, Mma, Mma),
            (17, Mma, Wgmma),
            (256, Mma, Wgmma),
        ] {
            assert_eq!(ScalarFoldKernel::for_batch(WARPGROUPS, batch), hopper);
            assert_eq!(ScalarFoldKernel::for_batch(ampere, batch), elsewhere);
            assert_eq!(ScalarFoldKernel::for_batch(blackwell, batch), elsewhere);
        }
    }
}
