//! Values aligned to cache lines.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable};

/// A cache line.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Values aligned to a cache line, so that no vector of them crosses a line. A kernel that does
/// little work on each vector loses up to a quarter of its time to vectors that cross lines.
pub(crate) struct Aligned<T> {
    lines: Vec<Line>,
    length: usize,
    values: PhantomData<T>,
}

impl<T: Pod> Aligned<T> {
    /// Returns `length` zeros.
    pub fn zeros(length: usize) -> Self {
        let lines = (length * size_of::<T>()).div_ceil(size_of::<Line>());
        Self { lines: vec![Line::zeroed(); lines], length, values: PhantomData }
    }
}

impl<T: Pod> Deref for Aligned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &bytemuck::cast_slice(&self.lines)[..self.length]
    }
}

impl<T: Pod> DerefMut for Aligned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_begin_at_a_line_and_are_as_many_as_asked_for() {
        for length in [0, 1, 3, 4, 5, 100] {
            let mut values = Aligned::<u128>::zeros(length);
            assert_eq!((values.len(), values.as_ptr() as usize % 64), (length, 0));
            values.fill(7);
            assert!(values.iter().all(|&value| value == 7));
        }
    }
}
