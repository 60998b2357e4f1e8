//! Kernels and how they are started.

use bytemuck::Pod;
use cudarc::driver::sys;

use super::{Buffer, View};

/// A kernel of a device.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    pub(super) function: sys::CUfunction,
    pub(super) name: &'static str,
}

// SAFETY: a handle that any thread may use.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

/// How many blocks of how many threads, with how much shared memory.
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
    /// `blocks` blocks of `threads` threads.
    ///
    /// # Panics
    /// If there are more blocks than a grid takes.
    pub fn new(blocks: usize, threads: usize) -> Self {
        Self::cube([blocks, 1, 1], threads)
    }

    /// Blocks in three dimensions, x fastest.
    ///
    /// # Panics
    /// If there are more blocks than a grid takes: 2^31 - 1 in x, 65,535 in y and z.
    pub fn cube(blocks: [usize; 3], threads: usize) -> Self {
        let [x, y, z] = blocks;
        assert!(x < 1 << 31 && y < 1 << 16 && z < 1 << 16, "more blocks than a grid takes: {blocks:?}");
        Self { blocks: blocks.map(|n| n as u32), threads: threads as u32, shared: 0 }
    }

    /// The same with `bytes` bytes of dynamic shared memory.
    pub fn shared(self, bytes: usize) -> Self {
        Self { shared: bytes, ..self }
    }
}

/// An argument of a kernel, as its bytes.
#[derive(Clone, Debug)]
pub struct Arg(pub(super) Vec<u64>);

impl Arg {
    /// A structure that a kernel takes by value; its layout is that of C.
    pub fn structure<T: Pod>(value: &T) -> Self {
        let mut words = vec![0u64; size_of::<T>().div_ceil(8)];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..size_of::<T>()]
            .copy_from_slice(bytemuck::bytes_of(value));
        Self(words)
    }
}

impl From<u32> for Arg {
    fn from(value: u32) -> Self {
        Self(vec![value.into()])
    }
}

impl From<u64> for Arg {
    fn from(value: u64) -> Self {
        Self(vec![value])
    }
}

impl<T: Pod> From<&Buffer<T>> for Arg {
    fn from(buffer: &Buffer<T>) -> Self {
        Self(vec![buffer.all().address()])
    }
}

impl<T: Pod> From<View<'_, T>> for Arg {
    fn from(view: View<'_, T>) -> Self {
        Self(vec![view.address()])
    }
}

impl<T: Pod> From<&View<'_, T>> for Arg {
    fn from(view: &View<'_, T>) -> Self {
        Self(vec![view.address()])
    }
}

/// Arguments of a launch: buffers, views, words and structures.
macro_rules! args {
    ($($arg:expr),* $(,)?) => { &[$($crate::driver::Arg::from($arg)),*] };
}
pub(crate) use args;
