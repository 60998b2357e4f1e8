//! Streams and events: the order of work on a device.

use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::{result, sys};

use super::{Arg, Buffer, Device, DriverError, Grid, Kernel, Pinned, View};

/// Driver function that launches a kernel: function, blocks, threads, bytes of shared memory,
/// stream and arguments.
type Launch = unsafe fn(
    sys::CUfunction,
    (u32, u32, u32),
    (u32, u32, u32),
    u32,
    sys::CUstream,
    &mut [*mut std::ffi::c_void],
) -> Result<(), result::DriverError>;

/// Queue of work on a device.
#[derive(Debug)]
pub struct Stream {
    device: Arc<Device>,
    pub(super) handle: sys::CUstream,
    owned: bool,
}

// SAFETY: a handle that any thread may use; every call binds the context first.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    fn new(device: Arc<Device>) -> Result<Self, DriverError> {
        device.bind()?;
        let handle = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(DriverError::of("cuStreamCreate"))?;
        Ok(Self { device, handle, owned: true })
    }

    fn borrowed(device: Arc<Device>, handle: sys::CUstream) -> Self {
        Self { device, handle, owned: false }
    }

    /// Returns the stream's device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Allocates `length` values from the pool, in the order of this stream, which also frees them.
    /// The values are undefined.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`] if there is no room.
    ///
    /// # Panics
    /// If this is neither the main stream nor that of scans: only these live as long as the device.
    pub(crate) fn alloc<T: Pod>(&self, length: usize) -> Result<Buffer<T>, DriverError> {
        assert!(!self.owned, "a stream of the device's own");
        self.device.alloc_in(self.handle, length)
    }

    /// Queues a kernel.
    ///
    /// The caller must ensure that the arguments have the number, types and bounds that the kernel
    /// documents. Modules that launch kernels do so only in functions that check shapes.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn launch(&self, kernel: &Kernel, grid: Grid, args: &[Arg]) -> Result<(), DriverError> {
        self.start(kernel, grid, args, result::launch_kernel)
    }

    /// Queues a kernel whose blocks all run at the same time (a cooperative launch).
    ///
    /// # Errors
    /// The driver's error, for example if there are more blocks than fit at the same time.
    pub(crate) fn launch_cooperative(
        &self,
        kernel: &Kernel,
        grid: Grid,
        args: &[Arg],
    ) -> Result<(), DriverError> {
        self.start(kernel, grid, args, result::launch_cooperative_kernel)
    }

    fn start(&self, kernel: &Kernel, grid: Grid, args: &[Arg], launch: Launch) -> Result<(), DriverError> {
        self.device.bind()?;
        let mut pointers: Vec<*mut std::ffi::c_void> =
            args.iter().map(|arg| arg.0.as_ptr().cast_mut().cast()).collect();
        if let Some(number) = kernel.number {
            self.device.note_launch(number);
        }
        let [x, y, z] = grid.blocks;
        let (blocks, threads) = ((x, y, z), (grid.threads, 1, 1));
        // SAFETY: the arguments live until the call returns, and the driver copies them before
        // that. This crate's modules check that they match the kernel.
        unsafe { launch(kernel.function, blocks, threads, grid.shared as u32, self.handle, &mut pointers) }
            .map_err(|error| match DriverError::of(kernel.name)(error) {
                DriverError::Call { call, reason } => {
                    let reason = format!("{reason} for {grid:?}");
                    DriverError::Call { call, reason }
                }
                other => other,
            })
    }

    /// Copies values to the device. The source may change once the call returns.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn upload<T: Pod>(&self, from: &[T], to: &View<'_, T>) -> Result<(), DriverError> {
        assert_eq!(from.len(), to.len(), "as many values as there is room for");
        self.device.bind()?;
        // SAFETY: pageable memory is read before the call returns; the destination has the room.
        unsafe { result::memcpy_htod_async(to.address(), from, self.handle) }
            .map_err(DriverError::of("cuMemcpyHtoDAsync"))
    }

    /// Queues a copy of values to the device; the host does not wait for the copy.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn upload_pinned<T: Pod>(
        &self,
        from: &Arc<Pinned<T>>,
        range: std::ops::Range<usize>,
        to: &View<'_, T>,
    ) -> Result<(), DriverError> {
        // The values cannot change while their Arc is borrowed. They must live until the copy has
        // run: the owner of the Arc waits for that before reclaiming it with `Arc::get_mut`.
        self.upload(&from[range], to)
    }

    /// Copies values from the device, after all queued work.
    ///
    /// # Errors
    /// The driver's error, also of work queued before.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn download<T: Pod>(&self, from: &View<'_, T>, to: &mut [T]) -> Result<(), DriverError> {
        assert_eq!(from.len(), to.len(), "as many values as there is room for");
        self.device.bind()?;
        // SAFETY: the values live until `synchronize` has returned.
        unsafe { result::memcpy_dtoh_async(to, from.address(), self.handle) }
            .map_err(DriverError::of("cuMemcpyDtoHAsync"))?;
        self.synchronize()
    }

    /// Returns the values, after all queued work.
    ///
    /// # Errors
    /// The driver's error, also of work queued before.
    pub fn read<T: Pod>(&self, from: &View<'_, T>) -> Result<Vec<T>, DriverError> {
        let mut values = vec![T::zeroed(); from.len()];
        self.download(from, &mut values)?;
        Ok(values)
    }

    /// Queues a copy within the device, or from another device to this stream's.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn copy<T: Pod>(&self, from: &View<'_, T>, to: &View<'_, T>) -> Result<(), DriverError> {
        assert_eq!(from.len(), to.len(), "as many values as there is room for");
        self.device.bind()?;
        let (source, target) = (from.device(), to.device());
        // SAFETY: both ranges are within their buffers, and each buffer belongs to the given
        // context.
        unsafe {
            if Arc::ptr_eq(source, target) {
                result::memcpy_dtod_async(to.address(), from.address(), to.bytes(), self.handle)
            } else {
                result::memcpy_peer_async(
                    target.context,
                    to.address(),
                    source.context,
                    from.address(),
                    to.bytes(),
                    self.handle,
                )
            }
        }
        .map_err(DriverError::of("cuMemcpyAsync"))
    }

    /// Queues a fill with zero bytes.
    ///
    /// # Errors
    /// The driver's error.
    pub fn zero<T: Pod>(&self, to: &View<'_, T>) -> Result<(), DriverError> {
        self.device.bind()?;
        // SAFETY: the range is within its buffer.
        unsafe { result::memset_d8_async(to.address(), 0, to.bytes(), self.handle) }
            .map_err(DriverError::of("cuMemsetD8Async"))
    }

    /// Waits for all queued work.
    ///
    /// # Errors
    /// The driver's error, also of work queued before.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        self.device.bind()?;
        // SAFETY: the stream lives.
        unsafe { result::stream::synchronize(self.handle) }.map_err(DriverError::of("cuStreamSynchronize"))
    }

    /// Records an event at the present end of the queue.
    ///
    /// # Errors
    /// The driver's error.
    pub fn record(&self) -> Result<Event, DriverError> {
        self.device.bind()?;
        let handle = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)
            .map_err(DriverError::of("cuEventCreate"))?;
        let event = Event { device: Arc::clone(&self.device), handle };
        // SAFETY: both handles are valid.
        unsafe { result::event::record(event.handle, self.handle) }
            .map_err(DriverError::of("cuEventRecord"))?;
        Ok(event)
    }

    /// Makes later work on this stream wait for the work queued on `other` so far.
    ///
    /// # Errors
    /// The driver's error.
    pub fn after(&self, other: &Self) -> Result<(), DriverError> {
        self.after_event(&other.record()?)
    }

    /// Makes later work on this stream wait for all work before the event.
    ///
    /// # Errors
    /// The driver's error.
    pub fn after_event(&self, event: &Event) -> Result<(), DriverError> {
        self.device.bind()?;
        // SAFETY: both handles are valid; the driver keeps the parts of a destroyed event that it
        // needs.
        unsafe {
            result::stream::wait_event(
                self.handle,
                event.handle,
                sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT,
            )
        }
        .map_err(DriverError::of("cuStreamWaitEvent"))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned && self.device.bind().is_ok() {
            // SAFETY: destroyed once; queued work still runs.
            let _ = unsafe { result::stream::destroy(self.handle) };
        }
    }
}

impl Device {
    /// Returns the main stream. When processors become free, its work has priority.
    pub fn main(self: &Arc<Self>) -> Stream {
        Stream::borrowed(Arc::clone(self), self.main_handle())
    }

    /// Returns the stream of scans, whose work takes the processors that the main stream leaves.
    pub(crate) fn scans(self: &Arc<Self>) -> Stream {
        Stream::borrowed(Arc::clone(self), self.scans_handle())
    }

    /// Waits for all work queued on the main stream and on the stream of scans.
    ///
    /// # Errors
    /// The driver's error, also of work queued before.
    pub fn synchronize(self: &Arc<Self>) -> Result<(), DriverError> {
        self.scans().synchronize()?;
        self.main().synchronize()
    }

    /// Creates another stream, whose work has the priority of scans.
    ///
    /// # Errors
    /// The driver's error.
    pub fn stream(self: &Arc<Self>) -> Result<Stream, DriverError> {
        Stream::new(Arc::clone(self))
    }

    /// Allocates a buffer from the pool and copies `values` to it. The source may change once the
    /// call returns.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`] if there is no room.
    pub fn upload<T: Pod>(self: &Arc<Self>, values: &[T]) -> Result<Buffer<T>, DriverError> {
        let buffer = self.alloc(values.len())?;
        self.main().upload(values, &buffer.all())?;
        Ok(buffer)
    }

    /// Allocates a buffer outside the pool, for values that stay, and copies `values` to it. The
    /// source may change once the call returns.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`] if there is no room.
    pub fn hold_values<T: Pod>(self: &Arc<Self>, values: &[T]) -> Result<Buffer<T>, DriverError> {
        let buffer = self.hold(values.len())?;
        self.main().upload(values, &buffer.all())?;
        Ok(buffer)
    }
}

/// Place in a stream's queue.
#[derive(Debug)]
pub struct Event {
    device: Arc<Device>,
    handle: sys::CUevent,
}

// SAFETY: a handle that any thread may use; every call binds the context first.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Waits until all work before the event has finished.
    ///
    /// # Errors
    /// The driver's error, also of work queued before.
    pub fn wait(&self) -> Result<(), DriverError> {
        self.device.bind()?;
        // SAFETY: the event lives.
        unsafe { result::event::synchronize(self.handle) }.map_err(DriverError::of("cuEventSynchronize"))
    }

    /// Returns the seconds on the device from `earlier` to this event, once both have happened.
    ///
    /// # Errors
    /// The driver's error.
    pub fn seconds_since(&self, earlier: &Self) -> Result<f64, DriverError> {
        self.wait()?;
        // SAFETY: both handles are valid.
        let milliseconds = unsafe { result::event::elapsed(earlier.handle, self.handle) }
            .map_err(DriverError::of("cuEventElapsedTime"))?;
        Ok(f64::from(milliseconds) / 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: destroyed once.
            let _ = unsafe { result::event::destroy(self.handle) };
        }
    }
}
