//! A device's memory pool, for intermediate results.

use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys::CUmemPool_attribute as PoolAttribute;

use super::{Device, DriverError};

impl Device {
    fn pool(&self, attribute: PoolAttribute) -> Result<u64, DriverError> {
        let mut value = 0u64;
        self.with_pool("cuMemPoolGetAttribute", |pool| {
            // SAFETY: the pool is the device's own, and the attributes read here are 64 bits wide.
            unsafe { result::mem_pool::get_attribute(pool, attribute, (&raw mut value).cast()) }
        })?;
        Ok(value)
    }

    /// Starts measuring the memory that buffers take from the pool.
    ///
    /// # Errors
    /// The driver's error.
    pub fn watch(self: &Arc<Self>) -> Result<PoolWatch, DriverError> {
        // The pool counts freed buffers as free only after a stream has freed them.
        self.synchronize()?;
        let before = self.pool(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        self.set_pool(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0)?;
        Ok(PoolWatch { device: Arc::clone(self), before })
    }

    /// Makes sure that the pool has room for `bytes` in addition to the memory in use. Allocations
    /// outside the pool cannot take this room.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`] if there is no room.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Result<(), DriverError> {
        self.synchronize()?;
        self.alloc::<u8>(usize::try_from(bytes).unwrap_or(usize::MAX)).map(drop)?;
        self.synchronize()
    }

    /// Returns the bytes of the pool that are not in use.
    ///
    /// # Errors
    /// The driver's error, also of work queued before.
    pub fn pool_room(self: &Arc<Self>) -> Result<u64, DriverError> {
        // The pool counts freed buffers as free only after a stream has freed them.
        self.synchronize()?;
        let reserved = self.pool(PoolAttribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
        Ok(reserved.saturating_sub(self.pool(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?))
    }

    /// Keeps room in the pool for `bytes` in addition to the memory in use, and releases the rest.
    ///
    /// # Errors
    /// The driver's error, also of work queued before.
    pub fn trim(self: &Arc<Self>, bytes: u64) -> Result<(), DriverError> {
        self.synchronize()?;
        let used = self.pool(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        let kept = usize::try_from(used.saturating_add(bytes)).unwrap_or(usize::MAX);
        self.with_pool("cuMemPoolTrimTo", |pool| {
            // SAFETY: the pool is the device's own.
            unsafe { result::mem_pool::trim_to(pool, kept) }
        })
    }
}

/// Memory that buffers have taken from a device's pool since [`Device::watch`].
#[derive(Debug)]
pub struct PoolWatch {
    device: Arc<Device>,
    before: u64,
}

impl PoolWatch {
    /// Returns the peak use since [`Device::watch`], in bytes above the use at that time. All users
    /// of the pool count.
    ///
    /// # Errors
    /// The driver's error.
    pub fn most_bytes(&self) -> Result<u64, DriverError> {
        let most = self.device.pool(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?;
        Ok(most.saturating_sub(self.before))
    }

    /// Returns the peak use since [`Device::watch`], in bytes above the present use. All users of
    /// the pool count.
    ///
    /// # Errors
    /// The driver's error, also of work queued before.
    pub fn passing_bytes(&self) -> Result<u64, DriverError> {
        self.device.synchronize()?;
        let most = self.device.pool(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?;
        let used = self.device.pool(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        Ok(most.saturating_sub(used))
    }
}
