//! Driver without devices.

use spirea_backend::BackendError;
use spirea_cuda::CudaBackend;
use spirea_cuda::driver::{Device, DriverError, device_count};
use spirea_cuda_emulation::{Config, Emulation};

#[test]
fn a_driver_without_devices_says_so() {
    Emulation::install(Config { devices: 0, ..Config::default() });
    assert!(matches!(device_count(), Err(DriverError::NoDevice(_))));
    assert!(matches!(Device::open(0), Err(DriverError::NoDevice(_))));
    let Err(BackendError::Unavailable(reason)) = CudaBackend::new(0) else {
        panic!("a backend without a device");
    };
    assert!(reason.contains("nvidia-smi"), "{reason}");
}
