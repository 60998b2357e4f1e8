//! Device memory, and pinned host memory for copies by the device.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::{result, sys};

use super::{Device, DriverError};

/// Origin of a buffer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The pool. The memory is freed in the order of this stream of the device.
    Pool(sys::CUstream),
    /// The device, outside the pool.
    Device,
}

// SAFETY: a handle that any thread may use; it lives as long as the device.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Sync for Source {}

/// Values in a device's memory. The buffer owns them and frees them in the order of one of the
/// device's streams: by default, the main stream.
#[derive(Debug)]
pub struct Buffer<T> {
    device: Arc<Device>,
    source: Source,
    address: u64,
    length: usize,
    values: PhantomData<T>,
}

impl<T: Pod> Buffer<T> {
    fn new(device: Arc<Device>, source: Source, length: usize) -> Result<Self, DriverError> {
        device.bind()?;
        let bytes = length.saturating_mul(size_of::<T>()).max(1);
        let exhausted = |free, total| DriverError::OutOfMemory { wanted: bytes, free, total };
        if source == Source::Device {
            // Without this check, the driver would take unused memory of the pool, which is
            // reserved for queries. The check ignores the bytes that the driver adds to round an
            // allocation up.
            let (free, total) = device.memory()?;
            if bytes > free {
                return Err(exhausted(free, total));
            }
        }
        // SAFETY: the stream lives as long as the device.
        let allocated = unsafe {
            match source {
                Source::Pool(stream) => result::malloc_async(stream, bytes),
                Source::Device => result::malloc_sync(bytes),
            }
        };
        let address = match allocated {
            Ok(address) => address,
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let (free, total) = device.memory()?;
                return Err(exhausted(free, total));
            }
            Err(error) => return Err(DriverError::of("cuMemAlloc")(error)),
        };
        Ok(Self { device, source, address, length, values: PhantomData })
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns true if the buffer has no values.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the buffer, which the main stream will free.
    pub(crate) fn freed_by_main(mut self) -> Self {
        if let Source::Pool(stream) = &mut self.source {
            *stream = self.device.main_handle();
        }
        self
    }

    /// Returns the device whose memory this is.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Views all values.
    pub fn all(&self) -> View<'_, T> {
        self.range(0..self.length)
    }

    /// Views the values of `range`.
    ///
    /// # Panics
    /// If the range is not within the buffer.
    pub fn range(&self, range: Range<usize>) -> View<'_, T> {
        assert!(range.start <= range.end && range.end <= self.length, "a range outside of the buffer");
        View { buffer: self, range }
    }
}

impl Device {
    /// Allocates `length` values from the pool, in the order of the main stream, for intermediate
    /// results. The values are undefined.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`] if there is no room.
    pub fn alloc<T: Pod>(self: &Arc<Self>, length: usize) -> Result<Buffer<T>, DriverError> {
        self.alloc_in(self.main_handle(), length)
    }

    /// Allocates `length` values from the pool, in the order of a stream that lives as long as the
    /// device, and which also frees them.
    pub(super) fn alloc_in<T: Pod>(
        self: &Arc<Self>,
        stream: sys::CUstream,
        length: usize,
    ) -> Result<Buffer<T>, DriverError> {
        Buffer::new(Arc::clone(self), Source::Pool(stream), length)
    }

    /// Allocates `length` values that stay, such as a database, outside the pool: the pool is for
    /// intermediate results. The values are undefined. Freeing the buffer waits for the device.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`] if there is no room.
    pub fn hold<T: Pod>(self: &Arc<Self>, length: usize) -> Result<Buffer<T>, DriverError> {
        Buffer::new(Arc::clone(self), Source::Device, length)
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        // A lost device returns only errors, and its memory is lost as well.
        if self.device.bind().is_ok() {
            let main = self.device.main_handle();
            // SAFETY: allocated from this source; freed once, after all work queued on the stream.
            let _ = unsafe {
                match self.source {
                    Source::Pool(stream) => result::free_async(self.address, stream),
                    Source::Device => {
                        result::stream::synchronize(main).and_then(|()| result::free_sync(self.address))
                    }
                }
            };
        }
    }
}

/// Consecutive values of a buffer.
#[derive(Clone, Debug)]
pub struct View<'a, T> {
    buffer: &'a Buffer<T>,
    range: Range<usize>,
}

impl<'a, T: Pod> View<'a, T> {
    /// Views the values of `range`.
    ///
    /// # Panics
    /// If the range is not within the view.
    pub fn range(&self, range: Range<usize>) -> View<'a, T> {
        assert!(range.end <= self.range.len(), "a range outside of the view");
        self.buffer.range(self.range.start + range.start..self.range.start + range.end)
    }

    /// Returns the address of the first value in the device's memory.
    pub fn address(&self) -> u64 {
        self.buffer.address + (self.range.start * size_of::<T>()) as u64
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns true if the view has no values.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Returns the device whose memory this is.
    pub fn device(&self) -> &Arc<Device> {
        &self.buffer.device
    }

    pub(super) fn bytes(&self) -> usize {
        self.len() * size_of::<T>()
    }
}

/// Values in pinned host memory, which a device copies by itself.
#[derive(Debug)]
pub struct Pinned<T> {
    device: Arc<Device>,
    values: *mut T,
    length: usize,
}

// SAFETY: plain values, owned.
unsafe impl<T: Send> Send for Pinned<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Pinned<T> {}

impl<T: Pod> Pinned<T> {
    /// Allocates `length` zeros.
    ///
    /// # Errors
    /// The driver's error.
    pub fn new(device: &Arc<Device>, length: usize) -> Result<Self, DriverError> {
        device.bind()?;
        let bytes = (length * size_of::<T>()).max(1);
        // SAFETY: the context is bound; flags 0 are the default.
        let values = unsafe { result::malloc_host(bytes, 0) }.map_err(DriverError::of("cuMemHostAlloc"))?;
        // SAFETY: `bytes` bytes were allocated.
        unsafe { std::ptr::write_bytes(values.cast::<u8>(), 0, bytes) };
        Ok(Self { device: Arc::clone(device), values: values.cast(), length })
    }
}

impl<T> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: allocated with this length, initialised with zeros, which are values of a Pod
        // type.
        unsafe { std::slice::from_raw_parts(self.values, self.length) }
    }
}

impl<T> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; `&mut self` is exclusive, so no other reference to the values exists.
        unsafe { std::slice::from_raw_parts_mut(self.values, self.length) }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // After the memory is freed, a copy still queued would read another allocation's
            // values.
            let _ = result::ctx::synchronize();
            // SAFETY: allocated by the driver, freed once.
            let _ = unsafe { result::free_host(self.values.cast()) };
        }
    }
}
