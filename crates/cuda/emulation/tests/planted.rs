//! Planted bugs in kernels: the correct kernel passes in every order, and each bug shows in at
//! least one order.

mod common;

use common::{Device, Shape, Stream, code, emulation};
use spirea_cuda_emulation::{Config, ThreadOrder};

const LAUNCH_FAILED: u32 = 719;
const ILLEGAL_ADDRESS: u32 = 700;
const MISALIGNED_ADDRESS: u32 = 716;

const ORDERS: [ThreadOrder; 3] = [ThreadOrder::Forward, ThreadOrder::Reversed, ThreadOrder::Shuffled];

/// Result of a kernel in one order: its words, or the error and the emulation's message.
type Outcome = Result<Vec<u32>, (u32, String)>;

/// Runs `body` in the three orders, each after a reset.
fn outcomes(body: impl Fn(&Device, &Stream) -> common::Result<Vec<u32>>) -> [Outcome; 3] {
    let emulation = emulation();
    ORDERS.map(|threads| {
        emulation.with(Config { threads, ..emulation.config() }, || {
            let device = Device::new(0).unwrap();
            body(&device, &device.stream()).map_err(|error| (error.0 as u32, emulation.last_error()))
        })
    })
}

/// Runs one block of `threads` threads of a kernel with the parameters (from, to, ..), on the words
/// 0 to `count` - 1.
fn one_block(kernel: &str, threads: u32, count: u32, last: u32) -> [Outcome; 3] {
    outcomes(|device, stream| {
        let from = device.upload(&(0..count).collect::<Vec<_>>());
        let to = device.upload(&vec![0; count as usize]);
        let shape = Shape::new(1, threads).shared(4 * count);
        stream.launch(device.function(kernel)?, shape, &mut [from, to, u64::from(last)])?;
        device.download(to, count as usize)
    })
}

fn assert_right(outcomes: &[Outcome; 3], expected: &[u32]) {
    for (order, outcome) in ORDERS.iter().zip(outcomes) {
        assert_eq!(outcome.as_deref(), Ok(expected), "{order:?}");
    }
}

fn assert_seen(outcomes: &[Outcome; 3], expected: &[u32]) {
    assert!(outcomes.iter().any(|outcome| outcome.as_deref() != Ok(expected)), "no order shows the bug");
}

/// Checks that every order ends with this error and a message that contains `words`.
fn assert_refused(outcomes: &[Outcome; 3], expected: u32, words: &str) {
    for outcome in outcomes {
        let (code, message) = outcome.as_ref().unwrap_err();
        assert_eq!(*code, expected, "{message}");
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn a_missing_block_barrier_shows() {
    let n = 256;
    let mirrored = |t: u32| n - 1 - t;
    let expected: Vec<_> = (0..n).map(|t| 3 * mirrored((t + 1) % n) + mirrored(t)).collect();
    assert_right(&one_block("stages", n, n, 0), &expected);
    for missing in 1..=3 {
        assert_seen(&one_block("stages", n, n, missing), &expected);
    }
}

#[test]
fn a_missing_group_barrier_shows() {
    let expected: Vec<_> = (0..256).map(|t| t / 64 * 64 + 63 - t % 64).collect();
    assert_right(&one_block("groups", 256, 256, 0), &expected);
    assert_seen(&one_block("groups", 256, 256, 1), &expected);
    assert_refused(&one_block("groups", 256, 256, 2), LAUNCH_FAILED, "group_barrier at barriers.cu");
}

#[test]
fn the_orders_complement_each_other() {
    let expected: Vec<_> = (0..256_u32).map(|t| t.saturating_sub(1)).collect();
    assert_right(&one_block("shift_right", 256, 256, 0), &expected);
    let [forward, reversed, shuffled] = one_block("shift_right", 256, 256, 1);
    assert_eq!(forward.as_deref(), Ok(&expected[..]), "this bug hides in the forward order");
    assert_ne!(reversed.as_deref(), Ok(&expected[..]));
    assert_ne!(shuffled.as_deref(), Ok(&expected[..]));
}

#[test]
fn a_missing_warp_barrier_shows() {
    let expected: Vec<_> = (0..256).map(|t| t ^ 1).collect();
    assert_right(&one_block("warp_shift", 256, 256, 0), &expected);
    assert_seen(&one_block("warp_shift", 256, 256, 1), &expected);
}

/// Runs one block of a kernel with the parameters (words, parameter).
fn in_place(kernel: &str, threads: u32, parameter: u32) -> [Outcome; 3] {
    outcomes(|device, stream| {
        let words = device.upload(&vec![0; threads as usize]);
        let shape = Shape::new(1, threads).shared(4 * threads);
        stream.launch(device.function(kernel)?, shape, &mut [words, u64::from(parameter)])?;
        device.download(words, threads as usize)
    })
}

#[test]
fn divergent_barriers_are_refused() {
    let all: Vec<_> = (0..128).collect();
    assert_right(&in_place("divergent_barrier", 128, 0), &all);
    let outcomes = in_place("divergent_barrier", 128, 100);
    assert_refused(&outcomes, LAUNCH_FAILED, "not reached by all threads");
    assert_refused(&outcomes, LAUNCH_FAILED, "barriers.cu:");
    assert_refused(&outcomes, LAUNCH_FAILED, "has exited");
    assert_right(&in_place("two_barriers", 128, 0), &all);
    assert_refused(&in_place("two_barriers", 128, 64), LAUNCH_FAILED, "waits at barriers.cu:");
}

#[test]
fn divergent_warp_operations_are_refused() {
    assert_right(&in_place("divergent_shuffle", 64, 0), &[[31; 32], [63; 32]].concat());
    assert_refused(&in_place("divergent_shuffle", 64, 16), LAUNCH_FAILED, "divergent from_lane");
    assert_right(&in_place("exited_lanes", 32, 0), &[u32::MAX; 32]);
    assert_refused(&in_place("exited_lanes", 32, 3), LAUNCH_FAILED, "has exited");
}

#[test]
fn masks_are_checked() {
    let all: Vec<_> = (0..32).collect();
    assert_right(&in_place("masked_barrier", 32, u32::MAX), &all);
    assert_refused(&in_place("masked_barrier", 32, 0xffff), LAUNCH_FAILED, "not in its own mask");
    assert_refused(&in_place("masked_barrier", 20, u32::MAX), LAUNCH_FAILED, "does not exist");
    let halves = outcomes(|device, stream| {
        let words = device.upload(&[0; 32]);
        stream.launch(device.function("half_warps")?, Shape::new(1, 32).shared(128), &mut [words])?;
        device.download(words, 32)
    });
    assert_right(&halves, &(0..32).map(|lane| (lane ^ 15) + 31).collect::<Vec<_>>());
}

#[test]
fn a_missing_wait_for_a_copy_shows() {
    let n = 256;
    let expected: Vec<_> = (0..n).map(|i| i ^ 4).collect();
    assert_right(&one_block("fetch", 64, n, 0), &expected);
    for missing in 1..=3 {
        assert_seen(&one_block("fetch", 64, n, missing), &expected);
    }
    let pipeline = |missing: u64| {
        outcomes(|device, stream| {
            let from = device.upload(&(0..5 * 128).collect::<Vec<_>>());
            let to = device.upload(&[0; 5 * 128]);
            let shape = Shape::new(1, 32).shared(1024);
            stream.launch(device.function("pipeline")?, shape, &mut [from, to, 5, missing])?;
            device.download(to, 5 * 128)
        })
    };
    let expected: Vec<_> = (0..5 * 128).collect();
    assert_right(&pipeline(0), &expected);
    assert_seen(&pipeline(1), &expected);
}

#[test]
fn a_missing_grid_barrier_shows() {
    let blocks = 6;
    let run = |missing: u64, cooperative: bool, counter: u32| {
        outcomes(|device, stream| {
            let from = device.upload(&(1..=blocks).collect::<Vec<_>>());
            let [cells, sums] = [1, 2].map(|_| device.upload(&vec![0; blocks as usize]));
            let arrived = device.upload(&[counter]);
            let mut shape = Shape::new(blocks, 32);
            if cooperative {
                shape = shape.cooperative();
            }
            let mut arguments = [from, cells, sums, arrived, missing];
            stream.launch(device.function("grid_sum")?, shape, &mut arguments)?;
            device.download(sums, blocks as usize)
        })
    };
    let expected = vec![21; 6];
    assert_right(&run(0, true, 0), &expected);
    assert_seen(&run(1, true, 0), &expected);
    assert_seen(&run(2, true, 0), &expected);
    assert_refused(&run(3, true, 0), LAUNCH_FAILED, "before round 1, which wants 0");
    assert_refused(&run(0, true, 1), LAUNCH_FAILED, "before round 1, which wants 0");
    assert_refused(&run(0, false, 0), LAUNCH_FAILED, "not cooperative");
}

#[test]
fn blocks_that_read_until_another_writes_take_turns() {
    let run = |missing: u64, cooperative: bool| {
        outcomes(|device, stream| {
            let (counter, to) = (device.upload(&[0]), device.upload(&[9; 6]));
            let shape = Shape::new(6, 64);
            let shape = if cooperative { shape.cooperative() } else { shape };
            stream.launch(device.function("hand_on")?, shape, &mut [counter, to, missing])?;
            device.download(to, 6)
        })
    };
    assert_right(&run(0, true), &[0, 1, 2, 3, 4, 5]);
    assert_refused(&run(1, true), LAUNCH_FAILED, "blocks wait for each other without end");
    assert_refused(&run(0, false), LAUNCH_FAILED, "not cooperative");
}

#[test]
fn accesses_behind_the_end_show_without_a_sanitizer() {
    if under_address_sanitizer() {
        return;
    }
    let all: Vec<_> = (0..32).collect();
    assert_right(&in_place("global_read", 32, 3), &[0; 32]);
    assert_refused(&in_place("shared_write", 32, 32), ILLEGAL_ADDRESS, "behind its shared memory");
    assert_refused(
        &in_place("global_write", 32, 32),
        ILLEGAL_ADDRESS,
        "kernel global_write wrote behind the end",
    );
    let stray = outcomes(|device, stream| {
        stream.launch(device.function("write_through")?, Shape::new(1, 32), &mut [64])?;
        Ok(all.clone())
    });
    assert_refused(&stray, ILLEGAL_ADDRESS, "access to 0x");
    assert_refused(&stray, ILLEGAL_ADDRESS, "bounds.cu:");
}

#[test]
fn pointers_among_the_arguments_are_checked() {
    let stray = outcomes(|device, stream| {
        stream.launch(device.function("global_read")?, Shape::new(1, 32), &mut [4096, 0])?;
        Ok(vec![])
    });
    assert_refused(&stray, ILLEGAL_ADDRESS, "argument 0 points to no memory of a device");
    let freed = outcomes(|device, stream| {
        let words = device.upload(&[0; 32]);
        device.free(words);
        stream.launch(device.function("global_read")?, Shape::new(1, 32), &mut [words, 0])?;
        Ok(vec![])
    });
    assert_refused(&freed, ILLEGAL_ADDRESS, "argument 0 points to no memory of a device");
}

#[test]
fn what_this_processor_forgives_is_refused() {
    let expected: Vec<_> = [[3; 32], [0; 32]].concat()[..32].to_vec();
    assert_right(&one_block("wide_read", 32, 32, 0), &expected);
    assert_refused(&one_block("wide_read", 32, 32, 1), MISALIGNED_ADDRESS, "misaligned");
    assert_right(&in_place("shift_by", 32, 31), &[1 << 31; 32]);
    assert_refused(&in_place("shift_by", 32, 32), MISALIGNED_ADDRESS, "bounds.cu:");
    assert_refused(&one_block("misplaced_copy", 32, 128, 1), MISALIGNED_ADDRESS, "not at multiples of 16");
    assert_refused(&one_block("misplaced_copy", 32, 128, 4), ILLEGAL_ADDRESS, "outside of the 512 bytes");
}

#[test]
fn a_lost_context_stays_lost_and_its_fibers_are_abandoned() {
    let emulation = emulation();
    for _ in 0..20 {
        emulation.with(emulation.config(), || {
            let device = Device::new(0).unwrap();
            let stream = device.stream();
            let words = device.upload(&[0; 256]);
            let diverge = device.function("divergent_barrier").unwrap();
            let launched = stream.launch(diverge, Shape::new(8, 256), &mut [words, 100]);
            assert_eq!(code(launched), LAUNCH_FAILED);
            assert_eq!(code(device.download(words, 1)), LAUNCH_FAILED);
            assert_eq!(code(stream.synchronize()), LAUNCH_FAILED);
        });
    }
}

fn under_address_sanitizer() -> bool {
    emulation().library().contains("asan")
}
