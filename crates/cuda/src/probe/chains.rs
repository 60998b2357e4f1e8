//! Self-tests of the kernels that measure rates, each with one block.

use std::sync::Arc;

use super::common::{SelfTestError, equal, permuted_bytes, random};
use super::fill;
use super::rates::{CHAIN, Instruction, THREADS, UNROLL, WARPGROUP_SHARED};
use crate::args;
use crate::driver::{Device, Grid};

/// Rounds of instructions.
const ROUNDS: u32 = 2;

/// Returns the word that a thread of the first block keeps, computed like `run_chains` in
/// `rates.cu`.
fn chain(instruction: Instruction, thread: u32) -> u32 {
    let wide = instruction == Instruction::MultiplyAddWide;
    let step = |own: u64, next: u64| {
        // The factor is that of the first block.
        let (own_word, next_word) = (own as u32, next as u32);
        let word = match instruction {
            Instruction::MultiplyAddWide => return u64::from(own_word).wrapping_add(own),
            Instruction::MultiplyAdd => own_word.wrapping_add(next_word),
            Instruction::MultiplyHigh => ((u64::from(own_word) * u64::from(next_word)) >> 32) as u32,
            Instruction::Add => own_word.wrapping_add(next_word).wrapping_add(1),
            Instruction::Logic => (own_word & next_word) ^ 1,
            Instruction::Permute => permuted_bytes(own_word, next_word, 0x2105),
            Instruction::Shift => (next_word << 7) | (own_word >> 25),
        };
        u64::from(word)
    };
    let mut values: [u64; CHAIN] = std::array::from_fn(|i| {
        let first = thread.wrapping_mul(2_654_435_761).wrapping_add(i as u32 * 40_503 + 1);
        if wide { u64::from(first) * 3 } else { u64::from(first.wrapping_mul(3)) }
    });
    for k in 0..ROUNDS as usize * CHAIN * UNROLL {
        let i = k % CHAIN;
        values[i] = step(values[i], values[(i + 1) % CHAIN]);
    }
    let sum = values.into_iter().fold(0, |sum, value| sum ^ value);
    sum as u32 ^ (sum >> 32) as u32
}

/// Checks chains of every instruction.
pub(super) fn instructions(device: &Arc<Device>) -> Result<(), SelfTestError> {
    let (stream, sink) = (device.main(), device.alloc::<u32>(THREADS)?);
    for instruction in Instruction::ALL {
        let kernel = device.kernel(instruction.kernel())?;
        stream.launch(&kernel, Grid::new(1, THREADS), args![&sink, ROUNDS])?;
        let expected = (0..THREADS as u32).map(|thread| chain(instruction, thread));
        equal(instruction.name(), &stream.read(&sink.all())?, expected)?;
    }
    Ok(())
}

/// Checks a fill of memory, and the sums of a read.
pub(super) fn memory(device: &Arc<Device>) -> Result<(), SelfTestError> {
    const GROUPS: usize = 2 * 8 * THREADS;
    const SEED: u64 = 77;
    let mix = |number: u64| {
        let z = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(SEED);
        let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    let stream = device.main();
    let filled = device.alloc::<u32>(4 * GROUPS)?;
    fill(&filled.all(), SEED)?;
    let words: Vec<u32> =
        (0..2 * GROUPS as u64).map(mix).flat_map(|word| [word as u32, (word >> 32) as u32]).collect();
    equal("probe_fill", &stream.read(&filled.all())?, words.iter().copied())?;
    let sink = device.alloc::<u32>(THREADS)?;
    let arguments = args![&sink, &filled, GROUPS as u64];
    stream.launch(&device.kernel("rate_read")?, Grid::new(1, THREADS), arguments)?;
    let expected = (0..THREADS).map(|thread| {
        let groups = words.chunks_exact(4).skip(thread).step_by(THREADS);
        groups.flatten().fold(0, |sum, word| sum ^ word)
    });
    equal("rate_read", &stream.read(&sink.all())?, expected)
}

/// Checks the products of a rate's tensor cores: sums of no rounds are zeros, and sums of two
/// rounds differ from sums of one round.
fn tensor(device: &Arc<Device>, name: &'static str, grid: Grid) -> Result<(), SelfTestError> {
    let (stream, kernel) = (device.main(), device.kernel(name)?);
    let sums = |rounds: u32| {
        let sink = device.upload(&random(14, 256))?;
        stream.launch(&kernel, grid, args![&sink, rounds])?;
        stream.read(&sink.all())
    };
    equal(name, &sums(0)?, [0; 256])?;
    let same = sums(1)?.iter().zip(sums(2)?).filter(|(one, two)| *one == two).count();
    equal(name, &[same as u64 / 256], [0u64])
}

/// Checks `rate_mma`.
pub(super) fn mma(device: &Arc<Device>) -> Result<(), SelfTestError> {
    tensor(device, "rate_mma", Grid::new(1, 256))
}

/// Checks `rate_wgmma`.
pub(super) fn wgmma(device: &Arc<Device>) -> Result<(), SelfTestError> {
    tensor(device, "rate_wgmma", Grid::new(1, 256).shared(WARPGROUP_SHARED))
}
