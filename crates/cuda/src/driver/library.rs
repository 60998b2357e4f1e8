//! Finding and loading the driver.

use std::sync::OnceLock;

use cudarc::driver::{result, sys};

use super::error::{DRIVER_VARIABLE, DriverError};
use crate::pack;

/// Loads and initialises the driver once. The result, also an error, is kept.
pub(super) fn driver() -> Result<(), DriverError> {
    static STATE: OnceLock<Result<(), DriverError>> = OnceLock::new();
    STATE.get_or_init(initialise).clone()
}

fn initialise() -> Result<(), DriverError> {
    if let Some(path) = std::env::var_os(DRIVER_VARIABLE) {
        // SAFETY: the variable names a driver library, as its user promises. The library stays
        // loaded, and later requests for libcuda.so find it by its soname.
        let library = unsafe { libloading::Library::new(path) }.map_err(|_| DriverError::NoDriver)?;
        std::mem::forget(library);
    }
    // SAFETY: loads the library of that name. Without this check the first call would panic.
    if !unsafe { sys::is_culib_present() } {
        return Err(DriverError::NoDriver);
    }
    // Any failure to start, such as a missing kernel module, means that there is no device.
    result::init().map_err(|error| match DriverError::of("cuInit")(error) {
        DriverError::Call { reason, .. } | DriverError::Lost(reason) => DriverError::NoDevice(reason),
        other => other,
    })?;
    let found = version()?;
    let wanted = pack::least_driver().map_err(|error| DriverError::Kernels(error.to_string()))?;
    if found < wanted {
        return Err(DriverError::OldDriver { found: dotted(found), wanted: dotted(wanted) });
    }
    Ok(())
}

fn version() -> Result<i32, DriverError> {
    let mut version = 0;
    // SAFETY: writes one integer.
    unsafe { sys::cuDriverGetVersion(&mut version) }
        .result()
        .map_err(DriverError::of("cuDriverGetVersion"))?;
    Ok(version)
}

fn dotted(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Returns the CUDA version of the driver, such as 13.0.
///
/// # Errors
/// The reason why there is no driver.
pub fn driver_version() -> Result<String, DriverError> {
    driver()?;
    version().map(dotted)
}

/// Returns the number of devices.
///
/// # Errors
/// The reason why there is no device.
pub fn device_count() -> Result<usize, DriverError> {
    driver()?;
    let count = result::device::get_count().map_err(DriverError::of("cuDeviceGetCount"))?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(DriverError::NoDevice("none is visible".into())),
    }
}
