//! Driver that is older than the kernels.

use spirea_cuda::driver::{Device, DriverError};
use spirea_cuda_emulation::{Config, Emulation};

#[test]
fn an_old_driver_is_told_apart() {
    Emulation::install(Config { version: 12020, ..Config::default() });
    let error = Device::open(0).unwrap_err();
    assert_eq!(error, DriverError::OldDriver { found: "12.2".into(), wanted: "13.0".into() });
}
