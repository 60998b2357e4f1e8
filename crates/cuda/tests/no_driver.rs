//! Machine without a driver.

use spirea_cuda::driver::{Device, DriverError, device_count};

/// Also runs on machines with a driver, where it tests nothing.
#[test]
fn a_machine_without_a_driver_says_so() {
    match Device::open(0) {
        Err(error @ DriverError::NoDriver) => {
            assert!(error.to_string().contains("install the driver"), "{error}");
            assert_eq!(device_count(), Err(DriverError::NoDriver));
        }
        _ => assert_ne!(device_count(), Err(DriverError::NoDriver)),
    }
}
