//! Self-tests of `portable.cuh`: the kernels of `selftest.cu`, and their expected results.

use std::sync::Arc;

use super::chains;
use super::common::{SelfTestError, equal, permuted_bytes, random};
use crate::args;
use crate::driver::{Compute, Device, DriverError, Grid};

/// Self-test of one family of primitives.
#[derive(Clone, Copy, Debug)]
pub struct SelfTest {
    name: &'static str,
    run: fn(&Arc<Device>) -> Result<(), SelfTestError>,
}

impl SelfTest {
    const ALL: [Self; 12] = [
        Self { name: "pool", run: pool },
        Self { name: "words", run: words },
        Self { name: "warp", run: warp },
        Self { name: "matrices", run: matrices },
        Self { name: "block-barrier", run: block_barrier },
        Self { name: "copy-async", run: copy_async },
        Self { name: "atomics", run: atomics },
        Self { name: "grid-barrier", run: grid_barrier },
        Self { name: "mma", run: mma },
        Self { name: "rate-instructions", run: chains::instructions },
        Self { name: "rate-memory", run: chains::memory },
        Self { name: "rate-mma", run: chains::mma },
    ];

    /// Self-test of products that Turing lacks.
    const AMPERE: [Self; 1] = [Self { name: "common-ones", run: common_ones }];
    /// Self-tests of Hopper's tensor cores.
    const HOPPER: [Self; 3] = [
        Self { name: "rate-wgmma", run: chains::wgmma },
        Self { name: "wgmma-128", run: |device| wgmma(device, "selftest_wgmma_128", 128) },
        Self { name: "wgmma-256", run: |device| wgmma(device, "selftest_wgmma_256", 256) },
    ];

    /// Returns all self-tests that apply to `device`.
    pub fn all(device: &Device) -> Vec<Self> {
        let compute = device.properties().compute;
        let ampere = if compute >= Compute::AMPERE { &Self::AMPERE[..] } else { &[] };
        let hopper = if compute == Compute::WARPGROUPS { &Self::HOPPER[..] } else { &[] };
        [&Self::ALL, ampere, hopper].concat()
    }

    /// Returns the test's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the test.
    ///
    /// # Errors
    /// The first wrong result, or the driver's error.
    pub fn run(&self, device: &Arc<Device>) -> Result<(), SelfTestError> {
        (self.run)(device)
    }
}

/// Checks that memory reserved in the pool for queries is not given to a database, however little
/// other memory is free.
fn pool(device: &Arc<Device>) -> Result<(), SelfTestError> {
    const KEPT: usize = 256 << 20;
    let kept = KEPT.min(device.memory()?.0 / 2);
    device.reserve(kept as u64)?;
    let (free, _) = device.memory()?;
    let wanted = free + kept / 2;
    match device.hold::<u8>(wanted) {
        Err(DriverError::OutOfMemory { .. }) => {}
        Err(error) => return Err(error.into()),
        Ok(_) => {
            let what = "bytes that were held where fewer were free".into();
            return Err(SelfTestError::Wrong { what, found: wanted as u64, expected: free as u64 });
        }
    }
    drop(device.alloc::<u8>(kept)?);
    device.main().synchronize()?;
    Ok(device.trim(0)?)
}

/// Checks every operation on words of one thread: on all combinations of edge values, and on random
/// words.
fn words(device: &Arc<Device>) -> Result<(), SelfTestError> {
    const EDGES: [u32; 6] = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];
    let edges = EDGES.len();
    let count = edges.pow(3) + 1004;
    let mut inputs = random(1, 3 * count);
    for (i, combination) in (0..edges.pow(3)).enumerate() {
        inputs[i] = EDGES[combination % edges];
        inputs[count + i] = EDGES[combination / edges % edges];
        inputs[2 * count + i] = EDGES[combination / edges.pow(2)];
    }
    let (from, to) = (device.upload(&inputs)?, device.alloc::<u32>(14 * count)?);
    let stream = device.main();
    let kernel = device.kernel("selftest_words")?;
    stream.launch(&kernel, Grid::new(count.div_ceil(256), 256), args![&to, &from, count as u32])?;
    let found = stream.read(&to.all())?;
    let [a, b, c]: [&[u32]; 3] = std::array::from_fn(|k| &inputs[k * count..][..count]);
    let triples = || (0..count).map(|i| (a[i], b[i], c[i]));
    let wide = |(a, b, c): (u32, u32, u32)| {
        let addend = u64::from(c) << 32 | u64::from(b);
        (u64::from(a) * u64::from(b)).wrapping_add(addend)
    };
    let high = |(a, b, _): (u32, u32, u32)| ((u64::from(a) * u64::from(b)) >> 32) as u32;
    let high_signed = |(a, b, _): (u32, u32, u32)| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32;
    let funnel =
        |(a, b, c): (u32, u32, u32)| (((u64::from(b) << 32 | u64::from(a)) << (c % 32)) >> 32) as u32;
    let dot = |(a, b, c): (u32, u32, u32)| {
        let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
        products.fold(c, |sum, (a, b)| sum.wrapping_add(u32::from(a) * u32::from(b)))
    };
    let results = |k: usize| &found[k * count..][..count];
    equal("multiply_add_wide, lower word", results(0), triples().map(|t| wide(t) as u32))?;
    equal("multiply_add_wide, upper word", results(1), triples().map(|t| (wide(t) >> 32) as u32))?;
    equal("multiply_high", results(2), triples().map(high))?;
    equal("multiply_high_signed", results(3), triples().map(high_signed))?;
    equal("funnel_left", results(4), triples().map(funnel))?;
    equal("permute_bytes", results(5), triples().map(|(a, b, c)| permuted_bytes(a, b, c)))?;
    equal("dot_bytes", results(6), triples().map(dot))?;
    equal("opaque", results(7), a.iter().copied())?;
    equal("load_once", results(8), b.iter().copied())?;
    let groups = || (0..count).map(|i| &a[i / 4 * 4..][..4]);
    equal(
        "load_once of a group",
        results(9),
        groups().map(|group| group.iter().fold(0, |sum, word| sum ^ word)),
    )?;
    let sum = |group: &[u32]| group.iter().fold(0, |sum: u32, &word| sum.wrapping_add(word));
    equal("load_table", results(10), groups().map(sum))?;
    let low = |(a, b, c): (u32, u32, u32)| a.wrapping_mul(b).wrapping_add(c);
    let joined = |(a, b, c): (u32, u32, u32)| (u64::from(b) << 32 | u64::from(a)).wrapping_add(u64::from(c));
    equal("multiply_add_low", results(11), triples().map(low))?;
    equal("join_words, lower word", results(12), triples().map(|t| joined(t) as u32))?;
    equal("join_words, upper word", results(13), triples().map(|t| (joined(t) >> 32) as u32))
}

/// Checks the exchange of values between the lanes of a warp.
fn warp(device: &Arc<Device>) -> Result<(), SelfTestError> {
    let values = random(2, 32);
    let (from, to) = (device.upload(&values)?, device.alloc::<u32>(9 * 32)?);
    let stream = device.main();
    stream.launch(&device.kernel("selftest_warp")?, Grid::new(1, 32), args![&to, &from])?;
    let found = stream.read(&to.all())?;
    let results = |k: usize| &found[32 * k..][..32];
    equal("from_lane", results(0), (0..32).map(|lane| values[(3 * lane + 1) % 32]))?;
    for k in 0..5 {
        equal("from_lane_xor", results(k + 1), (0..32).map(|lane| values[lane ^ 1 << k]))?;
    }
    let odd = values.iter().rev().fold(0, |mask, value| (mask << 1) | (value % 2));
    equal("ballot", results(6), [odd; 32])?;
    equal("from_lane of 64 bits, lower word", results(7), values.iter().rev().map(|value| !value))?;
    equal("from_lane of 64 bits, upper word", results(8), values.iter().rev().copied())
}

/// Checks loads of matrices of 16-bit values, which distribute rows to the lanes that multiply
/// them.
fn matrices(device: &Arc<Device>) -> Result<(), SelfTestError> {
    let rows = random(8, 4 * 32);
    let (from, to) = (device.upload(&rows)?, device.alloc::<u32>(4 * 32)?);
    let stream = device.main();
    let grid = Grid::new(1, 32).shared(32 * 16);
    stream.launch(&device.kernel("selftest_matrices")?, grid, args![&to, &from])?;
    let expected = (0..128).map(|i| {
        let (matrix, lane) = (i / 32, i % 32);
        rows[(8 * matrix + lane / 4) * 4 + lane % 4]
    });
    equal("load_matrices", &stream.read(&to.all())?, expected)
}

/// Checks block barriers: words go to and fro through shared memory.
fn block_barrier(device: &Arc<Device>) -> Result<(), SelfTestError> {
    const ROUNDS: u32 = 100;
    let blocks = 2 * device.properties().processors as usize;
    let mut values = random(3, 256 * blocks);
    let words = device.upload(&values)?;
    let stream = device.main();
    let grid = Grid::new(blocks, 256).shared(256 * size_of::<u32>());
    stream.launch(&device.kernel("selftest_block")?, grid, args![&words, ROUNDS])?;
    for block in values.chunks_exact_mut(256) {
        for round in 0..ROUNDS {
            block.reverse();
            block.iter_mut().for_each(|value| *value = value.wrapping_mul(5).wrapping_add(round));
        }
    }
    equal("block_barrier", &stream.read(&words.all())?, values)
}

/// Checks asynchronous copies of tiles to shared memory.
fn copy_async(device: &Arc<Device>) -> Result<(), SelfTestError> {
    const THREADS: usize = 128;
    let stream = device.main();
    let kernel = device.kernel("selftest_copy")?;
    for tiles in [1, 2, 3, 4, 50] {
        let words = random(4, tiles * THREADS * 4);
        let from = device.upload(&words)?;
        let sums = device.alloc::<u32>(THREADS)?;
        let grid = Grid::new(1, THREADS).shared(4 * THREADS * 16);
        stream.launch(&kernel, grid, args![&sums, &from, tiles as u32])?;
        let expected = (0..THREADS).rev().map(|thread| {
            let tiles = words.chunks_exact(THREADS * 4).zip(1u32..);
            tiles.fold(0u32, |sum, (tile, number)| {
                let words = &tile[4 * thread..][..4];
                let of_tile = words.iter().fold(0u32, |sum, &word| sum.wrapping_add(word));
                sum.wrapping_add(of_tile.wrapping_mul(number))
            })
        });
        equal(&format!("copy_async of {tiles} tiles"), &stream.read(&sums.all())?, expected)?;
    }
    Ok(())
}

/// Checks atomic operations: all threads change the same words.
fn atomics(device: &Arc<Device>) -> Result<(), SelfTestError> {
    let threads = 256 * device.properties().processors as usize;
    let (counters, sum) = (device.upload(&[0u32; 2])?, device.upload(&[0u64])?);
    let taken = device.alloc::<u32>(threads)?;
    let stream = device.main();
    let kernel = device.kernel("selftest_atomics")?;
    stream.launch(&kernel, Grid::new(threads / 256, 256), args![&counters, &sum, &taken])?;
    let mut taken = stream.read(&taken.all())?;
    taken.sort_unstable();
    equal("atomic_add of 32 bits, as it was found", &taken, 0..threads as u32)?;
    let all = 0..threads as u32;
    let xor = all.clone().fold(0, |sum, i| sum ^ i.wrapping_mul(2_654_435_761));
    equal("atomic_add and atomic_xor", &stream.read(&counters.all())?, [threads as u32, xor])?;
    let expected = all.map(|i| (1 << 31) + u64::from(i)).sum();
    equal("atomic_add of 64 bits", &stream.read(&sum.all())?, [expected])
}

/// Checks grid barriers: blocks read what other blocks have written.
fn grid_barrier(device: &Arc<Device>) -> Result<(), SelfTestError> {
    const ROUNDS: u32 = 20;
    let blocks = device.properties().processors as usize;
    let (arrived, words) = (device.upload(&[0u32])?, device.alloc::<u32>(2 * blocks)?);
    let sums = device.alloc::<u32>(blocks)?;
    let stream = device.main();
    let kernel = device.kernel("selftest_grid")?;
    stream.launch_cooperative(&kernel, Grid::new(blocks, 64), args![&arrived, &words, &sums, ROUNDS])?;
    // All blocks add up the same words, so all sums agree after every round.
    let mut sum = 0u32;
    for round in 1..=ROUNDS {
        let written = (1..=blocks as u32).map(|block| round.wrapping_mul(block).wrapping_add(sum));
        sum = written.fold(sum, u32::wrapping_add);
    }
    equal("grid_barrier", &stream.read(&sums.all())?, vec![sum; blocks])
}

/// Checks `wgmma`: products of 64 rows by `columns` columns of 64 bytes, added to accumulators that
/// wrap.
fn wgmma(device: &Arc<Device>, kernel: &'static str, columns: usize) -> Result<(), SelfTestError> {
    let kernel_of = device.kernel(kernel)?;
    let random_a = bytemuck::cast_slice(&random(9, 64 * 16)).to_vec();
    let random_b = bytemuck::cast_slice(&random(10, columns * 16)).to_vec();
    let d = random(11, 64 * columns);
    let stream = device.main();
    for (a, b) in [(random_a, random_b), (vec![0xffu8; 64 * 64], vec![0xffu8; columns * 64])] {
        let words = device.upload(&d)?;
        let (from_a, from_b) = (device.upload(&a)?, device.upload(&b)?);
        let grid = Grid::new(1, 128).shared(columns * 64);
        stream.launch(&kernel_of, grid, args![&words, &from_a, &from_b])?;
        let expected = d.iter().enumerate().map(|(i, &before)| {
            // Accumulator k of a thread belongs to one of the columns 8 (k / 4) to 8 (k / 4) + 7.
            let (k, thread) = (i / 128, i % 128);
            let row = thread / 32 * 16 + thread % 32 / 4 + k % 4 / 2 * 8;
            let column = k / 4 * 8 + thread % 4 * 2 + k % 2;
            let (row, column) = (&a[row * 64..][..64], &b[column * 64..][..64]);
            row.iter().zip(column).fold(before, |sum, (&a, &b)| sum.wrapping_add(u32::from(a) * u32::from(b)))
        });
        equal(kernel, &stream.read(&words.all())?, expected)?;
    }
    Ok(())
}

/// Checks `mma` of bits: random tiles, and tiles with only zeros, only ones, and both in turn.
fn common_ones(device: &Arc<Device>) -> Result<(), SelfTestError> {
    const TILES: usize = 100;
    let (mut a, mut b) = (random(12, TILES * 128), random(13, TILES * 64));
    let edges = [0, 0x5555_5555, u32::MAX];
    for (tile, (of_a, of_b)) in edges.iter().flat_map(|a| edges.iter().map(move |b| (a, b))).enumerate() {
        a[128 * tile..][..128].fill(*of_a);
        b[64 * tile..][..64].fill(*of_b);
    }
    let words = device.alloc::<u32>(TILES * 128)?;
    let (from_a, from_b) = (device.upload(&a)?, device.upload(&b)?);
    let stream = device.main();
    let kernel = device.kernel("selftest_common_ones")?;
    stream.launch(&kernel, Grid::new(TILES, 32), args![&words, &from_a, &from_b])?;
    let expected = (0..TILES * 128).map(|i| {
        let (tile, row, column) = (i / 128, i % 128 / 8, i % 8);
        let (row, column) = (&a[tile * 128 + row * 8..][..8], &b[tile * 64 + column * 8..][..8]);
        row.iter().zip(column).map(|(a, b)| (a & b).count_ones()).sum::<u32>()
    });
    equal("mma_common_ones", &stream.read(&words.all())?, expected)
}

/// Checks `mma`: products of tiles of random and of extreme bytes, added to accumulators that wrap.
fn mma(device: &Arc<Device>) -> Result<(), SelfTestError> {
    const TILES: usize = 100;
    let mut a: Vec<u8> = bytemuck::cast_slice(&random(5, TILES * 128)).to_vec();
    let mut b: Vec<u8> = bytemuck::cast_slice(&random(6, TILES * 64)).to_vec();
    let d = random(7, TILES * 128);
    let edges = [0u8, 0x7f, 0x80, 0xff];
    for (tile, (&of_a, &of_b)) in edges.iter().flat_map(|a| edges.iter().map(move |b| (a, b))).enumerate() {
        a[512 * tile..][..512].fill(of_a);
        b[256 * tile..][..256].fill(of_b);
    }
    let words = device.upload(&d)?;
    let (from_a, from_b) = (device.upload(&a)?, device.upload(&b)?);
    let stream = device.main();
    stream.launch(&device.kernel("selftest_mma")?, Grid::new(TILES, 32), args![&words, &from_a, &from_b])?;
    let expected = d.iter().enumerate().map(|(i, &before)| {
        let (tile, row, column) = (i / 128, i % 128 / 8, i % 8);
        let row = &a[tile * 512 + row * 32..][..32];
        let column = &b[tile * 256 + column * 32..][..32];
        row.iter().zip(column).fold(before, |sum, (&a, &b)| sum.wrapping_add(u32::from(a) * u32::from(b)))
    });
    equal("mma_u8u8", &stream.read(&words.all())?, expected)
}
