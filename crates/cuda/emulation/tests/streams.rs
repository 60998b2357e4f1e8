//! Mistakes of host code with streams: each mistake shows in some order of streams, and the correct
//! code passes in all.

#![allow(unsafe_code)]

mod common;

use common::{Device, Shape, Stream, code, emulation};
use cudarc::driver::{result, sys};
use spirea_cuda_emulation::{Config, Emulation, StreamOrder};

const ORDERS: [StreamOrder; 3] = [StreamOrder::Eager, StreamOrder::Lazy, StreamOrder::LastFirst];
const COUNT: usize = 64;

/// Runs a test with one order of streams.
fn with_order<T>(streams: StreamOrder, test: impl FnOnce(&Emulation) -> T) -> T {
    emulation().with(Config { streams, ..Config::default() }, || test(emulation()))
}

fn add(device: &Device, stream: &Stream, from: u64, to: u64, value: u64) {
    let function = device.function("add_value").unwrap();
    stream.launch(function, Shape::new(1, 64), &mut [from, to, COUNT as u64, value]).unwrap();
}

/// Writes on one stream and reads on another, with or without an event between them.
fn two_streams(order: StreamOrder, waits: bool, reader_first: bool) -> Vec<u32> {
    with_order(order, |_| {
        let device = Device::new(0).unwrap();
        let (mut writer, mut reader) = (device.stream(), device.stream());
        if reader_first {
            std::mem::swap(&mut writer, &mut reader);
        }
        let [a, b, c] = [1, 2, 3].map(|word| device.upload(&[word; COUNT]));
        add(&device, &writer, a, b, 10);
        let written = writer.record();
        if waits {
            reader.wait(&written).unwrap();
        }
        add(&device, &reader, b, c, 100);
        reader.synchronize().unwrap();
        device.download(c, COUNT).unwrap()
    })
}

#[test]
fn a_missing_wait_between_streams_shows() {
    let expected = vec![111; COUNT];
    for order in ORDERS {
        for reader_first in [false, true] {
            assert_eq!(two_streams(order, true, reader_first), expected, "{order:?}");
        }
    }
    assert_eq!(two_streams(StreamOrder::Eager, false, false), expected, "this bug hides");
    assert_ne!(two_streams(StreamOrder::Lazy, false, false), expected);
    assert_ne!(two_streams(StreamOrder::LastFirst, false, false), expected);
}

/// Allocates pinned memory of `COUNT` words.
fn pinned() -> &'static mut [u32] {
    // SAFETY: freshly allocated, page-aligned, and poisoned by the emulation.
    unsafe {
        let memory = result::malloc_host(4 * COUNT, 0).unwrap();
        std::slice::from_raw_parts_mut(memory.cast(), COUNT)
    }
}

fn free_pinned(words: &mut [u32]) -> common::Result<()> {
    // SAFETY: made by `pinned`, and not used again.
    unsafe { result::free_host(words.as_mut_ptr().cast()) }
}

/// Uploads from pinned memory that is overwritten afterwards, with or without waiting for the copy.
fn reuse_of_pinned(order: StreamOrder, waits: bool) -> Vec<u32> {
    with_order(order, |_| {
        let device = Device::new(0).unwrap();
        let stream = device.stream();
        let memory = device.upload(&[0; COUNT]);
        let words = pinned();
        words.fill(7);
        // SAFETY: both have the same length.
        unsafe { result::memcpy_htod_async(memory, words, stream.0) }.unwrap();
        if waits {
            stream.synchronize().unwrap();
        }
        words.fill(9);
        stream.synchronize().unwrap();
        free_pinned(words).unwrap();
        device.download(memory, COUNT).unwrap()
    })
}

#[test]
fn reuse_of_pinned_memory_before_the_copy_shows() {
    for order in ORDERS {
        assert_eq!(reuse_of_pinned(order, true), vec![7; COUNT]);
    }
    assert_ne!(reuse_of_pinned(StreamOrder::Lazy, false), vec![7; COUNT]);
    assert_ne!(reuse_of_pinned(StreamOrder::LastFirst, false), vec![7; COUNT]);
}

#[test]
fn results_in_pinned_memory_come_with_the_wait() {
    for order in [StreamOrder::Lazy, StreamOrder::LastFirst] {
        with_order(order, |_| {
            let device = Device::new(0).unwrap();
            let stream = device.stream();
            let memory = device.upload(&[5; COUNT]);
            let words = pinned();
            words.fill(0);
            // SAFETY: both have the same length and live until the wait.
            unsafe { result::memcpy_dtoh_async(words, memory, stream.0) }.unwrap();
            assert_eq!(words, [0; COUNT], "not yet");
            stream.synchronize().unwrap();
            assert_eq!(words, [5; COUNT]);
            free_pinned(words).unwrap();
        });
    }
}

#[test]
fn pinned_memory_freed_too_early_loses_the_context() {
    with_order(StreamOrder::Lazy, |emulation| {
        let device = Device::new(0).unwrap();
        let stream = device.stream();
        let memory = device.upload(&[0; COUNT]);
        let words = pinned();
        // SAFETY: the copy never runs.
        unsafe { result::memcpy_htod_async(memory, words, stream.0) }.unwrap();
        assert_eq!(code(free_pinned(words)), 700);
        assert!(emulation.last_error().contains("pinned memory was freed"));
        assert_eq!(code(stream.synchronize()), 700);
        emulation.reset();
        free_pinned(words).unwrap();
    });
}

#[test]
fn pageable_memory_is_taken_at_the_call_and_given_before_its_end() {
    for order in ORDERS {
        with_order(order, |_| {
            let device = Device::new(0).unwrap();
            let stream = device.stream();
            let memory = device.upload(&[0; COUNT]);
            let mut words = vec![3_u32; COUNT];
            // SAFETY: both have the same length.
            unsafe {
                result::memcpy_htod_async(memory, &words, stream.0).unwrap();
                words.fill(0);
                result::memcpy_dtoh_async(&mut words, memory, stream.0).unwrap();
            }
            assert_eq!(words, vec![3; COUNT]);
        });
    }
}

#[test]
fn memory_belongs_to_its_place_in_the_stream() {
    for order in ORDERS {
        with_order(order, |emulation| {
            let device = Device::new(0).unwrap();
            let stream = device.stream();
            let source = device.upload(&[1; COUNT]);
            // SAFETY: the emulation checks all calls.
            unsafe {
                let memory = result::malloc_async(stream.0, 4 * COUNT).unwrap();
                add(&device, &stream, source, memory, 1);
                add(&device, &stream, memory, source, 1);
                result::free_async(memory, stream.0).unwrap();
                // After `free_async`, no call may use the memory, even if the free has not run yet.
                let mut words = [0_u32; COUNT];
                assert_eq!(code(result::memcpy_dtoh_async(&mut words, memory, stream.0)), 1);
            }
            stream.synchronize().unwrap();
            assert_eq!(device.download(source, COUNT).unwrap(), vec![3; COUNT]);
            assert_eq!(emulation.live(0).allocations, 1);

            let (early, late) = (device.stream(), device.stream());
            // SAFETY: the emulation checks all calls.
            let outcome = unsafe {
                let memory = result::malloc_async(late.0, 4 * COUNT).unwrap();
                result::memcpy_dtod_async(memory, source, 4 * COUNT, early.0)
                    .and_then(|()| early.synchronize())
            };
            let expected = if order == StreamOrder::Lazy { 700 } else { 0 };
            assert_eq!(code(outcome), expected, "the other stream did not wait for the allocation");
        });
    }
}

#[test]
fn events_are_asked_and_timed() {
    for order in ORDERS {
        with_order(order, |_| {
            let device = Device::new(0).unwrap();
            let stream = device.stream();
            let memory = device.upload(&[1; COUNT]);
            let start = stream.record();
            add(&device, &stream, memory, memory, 1);
            let end = stream.record();
            // SAFETY: both events are valid.
            unsafe {
                if order == StreamOrder::Lazy {
                    assert_eq!(code(result::event::elapsed(start.0, end.0)), 600);
                }
                while let Err(error) = result::event::query(end.0) {
                    assert_eq!(error.0, sys::CUresult::CUDA_ERROR_NOT_READY);
                }
                result::event::synchronize(end.0).unwrap();
                assert!(result::event::elapsed(start.0, end.0).unwrap() >= 0.0);
            }
            assert_eq!(device.download(memory, COUNT).unwrap(), vec![2; COUNT]);
        });
    }
}

#[test]
fn graphs_repeat_what_streams_did() {
    for order in ORDERS {
        with_order(order, |_| {
            let device = Device::new(0).unwrap();
            let (stream, side) = (device.stream(), device.stream());
            let [a, b, c] = [1, 0, 0].map(|word| device.upload(&[word; COUNT]));
            let words = pinned();
            // SAFETY: all handles and ranges are valid.
            unsafe {
                let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
                result::stream::begin_capture(stream.0, mode).unwrap();
                add(&device, &stream, a, a, 1);
                let forked = stream.record();
                side.wait(&forked).unwrap();
                add(&device, &side, a, b, 10);
                add(&device, &stream, a, c, 100);
                let joined = side.record();
                stream.wait(&joined).unwrap();
                add(&device, &stream, b, c, 1000);
                result::memcpy_dtoh_async(words, c, stream.0).unwrap();
                let graph = result::stream::end_capture(stream.0).unwrap();
                let executable = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)).unwrap();
                assert_eq!(device.download(a, COUNT).unwrap(), vec![1; COUNT], "captured, not run");
                for round in 1..4 {
                    result::graph::launch(executable, stream.0).unwrap();
                    stream.synchronize().unwrap();
                    assert_eq!(words, [1011 + round; COUNT]);
                }
                result::graph::exec_destroy(executable).unwrap();
                result::graph::destroy(graph).unwrap();
            }
            free_pinned(words).unwrap();
        });
    }
}

#[test]
fn captures_that_cannot_stand_are_refused() {
    with_order(StreamOrder::Lazy, |_| {
        let device = Device::new(0).unwrap();
        let (stream, side) = (device.stream(), device.stream());
        let memory = device.upload(&[1; COUNT]);
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        let begin = || {
            // SAFETY: the stream lives.
            unsafe { result::stream::begin_capture(stream.0, mode) }.unwrap();
            add(&device, &stream, memory, memory, 1);
        };
        // SAFETY: the stream lives.
        let end = || code(unsafe { result::stream::end_capture(stream.0) });

        begin();
        side.wait(&stream.record()).unwrap();
        add(&device, &side, memory, memory, 1);
        assert_eq!(end(), 904, "the side stream was not joined");

        begin();
        assert_eq!(code(stream.synchronize()), 900);
        assert_eq!(end(), 901, "a wait spoils the capture");

        begin();
        // SAFETY: the emulation refuses the call.
        assert_eq!(code(unsafe { result::memcpy_htod_async(memory, &[0_u32; COUNT], stream.0) }), 900);
        assert_eq!(end(), 0);
    });
}

#[test]
fn the_default_streams_are_refused() {
    with_order(StreamOrder::Eager, |emulation| {
        let device = Device::new(0).unwrap();
        let memory = device.upload(&[1; COUNT]);
        let legacy = Stream(std::ptr::null_mut());
        let function = device.function("double_words").unwrap();
        assert_eq!(code(legacy.launch(function, Shape::new(1, 32), &mut [memory, 32])), 1);
        assert!(emulation.last_error().contains("create a stream"));
        assert_eq!(code(legacy.synchronize()), 1);
    });
}
