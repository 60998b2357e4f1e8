//! Linear memory, and the marks of its bytes.

use crate::marked::Marked;

/// Bytes of a page.
const PAGE: usize = 65536;
/// Maximum number of pages with addresses of 32 bits.
const MOST_PAGES: usize = 65536;

/// An access outside the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an access of {length} bytes at {start} is outside the memory")]
pub struct OutOfBounds {
    start: usize,
    length: usize,
}

/// A memory.
#[derive(Default)]
pub struct Memory {
    bytes: Vec<u8>,
    marks: Vec<u8>,
}

impl Memory {
    /// Creates a memory of `pages` pages.
    pub fn new(pages: usize) -> Self {
        Self { bytes: vec![0; pages * PAGE], marks: vec![0; pages * PAGE] }
    }

    /// Returns the size in pages.
    pub fn pages(&self) -> usize {
        self.bytes.len() / PAGE
    }

    /// Adds pages; returns false if there would be too many.
    pub fn grow(&mut self, pages: usize) -> bool {
        let pages = self.pages() + pages;
        let fits = pages <= MOST_PAGES;
        if fits {
            self.bytes.resize(pages * PAGE, 0);
            self.marks.resize(pages * PAGE, 0);
        }
        fits
    }

    fn check(&self, start: usize, length: usize) -> Result<std::ops::Range<usize>, OutOfBounds> {
        let end = start.checked_add(length).filter(|&end| end <= self.bytes.len());
        end.map(|end| start..end).ok_or(OutOfBounds { start, length })
    }

    /// Returns bytes and their marks.
    ///
    /// # Errors
    /// [`OutOfBounds`]
    pub fn read(&self, start: usize, length: usize) -> Result<(&[u8], &[u8]), OutOfBounds> {
        let range = self.check(start, length)?;
        Ok((&self.bytes[range.clone()], &self.marks[range]))
    }

    /// Writes bytes with equally many marks.
    ///
    /// # Errors
    /// [`OutOfBounds`]
    pub fn write(&mut self, start: usize, bytes: &[u8], marks: &[u8]) -> Result<(), OutOfBounds> {
        let range = self.check(start, bytes.len())?;
        self.bytes[range.clone()].copy_from_slice(bytes);
        self.marks[range].copy_from_slice(marks);
        Ok(())
    }

    /// Removes the marks.
    ///
    /// # Errors
    /// [`OutOfBounds`]
    pub fn unmark(&mut self, start: usize, length: usize) -> Result<(), OutOfBounds> {
        let range = self.check(start, length)?;
        self.marks[range].fill(0);
        Ok(())
    }

    /// Loads a number of `length` bytes, at most 16, little-endian.
    ///
    /// # Errors
    /// [`OutOfBounds`]
    pub fn load(&self, start: usize, length: usize) -> Result<Marked, OutOfBounds> {
        let (bytes, marks) = self.read(start, length)?;
        Ok(Marked { value: number(bytes), marks: number(marks) })
    }

    /// Stores the lowest `length` bytes of a number, at most 16.
    ///
    /// # Errors
    /// [`OutOfBounds`]
    pub fn store(&mut self, start: usize, length: usize, word: Marked) -> Result<(), OutOfBounds> {
        let range = self.check(start, length)?;
        self.bytes[range.clone()].copy_from_slice(&word.value.to_le_bytes()[..length]);
        self.marks[range].copy_from_slice(&word.marks.to_le_bytes()[..length]);
        Ok(())
    }

    /// Copies bytes with their marks; the ranges may overlap.
    ///
    /// # Errors
    /// [`OutOfBounds`]
    pub fn copy(&mut self, to: usize, from: usize, length: usize) -> Result<(), OutOfBounds> {
        let from = self.check(from, length)?;
        self.check(to, length)?;
        self.bytes.copy_within(from.clone(), to);
        self.marks.copy_within(from, to);
        Ok(())
    }

    /// Fills bytes with the lowest byte of a number.
    ///
    /// # Errors
    /// [`OutOfBounds`]
    pub fn fill(&mut self, start: usize, length: usize, word: Marked) -> Result<(), OutOfBounds> {
        let range = self.check(start, length)?;
        self.bytes[range.clone()].fill(word.value as u8);
        self.marks[range].fill(word.marks as u8);
        Ok(())
    }
}

fn number(bytes: &[u8]) -> u128 {
    let mut word = [0; 16];
    word[..bytes.len()].copy_from_slice(bytes);
    u128::from_le_bytes(word)
}
