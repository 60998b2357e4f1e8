//! Properties of a device.

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};

use super::{Compute, DriverError};

/// Properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Name of the device.
    pub name: String,
    /// Compute capability.
    pub compute: Compute,
    /// Streaming multiprocessors.
    pub processors: u32,
    /// Bytes of the L2 cache.
    pub l2_bytes: usize,
    /// Bytes of shared memory that a block may have.
    pub shared_bytes: usize,
    /// Bytes of memory.
    pub memory_bytes: usize,
}

impl Properties {
    /// Queries the driver for the properties.
    pub(super) fn of(device: sys::CUdevice) -> Result<Self, DriverError> {
        let attribute = |attribute| {
            // SAFETY: the driver returned this device.
            unsafe { result::device::get_attribute(device, attribute) }
                .map(|value| u32::try_from(value).unwrap_or(0))
                .map_err(DriverError::of("cuDeviceGetAttribute"))
        };
        Ok(Self {
            name: result::device::get_name(device).map_err(DriverError::of("cuDeviceGetName"))?,
            compute: Compute {
                major: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                minor: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            },
            processors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
            shared_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
                as usize,
            // SAFETY: as above.
            memory_bytes: unsafe { result::device::total_mem(device) }
                .map_err(DriverError::of("cuDeviceTotalMem"))?,
        })
    }
}
