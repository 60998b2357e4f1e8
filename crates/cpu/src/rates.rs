//! Ceilings of this machine, measured: what the figures of the kernels are compared with.
//!
//! Each function returns the best of several runs, since a ceiling is what the machine can do, not what it
//! does on average.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use spirea_backend::BackendError;
use spirea_dpf::PrfKind;
use spirea_math::Ring;

use crate::fold::{Microkernel as _, Quad};
use crate::isa::{Found, Isa, with_token};
use crate::ring::{self, Direction, RingTables};
use crate::{CpuBackend, PORTABLE};

/// Runs of which [`read_bandwidth`] takes the best, for each distance that it asks ahead.
pub const RUNS: usize = 4;

/// The floor's name for bounds by [`read_bandwidth`].
pub const MEMORY: &str = "memory";

/// Bytes a second that `threads` threads together read, in sequence, with the widest loads of the machine and
/// nothing else to do. The bytes should be far more than the caches hold: 1 GiB or more.
///
/// # Errors
/// [`BackendError::Unavailable`] as [`CpuBackend::new`].
pub fn read_bandwidth(threads: usize, bytes: &[u8]) -> Result<f64, BackendError> {
    let backend = CpuBackend::new(threads)?;
    let quads: &[Quad] = bytes.as_chunks().0;
    let share = quads.len().div_ceil(threads);
    // How far ahead to ask is best tried: it depends on the machine, and 0 leaves it to the hardware.
    let seconds = [0, 1024, 4096, 16384].into_iter().map(|ahead| {
        backend.install(|| {
            best_of(RUNS, || {
                let sums = quads
                    .par_chunks(share)
                    .map(|quads| with_token!(backend.found, PORTABLE, kernel => kernel.read(quads, ahead)));
                sums.reduce(|| 0, u32::wrapping_add)
            })
        })
    });
    let seconds = seconds.fold(f64::INFINITY, f64::min);
    Ok(size_of_val(quads) as f64 / seconds)
}

/// Effective products of a byte and a 32-bit word that one core computes and adds up in a second, when it
/// does only that, from registers; or `None` if the machine lacks the instruction set.
///
/// One `vpdpbusd` does 16 such products (64 bytes by 4 digits each), one `vpmaddwd` with its `vpaddd` 8.
/// The portable kernel's own inner tile, its operands in the first-level cache, stands for a ceiling that
/// has no instruction of its own. [`multiply_add_floor`] names which it was.
pub fn multiply_add_peak(isa: Isa) -> Option<f64> {
    let found = Found::detect(isa)?;
    let multiply_adds = |iterations| with_token!(found, PORTABLE, kernel => kernel.multiply_adds(iterations));
    let mut iterations = 1 << 10;
    loop {
        let start = Instant::now();
        let products = multiply_adds(iterations);
        let once = start.elapsed();
        if once > Duration::from_millis(2) {
            return Some(products as f64 / best_of(20, || multiply_adds(iterations)));
        }
        iterations *= 2;
    }
}

/// What [`multiply_add_peak`] measures: `vpdpbusd`, `vpmaddwd` or `portable-tile`.
pub fn multiply_add_floor(isa: Isa) -> &'static str {
    match isa {
        Isa::Portable => "portable-tile",
        Isa::Avx2 => "vpmaddwd",
        Isa::Avx512 => "vpdpbusd",
    }
}

/// Products of two 32-bit words that one core computes and adds to 64-bit sums in a second, when it does only
/// that, from registers: `vpmuludq` and `vpaddq`; or `None` if the machine lacks the instruction set.
pub fn word_multiply_add_peak(isa: Isa) -> Option<f64> {
    let found = Found::detect(isa)?;
    let rounds = 1 << 16;
    Some(ring::multiply_adds(found, rounds) as f64 / best_of(20, || ring::multiply_adds(found, rounds)))
}

/// The floor's name for bounds by [`word_multiply_add_peak`].
pub const WORD_MULTIPLY_ADD: &str = "vpmuludq";

/// Products of two 32-bit words modulo 2^32 that one core computes and adds up in a second, when it does only that,
/// from registers: `vpmulld` and `vpaddd`; or `None` if the machine lacks the instruction set.
pub fn share_multiply_add_peak(isa: Isa) -> Option<f64> {
    let found = Found::detect(isa)?;
    Some(per_second(|rounds| crate::dpf::multiply_adds32(found, rounds)))
}

/// The floor's name for bounds by [`share_multiply_add_peak`].
pub const SHARE_MULTIPLY_ADD: &str = "vpmulld";

/// Calls of a pseudorandom function that one core makes in a second, when it does only that: of AES, blocks with
/// the widest instruction that the machine has for `isa`, from registers.
pub fn prf_calls_per_second(isa: Isa, prf: PrfKind) -> f64 {
    let tree = crate::dpf::tree(isa, prf);
    per_second(|rounds| tree.only_expand(rounds)) / prf.blocks_per_call() as f64
}

/// Units a second of work that does some number of rounds and says how many units that was: the best of [`RUNS`] runs
/// of milliseconds, as long as the runs that are compared with it. Shorter ones would find gaps between what a shared
/// machine does for others, which no longer run finds.
fn per_second(work: impl Fn(u64) -> u64) -> f64 {
    let mut rounds = 1 << 10;
    loop {
        let start = Instant::now();
        let units = work(rounds);
        if start.elapsed() > Duration::from_millis(2) {
            return units as f64 / best_of(RUNS, || work(rounds));
        }
        rounds *= 2;
    }
}

/// Seconds of one number-theoretic transform modulo one prime, on one core, in a batch that stays in the
/// second-level cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransformSeconds {
    /// Coefficients to values.
    pub forward: f64,
    /// Values to coefficients.
    pub inverse: f64,
}

/// Measures the transforms of a ring, on average over its primes; or `None` if the machine lacks the instruction
/// set or its kernels do not take the ring.
pub fn transform_seconds(isa: Isa, ring: &Arc<Ring>) -> Option<TransformSeconds> {
    let found = Found::detect(isa)?;
    let tables = RingTables::new(ring, ring::lanes_of(found)).ok()?;
    let (primes, rounds) = (ring.limbs().len(), (1 << 18) / ring.degree());
    let values = ring.lift(&vec![1; ring.degree()]);
    let mut to = ring.zero();
    let mut seconds = |direction| {
        let best = best_of(20, || {
            (0..rounds).for_each(|_| ring::transform(found, &tables, direction, black_box(&values), &mut to));
        });
        best / (rounds * primes) as f64
    };
    Some(TransformSeconds { forward: seconds(Direction::Forward), inverse: seconds(Direction::Inverse) })
}

/// The shortest of `runs` runs, in seconds.
fn best_of<T>(runs: usize, mut run: impl FnMut() -> T) -> f64 {
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            black_box(run());
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}
