//! Boundaries of buckets.

use super::{Framing, Shape, Widths};

/// Bytes of the entries in each unit.
///
/// Memory: 4 bytes for each unit.
pub struct Loads {
    units: Vec<u32>,
}

/// A table divided into buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes of a bucket's payload: as many as in the shape, unless a single unit needs more.
    pub payload_bytes: usize,
    /// The widths of the buckets.
    pub widths: Widths,
}

impl Loads {
    /// Creates `units` empty units; at least one.
    pub fn new(units: u64) -> Self {
        Self { units: vec![0; units as usize] }
    }

    /// Returns the number of units.
    pub fn units(&self) -> u64 {
        self.units.len() as u64
    }

    /// Adds an entry of `bytes` bytes to a unit.
    pub fn add(&mut self, unit: u64, bytes: usize) {
        let load = &mut self.units[unit as usize];
        *load = load.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
    }

    /// Cuts the units into buckets of `shape`, or into fewer and larger ones if there would be more
    /// than [`Framing::most_buckets`]. The buckets are filled evenly, to the smallest fill that
    /// needs no more buckets than the shape has, or without free room the fewest.
    pub fn cut(&self, shape: &Shape, framing: &Framing) -> Cut {
        let fullest = u64::from(self.units.iter().copied().max().unwrap_or(0));
        let mut most = fullest.max((shape.payload_bytes - framing.head()) as u64);
        while self.widths(most).count() > framing.most_buckets() {
            most += most.div_ceil(8);
        }
        let buckets = self.widths(most).count().max(framing.least_buckets(shape));
        // Searches for the smallest fill that suffices: `most` suffices, and fills up to `more` do
        // not.
        let (mut fill, mut more) = (most, 0);
        while fill - more > 1 {
            let middle = more.midpoint(fill);
            if self.widths(middle).count() > buckets {
                more = middle;
            } else {
                fill = middle;
            }
        }
        let widths = Widths::new(self.widths(fill).collect()).expect("they are counted, and none is 0");
        Cut { payload_bytes: framing.head() + most as usize, widths }
    }

    /// Returns the widths of buckets that hold as many units as `fill` bytes and the maximum width
    /// of 255 allow, but at least one.
    fn widths(&self, fill: u64) -> impl Iterator<Item = u8> {
        let mut rest = &self.units[..];
        std::iter::from_fn(move || {
            let (&first, others) = rest.split_first()?;
            let mut load = u64::from(first);
            let more = others.iter().take(usize::from(u8::MAX) - 1).take_while(|&&unit| {
                load += u64::from(unit);
                load <= fill
            });
            let width = 1 + more.count();
            rest = &rest[width..];
            Some(width as u8)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlaceSalt;
    use crate::keyword::{EntryPlace, TAG_BYTES};
    use crate::layout::Lengths;
    use proptest::prelude::*;

    /// Returns the units of entries with these lengths under the places of build number `build`,
    /// and their shape.
    fn keyed(lengths: &[usize], framing: &Framing, build: u8) -> (Shape, Loads) {
        let shape = Shape::choose(&lengths.iter().copied().collect::<Lengths>(), framing);
        let mut loads = Loads::new(shape.units());
        for (i, &bytes) in lengths.iter().enumerate() {
            let mut tag = [0; TAG_BYTES];
            tag[..8].copy_from_slice(&i.to_le_bytes());
            let place = EntryPlace::new(&PlaceSalt::new([build; 32]), &tag);
            loads.add(place.part(loads.units()), framing.entry(bytes));
        }
        (shape, loads)
    }

    /// Returns the bytes of each bucket when `widths` divide `loads`.
    fn filled(loads: &Loads, widths: &Widths) -> Vec<u64> {
        let ends = widths.ends();
        let starts = std::iter::once(0).chain(ends.clone());
        let bucket =
            |(start, end)| loads.units[start as usize..end as usize].iter().map(|&unit| u64::from(unit));
        starts.zip(ends).map(|bounds| bucket(bounds).sum()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_bucket_fits_its_payload_and_every_unit_is_in_one(
            lengths in proptest::collection::vec(prop_oneof![0usize..50, 0usize..5000, Just(100_000usize)], 1..800), build: u8, full: bool,
        ) {
            let framing = if full { Framing::full(|_| 0) } else { Framing::keyed(|_| 0) };
            let (shape, loads) = keyed(&lengths, &framing, build);
            let Cut { payload_bytes, widths } = loads.cut(&shape, &framing);
            prop_assert_eq!(widths.units(), loads.units());
            let buckets = filled(&loads, &widths);
            let total: usize = lengths.iter().map(|&bytes| framing.entry(bytes)).sum();
            prop_assert_eq!(buckets.iter().sum::<u64>(), total as u64);
            prop_assert!(buckets.iter().all(|&bytes| bytes <= (payload_bytes - framing.head()) as u64));
            prop_assert!(payload_bytes >= framing.entry(*lengths.iter().max().unwrap()));
            if full {
                // Two neighbouring buckets do not fit into one, unless the first has the maximum
                // width.
                let most = (payload_bytes - framing.head()) as u64;
                let wide = loads.units() / u64::from(u8::MAX);
                prop_assert!(buckets.len() as u64 <= 2 * total as u64 / most + 1 + wide);
            }
        }
    }

    #[test]
    fn more_buckets_than_a_description_holds_are_made_larger() {
        let framing = Framing::of_rows(|_| 0);
        let loads = Loads { units: vec![100; 4 * framing.most_buckets()] };
        let shape = Shape::choose(&[98].into_iter().collect(), &framing);
        let Cut { payload_bytes, widths } = loads.cut(&shape, &framing);
        assert!(
            widths.count() <= framing.most_buckets() && (400..700).contains(&payload_bytes),
            "{payload_bytes}"
        );
    }

    #[test]
    fn room_is_left_for_one_percent_of_changes() {
        let framing = Framing::keyed(|_| 0);
        let (shape, loads) = keyed(&[64; 1_000_000], &framing, 0);
        let Cut { payload_bytes, widths } = loads.cut(&shape, &framing);
        let (most, base) = ((payload_bytes - framing.head()) as u64, filled(&loads, &widths));
        let ends: Vec<_> = widths.ends().collect();
        let fits = |trial: u64| {
            let mut buckets = base.clone();
            (0..10_000).all(|i| {
                let tag = blake3::hash(&[trial, i].map(u64::to_le_bytes).concat());
                let place = EntryPlace::new(&PlaceSalt::new([0; 32]), tag.as_bytes().first_chunk().unwrap());
                let unit = place.part(loads.units());
                let bucket = &mut buckets[ends.partition_point(|&end| end <= unit)];
                *bucket += framing.entry(64) as u64;
                *bucket <= most
            })
        };
        let trials = (0..20).filter(|&trial| fits(trial)).count();
        assert_eq!(trials, 20);
    }
}
