//! Ceilings of this machine, measured: what the figures of the kernels are compared with.
//!
//! Each function returns the best of several runs, since a ceiling is what the machine can do, not what it
//! does on average.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use spirea_backend::BackendError;

use crate::fold::Quad;
use crate::isa::Isa;
use crate::matrix::CpuMatrix;
use crate::{CpuBackend, kernels};

/// Runs of which [`read_bandwidth`] takes the best, for each distance that it asks ahead.
pub const RUNS: usize = 4;

/// The floor's name for bounds by [`read_bandwidth`].
pub const MEMORY: &str = "memory";

/// Bytes a second that `threads` threads together read from `matrix`, in sequence, with the widest loads of
/// the machine and nothing else to do. The matrix should be far larger than the caches: 1 GiB or more.
///
/// # Errors
/// [`BackendError::Unavailable`] as [`CpuBackend::new`].
pub fn read_bandwidth(threads: usize, matrix: &CpuMatrix) -> Result<f64, BackendError> {
    let backend = CpuBackend::new(threads)?;
    let quads = matrix.quads();
    let share = quads.len().div_ceil(threads);
    // How far ahead to ask is best tried: it depends on the machine, and 0 leaves it to the hardware.
    let seconds = [0, 1024, 4096, 16384].into_iter().map(|ahead| {
        backend.pool.install(|| {
            best_of(RUNS, || {
                let sums = quads.par_chunks(share).map(|quads| backend.kernels.read(quads, ahead));
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
    let kernels = kernels(isa)?;
    let mut iterations = 1 << 10;
    loop {
        let start = Instant::now();
        let products = kernels.multiply_adds(iterations);
        let once = start.elapsed();
        if once > Duration::from_millis(2) {
            return Some(products as f64 / best_of(20, || kernels.multiply_adds(iterations)));
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

/// The tile of `kernel` over operands in the first-level cache; returns the number of products.
pub(crate) fn tile_from_cache<K: crate::fold::Microkernel>(kernel: K, iterations: u64) -> u64 {
    const QUADS: usize = 64;
    let block = vec![[1u8; spirea_backend::QUAD_BYTES] as Quad; QUADS];
    let operands = vec![[3; 4]; QUADS * K::TILE];
    let mut sums = vec![[0; spirea_backend::PANEL_ROWS]; K::TILE];
    for _ in 0..iterations {
        kernel.fold(K::TILE, black_box(&block), black_box(&operands), &mut sums);
    }
    black_box(sums);
    iterations * (QUADS * spirea_backend::QUAD_BYTES * K::TILE) as u64
}
