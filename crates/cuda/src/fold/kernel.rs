//! Choice of the kernel for a batch.

use crate::driver::Compute;

/// Implementation of `scalar_fold`. All kernels give the same answers;
/// docs/kernels/cuda-scalar-fold.md compares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarFoldKernel {
    /// Dot products of four bytes (`dp4a`); streams the matrix.
    Vector,
    /// Tensor cores, a warp at a time (`mma.sync`).
    Mma,
    /// Hopper's tensor cores, four warps at a time (`wgmma`).
    Wgmma,
}

impl ScalarFoldKernel {
    /// Chooses the kernel for a batch.
    ///
    /// A query takes 4 dot products for every 4 bytes. From the third query on, their rate would
    /// bound the scan on a device with memory as fast as an H200's. On Hopper, batches from 17
    /// queries on are padded to 32: `mma.sync` would need its peak rate for that, while `wgmma` has
    /// headroom.
    pub(crate) fn for_batch(compute: Compute, batch: usize) -> Self {
        match batch {
            0..=2 => Self::Vector,
            17.. if compute == Compute::WARPGROUPS => Self::Wgmma,
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
        let turing = Compute { major: 7, minor: 5 };
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
            assert_eq!(ScalarFoldKernel::for_batch(Compute::WARPGROUPS, batch), hopper);
            for compute in [turing, ampere, blackwell] {
                assert_eq!(ScalarFoldKernel::for_batch(compute, batch), elsewhere);
            }
        }
    }
}
