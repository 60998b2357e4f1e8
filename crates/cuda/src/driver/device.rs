//! A device with its streams and its kernels.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudarc::driver::result;
use cudarc::driver::result::stream::StreamKind;
use cudarc::driver::sys::{self, CUmemPool_attribute as PoolAttribute};
use parking_lot::Mutex;

use super::error::describe;
use super::library::{device_count, driver};
use super::{Compute, DriverError, Kernel, Properties};
use crate::pack::{self, Image, Target};

/// Open device: its primary context, its two streams and the kernels compiled for it.
pub struct Device {
    ordinal: usize,
    device: sys::CUdevice,
    pub(super) context: sys::CUcontext,
    properties: Properties,
    modules: Vec<sys::CUmodule>,
    /// Targets of the loaded images, such as `sm_90a`.
    targets: Vec<Target>,
    /// Names of all kernels in the loaded images, sorted, and whether each was launched.
    names: Vec<&'static str>,
    launched: Vec<AtomicBool>,
    kernels: Mutex<HashMap<&'static str, Kernel>>,
    main: sys::CUstream,
    scans: sys::CUstream,
}

// SAFETY: the driver's handles may be used by any thread; every call binds the context first.
unsafe impl Send for Device {}
// SAFETY: as above; the driver locks what it changes.
unsafe impl Sync for Device {}

impl Device {
    /// Opens device number `ordinal` and loads its kernels.
    ///
    /// # Errors
    /// The reason why no driver, device or kernels were found, or the driver's error.
    pub fn open(ordinal: usize) -> Result<Arc<Self>, DriverError> {
        driver()?;
        let count = device_count()?;
        if ordinal >= count {
            return Err(DriverError::NoSuchDevice { ordinal, count });
        }
        let device = result::device::get(ordinal as i32).map_err(DriverError::of("cuDeviceGet"))?;
        let properties = Properties::of(device)?;
        let images =
            pack::images(properties.compute).map_err(|error| DriverError::Kernels(error.to_string()))?;
        let mut targets: Vec<_> = images.iter().map(|image| image.target).collect();
        targets.sort_unstable();
        targets.dedup();
        let mut names: Vec<_> = images.iter().flat_map(|image| image.kernels.iter().copied()).collect();
        names.sort_unstable();
        // SAFETY: the driver returned this device.
        let context = unsafe { result::primary_ctx::retain(device) }
            .map_err(DriverError::of("cuDevicePrimaryCtxRetain"))?;
        let mut opened = Self {
            ordinal,
            device,
            context,
            properties,
            modules: Vec::new(),
            targets,
            launched: names.iter().map(|_| AtomicBool::new(false)).collect(),
            names,
            kernels: Mutex::default(),
            main: std::ptr::null_mut(),
            scans: std::ptr::null_mut(),
        };
        opened.bind()?;
        opened.keep_freed_memory()?;
        let (least, greatest) =
            result::stream::get_priority_range().map_err(DriverError::of("cuCtxGetStreamPriorityRange"))?;
        for (stream, priority) in [(&mut opened.main, greatest), (&mut opened.scans, least)] {
            *stream = result::stream::create_with_priority(StreamKind::NonBlocking, priority)
                .map_err(DriverError::of("cuStreamCreateWithPriority"))?;
        }
        for image in images {
            opened.modules.push(load(&image, opened.properties.compute)?);
        }
        Ok(Arc::new(opened))
    }

    /// Returns the device's number.
    pub fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// Returns the device's properties.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Describes the loaded kernels by their targets: `sm_90a`, or `PTX for compute_90`, which the
    /// driver compiled.
    pub fn targets(&self) -> String {
        self.targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }

    /// Records the launch of a kernel, by its index in the names.
    pub(super) fn note_launch(&self, number: usize) {
        self.launched[number].store(true, Ordering::Relaxed);
    }

    /// Returns the names of the kernels that the pack has for this device, sorted.
    pub fn kernels(&self) -> &[&'static str] {
        &self.names
    }

    /// Returns the names of the kernels in the pack that were not launched since the device was
    /// opened, sorted. The launches of a graph count when it is captured.
    pub fn never_launched(&self) -> Vec<&'static str> {
        let launched = self.names.iter().zip(&self.launched);
        launched.filter(|(_, launched)| !launched.load(Ordering::Relaxed)).map(|(&name, _)| name).collect()
    }

    /// Returns the free bytes and the total bytes of memory.
    ///
    /// # Errors
    /// The driver's error.
    pub fn memory(&self) -> Result<(usize, usize), DriverError> {
        self.bind()?;
        result::mem_get_info().map_err(DriverError::of("cuMemGetInfo"))
    }

    /// Makes this device's context current on the calling thread.
    pub(super) fn bind(&self) -> Result<(), DriverError> {
        // SAFETY: the context lives as long as self.
        unsafe { result::ctx::set_current(self.context) }.map_err(DriverError::of("cuCtxSetCurrent"))
    }

    /// Lets the pool keep all memory that buffers free; only [`Self::trim`] releases memory to the
    /// driver.
    fn keep_freed_memory(&self) -> Result<(), DriverError> {
        self.set_pool(PoolAttribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX)
    }

    pub(super) fn with_pool<T>(
        &self,
        call: &'static str,
        run: impl FnOnce(sys::CUmemoryPool) -> Result<T, result::DriverError>,
    ) -> Result<T, DriverError> {
        // SAFETY: the driver returned this device.
        unsafe { result::device::get_default_mem_pool(self.device) }
            .and_then(run)
            .map_err(DriverError::of(call))
    }

    pub(super) fn set_pool(&self, attribute: PoolAttribute, mut value: u64) -> Result<(), DriverError> {
        self.with_pool("cuMemPoolSetAttribute", |pool| {
            // SAFETY: the pool is the device's own, and the attributes set here are 64 bits wide.
            unsafe { result::mem_pool::set_attribute(pool, attribute, (&raw mut value).cast()) }
        })
    }

    pub(super) fn main_handle(&self) -> sys::CUstream {
        self.main
    }

    pub(super) fn scans_handle(&self) -> sys::CUstream {
        self.scans
    }

    /// Returns the kernel called `name`.
    ///
    /// # Errors
    /// [`DriverError::Kernels`] if this device has no kernel of that name.
    pub fn kernel(&self, name: &'static str) -> Result<Kernel, DriverError> {
        let mut kernels = self.kernels.lock();
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
        // SAFETY: the function belongs to this context, and the device reports that a block may
        // have this much shared memory.
        unsafe {
            result::function::set_function_attribute(
                function,
                sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                self.properties.shared_bytes as i32,
            )
        }
        .map_err(DriverError::of("cuFuncSetAttribute"))?;
        let kernel = Kernel { function, name, number: self.names.binary_search(&name).ok() };
        kernels.insert(name, kernel);
        Ok(kernel)
    }

    /// Lets this device access the memory of `other` directly, its pool included. Returns false if
    /// copies must go through the host.
    ///
    /// # Errors
    /// The driver's error.
    pub fn enable_peer(&self, other: &Self) -> Result<bool, DriverError> {
        let mut possible = 0;
        // SAFETY: the driver returned both devices; one integer is written.
        unsafe { sys::cuDeviceCanAccessPeer(&mut possible, self.device, other.device) }
            .result()
            .map_err(DriverError::of("cuDeviceCanAccessPeer"))?;
        if possible == 0 {
            return Ok(false);
        }
        self.bind()?;
        // SAFETY: the context lives as long as `other`.
        match unsafe { sys::cuCtxEnablePeerAccess(other.context, 0) } {
            sys::CUresult::CUDA_SUCCESS | sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => {}
            error => return Err(DriverError::of("cuCtxEnablePeerAccess")(result::DriverError(error))),
        }
        // Access to a context's memory does not cover pools.
        let access = sys::CUmemAccessDesc {
            location: sys::CUmemLocation {
                type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
                id: self.device,
            },
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        other.with_pool("cuMemPoolSetAccess", |pool| {
            // SAFETY: the pool is that of `other`, and one description is read.
            unsafe { sys::cuMemPoolSetAccess(pool, &raw const access, 1) }.result()
        })?;
        Ok(true)
    }
}

/// Loads an image in the current context.
fn load(image: &Image, capability: Compute) -> Result<sys::CUmodule, DriverError> {
    // SAFETY: a whole cubin, or PTX with its last zero; the hash was checked.
    let loaded = unsafe { result::module::load_data(image.bytes.as_ptr().cast()) };
    loaded.map_err(|error| match (image.target, DriverError::of("cuModuleLoadData")(error)) {
        (Target::Ptx(_), DriverError::Call { .. }) => {
            DriverError::Ptx { capability, reason: describe(error) }
        }
        (_, other) => other,
    })
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
        // Errors cannot be handled here, and a lost device returns only errors.
        if self.bind().is_err() {
            return;
        }
        // SAFETY: no buffer, stream or kernel outlives the device; each handle is destroyed once.
        unsafe {
            for stream in [self.main, self.scans].into_iter().filter(|stream| !stream.is_null()) {
                let _ = result::stream::synchronize(stream);
                let _ = result::stream::destroy(stream);
            }
            for &module in &self.modules {
                let _ = result::module::unload(module);
            }
            let _ = result::primary_ctx::release(self.device);
        }
    }
}
