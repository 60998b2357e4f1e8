//! Prefetch distances: how many bytes ahead of its reads a kernel prefetches.
//!
//! The best distance depends on the processor and on its other load, and neither can be queried.
//! Distances are therefore tried on the work itself: the first stretches of large matrices are read
//! with each distance in turn, and the fastest distance stays for the process. The only cost is the
//! time that slower distances lose over some megabytes. No result changes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

/// Distances to choose from, in bytes; 0 means no prefetching, since the hardware's own prefetchers
/// may be best left alone. On a Zen 4 core a fold of b halves alone takes a sixth less time with 0
/// than with any distance.
const NEAR: [usize; 6] = [0, 512, 1024, 2048, 4096, 8192];
/// Distances in `NEAR`, and [`SECOND_LEVEL`], at which lines are prefetched long before their use.
const NEAR_AND_FAR: [usize; MOST] = [0, 512, 1024, 2048, 4096, 8192, SECOND_LEVEL];
/// Place of the distance 0, no prefetching.
const NOTHING: usize = 0;
/// Factor in favour of no prefetching: a distance must save a twentieth of the time to be chosen,
/// since noise decides between times that are close.
const FAVOUR: f64 = 0.95;
/// Maximum number of distances to choose from.
const MOST: usize = 7;
/// Minimum distance at which lines are prefetched into the second-level cache alone. The first
/// level would evict them before use, and holds two dozen outstanding lines (Zen 4), fewer than
/// memory can serve.
pub(crate) const SECOND_LEVEL: usize = 16 << 10;
/// Marker: no distance has been chosen yet.
const NONE_YET: usize = usize::MAX;
/// Number of stretches on which each distance is tried before the slower half of the distances is
/// dropped. Their median tolerates other load on a shared machine.
const TRIALS: usize = 24;
/// Minimum length of a stretch in bytes; times of shorter stretches measure the clock rather than
/// memory.
const LEAST_STRETCH: usize = 32 << 10;
/// Minimum distance between the starts of two streams that a kernel reads at the same time. Memory
/// delivers two such streams faster than one: a Zen 4 core reads 29 GB/s instead of 26. Streams
/// that are closer together slow each other down.
pub(crate) const APART_BYTES: usize = 512 << 10;
/// Minimum size in bytes of a large matrix, which is hardly ever found in a cache.
const LARGE: usize = 64 << 20;

/// Distance for a block of the database that is read by a single tile.
pub(crate) static SCAN: Ahead = Ahead::new("scan", 2048, &NEAR);
/// Distance for two blocks of the database that are read at the same time.
pub(crate) static SCAN_PAIRS: Ahead = Ahead::new("scan_pairs", 2048, &NEAR);
/// Distance for plaintext polynomials.
pub(crate) static POLY_FOLD: Ahead = Ahead::new("poly_fold", 2048, &NEAR_AND_FAR);
/// Distance for plaintext polynomials if leaves are b halves alone.
pub(crate) static POLY_FOLD_B: Ahead = Ahead::new("poly_fold_b", 2048, &NEAR_AND_FAR);
/// Distance for rows that shares are folded with. On an Intel core, prefetching a page ahead or
/// more costs a tenth to a fifth of the time if rows are several lines wide.
pub(crate) static SHARE_FOLD: Ahead = Ahead::new("share_fold", 3072, &NEAR);
/// Distance for rows that shares are folded with, if two blocks are read at the same time.
pub(crate) static SHARE_FOLD_PAIRS: Ahead = Ahead::new("share_fold_pairs", 3072, &NEAR);

/// Returns the kernels of this process that have chosen their prefetch distance, with the distance
/// in bytes; 0 means no prefetching.
pub fn prefetch_distances() -> impl Iterator<Item = (&'static str, usize)> {
    [&SCAN, &SCAN_PAIRS, &POLY_FOLD, &POLY_FOLD_B, &SHARE_FOLD, &SHARE_FOLD_PAIRS]
        .into_iter()
        .filter_map(|ahead| Some((ahead.kernel, ahead.choice()?)))
}

/// Prefetch distance of one kernel.
pub(crate) struct Ahead {
    kernel: &'static str,
    /// Distance that is used until one is chosen.
    default: usize,
    distances: &'static [usize],
    chosen: AtomicUsize,
    trials: Mutex<Trials>,
}

/// Rounds in which distances are tried in turn. The faster half goes on to the next round, until
/// one distance is left.
struct Trials {
    /// Places of the distances; the remaining distances come first.
    order: [usize; MOST],
    left: usize,
    /// Seconds per byte of the stretches that each remaining distance was tried on in this round; 0
    /// while not finished.
    seen: [[f64; TRIALS]; MOST],
    /// Number of trials begun in this round.
    begun: usize,
}

/// One trial: identifies its round by the number of remaining distances, and its number in the
/// round. Each distance has two trials in a row, and only the second counts: the first begins with
/// the lines that were prefetched for the previous distance.
#[derive(Clone, Copy)]
struct Turn {
    left: usize,
    number: usize,
}

impl Ahead {
    /// Creates the choice among `distances` for the kernel of this name.
    const fn new(kernel: &'static str, default: usize, distances: &'static [usize]) -> Self {
        let trials = Mutex::new(Trials::new(distances.len()));
        Self { kernel, default, distances, chosen: AtomicUsize::new(NONE_YET), trials }
    }

    /// Reads `stretch` bytes in sequence, of a matrix of `matrix` bytes, and passes the distance to
    /// `read`.
    pub fn read<T>(&self, stretch: usize, matrix: usize, read: impl FnOnce(usize) -> T) -> T {
        match self.chosen.load(Ordering::Relaxed) {
            NONE_YET if stretch >= LEAST_STRETCH && matrix >= LARGE => self.try_one(stretch, read),
            NONE_YET => read(self.default),
            chosen => read(chosen),
        }
    }

    /// Reads a stretch with the next distance to try.
    fn try_one<T>(&self, stretch: usize, read: impl FnOnce(usize) -> T) -> T {
        let Some((turn, place)) = self.trials.lock().turn() else { return read(self.default) };
        let start = Instant::now();
        let result = read(self.distances[place]);
        let seconds = start.elapsed().as_secs_f64();
        if let Some(best) = self.trials.lock().note(turn, seconds / stretch as f64) {
            self.chosen.store(self.distances[best], Ordering::Relaxed);
        }
        result
    }

    /// Returns the chosen distance in bytes, if there is one.
    fn choice(&self) -> Option<usize> {
        let chosen = self.chosen.load(Ordering::Relaxed);
        (chosen != NONE_YET).then_some(chosen)
    }
}

impl Trials {
    /// Creates the trials of `distances` distances; none has begun.
    const fn new(distances: usize) -> Self {
        let order = [0, 1, 2, 3, 4, 5, 6];
        Self { order, left: distances, seen: [[0.0; TRIALS]; MOST], begun: 0 }
    }

    /// Returns the next trial and the place of its distance, unless the round has begun all its
    /// trials.
    fn turn(&mut self) -> Option<(Turn, usize)> {
        let turn = Turn { left: self.left, number: self.begun };
        (turn.number < 2 * turn.left * TRIALS).then(|| {
            self.begun += 1;
            (turn, self.order[turn.number / 2 % turn.left])
        })
    }

    /// Records the time per byte of a trial; the last trial returns the place of the best distance.
    fn note(&mut self, turn: Turn, seconds: f64) -> Option<usize> {
        if turn.number.is_multiple_of(2) {
            return None;
        }
        let (seen, counted) = (&mut self.seen[..turn.left], turn.number / 2);
        seen[counted % turn.left][counted / turn.left] = seconds;
        // Trials of other threads may still be running.
        if seen.iter().flatten().any(|&seconds| seconds == 0.0) {
            return None;
        }
        let mut medians = [(0.0, 0); MOST];
        for ((median, seen), place) in medians.iter_mut().zip(seen).zip(self.order) {
            seen.sort_by(f64::total_cmp);
            *median = (seen[TRIALS / 2] * if place == NOTHING { FAVOUR } else { 1.0 }, place);
            seen.fill(0.0);
        }
        medians[..turn.left].sort_by(|a, b| a.0.total_cmp(&b.0));
        self.order = medians.map(|(_, place)| place);
        (self.left, self.begun) = (turn.left / 2, 0);
        (self.left == 1).then_some(self.order[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of trials in all rounds for `distances` distances.
    fn rounds(distances: usize) -> usize {
        let left = std::iter::successors(Some(distances), |left| Some(left / 2));
        2 * TRIALS * left.take_while(|&left| left > 1).sum::<usize>()
    }

    #[test]
    fn each_distance_is_tried_and_the_fastest_by_its_median_stays() {
        for distances in [2, 3, NEAR.len(), MOST] {
            for best in 0..distances {
                let mut trials = Trials::new(distances);
                let mut tried = vec![0; distances];
                let chosen = loop {
                    let turns: Vec<_> = std::iter::from_fn(|| trials.turn()).collect();
                    let notes = turns.iter().rev().filter_map(|&(turn, place)| {
                        tried[place] += 1;
                        // One trial in eight is disturbed, also for the best distance.
                        let disturbed = turn.number / 2 / turn.left % 8 == 0;
                        trials.note(turn, if disturbed { 50.0 } else { 1.0 + place.abs_diff(best) as f64 })
                    });
                    if let Some(chosen) = notes.last() {
                        break chosen;
                    }
                };
                assert_eq!(chosen, best);
                assert_eq!(tried.iter().sum::<usize>(), rounds(distances));
                assert!(tried.iter().all(|&count| count >= 2 * TRIALS && count <= tried[best]));
            }
        }
    }

    #[test]
    fn nothing_is_tried_on_what_a_cache_holds_and_what_was_chosen_stays() {
        for distances in [&NEAR[..], &NEAR_AND_FAR] {
            let ahead = Ahead::new("test", 2048, distances);
            for _ in 0..1000 {
                assert_eq!(ahead.read(LARGE, LARGE - 1, |distance| distance), 2048);
                assert_eq!(ahead.read(LEAST_STRETCH - 1, LARGE, |distance| distance), 2048);
            }
            assert_eq!(ahead.choice(), None);
            let tried: Vec<usize> = (0..rounds(distances.len()))
                .map(|_| ahead.read(LEAST_STRETCH, LARGE, |distance| distance))
                .collect();
            assert!(distances.iter().all(|distance| tried.contains(distance)));
            assert_eq!(Some(ahead.read(1, 1, |distance| distance)), ahead.choice());
        }
    }
}
