//! The driver as the tests call it: through cudarc's `result`, like the product.

#![allow(unsafe_code, dead_code)]

use std::ffi::{CString, c_void};

use cudarc::driver::DriverError;
use cudarc::driver::result::{self, ctx, device, event, module, primary_ctx, stream};
use cudarc::driver::sys;
use spirea_cuda_emulation::{Config, Emulation, PLANTED_LIBRARY};

pub type Result<T> = std::result::Result<T, DriverError>;

/// Returns the emulation with the planted kernels.
pub fn emulation() -> &'static Emulation {
    Emulation::install_from(PLANTED_LIBRARY, Config::default())
}

/// Returns the driver's number of an error, 0 for success.
pub fn code<T>(result: Result<T>) -> u32 {
    result.err().map_or(0, |error| error.0 as u32)
}

/// Primary context of a device with its kernels, current on this thread.
pub struct Device {
    pub ordinal: i32,
    pub context: sys::CUcontext,
    pub module: sys::CUmodule,
}

impl Device {
    pub fn new(ordinal: i32) -> Result<Self> {
        result::init()?;
        let device = device::get(ordinal)?;
        // SAFETY: the device is valid, and the emulation accepts any image.
        unsafe {
            let context = primary_ctx::retain(device)?;
            ctx::set_current(context)?;
            let module = module::load_data(c"".as_ptr().cast())?;
            Ok(Self { ordinal, context, module })
        }
    }

    pub fn make_current(&self) {
        // SAFETY: the context is retained.
        unsafe { ctx::set_current(self.context) }.unwrap();
    }

    pub fn function(&self, name: &str) -> Result<sys::CUfunction> {
        // SAFETY: the module is loaded.
        unsafe { module::get_function(self.module, CString::new(name).unwrap()) }
    }

    pub fn stream(&self) -> Stream {
        Stream(stream::create(stream::StreamKind::NonBlocking).unwrap())
    }

    /// Allocates device memory with these words.
    pub fn upload(&self, words: &[u32]) -> u64 {
        // SAFETY: the allocation is as long as the copy.
        unsafe {
            let memory = result::malloc_sync(size_of_val(words)).unwrap();
            result::memcpy_htod_sync(memory, words).unwrap();
            memory
        }
    }

    pub fn download(&self, memory: u64, count: usize) -> Result<Vec<u32>> {
        let mut words = vec![0; count];
        // SAFETY: the emulation checks the range.
        unsafe { result::memcpy_dtoh_sync(&mut words, memory)? };
        Ok(words)
    }

    pub fn free(&self, memory: u64) {
        // SAFETY: the emulation checks the pointer.
        unsafe { result::free_sync(memory) }.unwrap();
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: retained in `new`. After a loss the release may fail, which does not matter to
        // tests.
        let _ = unsafe { primary_ctx::release(self.ordinal) };
    }
}

/// Stream that does not wait for the legacy one.
pub struct Stream(pub sys::CUstream);

impl Stream {
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream lives.
        unsafe { stream::synchronize(self.0) }
    }

    pub fn record(&self) -> Event {
        let event = event::create(sys::CUevent_flags::CU_EVENT_DEFAULT).unwrap();
        // SAFETY: both handles are valid.
        unsafe { event::record(event, self.0) }.unwrap();
        Event(event)
    }

    pub fn wait(&self, event: &Event) -> Result<()> {
        // SAFETY: both handles are valid.
        unsafe { stream::wait_event(self.0, event.0, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT) }
    }

    pub fn launch(&self, function: sys::CUfunction, shape: Shape, arguments: &mut [Argument]) -> Result<()> {
        let mut pointers: Vec<*mut c_void> =
            arguments.iter_mut().map(|argument| std::ptr::from_mut(argument).cast()).collect();
        let Shape { blocks, threads, shared, cooperative } = shape;
        let (grid, block) = ((blocks, 1, 1), (threads, 1, 1));
        // SAFETY: each argument has eight bytes, and no kernel here takes wider ones.
        unsafe {
            if cooperative {
                result::launch_cooperative_kernel(function, grid, block, shared, self.0, &mut pointers)
            } else {
                result::launch_kernel(function, grid, block, shared, self.0, &mut pointers)
            }
        }
    }
}

/// Recorded event.
pub struct Event(pub sys::CUevent);

/// Argument of at most eight bytes, little endian.
pub type Argument = u64;

/// Dimensions of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub blocks: u32,
    pub threads: u32,
    pub shared: u32,
    pub cooperative: bool,
}

impl Shape {
    pub fn new(blocks: u32, threads: u32) -> Self {
        Self { blocks, threads, shared: 0, cooperative: false }
    }

    pub fn shared(self, shared: u32) -> Self {
        Self { shared, ..self }
    }

    pub fn cooperative(self) -> Self {
        Self { cooperative: true, ..self }
    }
}
