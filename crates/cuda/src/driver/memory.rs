//! Memory of a device, and memory of the host that devices copy by themselves.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::{result, sys};

use super::{Device, DriverError};

/// Where a device's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// From the pool, in the order of the main stream.
    Pool,
    /// From the device, beside the pool.
    Device,
}

/// Values in a device's memory, owned, in the order of its main stream.
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
        // SAFETY: the stream lives as long as the device.
        let allocated = unsafe {
            match source {
                Source::Pool => result::malloc_async(device.main_handle(), bytes),
                Source::Device => result::malloc_sync(bytes),
            }
        };
        let address = match allocated {
            Ok(address) => address,
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                let (free, total) = device.memory()?;
                return Err(DriverError::OutOfMemory { wanted: bytes, free, total });
            }
            Err(error) => return Err(DriverError::of("cuMemAlloc")(error)),
        };
        Ok(Self { device, source, address, length, values: PhantomData })
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whose memory it is.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// All values.
    pub fn all(&self) -> View<'_, T> {
        self.range(0..self.length)
    }

    /// Some of the values.
    ///
    /// # Panics
    /// If they are not within the buffer.
    pub fn range(&self, range: Range<usize>) -> View<'_, T> {
        assert!(range.start <= range.end && range.end <= self.length, "a range outside of the buffer");
        View { buffer: self, range }
    }
}

impl Device {
    /// Room for `length` values while something is computed, from the pool, in the order of the main stream. What they
    /// hold is undefined.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`] if there is none.
    pub fn alloc<T: Pod>(self: &Arc<Self>, length: usize) -> Result<Buffer<T>, DriverError> {
        Buffer::new(Arc::clone(self), Source::Pool, length)
    }

    /// Room for `length` values that stay, such as a database: beside the pool, whose room is for what is computed
    /// meanwhile. What they hold is undefined. Freeing it waits for the device.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`] if there is none.
    pub fn hold<T: Pod>(self: &Arc<Self>, length: usize) -> Result<Buffer<T>, DriverError> {
        Buffer::new(Arc::clone(self), Source::Device, length)
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        // A lost device gives nothing but errors, and takes its memory with it.
        if self.device.bind().is_ok() {
            let main = self.device.main_handle();
            // SAFETY: allocated from there, freed once, after all that is queued on the main stream.
            let _ = unsafe {
                match self.source {
                    Source::Pool => result::free_async(self.address, main),
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
    /// Some of the values.
    ///
    /// # Panics
    /// If they are not within the view.
    pub fn range(&self, range: Range<usize>) -> View<'a, T> {
        assert!(range.end <= self.range.len(), "a range outside of the view");
        self.buffer.range(self.range.start + range.start..self.range.start + range.end)
    }

    /// Where they begin in the device's memory.
    pub fn address(&self) -> u64 {
        self.buffer.address + (self.range.start * size_of::<T>()) as u64
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Whose memory they are in.
    pub fn device(&self) -> &Arc<Device> {
        &self.buffer.device
    }

    pub(super) fn bytes(&self) -> usize {
        self.len() * size_of::<T>()
    }
}

/// Values in the host's memory that stay at their place, so that a device copies them by itself.
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
    /// `length` zeros.
    ///
    /// # Errors
    /// What the driver said.
    pub fn new(device: &Arc<Device>, length: usize) -> Result<Self, DriverError> {
        device.bind()?;
        let bytes = (length * size_of::<T>()).max(1);
        // SAFETY: the context is bound; flags 0 are the default.
        let values = unsafe { result::malloc_host(bytes, 0) }.map_err(DriverError::of("cuMemHostAlloc"))?;
        // SAFETY: so many bytes were allocated.
        unsafe { std::ptr::write_bytes(values.cast::<u8>(), 0, bytes) };
        Ok(Self { device: Arc::clone(device), values: values.cast(), length })
    }
}

impl<T> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: allocated with this length, initialised with zeros, which are values of a Pod type.
        unsafe { std::slice::from_raw_parts(self.values, self.length) }
    }
}

impl<T> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and borrowed by nobody else.
        unsafe { std::slice::from_raw_parts_mut(self.values, self.length) }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // A copy that is still queued would read what another allocation has by then.
            let _ = result::ctx::synchronize();
            // SAFETY: allocated by the driver, freed once.
            let _ = unsafe { result::free_host(self.values.cast()) };
        }
    }
}
