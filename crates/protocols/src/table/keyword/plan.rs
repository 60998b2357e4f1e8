//! How many buckets a table gets.

use super::{Bucket, EntryPlace};

/// The most that a table may grow by padding.
pub const MAX_PADDING: f64 = 3.0;

/// A number of buckets and their size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BucketPlan {
    /// Number of buckets.
    pub buckets: u64,
    /// Bytes of a bucket's payload: those of the fullest one.
    pub payload_bytes: usize,
    /// Bytes of all buckets over bytes of all entries.
    pub padding: f64,
    /// What a look-up costs, by which plans for the same entries are compared.
    pub cost: f64,
}

/// Every number of buckets pads the table more than [`MAX_PADDING`] times: the best there was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overpadded(pub BucketPlan);

/// Counts entries by place, at the finest number of buckets that could be of use, and then chooses.
///
/// Memory: 4 bytes for each of the finest buckets, at most one for each entry.
pub struct BucketPlanner {
    loads: Vec<u32>,
    entry_bytes: u64,
    entries: u64,
    largest_entry: usize,
    proof_bytes: fn(u64) -> usize,
}

impl BucketPlanner {
    /// The average load in bytes up to which a bucket is an answer of modest size for any table.
    const MODEST_LOAD: f64 = 65536.0;
    /// The average load up to which buckets of large entries may grow, in entries.
    const LARGE_ENTRIES: f64 = 16.0;
    /// What a byte of a bucket costs a client, in bytes that a server scans: to decode it, a client reads
    /// 5 KiB of hint, and its memory is counted four times as dear.
    const CLIENT_COST: f64 = 4.0 * 5120.0;

    /// A planner for `entries` entries, whose buckets carry `proof_bytes` of so many of them beside their payloads.
    pub fn new(entries: u64, proof_bytes: fn(u64) -> usize) -> Self {
        let finest = entries.clamp(1, 1 << 32).next_power_of_two();
        Self { loads: vec![0; finest as usize], entry_bytes: 0, entries: 0, largest_entry: 0, proof_bytes }
    }

    /// Counts an entry of `entry_bytes` bytes.
    pub fn add(&mut self, place: EntryPlace, entry_bytes: usize) {
        let bucket = place.bucket(self.loads.len() as u64) as usize;
        let load = &mut self.loads[bucket];
        *load = load.saturating_add(u32::try_from(entry_bytes).unwrap_or(u32::MAX));
        self.entry_bytes += entry_bytes as u64;
        self.entries += 1;
        self.largest_entry = self.largest_entry.max(entry_bytes);
    }

    /// Bytes of all entries.
    pub fn entry_bytes(&self) -> u64 {
        self.entry_bytes
    }

    /// The number of buckets, a power of two, that costs a look-up the least, among those that pad the
    /// table at most [`MAX_PADDING`] times and whose average bucket is no larger than what the entries'
    /// size calls for: outliers shall not make every answer large.
    ///
    /// # Errors
    /// [`Overpadded`] with the least padding if there is none.
    pub fn choose(mut self) -> Result<BucketPlan, Overpadded> {
        let mean_entry = self.entry_bytes as f64 / self.entries.max(1) as f64;
        let largest_load = Self::MODEST_LOAD.max(Self::LARGE_ENTRIES * mean_entry);
        let (mut cheapest, mut least_padded) = (None::<BucketPlan>, None::<BucketPlan>);
        loop {
            let buckets = self.loads.len() as u64;
            let fullest = self.loads.iter().copied().max().unwrap_or(0);
            let within_load = self.entry_bytes as f64 / buckets as f64 <= largest_load;
            if !within_load && least_padded.is_some() {
                break;
            }
            // A load that saturated is no plan; merging saturates again, so coarser ones are none either.
            if fullest < u32::MAX {
                let payload_bytes = fullest as usize + Bucket::COUNT_BYTES;
                let padding = buckets as f64 * payload_bytes as f64 / self.entry_bytes.max(1) as f64;
                let record_bytes = (payload_bytes + (self.proof_bytes)(buckets)) as f64;
                let cost = (buckets as f64 + Self::CLIENT_COST) * record_bytes;
                let plan = BucketPlan { buckets, payload_bytes, padding, cost };
                if least_padded.is_none_or(|least| plan.padding < least.padding) {
                    least_padded = Some(plan);
                }
                // A table of one bucket is as small as it gets, whatever its count and rounding add.
                let fits = plan.padding <= MAX_PADDING || buckets == 1;
                if fits && cheapest.is_none_or(|least| plan.cost < least.cost) {
                    cheapest = Some(plan);
                }
            }
            if buckets == 1 {
                break;
            }
            self.loads = self.loads.chunks_exact(2).map(|pair| pair[0].saturating_add(pair[1])).collect();
        }
        match (cheapest, least_padded) {
            (Some(plan), _) => Ok(plan),
            (None, Some(plan)) => Err(Overpadded(plan)),
            (None, None) => {
                let (payload_bytes, padding, cost) = (usize::MAX, f64::INFINITY, f64::INFINITY);
                Err(Overpadded(BucketPlan { buckets: 1, payload_bytes, padding, cost }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyword::{TAG_BYTES, entry_bytes};
    use crate::proof::Proofs;

    /// The place of entry `i`.
    fn place(i: usize) -> EntryPlace {
        let mut tag = [0; TAG_BYTES];
        tag[..8].copy_from_slice(&i.to_le_bytes());
        EntryPlace::new(&[1; 32], &tag)
    }

    fn planner(sizes: impl ExactSizeIterator<Item = usize>) -> BucketPlanner {
        let mut planner = BucketPlanner::new(sizes.len() as u64, |_| 0);
        for (i, size) in sizes.enumerate() {
            planner.add(place(i), entry_bytes(size));
        }
        planner
    }

    #[test]
    fn tables_of_even_sizes_are_padded_modestly() {
        for (entries, size) in [(1, 0), (10, 10), (1000, 1), (100_000, 32), (3000, 1 << 16), (300, 1 << 20)] {
            let plan = planner(std::iter::repeat_n(size, entries)).choose().unwrap();
            assert!(plan.padding <= MAX_PADDING || plan.buckets == 1, "{entries} of {size}: {plan:?}");
            assert!(plan.payload_bytes < (1 << 17).max(48 * (size + 20)), "{entries} of {size}: {plan:?}");
        }
    }

    #[test]
    fn one_outlier_among_small_values_is_refused() {
        let sizes = (0..100_000).map(|i| if i == 77 { 1 << 20 } else { 10 });
        let Overpadded(plan) = planner(sizes).choose().unwrap_err();
        assert!(plan.padding > MAX_PADDING, "{plan:?}");
    }

    #[test]
    fn buckets_with_proofs_are_fewer() {
        let plan = |proof_bytes| {
            let mut planner = BucketPlanner::new(1 << 19, proof_bytes);
            for i in 0..1 << 19 {
                planner.add(place(i), entry_bytes(4));
            }
            planner.choose().unwrap()
        };
        let (without, with) = (plan(|_| 0), plan(|buckets| Proofs::blank(buckets).bytes()));
        assert!(with.buckets < without.buckets, "{with:?} and {without:?}");
    }

    #[test]
    fn sizes_from_nothing_to_a_mebibyte_fit_one_table() {
        let plan = planner((0..400).map(|i| i * (1 << 20) / 399)).choose().unwrap();
        assert!(plan.padding <= MAX_PADDING, "{plan:?}");
    }
}
