//! The driver's functions, called as host code calls them.

#![allow(unsafe_code)]

mod common;

use common::{Device, Shape, code, emulation};
use cudarc::driver::{result, sys};
use spirea_cuda_emulation::{Config, Copied, Emulation, Live};

/// Runs a test with a configuration.
fn configured(config: Config, test: impl FnOnce(&Emulation)) {
    emulation().with(config, || test(emulation()));
}

#[test]
fn a_kernel_runs_in_every_order() {
    let emulation = emulation();
    emulation.in_every_order(|| {
        let device = Device::new(0).unwrap();
        let stream = device.stream();
        let words: Vec<u32> = (0..1000).collect();
        let memory = device.upload(&words);
        let double = device.function("double_words").unwrap();
        stream.launch(double, Shape::new(4, 256), &mut [memory, 1000]).unwrap();
        stream.synchronize().unwrap();
        let doubled: Vec<u32> = words.iter().map(|word| 2 * word).collect();
        assert_eq!(device.download(memory, 1000).unwrap(), doubled);
        assert_eq!(emulation.launches("double_words"), 1);
        assert_eq!(emulation.all_launches(), 1);
        assert_eq!(emulation.live(0), Live { allocations: 1, bytes: 4000 });
        device.free(memory);
        assert_eq!(emulation.live(0), Live { allocations: 0, bytes: 0 });
        let copied = Copied { to_device: 4000, to_host: 4000, on_device: 0, between_devices: 0, staged: 0 };
        assert_eq!(emulation.copied(), copied);
    });
}

#[test]
fn a_device_describes_itself() {
    configured(Config { devices: 2, version: 12080, ..Config::default() }, |emulation| {
        let device = Device::new(1).unwrap();
        assert_eq!(result::device::get_count().unwrap(), 2);
        assert_eq!(result::device::get_name(1).unwrap(), "Spirea emulation");
        use sys::CUdevice_attribute::*;
        let attributes = [
            (CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9),
            (CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0),
            (CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132),
            (CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 60 << 20),
            (CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 227 << 10),
            (CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1),
            (CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1),
        ];
        // SAFETY: plain queries, on an existing device.
        unsafe {
            for (attribute, value) in attributes {
                assert_eq!(result::device::get_attribute(1, attribute).unwrap(), value);
            }
            assert_eq!(result::device::total_mem(1).unwrap(), 4 << 30);
            let mut version = 0;
            assert_eq!(sys::cuDriverGetVersion(&mut version), sys::CUresult::CUDA_SUCCESS);
            assert_eq!(version, 12080);
        }
        assert_ne!(result::device::get_uuid(0).unwrap().bytes, result::device::get_uuid(1).unwrap().bytes);
        assert_eq!(code(Device::new(2)), 101);
        assert_eq!(code(device.function("no_such_kernel")), 500);
        assert!(emulation.last_error().contains("no_such_kernel"));
        assert!(emulation.kernels().contains(&"double_words"));
        assert!(result::DriverError(sys::CUresult::CUDA_ERROR_LAUNCH_FAILED).error_string().is_ok());
    });
}

#[test]
fn launches_are_checked() {
    configured(Config::default(), |_| {
        let device = Device::new(0).unwrap();
        let stream = device.stream();
        let memory = device.upload(&[1; 1024]);
        let reverse = device.function("reverse_block").unwrap();
        let launch = |shape| code(stream.launch(reverse, shape, &mut [memory, memory]));
        assert_eq!(launch(Shape::new(1, 256).shared(1024)), 0);
        assert_eq!(launch(Shape::new(0, 256).shared(1024)), 1, "no blocks");
        assert_eq!(launch(Shape::new(1, 0).shared(1024)), 1, "no threads");
        assert_eq!(
            launch(Shape::new(1, 257).shared(2048)),
            1,
            "more threads than the kernel has registers for"
        );
        assert_eq!(launch(Shape::new(1, 256).shared(48 << 10)), 0);
        assert_eq!(launch(Shape::new(1, 256).shared((48 << 10) + 1)), 1, "without asking for it");
        let limit = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function lives.
        let set =
            |bytes: i32| code(unsafe { result::function::set_function_attribute(reverse, limit, bytes) });
        assert_eq!(set((227 << 10) + 1), 1);
        assert_eq!(set(227 << 10), 0);
        assert_eq!(launch(Shape::new(1, 256).shared(227 << 10)), 0);
        assert_eq!(
            launch(Shape::new(133, 256).shared(200 << 10).cooperative()),
            720,
            "more than 132 processors"
        );
        // SAFETY: the function lives.
        let blocks =
            unsafe { result::occupancy::max_active_block_per_multiprocessor(reverse, 256, 48 << 10) };
        assert_eq!(blocks.unwrap(), 4);
    });
}

#[test]
fn memory_ends_where_it_is_configured_to() {
    configured(Config { memory: 1 << 20, ..Config::default() }, |emulation| {
        let _device = Device::new(0).unwrap();
        // SAFETY: the memory is freed once.
        unsafe {
            let most = result::malloc_sync(1 << 20).unwrap();
            assert_eq!(result::mem_get_info().unwrap(), (0, 1 << 20));
            assert_eq!(code(result::malloc_sync(1)), 2);
            assert!(emulation.last_error().contains("exhausted"));
            result::free_sync(most).unwrap();
            assert_eq!(code(result::free_sync(most)), 1, "freed twice");
            result::free_sync(result::malloc_sync(1 << 20).unwrap()).unwrap();
        }
    });
}

#[test]
fn copies_stay_in_their_allocations() {
    configured(Config { devices: 2, ..Config::default() }, |emulation| {
        let second = Device::new(1).unwrap();
        let abroad = second.upload(&[2; 64]);
        let device = Device::new(0).unwrap();
        let stream = device.stream();
        let memory = device.upload(&[1; 64]);
        let mut words = vec![0_u32; 65];
        // SAFETY: the emulation checks the ranges.
        unsafe {
            assert_eq!(code(result::memcpy_htod_async(memory, &words, stream.0)), 1, "too long");
            assert_eq!(
                code(result::memcpy_dtoh_async(&mut words[..64], memory + 4, stream.0)),
                1,
                "leaves its end"
            );
            assert_eq!(
                code(result::memcpy_dtoh_async(&mut words[..64], abroad, stream.0)),
                1,
                "another device's"
            );
            assert_eq!(code(result::memset_d8_async(memory, 7, 257, stream.0)), 1);
            result::memset_d8_async(memory, 7, 128, stream.0).unwrap();
            result::memcpy_peer_async(device.context, memory + 128, second.context, abroad, 128, stream.0)
                .unwrap();
        }
        stream.synchronize().unwrap();
        let expected = [[0x0707_0707; 32], [2; 32]].concat();
        assert_eq!(device.download(memory, 64).unwrap(), expected);
        let copied = emulation.copied();
        assert_eq!((copied.between_devices, copied.staged), (128, 128), "no access was granted");
    });
}

#[test]
fn peers_must_be_enabled() {
    for peers in [false, true] {
        configured(Config { devices: 2, peers, ..Config::default() }, |emulation| {
            let second = Device::new(1).unwrap();
            let abroad = second.upload(&[2; 64]);
            let device = Device::new(0).unwrap();
            let stream = device.stream();
            let double = device.function("double_words").unwrap();
            // SAFETY: both contexts live, and so does the second device's memory.
            let enabled = unsafe {
                let mut can = -1;
                assert_eq!(sys::cuDeviceCanAccessPeer(&mut can, 0, 1), sys::CUresult::CUDA_SUCCESS);
                assert_eq!(can, i32::from(peers));
                sys::cuCtxEnablePeerAccess(second.context, 0).result()
            };
            let launched = stream.launch(double, Shape::new(1, 64), &mut [abroad, 64]);
            if peers {
                assert_eq!((code(enabled), code(launched)), (0, 0));
                second.make_current();
                assert_eq!(second.download(abroad, 64).unwrap(), vec![4; 64]);
            } else {
                assert_eq!((code(enabled), code(launched)), (217, 700));
                assert!(emulation.last_error().contains("without peer access"));
            }
        });
    }
}

#[test]
fn a_device_can_be_lost() {
    configured(Config::default(), |emulation| {
        let device = Device::new(0).unwrap();
        let stream = device.stream();
        let memory = device.upload(&[1; 64]);
        let double = device.function("double_words").unwrap();
        emulation.lose_after(Some(2));
        let launch = || code(stream.launch(double, Shape::new(1, 64), &mut [memory, 64]));
        assert_eq!([launch(), launch(), launch(), launch()], [0, 0, 719, 719]);
        assert_eq!(emulation.last_error(), "the device was lost, as configured");
        assert_eq!(code(device.download(memory, 64)), 719);
        assert_eq!(code(Device::new(0)), 719, "for this process the device is gone");
    });
}

#[test]
fn a_machine_without_devices() {
    configured(Config { devices: 0, ..Config::default() }, |_| {
        assert_eq!(code(Device::new(0)), 100);
    });
}
