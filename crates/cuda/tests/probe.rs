//! Self-tests and measured rates on emulated devices.
#![allow(missing_docs, reason = "a test")]

use spirea_backend::{Backend as _, PanelLayout, RowLayout, ShareBackend as _};
use spirea_cuda::CudaBackend;
use spirea_cuda::probe::{Instruction, Rates, SelfTest, fill};
use spirea_cuda_emulation::{Config, Emulation};

fn emulation() -> &'static Emulation {
    Emulation::install(Config { processors: 6, ..Config::default() })
}

#[test]
fn an_emulated_device_passes_every_self_test() {
    let emulation = emulation();
    emulation.in_every_order(|| {
        let backend = CudaBackend::new(0).unwrap();
        for test in SelfTest::all(backend.device()) {
            test.run(backend.device()).unwrap_or_else(|error| panic!("{}: {error}", test.name()));
        }
    });
}

#[test]
fn a_device_knows_which_kernels_were_never_launched() {
    emulation().with(Config { processors: 6, ..Config::default() }, || {
        let backend = CudaBackend::new(0).unwrap();
        let device = backend.device();
        assert_eq!(device.never_launched(), device.kernels());
        // Looking up a kernel does not count as a launch.
        device.kernel("selftest_mma").unwrap();
        for test in SelfTest::all(device) {
            if ["warp", "grid-barrier"].contains(&test.name()) {
                test.run(device).unwrap();
            }
        }
        let mut expected = device.kernels().to_vec();
        expected.retain(|name| !["selftest_warp", "selftest_grid"].contains(name));
        assert_eq!(expected.len() + 2, device.kernels().len());
        assert_eq!(device.never_launched(), expected);
        assert_eq!(CudaBackend::new(0).unwrap().device().never_launched(), device.kernels());
    });
}

#[test]
fn every_limit_is_measured() {
    emulation().in_every_order(|| {
        let backend = CudaBackend::new(0).unwrap();
        let device = backend.device();
        let rates = Rates::new(device, 1e-6).unwrap();
        let memory = device.alloc::<u32>(2 << 20).unwrap();
        fill(&memory.all(), 1).unwrap();
        let words = device.main().read(&memory.all()).unwrap();
        let ones: u32 = words.iter().map(|word| word.count_ones()).sum();
        let half = words.len() as f64 * 16.0;
        assert!((f64::from(ones) - half).abs() < half / 1000.0, "{ones} of {half} bits");
        assert_ne!(words[..1000], words[1000..2000]);
        let mut found = vec![rates.read(&memory.all()).unwrap(), rates.tensor().unwrap().products];
        found.push(rates.copy(&memory.range(0..1 << 20), &memory.range(1 << 20..2 << 20)).unwrap());
        found.extend(rates.host(1 << 16).unwrap());
        found.extend(Instruction::ALL.map(|instruction| rates.instruction(instruction).unwrap()));
        assert!(found.iter().all(|rate| rate.is_finite() && *rate > 0.0), "{found:?}");
    });
}

/// Tests a device without `wgmma`.
#[test]
fn tensor_cores_of_other_devices_are_measured() {
    let emulation = emulation();
    emulation.in_every_order_of(Config { compute: (8, 6), ..emulation.config() }, || {
        let backend = CudaBackend::new(0).unwrap();
        let rates = Rates::new(backend.device(), 1e-6).unwrap();
        assert!(rates.tensor().unwrap().products > 0.0);
        assert!(emulation.launches("rate_mma") > 0);
    });
}

#[test]
fn databases_are_made_on_the_device() {
    emulation().in_every_order(|| {
        let backend = CudaBackend::new(0).unwrap();
        let layout = PanelLayout::covering(70, 36).unwrap();
        let matrix = backend.random_matrix(layout, 1).unwrap();
        assert_eq!(backend.layout(&matrix), layout);
        let rows = RowLayout::new(100, 33, 1).unwrap();
        assert_eq!(backend.row_layout(&backend.random_rows(rows, 1).unwrap()), rows);
    });
}
