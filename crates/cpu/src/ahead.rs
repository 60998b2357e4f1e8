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
const NEAR: [usize; 6] = [0, 512, 1024, 2048, 4096, 8192];
/// The same, and what is asked for long before.
const NEAR_AND_FAR: [usize; MOST] = [0, 512, 1024, 2048, 4096, 8192, SECOND_LEVEL];
/// The place of the one with which nothing is asked for.
const NOTHING: usize = 0;
/// To ask for nothing is chosen unless some distance takes a twentieth less: where they are near, it is the noise that decides.
const FAVOUR: f64 = 0.95;
/// Distances to choose from, at most.
const MOST: usize = 7;
/// What is so many bytes ahead, or more, is asked for into the second-level cache alone. The first level would lose it again,
/// and has places for two dozen lines that are under way (Zen 4), fewer than memory can have.
pub(crate) const SECOND_LEVEL: usize = 16 << 10;
/// No distance: none is chosen yet.
const NONE_YET: usize = usize::MAX;
/// Stretches that each distance is tried on before the slower half of them is left out: their median forgives what a shared
/// machine does besides.
const TRIALS: usize = 24;
/// Shorter stretches tell more of the clock than of memory.
const LEAST_STRETCH: usize = 32 << 10;
/// How far apart two streams begin, at least, that a kernel reads at a time: memory gives two such faster than one (a Zen 4
/// core: 29 GB/s for 26). Nearer ones get in each other's way.
pub(crate) const APART_BYTES: usize = 512 << 10;
/// Bytes of a matrix that is hardly ever found in a cache.
const LARGE: usize = 64 << 20;

/// Of a lone tile's block of the database.
pub(crate) static SCAN: Ahead = Ahead::new("scan", 2048, &NEAR);
/// The same of two blocks at a time.
pub(crate) static SCAN_PAIRS: Ahead = Ahead::new("scan_pairs", 2048, &NEAR);
/// Of plaintext polynomials.
pub(crate) static POLY_FOLD: Ahead = Ahead::new("poly_fold", 2048, &NEAR_AND_FAR);
/// The same where leaves are b halves alone.
pub(crate) static POLY_FOLD_B: Ahead = Ahead::new("poly_fold_b", 2048, &NEAR_AND_FAR);
/// Of rows that shares are folded with. On an Intel core, lines that were a whole page ahead, and beyond, cost a tenth to a
/// fifth where rows are several lines wide.
pub(crate) static SHARE_FOLD: Ahead = Ahead::new("share_fold", 3072, &NEAR);
/// The same of two blocks at a time.
pub(crate) static SHARE_FOLD_PAIRS: Ahead = Ahead::new("share_fold_pairs", 3072, &NEAR);

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
    distances: &'static [usize],
    chosen: AtomicUsize,
    trials: Mutex<Trials>,
}

/// Rounds in which distances are tried in turns; the faster half goes on to the next one, until one is left.
struct Trials {
    /// Places of the distances, those that are left first.
    order: [usize; MOST],
    left: usize,
    /// Seconds a byte of the stretches that each one that is left was tried on in this round; 0 while under way.
    seen: [[f64; TRIALS]; MOST],
    /// Trials of this round that were begun.
    begun: usize,
}

/// One trial: of the round with so many distances, and its number in it. Each distance has two in a row, of which the second
/// counts: the first begins with what the distance before has asked for.
#[derive(Clone, Copy)]
struct Turn {
    left: usize,
    number: usize,
}

impl Ahead {
    /// One to be chosen of these distances, of a kernel with this name.
    const fn new(kernel: &'static str, default: usize, distances: &'static [usize]) -> Self {
        let trials = Mutex::new(Trials::new(distances.len()));
        Self { kernel, default, distances, chosen: AtomicUsize::new(NONE_YET), trials }
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
        let Some((turn, place)) = self.trials().turn() else { return read(self.default) };
        let start = Instant::now();
        let result = read(self.distances[place]);
        let seconds = start.elapsed().as_secs_f64();
        if let Some(best) = self.trials().note(turn, seconds / stretch as f64) {
            self.chosen.store(self.distances[best], Ordering::Relaxed);
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
    /// None yet, of so many distances.
    const fn new(distances: usize) -> Self {
        let order = [0, 1, 2, 3, 4, 5, 6];
        Self { order, left: distances, seen: [[0.0; TRIALS]; MOST], begun: 0 }
    }

    /// The next trial, and the place of its distance, if the round is to have one more.
    fn turn(&mut self) -> Option<(Turn, usize)> {
        let turn = Turn { left: self.left, number: self.begun };
        (turn.number < 2 * turn.left * TRIALS).then(|| {
            self.begun += 1;
            (turn, self.order[turn.number / 2 % turn.left])
        })
    }

    /// Notes what a byte took; the last trial says which place the best distance has.
    fn note(&mut self, turn: Turn, seconds: f64) -> Option<usize> {
        if turn.number.is_multiple_of(2) {
            return None;
        }
        let (seen, counted) = (&mut self.seen[..turn.left], turn.number / 2);
        seen[counted % turn.left][counted / turn.left] = seconds;
        // Those of other threads may still be under way.
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

    /// Trials of all rounds for so many distances.
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
                        // One in eight is disturbed, the best distance's as well.
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
