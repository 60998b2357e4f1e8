//! Kernels that devices of other capabilities, and older drivers, load. Tests of one process share
//! the emulation's configuration, so these have a process of their own.

use spirea_cuda::driver::{Device, DriverError};
use spirea_cuda_emulation::{Config, Emulation};

#[test]
fn a_device_tells_which_kernels_it_loaded() {
    let emulation = Emulation::install(Config::default());
    for (compute, expected) in
        [((8, 7), "sm_86"), ((9, 0), "sm_90a"), ((11, 0), "PTX for compute_90"), ((12, 1), "sm_120")]
    {
        emulation.with(Config { compute, ..Config::default() }, || {
            assert_eq!(Device::open(0).unwrap().targets(), expected);
        });
    }
}

#[test]
fn a_driver_that_refuses_ptx_is_named() {
    let emulation = Emulation::install(Config::default());
    let old = Config { compute: (11, 0), version: 12080, ..Config::default() };
    emulation.with(old, || {
        let error = Device::open(0).unwrap_err();
        let DriverError::Ptx { capability, reason } = &error else { panic!("{error}") };
        assert_eq!(capability.to_string(), "11.0");
        assert!(reason.contains("UNSUPPORTED_PTX_VERSION"), "{reason}");
        assert!(error.to_string().contains("update the driver"), "{error}");
    });
    // A device for which there is a cubin needs no PTX.
    emulation.with(Config { version: 12080, ..Config::default() }, || {
        assert!(Device::open(0).is_ok());
    });
}
