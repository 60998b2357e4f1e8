//! Kernel arguments.

use bytemuck::Pod;

use super::{Buffer, View};

/// Argument of a kernel, as bytes.
#[derive(Clone, Debug)]
pub struct Arg(pub(super) Vec<u64>);

impl Arg {
    /// Wraps a structure that a kernel takes by value; `T` must have C layout.
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
