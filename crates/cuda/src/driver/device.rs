//! A device with its main stream and its kernels.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::result;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUmemPool_attribute as PoolAttribute};

use super::library::{device_count, driver};
use super::memory::{Buffer, Source};
use super::{DriverError, Kernel, Stream};
use crate::pack;

/// A compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Compute {
    /// 9 of 9.0.
    pub major: u32,
    /// 0 of 9.0.
    pub minor: u32,
}

impl std::fmt::Display for Compute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Its name.
    pub name: String,
    /// Its compute capability.
    pub compute: Compute,
    /// Streaming multiprocessors.
    pub processors: u32,
    /// Bytes of the second-level cache.
    pub l2_bytes: usize,
    /// Bytes of shared memory that a block may have.
    pub shared_bytes: usize,
    /// Bytes of memory.
    pub memory_bytes: usize,
}

/// A device: its primary context, its main stream and the kernels compiled for it.
pub struct Device {
    ordinal: usize,
    device: sys::CUdevice,
    pub(super) context: sys::CUcontext,
    properties: Properties,
    modules: Vec<sys::CUmodule>,
    kernels: Mutex<HashMap<&'static str, Kernel>>,
    main: sys::CUstream,
}

// SAFETY: the driver's handles may be used by any thread; every call binds the context first.
unsafe impl Send for Device {}
// SAFETY: as above; the driver locks what it changes.
unsafe impl Sync for Device {}

impl Device {
    /// Opens device number `ordinal` and loads the kernels for it.
    ///
    /// # Errors
    /// Why there is none, or what the driver said.
    pub fn open(ordinal: usize) -> Result<Arc<Self>, DriverError> {
        driver()?;
        let count = device_count()?;
        if ordinal >= count {
            return Err(DriverError::NoSuchDevice { ordinal, count });
        }
        let device = result::device::get(ordinal as i32).map_err(DriverError::of("cuDeviceGet"))?;
        let properties = properties(device)?;
        let cubins =
            pack::cubins(properties.compute).map_err(|error| DriverError::Kernels(error.to_string()))?;
        // SAFETY: the device is one that the driver gave us.
        let context = unsafe { result::primary_ctx::retain(device) }
            .map_err(DriverError::of("cuDevicePrimaryCtxRetain"))?;
        let mut opened = Self {
            ordinal,
            device,
            context,
            properties,
            modules: Vec::new(),
            kernels: Mutex::default(),
            main: std::ptr::null_mut(),
        };
        opened.bind()?;
        opened.keep_freed_memory()?;
        opened.main = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(DriverError::of("cuStreamCreate"))?;
        for cubin in cubins {
            // SAFETY: a whole cubin, whose hash was checked.
            let module = unsafe { result::module::load_data(cubin.image.as_ptr().cast()) }
                .map_err(DriverError::of("cuModuleLoadData"))?;
            opened.modules.push(module);
        }
        Ok(Arc::new(opened))
    }

    /// Its number.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// What it is.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Bytes of memory free and in all.
    ///
    /// # Errors
    /// What the driver said.
    pub fn memory(&self) -> Result<(usize, usize), DriverError> {
        self.bind()?;
        result::mem_get_info().map_err(DriverError::of("cuMemGetInfo"))
    }

    /// Makes this device's context the calling thread's.
    pub(super) fn bind(&self) -> Result<(), DriverError> {
        // SAFETY: the context lives as long as self.
        unsafe { result::ctx::set_current(self.context) }.map_err(DriverError::of("cuCtxSetCurrent"))
    }

    /// Lets the pool keep all that was ever in it, but for what [`Self::trim`] takes from it.
    fn keep_freed_memory(&self) -> Result<(), DriverError> {
        self.set_pool(PoolAttribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX)
    }

    fn with_pool<T>(
        &self,
        call: &'static str,
        run: impl FnOnce(sys::CUmemoryPool) -> Result<T, result::DriverError>,
    ) -> Result<T, DriverError> {
        // SAFETY: the device is one that the driver gave us.
        unsafe { result::device::get_default_mem_pool(self.device) }
            .and_then(run)
            .map_err(DriverError::of(call))
    }

    fn set_pool(&self, attribute: PoolAttribute, mut value: u64) -> Result<(), DriverError> {
        self.with_pool("cuMemPoolSetAttribute", |pool| {
            // SAFETY: the pool is the device's own, the attributes that are set are 64 bits wide.
            unsafe { result::mem_pool::set_attribute(pool, attribute, (&raw mut value).cast()) }
        })
    }

    fn pool(&self, attribute: PoolAttribute) -> Result<u64, DriverError> {
        let mut value = 0u64;
        self.with_pool("cuMemPoolGetAttribute", |pool| {
            // SAFETY: as above.
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

    /// The main stream.
    pub fn main(self: &Arc<Self>) -> Stream {
        Stream::borrowed(Arc::clone(self), self.main)
    }

    /// A further stream.
    ///
    /// # Errors
    /// What the driver said.
    pub fn stream(self: &Arc<Self>) -> Result<Stream, DriverError> {
        Stream::new(Arc::clone(self))
    }

    /// Room for `length` values while something is computed, from the pool, in the order of the main stream. What they
    /// hold is undefined.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`] if there is none.
    pub fn alloc<T: bytemuck::Pod>(self: &Arc<Self>, length: usize) -> Result<Buffer<T>, DriverError> {
        Buffer::new(Arc::clone(self), Source::Pool, length)
    }

    /// Room for `length` values that stay, such as a database: beside the pool, whose room is for what is computed
    /// meanwhile. What they hold is undefined. Freeing it waits for the device.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`] if there is none.
    pub fn hold<T: bytemuck::Pod>(self: &Arc<Self>, length: usize) -> Result<Buffer<T>, DriverError> {
        Buffer::new(Arc::clone(self), Source::Device, length)
    }

    /// A buffer from the pool with these values, which are on the device when it returns.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`] if there is no room.
    pub fn upload<T: bytemuck::Pod>(self: &Arc<Self>, values: &[T]) -> Result<Buffer<T>, DriverError> {
        let buffer = self.alloc(values.len())?;
        self.main().upload(values, &buffer.all())?;
        Ok(buffer)
    }

    /// [`Self::upload`] of values that stay.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`] if there is no room.
    pub fn hold_values<T: bytemuck::Pod>(self: &Arc<Self>, values: &[T]) -> Result<Buffer<T>, DriverError> {
        let buffer = self.hold(values.len())?;
        self.main().upload(values, &buffer.all())?;
        Ok(buffer)
    }

    pub(super) fn main_handle(&self) -> sys::CUstream {
        self.main
    }

    /// The kernel called `name`.
    ///
    /// # Errors
    /// [`DriverError::Kernels`] if there is none of that name for this device.
    pub fn kernel(&self, name: &'static str) -> Result<Kernel, DriverError> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&kernel) = kernels.get(name) {
            return Ok(kernel);
        }
        self.bind()?;
        let symbol = CString::new(name).expect("names of kernels are without zeros");
        let found = self.modules.iter().find_map(|&module| {
            // SAFETY: the module is loaded in this context.
            unsafe { result::module::get_function(module, symbol.clone()) }.ok()
        });
        let Some(function) = found else {
            let compute = self.properties.compute;
            return Err(DriverError::Kernels(format!("no kernel {name} for compute capability {compute}")));
        };
        // SAFETY: the function is of this context, and so much shared memory is what the device says it has.
        unsafe {
            result::function::set_function_attribute(
                function,
                sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                self.properties.shared_bytes as i32,
            )
        }
        .map_err(DriverError::of("cuFuncSetAttribute"))?;
        let kernel = Kernel { function, name };
        kernels.insert(name, kernel);
        Ok(kernel)
    }

    /// Whether the memory of `other` can be copied to without the host between.
    ///
    /// # Errors
    /// What the driver said.
    pub fn enable_peer(&self, other: &Self) -> Result<bool, DriverError> {
        let mut possible = 0;
        // SAFETY: both devices are the driver's; one integer is written.
        unsafe { sys::cuDeviceCanAccessPeer(&mut possible, self.device, other.device) }
            .result()
            .map_err(DriverError::of("cuDeviceCanAccessPeer"))?;
        if possible == 0 {
            return Ok(false);
        }
        self.bind()?;
        // SAFETY: the context lives as long as `other`.
        match unsafe { sys::cuCtxEnablePeerAccess(other.context, 0) } {
            sys::CUresult::CUDA_SUCCESS | sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(true),
            error => Err(DriverError::of("cuCtxEnablePeerAccess")(result::DriverError(error))),
        }
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

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device")
            .field("ordinal", &self.ordinal)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // Nothing can be done about an error here, and a lost device gives nothing but errors.
        if self.bind().is_err() {
            return;
        }
        // SAFETY: no buffer, stream or kernel outlives the device; each handle is destroyed once.
        unsafe {
            if !self.main.is_null() {
                let _ = result::stream::synchronize(self.main);
                let _ = result::stream::destroy(self.main);
            }
            for &module in &self.modules {
                let _ = result::module::unload(module);
            }
            let _ = result::primary_ctx::release(self.device);
        }
    }
}

fn properties(device: sys::CUdevice) -> Result<Properties, DriverError> {
    let attribute = |attribute| {
        // SAFETY: the device is one that the driver gave us.
        unsafe { result::device::get_attribute(device, attribute) }
            .map(|value| u32::try_from(value).unwrap_or(0))
            .map_err(DriverError::of("cuDeviceGetAttribute"))
    };
    Ok(Properties {
        name: result::device::get_name(device).map_err(DriverError::of("cuDeviceGetName"))?,
        compute: Compute {
            major: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            minor: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        },
        processors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        l2_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
        shared_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as usize,
        // SAFETY: as above.
        memory_bytes: unsafe { result::device::total_mem(device) }
            .map_err(DriverError::of("cuDeviceTotalMem"))?,
    })
}
