//! Reused memory: the system clears every page that it hands out, which takes as long as a good
//! part of an expansion.

use std::ops::{Deref, DerefMut};

use parking_lot::{Mutex, MutexGuard};

/// Words of a cache line.
const LINE: usize = 16;

/// Buffers that wait for reuse, never more than were lent at one time.
#[derive(Debug, Default)]
pub struct Memory(Mutex<Vec<Vec<u32>>>);

/// Lent words, which begin at a cache line.
#[derive(Debug)]
pub struct Words<'a> {
    memory: &'a Memory,
    buffer: Vec<u32>,
    start: usize,
    length: usize,
}

impl Memory {
    /// Lends words with arbitrary content.
    pub fn words(&self, length: usize) -> Words<'_> {
        let mut buffer = self.take(length + LINE);
        if buffer.len() < length + LINE {
            // Clearing first avoids copying the former content when the buffer grows.
            buffer.clear();
            buffer.resize(length + LINE, 0);
        }
        let start = buffer.as_ptr().align_offset(LINE * size_of::<u32>()).min(LINE);
        Words { memory: self, buffer, start, length }
    }

    /// Takes the smallest buffer of at least `length` words, or else the largest one.
    fn take(&self, length: usize) -> Vec<u32> {
        let mut kept = self.kept();
        let fitting = (0..kept.len()).filter(|&i| kept[i].len() >= length).min_by_key(|&i| kept[i].len());
        let place = fitting.or_else(|| (0..kept.len()).max_by_key(|&i| kept[i].len()));
        place.map(|place| kept.swap_remove(place)).unwrap_or_default()
    }

    // No code panics while it holds the lock.
    fn kept(&self) -> MutexGuard<'_, Vec<Vec<u32>>> {
        self.0.lock()
    }
}

impl Drop for Words<'_> {
    fn drop(&mut self) {
        self.memory.kept().push(std::mem::take(&mut self.buffer));
    }
}

impl Deref for Words<'_> {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.buffer[self.start..][..self.length]
    }
}

impl DerefMut for Words<'_> {
    fn deref_mut(&mut self) -> &mut [u32] {
        &mut self.buffer[self.start..][..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again() {
        let memory = Memory::default();
        let lengths = |memory: &Memory| -> Vec<usize> {
            let mut lengths: Vec<usize> = memory.kept().iter().map(|buffer| buffer.len() - LINE).collect();
            lengths.sort_unstable();
            lengths
        };
        let (mut large, small) = (memory.words(1000), memory.words(10));
        large.fill(7);
        assert_eq!((large.len(), small.len(), lengths(&memory)), (1000, 10, vec![]));
        drop((large, small));
        assert_eq!(lengths(&memory), [10, 1000]);
        // Lends the smallest buffer that fits. If none fits, a larger buffer replaces the largest
        // one.
        assert_eq!((memory.words(5).len(), memory.words(900).len()), (5, 900));
        assert_eq!(lengths(&memory), [10, 1000]);
        drop(memory.words(5000));
        assert_eq!(lengths(&memory), [10, 5000]);
    }
}
