//! The pool of a device's memory, for what is computed.

use std::sync::Arc;

use cudarc::driver::result;
use cudarc::driver::sys::CUmemPool_attribute as PoolAttribute;

use super::{Device, DriverError};

impl Device {
    fn pool(&self, attribute: PoolAttribute) -> Result<u64, DriverError> {
        let mut value = 0u64;
        self.with_pool("cuMemPoolGetAttribute", |pool| {
            // SAFETY: the pool is the device's own, the attributes that are read are 64 bits wide.
            unsafe { result::mem_pool::get_attribute(pool, attribute, (&raw mut value).cast()) }
        })?;
        Ok(value)
    }

    /// Begins to watch what buffers take from the pool.
    ///
    /// # Errors
    /// What the driver said.
    pub fn watch(self: &Arc<Self>) -> Result<PoolWatch, DriverError> {
        // What was freed before is so for the pool, too.
        self.main().synchronize()?;
        let before = self.pool(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        self.set_pool(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0)?;
        Ok(PoolWatch { device: Arc::clone(self), before })
    }

    /// Makes sure of room in the pool for so many bytes beside what is in use: they are nobody else's then.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`] if there is none.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Result<(), DriverError> {
        self.main().synchronize()?;
        self.alloc::<u8>(usize::try_from(bytes).unwrap_or(usize::MAX)).map(drop)?;
        self.main().synchronize()
    }

    /// Bytes of the pool that are not in use.
    ///
    /// # Errors
    /// What the driver said, so of what was queued.
    pub fn pool_room(self: &Arc<Self>) -> Result<u64, DriverError> {
        // What was freed before is so for the pool, too.
        self.main().synchronize()?;
        let reserved = self.pool(PoolAttribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
        Ok(reserved.saturating_sub(self.pool(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?))
    }

    /// Leaves the pool room for so many bytes beside what is in use, and gives the rest back.
    ///
    /// # Errors
    /// What the driver said, so of what was queued.
    pub fn trim(self: &Arc<Self>, bytes: u64) -> Result<(), DriverError> {
        self.main().synchronize()?;
        let used = self.pool(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        let kept = usize::try_from(used.saturating_add(bytes)).unwrap_or(usize::MAX);
        self.with_pool("cuMemPoolTrimTo", |pool| {
            // SAFETY: the pool is the device's own.
            unsafe { result::mem_pool::trim_to(pool, kept) }
        })
    }
}

/// What buffers have taken from a device's pool since [`Device::watch`].
#[derive(Debug)]
pub struct PoolWatch {
    device: Arc<Device>,
    before: u64,
}

impl PoolWatch {
    /// The most bytes at one time beyond those that were in use at the beginning, whoever they were for.
    ///
    /// # Errors
    /// What the driver said.
    pub fn most_bytes(&self) -> Result<u64, DriverError> {
        let most = self.device.pool(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?;
        Ok(most.saturating_sub(self.before))
    }

    /// The most bytes at one time beyond those that are in use now, whoever they were for.
    ///
    /// # Errors
    /// What the driver said, so of what was queued.
    pub fn passing_bytes(&self) -> Result<u64, DriverError> {
        self.device.main().synchronize()?;
        let most = self.device.pool(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)?;
        let used = self.device.pool(PoolAttribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
        Ok(most.saturating_sub(used))
    }
}
