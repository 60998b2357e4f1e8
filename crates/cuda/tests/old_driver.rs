//! Driver that is older than the kernels.

use spirea_cuda::driver::{Device, DriverError};
use spirea_cuda_emulation::{Config, Emulation};

#[test]
fn an_old_driver_is_told_apart() {
    Emulation::install(Config { version: 11080, ..Config::default() });
    let error = Device::open(0).unwrap_err();
    assert_eq!(error, DriverError::OldDriver { found: "11.8".into(), wanted: "12.0".into() });
}
