//! Finding the driver.

use std::sync::OnceLock;

use cudarc::driver::{result, sys};

use super::error::{DRIVER_VARIABLE, DriverError};

/// The oldest driver that loads our kernels: cubins of a compiler of CUDA 13 want its own major version.
const LEAST_VERSION: i32 = 13000;

/// Loads and initialises the driver once; the reason why not is as lasting.
pub(super) fn driver() -> Result<(), DriverError> {
    static STATE: OnceLock<Result<(), DriverError>> = OnceLock::new();
    STATE.get_or_init(initialise).clone()
}

fn initialise() -> Result<(), DriverError> {
    if let Some(path) = std::env::var_os(DRIVER_VARIABLE) {
        // SAFETY: a driver library, as whoever set the variable says; it stays loaded, and whoever asks for
        // libcuda.so afterwards gets it by its soname.
        let library = unsafe { libloading::Library::new(path) }.map_err(|_| DriverError::NoDriver)?;
        std::mem::forget(library);
    }
    // SAFETY: loads the library of that name. Without this question the first call would panic.
    if !unsafe { sys::is_culib_present() } {
        return Err(DriverError::NoDriver);
    }
    // Whatever keeps a driver from starting, a missing kernel module say, there is no device then.
    result::init().map_err(|error| match DriverError::of("cuInit")(error) {
        DriverError::Call { reason, .. } | DriverError::Lost(reason) => DriverError::NoDevice(reason),
        other => other,
    })?;
    let found = version()?;
    if found < LEAST_VERSION {
        return Err(DriverError::OldDriver { found: dotted(found), wanted: dotted(LEAST_VERSION) });
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

/// The CUDA version of the driver, such as 13.0.
///
/// # Errors
/// Why there is none.
pub fn driver_version() -> Result<String, DriverError> {
    driver()?;
    version().map(dotted)
}

/// The number of devices.
///
/// # Errors
/// Why there is none.
pub fn device_count() -> Result<usize, DriverError> {
    driver()?;
    let count = result::device::get_count().map_err(DriverError::of("cuDeviceGetCount"))?;
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(DriverError::NoDevice("none is visible".into())),
    }
}
