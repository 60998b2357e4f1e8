//! Kernels, and their launch grids.

use cudarc::driver::sys;

/// Kernel of a device.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    pub(super) function: sys::CUfunction,
    pub(super) name: &'static str,
    /// Index into the device's record of launches; `None` if the pack does not list the kernel.
    pub(super) number: Option<usize>,
}

// SAFETY: a handle that any thread may use.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

/// Launch dimensions: blocks, threads and shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks.
    pub blocks: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory of a block.
    pub shared: usize,
}

impl Grid {
    /// Creates a grid of `blocks` blocks of `threads` threads.
    ///
    /// # Panics
    /// If there are more than 2^31 - 1 blocks.
    pub fn new(blocks: usize, threads: usize) -> Self {
        Self::cube([blocks, 1, 1], threads)
    }

    /// Creates a grid of blocks in three dimensions; x varies fastest.
    ///
    /// # Panics
    /// If there are more blocks than a grid takes: 2^31 - 1 in x, 65,535 in y and z.
    pub fn cube(blocks: [usize; 3], threads: usize) -> Self {
        let [x, y, z] = blocks;
        assert!(x < 1 << 31 && y < 1 << 16 && z < 1 << 16, "more blocks than a grid takes: {blocks:?}");
        Self { blocks: blocks.map(|n| n as u32), threads: threads as u32, shared: 0 }
    }

    /// Sets the dynamic shared memory of a block, in bytes.
    pub fn shared(self, bytes: usize) -> Self {
        Self { shared: bytes, ..self }
    }
}
