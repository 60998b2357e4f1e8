//! How far ahead of what a kernel reads memory is asked for.
//!
//! Which distance is best depends on the processor and on what else it does, and nothing tells it. So it is tried on the
//! work itself: the first stretches of large matrices are read with each distance in turns, and what was fastest stays for
//! the process. That takes no time but what worse distances lose over some megabytes, and changes no result.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Bytes to choose from. With 0 nothing is asked for: the hardware's own prefetchers may be best left alone. On a Zen 4 core
/// a fold of b halves alone takes a sixth less so than with any distance.
const DISTANCES: [usize; 7] = [0, 512, 1024, 2048, 4096, 8192, 16384];
/// No distance: none is chosen yet.
const NONE_YET: usize = usize::MAX;
/// Stretches that each distance is tried on: their median forgives what a shared machine does besides.
const TRIALS: usize = 24;
/// Shorter stretches tell more of the clock than of memory.
const LEAST_STRETCH: usize = 32 << 10;
/// How far apart two streams begin, at least, that a kernel reads at a time: memory gives two such faster than one (a Zen 4
/// core: 29 GB/s for 26). Nearer ones get in each other's way.
pub(crate) const APART_BYTES: usize = 512 << 10;
/// Bytes of a matrix that is hardly ever found in a cache.
const LARGE: usize = 64 << 20;

/// Of a lone tile's block of the database.
pub(crate) static SCAN: Ahead = Ahead::new("scan", 2048);
/// The same of two blocks at a time.
pub(crate) static SCAN_PAIRS: Ahead = Ahead::new("scan_pairs", 2048);
/// Of plaintext polynomials.
pub(crate) static POLY_FOLD: Ahead = Ahead::new("poly_fold", 2048);
/// The same where leaves are b halves alone.
pub(crate) static POLY_FOLD_B: Ahead = Ahead::new("poly_fold_b", 2048);
/// Of rows that shares are folded with. On an Intel core, lines that were a whole page ahead, and beyond, cost a tenth to a
/// fifth where rows are several lines wide.
pub(crate) static SHARE_FOLD: Ahead = Ahead::new("share_fold", 3072);
/// The same of two blocks at a time.
pub(crate) static SHARE_FOLD_PAIRS: Ahead = Ahead::new("share_fold_pairs", 3072);

/// The kernels of this process that have chosen how far ahead of what they read memory is asked for, and how many bytes it
/// is; 0 where nothing is asked for.
pub fn prefetch_distances() -> impl Iterator<Item = (&'static str, usize)> {
    [&SCAN, &SCAN_PAIRS, &POLY_FOLD, &POLY_FOLD_B, &SHARE_FOLD, &SHARE_FOLD_PAIRS]
        .into_iter()
        .filter_map(|ahead| Some((ahead.kernel, ahead.choice()?)))
}

/// The distance of one kernel.
pub(crate) struct Ahead {
    kernel: &'static str,
    /// Until one is chosen.
    default: usize,
    chosen: AtomicUsize,
    trials: Mutex<Trials>,
}

/// Nanoseconds a mebibyte of the stretches that each distance was tried on.
struct Trials {
    seen: [[f64; TRIALS]; DISTANCES.len()],
    count: usize,
}

impl Ahead {
    /// One to be chosen, of a kernel with this name.
    pub const fn new(kernel: &'static str, default: usize) -> Self {
        let trials = Trials { seen: [[0.0; TRIALS]; DISTANCES.len()], count: 0 };
        Self { kernel, default, chosen: AtomicUsize::new(NONE_YET), trials: Mutex::new(trials) }
    }

    /// Reads `stretch` bytes, in sequence, of a matrix of `matrix` bytes, with the distance that `read` is given.
    pub fn read<T>(&self, stretch: usize, matrix: usize, read: impl FnOnce(usize) -> T) -> T {
        match self.chosen.load(Ordering::Relaxed) {
            NONE_YET if stretch >= LEAST_STRETCH && matrix >= LARGE => self.try_one(stretch, read),
            NONE_YET => read(self.default),
            chosen => read(chosen),
        }
    }

    /// Reads a stretch with the distance whose turn it is.
    fn try_one<T>(&self, stretch: usize, read: impl FnOnce(usize) -> T) -> T {
        let Some(turn) = self.trials().turn() else { return read(self.default) };
        let start = Instant::now();
        let result = read(DISTANCES[turn % DISTANCES.len()]);
        let seconds = start.elapsed().as_secs_f64();
        if let Some(best) = self.trials().note(turn, seconds / stretch as f64) {
            self.chosen.store(DISTANCES[best], Ordering::Relaxed);
        }
        result
    }

    fn trials(&self) -> MutexGuard<'_, Trials> {
        // What a thread that panicked has left is numbers all the same.
        self.trials.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes that were chosen, if any were.
    fn choice(&self) -> Option<usize> {
        let chosen = self.chosen.load(Ordering::Relaxed);
        (chosen != NONE_YET).then_some(chosen)
    }
}

impl Trials {
    /// The number of the next trial, if there is to be one more.
    fn turn(&mut self) -> Option<usize> {
        let turn = self.count;
        self.count += 1;
        (turn < TRIALS * DISTANCES.len()).then_some(turn)
    }

    /// Notes what a byte took; the last trial says which distance is best.
    fn note(&mut self, turn: usize, seconds: f64) -> Option<usize> {
        self.seen[turn % DISTANCES.len()][turn / DISTANCES.len()] = seconds;
        // Those of other threads may still be under way: 0 until then.
        let complete = self.seen.iter().flatten().all(|&seconds| seconds > 0.0);
        let medians = self.seen.map(|mut seconds| {
            seconds.sort_by(f64::total_cmp);
            seconds[TRIALS / 2]
        });
        complete.then(|| (0..DISTANCES.len()).min_by(|&a, &b| medians[a].total_cmp(&medians[b]))).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_distance_is_tried_and_the_fastest_by_its_median_stays() {
        let mut trials = Trials { seen: [[0.0; TRIALS]; DISTANCES.len()], count: 0 };
        let turns: Vec<usize> = std::iter::from_fn(|| trials.turn()).collect();
        assert_eq!(turns.len(), TRIALS * DISTANCES.len());
        for &turn in turns.iter().rev() {
            let (distance, trial) = (turn % DISTANCES.len(), turn / DISTANCES.len());
            // One in eight is disturbed, the best distance's as well.
            let seconds = if trial % 8 == 0 { 50.0 } else { 1.0 + distance.abs_diff(3) as f64 };
            let best = trials.note(turn, seconds);
            assert_eq!(best, (turn == 0).then_some(3));
        }
    }

    #[test]
    fn nothing_is_tried_on_what_a_cache_holds_and_what_was_chosen_stays() {
        let ahead = Ahead::new("test", 2048);
        for _ in 0..1000 {
            assert_eq!(ahead.read(LARGE, LARGE - 1, |distance| distance), 2048);
            assert_eq!(ahead.read(LEAST_STRETCH - 1, LARGE, |distance| distance), 2048);
        }
        assert_eq!(ahead.choice(), None);
        let tried: Vec<usize> = (0..TRIALS * DISTANCES.len())
            .map(|_| ahead.read(LEAST_STRETCH, LARGE, |distance| distance))
            .collect();
        assert!(DISTANCES.iter().all(|distance| tried.contains(distance)));
        assert_eq!(Some(ahead.read(1, 1, |distance| distance)), ahead.choice());
    }
}
