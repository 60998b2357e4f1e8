//! Measured ceilings of this machine, for comparison with the kernels' figures.
//!
//! Each function returns the best of several runs, since a ceiling is the machine's maximum, not
//! its average.

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

/// Number of runs for each prefetch distance; [`read_bandwidth`] takes the best run.
pub const RUNS: usize = 4;

/// Name, in reports, of a lower bound on time that follows from [`read_bandwidth`].
pub const MEMORY: &str = "memory";

/// Measures the bytes a second that `threads` threads together read in sequence, with the widest
/// loads of the machine and no other work. `bytes` should be far larger than the caches: 1 GiB or
/// more.
///
/// # Errors
/// Errors of [`CpuBackend::new`].
pub fn read_bandwidth(threads: usize, bytes: &[u8]) -> Result<f64, BackendError> {
    let backend = CpuBackend::new(threads)?;
    let quads: &[Quad] = bytes.as_chunks().0;
    let share = quads.len().div_ceil(threads);
    // The best prefetch distance depends on the machine, so several are tried; 0 leaves it to the
    // hardware.
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

/// Measures the effective products of a byte and a 32-bit word that one core computes and adds up
/// in a second, from registers and with no other work; returns `None` if the machine lacks the
/// instruction set.
///
/// One `vpdpbusd` does 16 such products (64 bytes by 4 digits each); one `vpmaddwd` with its
/// `vpaddd` does 8. The portable kernel has no instruction for this: its ceiling is its own inner
/// tile with operands in the first-level cache. [`multiply_add_floor`] names the measured
/// instruction.
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

/// Returns the name of the instruction or code that [`multiply_add_peak`] measures: `vpdpbusd`,
/// `vpmaddwd` or `portable-tile`.
pub fn multiply_add_floor(isa: Isa) -> &'static str {
    match isa {
        Isa::Portable => "portable-tile",
        Isa::Avx2 => "vpmaddwd",
        Isa::Avx512 => "vpdpbusd",
    }
}

/// Measures the products of two 32-bit words that one core computes and adds to 64-bit sums in a
/// second, from registers and with no other work: `vpmuludq` and `vpaddq`. Returns `None` if the
/// machine lacks the instruction set.
pub fn word_multiply_add_peak(isa: Isa) -> Option<f64> {
    let found = Found::detect(isa)?;
    let rounds = 1 << 16;
    Some(ring::multiply_adds(found, rounds) as f64 / best_of(20, || ring::multiply_adds(found, rounds)))
}

/// Name, in reports, of a lower bound on time that follows from [`word_multiply_add_peak`].
pub const WORD_MULTIPLY_ADD: &str = "vpmuludq";

/// Measures the products of two 32-bit words modulo 2^32 that one core computes and adds up in a
/// second, from registers and with no other work: `vpmulld` and `vpaddd`. Returns `None` if the
/// machine lacks the instruction set.
pub fn share_multiply_add_peak(isa: Isa) -> Option<f64> {
    let found = Found::detect(isa)?;
    Some(per_second(|rounds| crate::dpf::multiply_adds32(found, rounds)))
}

/// Name, in reports, of a lower bound on time that follows from [`share_multiply_add_peak`].
pub const SHARE_MULTIPLY_ADD: &str = "vpmulld";

/// Measures the calls of a pseudorandom function that one core makes in a second with no other
/// work. For AES, it encrypts blocks in registers with the widest instruction that the machine has
/// for `isa`.
pub fn prf_calls_per_second(isa: Isa, prf: PrfKind) -> f64 {
    let tree = crate::dpf::tree(isa, prf);
    per_second(|rounds| tree.only_expand(rounds)) / prf.blocks_per_call() as f64
}

/// Measures the units a second of `work`, which takes a number of rounds and returns the number of
/// its units. Takes the best of [`RUNS`] runs. A run takes some milliseconds, like the runs that
/// the rate is compared with. Shorter runs could fit into the idle gaps of a shared machine, so
/// their rate would be out of reach for longer runs.
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

/// Seconds of one number-theoretic transform modulo one prime, on one core, in a batch that stays
/// in the second-level cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransformSeconds {
    /// Coefficients to values.
    pub forward: f64,
    /// Values to coefficients.
    pub inverse: f64,
}

/// Measures the transforms of a ring, on average over its primes; returns `None` if the machine
/// lacks the instruction set or its kernels do not support the ring.
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

/// Returns the shortest of `runs` runs, in seconds.
fn best_of<T>(runs: usize, mut run: impl FnMut() -> T) -> f64 {
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            black_box(run());
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}
