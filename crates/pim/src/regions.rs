//! Allocator for the part of MRAM that holds tables, the same in every DPU.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

/// Places in use, in order, within the bytes from `first` to `end`.
#[derive(Debug)]
struct Taken {
    places: Vec<(usize, usize)>,
    first: usize,
    end: usize,
}

/// Memory of every DPU, allocated in regions.
#[derive(Clone, Debug)]
pub(crate) struct Regions(Arc<Mutex<Taken>>);

/// Bytes at the same place of every DPU, freed when dropped.
#[derive(Debug)]
pub(crate) struct Region {
    /// Place of the first byte.
    pub offset: usize,
    regions: Regions,
}

impl Regions {
    /// Manages the bytes `first` to `end - 1`, all free; both must be multiples of 8.
    pub fn new(first: usize, end: usize) -> Self {
        Self(Arc::new(Mutex::new(Taken { places: Vec::new(), first, end })))
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock()
    }

    /// Allocates `bytes` bytes, a multiple of 8, at the first place with room; returns `None` if
    /// there is none.
    pub fn take(&self, bytes: usize) -> Option<Region> {
        let mut taken = self.taken();
        let gaps = gaps(&taken);
        let &(offset, _) = gaps.iter().find(|(_, room)| *room >= bytes)?;
        let place = taken.places.partition_point(|&(start, _)| start < offset);
        taken.places.insert(place, (offset, bytes));
        Some(Region { offset, regions: self.clone() })
    }

    /// Returns the largest number of bytes that can be allocated.
    pub fn largest(&self) -> usize {
        gaps(&self.taken()).into_iter().map(|(_, room)| room).max().unwrap_or_default()
    }
}

/// Returns the free places, with their numbers of bytes.
fn gaps(taken: &Taken) -> Vec<(usize, usize)> {
    let ends = taken.places.iter().map(|&(start, bytes)| start + bytes);
    let starts = taken.places.iter().map(|&(start, _)| start).chain([taken.end]);
    let pairs = std::iter::once(taken.first).chain(ends).zip(starts);
    pairs.map(|(end, start)| (end, start - end)).filter(|&(_, room)| room > 0).collect()
}

impl Drop for Region {
    fn drop(&mut self) {
        self.regions.taken().places.retain(|&(start, _)| start != self.offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_apart_and_given_back() {
        let regions = Regions::new(64, 264);
        assert_eq!(regions.largest(), 200);
        let [first, second, third] = [80, 40, 80].map(|bytes| regions.take(bytes).unwrap());
        assert_eq!([first.offset, second.offset, third.offset], [64, 144, 184]);
        assert!(regions.take(8).is_none() && regions.largest() == 0);
        drop(second);
        assert!(regions.take(48).is_none());
        let again = regions.take(24).unwrap();
        assert_eq!((again.offset, regions.largest()), (144, 16));
        drop(first);
        drop(again);
        assert_eq!(regions.take(120).unwrap().offset, 64);
        drop(third);
        assert_eq!(regions.largest(), 200);
    }
}
