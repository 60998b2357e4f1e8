//! Functions that the emulation exports in addition to the driver's, with safe signatures.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

/// Functions of the loaded library. The library is never unloaded, because its threads keep
/// running.
pub(crate) struct Functions {
    set_devices: unsafe extern "C" fn(c_int, u64, c_int, bool),
    set_model: unsafe extern "C" fn(c_int, c_int),
    set_orders: unsafe extern "C" fn(c_int, c_int, u64),
    lose_after: unsafe extern "C" fn(i64),
    reset: unsafe extern "C" fn(),
    last_error: unsafe extern "C" fn() -> *const c_char,
    launches: unsafe extern "C" fn(*const c_char) -> u64,
    bytes: unsafe extern "C" fn(*mut u64, *mut u64, *mut u64, *mut u64, *mut u64),
    live: unsafe extern "C" fn(c_int, *mut u64, *mut u64),
    kernel: unsafe extern "C" fn(usize) -> *const c_char,
}

/// # Safety
/// `T` must be the type of the function of that name.
unsafe fn symbol<T: Copy>(library: &Library, name: &str) -> Result<T, libloading::Error> {
    // SAFETY: the caller ensures that the type is right.
    Ok(*unsafe { library.get::<T>(name.as_bytes())? })
}

impl Functions {
    /// Loads the library so that a later `dlopen` of its soname, `libcuda.so`, finds it.
    pub(crate) fn load(path: &str) -> Result<Self, libloading::Error> {
        // SAFETY: the library's initialisers only fill its table of kernels.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL)? };
        // SAFETY: the types are those of `runtime/configuration.cpp`.
        let functions = unsafe {
            Self {
                set_devices: symbol(&library, "spirea_emulation_set_devices")?,
                set_model: symbol(&library, "spirea_emulation_set_model")?,
                set_orders: symbol(&library, "spirea_emulation_set_orders")?,
                lose_after: symbol(&library, "spirea_emulation_lose_after")?,
                reset: symbol(&library, "spirea_emulation_reset")?,
                last_error: symbol(&library, "spirea_emulation_last_error")?,
                launches: symbol(&library, "spirea_emulation_launches")?,
                bytes: symbol(&library, "spirea_emulation_bytes")?,
                live: symbol(&library, "spirea_emulation_live")?,
                kernel: symbol(&library, "spirea_emulation_kernel")?,
            }
        };
        std::mem::forget(library);
        Ok(functions)
    }

    pub(crate) fn set_devices(&self, devices: i32, bytes_each: u64, processors: i32, peers: bool) {
        // SAFETY: plain values; the library takes its own lock, here and below.
        unsafe { (self.set_devices)(devices, bytes_each, processors, peers) }
    }

    pub(crate) fn set_model(&self, version: i32, compute: i32) {
        // SAFETY: plain values.
        unsafe { (self.set_model)(version, compute) }
    }

    pub(crate) fn set_orders(&self, threads: i32, streams: i32, seed: u64) {
        // SAFETY: plain values.
        unsafe { (self.set_orders)(threads, streams, seed) }
    }

    pub(crate) fn lose_after(&self, launches: i64) {
        // SAFETY: a plain value.
        unsafe { (self.lose_after)(launches) }
    }

    pub(crate) fn reset(&self) {
        // SAFETY: no arguments.
        unsafe { (self.reset)() }
    }

    pub(crate) fn last_error(&self) -> String {
        // SAFETY: the text ends with a zero and lives until this thread's next call.
        let text = unsafe { CStr::from_ptr((self.last_error)()) };
        text.to_string_lossy().into_owned()
    }

    pub(crate) fn launches(&self, kernel: Option<&str>) -> u64 {
        let name = kernel.map(|name| CString::new(name).expect("no zero in a kernel's name"));
        let pointer = name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
        // SAFETY: null, or a text that ends with a zero and outlives the call.
        unsafe { (self.launches)(pointer) }
    }

    /// Returns the bytes copied to the device, to the host, on a device, and between devices, and
    /// of the last those that went through the host.
    pub(crate) fn bytes(&self) -> [u64; 5] {
        let [mut to_device, mut to_host, mut on_device, mut between, mut staged] = [0; 5];
        // SAFETY: five words to write to.
        unsafe { (self.bytes)(&mut to_device, &mut to_host, &mut on_device, &mut between, &mut staged) }
        [to_device, to_host, on_device, between, staged]
    }

    /// Returns the number and the bytes of a device's allocations, or of the pinned memory for -1.
    pub(crate) fn live(&self, device: i32) -> (u64, u64) {
        let (mut allocations, mut bytes) = (0, 0);
        // SAFETY: two words to write to.
        unsafe { (self.live)(device, &mut allocations, &mut bytes) }
        (allocations, bytes)
    }

    pub(crate) fn kernel(&self, i: usize) -> Option<&'static str> {
        // SAFETY: any number is allowed.
        let name = unsafe { (self.kernel)(i) };
        // SAFETY: if not null, the pointer is a name in the library's constant data, which stays
        // loaded.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().expect("kernels have C names"))
    }
}
