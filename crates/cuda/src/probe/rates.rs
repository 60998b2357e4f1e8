//! Measured peak rates of a device. Lower bounds on the times of steps follow from them.

use std::sync::Arc;
use std::time::Instant;

use super::fill;
use crate::args;
use crate::driver::{Arg, Buffer, ByteProduct, Compute, Device, DriverError, Grid, Pinned, Stream, View};

/// Repetitions of a measurement. The best run counts, because a limit is the rate of an undisturbed
/// run.
const RUNS: usize = 5;
/// For kernels that run instructions in rounds: threads of a block, and blocks on a processor.
pub(super) const THREADS: usize = 512;
const BLOCKS: usize = 2;
/// Chains of a thread, and instructions of a chain in a round: `CHAIN` and `UNROLL` of `rates.cu`.
pub(super) const CHAIN: usize = 8;
pub(super) const UNROLL: usize = 8;
const INSTRUCTIONS: f64 = (CHAIN * UNROLL) as f64;
/// Loads in flight of each thread that reads.
const LOADS: usize = 8;
/// Side of the matrices that the library multiplies, and byte products of one `mma` instruction.
const LIBRARY_SIDE: usize = 8192;
const TILE_PRODUCTS: f64 = 16.0 * 8.0 * 32.0;
/// Byte products of one `wgmma` instruction, and bytes of the columns that it reads.
const WARPGROUP_PRODUCTS: f64 = 64.0 * 256.0 * 32.0;
pub(super) const WARPGROUP_SHARED: usize = 256 * 32;

/// Instruction on words whose rate bounds a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Product of words plus a word.
    MultiplyAdd,
    /// Product of words plus 64 bits.
    MultiplyAddWide,
    /// Upper word of a product.
    MultiplyHigh,
    /// Sum of three words.
    Add,
    /// Bitwise function of three words.
    Logic,
    /// Selection of bytes from two words.
    Permute,
    /// Shift of 64 bits.
    Shift,
}

impl Instruction {
    /// All instructions.
    pub const ALL: [Self; 7] = [
        Self::MultiplyAdd,
        Self::MultiplyAddWide,
        Self::MultiplyHigh,
        Self::Add,
        Self::Logic,
        Self::Permute,
        Self::Shift,
    ];

    /// Returns the device's name for the instruction.
    pub fn name(self) -> &'static str {
        match self {
            Self::MultiplyAdd => "IMAD",
            Self::MultiplyAddWide => "IMAD.WIDE",
            Self::MultiplyHigh => "IMAD.HI",
            Self::Add => "IADD3",
            Self::Logic => "LOP3",
            Self::Permute => "PRMT",
            Self::Shift => "SHF",
        }
    }

    pub(super) fn kernel(self) -> &'static str {
        match self {
            Self::MultiplyAdd => "rate_multiply_add",
            Self::MultiplyAddWide => "rate_multiply_add_wide",
            Self::MultiplyHigh => "rate_multiply_high",
            Self::Add => "rate_add",
            Self::Logic => "rate_logic",
            Self::Permute => "rate_permute",
            Self::Shift => "rate_shift",
        }
    }
}

/// Peak rate of the tensor cores, and how it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TensorRate {
    /// Products of bytes a second.
    pub products: f64,
    /// Source of the rate: `cublasLt`, `wgmma` or `mma`.
    pub by: &'static str,
}

/// Measures a device's peak rates.
#[derive(Debug)]
pub struct Rates {
    device: Arc<Device>,
    stream: Stream,
    sink: Buffer<u32>,
    /// Minimum duration of a run, in seconds.
    seconds: f64,
}

impl Rates {
    /// Prepares measurements on `device`, with runs of at least `seconds`.
    ///
    /// # Errors
    /// The driver's error.
    pub fn new(device: &Arc<Device>, seconds: f64) -> Result<Self, DriverError> {
        let threads = device.properties().processors as usize * BLOCKS * THREADS;
        let sink = device.alloc(threads)?;
        Ok(Self { device: Arc::clone(device), stream: device.main(), sink, seconds })
    }

    /// Returns the seconds that the work queued by `queue` takes: the best of `RUNS` runs after a
    /// warm-up.
    fn best(&self, mut queue: impl FnMut() -> Result<(), DriverError>) -> Result<f64, DriverError> {
        queue()?;
        let mut best = f64::INFINITY;
        for _ in 0..RUNS {
            let before = self.stream.record()?;
            queue()?;
            best = best.min(self.stream.record()?.seconds_since(&before)?);
        }
        Ok(best)
    }

    /// Returns the seconds of one round of a kernel. The kernel takes the number of rounds as an
    /// argument; runs are lengthened until they take `self.seconds`.
    fn round(
        &self,
        kernel: &'static str,
        grid: Grid,
        arguments: impl Fn(u32) -> Vec<Arg>,
    ) -> Result<f64, DriverError> {
        let kernel = self.device.kernel(kernel)?;
        let mut rounds = 4u32;
        loop {
            let before = self.stream.record()?;
            self.stream.launch(&kernel, grid, &arguments(rounds))?;
            let seconds = self.stream.record()?.seconds_since(&before)?;
            if seconds >= self.seconds || rounds > 1 << 28 {
                break;
            }
            rounds = (f64::from(rounds) * (1.1 * self.seconds / seconds).clamp(2.0, 64.0)) as u32;
        }
        let seconds = self.best(|| self.stream.launch(&kernel, grid, &arguments(rounds)))?;
        Ok(seconds / f64::from(rounds))
    }

    fn grid(&self, threads: usize) -> Grid {
        Grid::new(self.device.properties().processors as usize * BLOCKS, threads)
    }

    /// Measures instructions a second, summed over all threads.
    ///
    /// # Errors
    /// The driver's error.
    pub fn instruction(&self, instruction: Instruction) -> Result<f64, DriverError> {
        let grid = self.grid(THREADS);
        let round = self.round(instruction.kernel(), grid, |rounds| args![&self.sink, rounds].to_vec())?;
        Ok(self.sink.len() as f64 * INSTRUCTIONS / round)
    }

    /// Measures byte products a second of the tensor cores on operands that are already loaded,
    /// with `wgmma` on Hopper and `mma` elsewhere.
    ///
    /// # Errors
    /// The driver's error.
    pub fn tensor(&self) -> Result<TensorRate, DriverError> {
        let processors = self.device.properties().processors as usize;
        if self.device.properties().compute == Compute::WARPGROUPS {
            let grid = Grid::new(processors, 256).shared(WARPGROUP_SHARED);
            let round = self.round("rate_wgmma", grid, |rounds| args![&self.sink, rounds].to_vec())?;
            let products = (processors * 2 * 4) as f64 * WARPGROUP_PRODUCTS / round;
            return Ok(TensorRate { products, by: "wgmma" });
        }
        let grid = self.grid(256);
        let warps = f64::from(grid.blocks[0]) * 256.0 / 32.0;
        let round = self.round("rate_mma", grid, |rounds| args![&self.sink, rounds].to_vec())?;
        Ok(TensorRate { products: warps * 8.0 * TILE_PRODUCTS / round, by: "mma" })
    }

    /// Measures byte products a second of NVIDIA's library, if it is installed.
    ///
    /// # Errors
    /// The driver's error.
    pub fn library(&self) -> Result<Option<TensorRate>, DriverError> {
        let Some(multiply) = ByteProduct::load(&self.device, LIBRARY_SIDE) else { return Ok(None) };
        let [a, b] = [self.device.alloc::<u8>(LIBRARY_SIDE.pow(2))?, self.device.alloc(LIBRARY_SIDE.pow(2))?];
        fill(&a.all(), 1)?;
        fill(&b.all(), 2)?;
        let product = self.device.alloc::<u32>(LIBRARY_SIDE.pow(2))?;
        if !multiply.queue(&self.stream, &a, &b, &product)? {
            return Ok(None);
        }
        let seconds = self.best(|| multiply.queue(&self.stream, &a, &b, &product).map(|_| ()))?;
        Ok(Some(TensorRate { products: (LIBRARY_SIDE as f64).powi(3) / seconds, by: "cublasLt" }))
    }

    /// Measures the bytes a second that a kernel reads from memory; the buffer should be far larger
    /// than the L2 cache.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// If the buffer is smaller than 128 bytes a thread.
    pub fn read(&self, from: &View<'_, u32>) -> Result<f64, DriverError> {
        let pass = self.sink.len() * LOADS;
        let groups = from.len() / 4 / pass * pass;
        assert!(groups > 0, "a buffer that all threads read from");
        let kernel = self.device.kernel("rate_read")?;
        let arguments = args![&self.sink, from, groups as u64].to_vec();
        let seconds = self.best(|| self.stream.launch(&kernel, self.grid(THREADS), &arguments))?;
        Ok(groups as f64 * 16.0 / seconds)
    }

    /// Measures the bytes a second of a copy within the device's memory, each byte counted once.
    ///
    /// # Errors
    /// The driver's error.
    pub fn copy(&self, from: &View<'_, u32>, to: &View<'_, u32>) -> Result<f64, DriverError> {
        let seconds = self.best(|| self.stream.copy(from, to))?;
        Ok(from.len() as f64 * 4.0 / seconds)
    }

    /// Measures the bytes a second to and from the host, with pinned memory.
    ///
    /// # Errors
    /// The driver's error.
    pub fn host(&self, bytes: usize) -> Result<[f64; 2], DriverError> {
        let words = bytes / 4;
        let mut pinned = Pinned::<u32>::new(&self.device, words)?;
        let buffer = self.device.alloc::<u32>(words)?;
        let mut best = [f64::INFINITY; 2];
        for _ in 0..RUNS {
            let started = Instant::now();
            self.stream.upload(&pinned, &buffer.all())?;
            self.stream.synchronize()?;
            best[0] = best[0].min(started.elapsed().as_secs_f64());
            let started = Instant::now();
            self.stream.download(&buffer.all(), &mut pinned)?;
            best[1] = best[1].min(started.elapsed().as_secs_f64());
        }
        Ok(best.map(|seconds| (4 * words) as f64 / seconds))
    }
}
