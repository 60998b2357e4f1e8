//! Host calls of the vendor's SDK, and nothing else: the backend's only access to the hardware.
//!
//! The backend drives a set of DPUs with `dpu_alloc`, `dpu_load`, `dpu_prepare_xfer`,
//! `dpu_push_xfer`, `dpu_broadcast_to`, `dpu_copy_from`, `dpu_launch`, `dpu_free` and
//! `DPU_FOREACH`. There are two implementations: [`Emulation`](crate::Emulation), and the vendor's
//! library ([`vendor`]), which is found at run time.

mod error;
pub mod vendor;

pub use error::PimError;

/// Place that the host and a program share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// MRAM after the program's own variables.
    MramHeap,
    /// The program's `dpxor_arguments`.
    Arguments,
}

impl Symbol {
    /// Returns the SDK's name of the symbol.
    pub fn name(self) -> &'static str {
        match self {
            Self::MramHeap => "__sys_used_mram_end",
            Self::Arguments => "dpxor_arguments",
        }
    }
}

/// Bytes of MRAM of a DPU: the maximum size of one DPU's part of a transfer.
pub const MRAM_BYTES: usize = 64 << 20;
/// Bytes of WRAM of a DPU.
pub const WRAM_BYTES: usize = 64 << 10;
/// Maximum number of tasklets of a DPU.
pub const MOST_TASKLETS: u32 = 24;

/// Source of sets of DPUs.
pub trait Sdk: Send + Sync {
    /// Allocates `dpus` DPUs, or all that are free for `None` (`dpu_alloc`). They are freed when
    /// the set is dropped.
    ///
    /// # Errors
    /// [`PimError::Allocation`] if fewer are free.
    fn alloc(&self, dpus: Option<usize>) -> Result<Box<dyn DpuSet>, PimError>;

    /// Returns a short name.
    fn name(&self) -> &'static str;
}

/// Set of DPUs that run one program.
pub trait DpuSet: Send {
    /// Returns the number of DPUs, in the order of `DPU_FOREACH`; at least one.
    fn dpus(&self) -> usize;

    /// Loads the device program into every DPU (`dpu_load`).
    ///
    /// # Errors
    /// [`PimError::Program`] if the program is missing or invalid, [`PimError::Wram`] if its stacks
    /// overflow WRAM.
    fn load(&mut self) -> Result<(), PimError>;

    /// Copies bytes to DPUs, to the place `offset` bytes after the start of a symbol:
    /// `dpu_prepare_xfer` for every DPU that has bytes, then `dpu_push_xfer`. All bytes must have
    /// one length; a DPU without any does not take part.
    ///
    /// # Errors
    /// [`PimError::Transfer`] if `bytes` does not have one entry for each DPU, if lengths differ,
    /// if a length or an offset is not a multiple of 8, or if the place does not exist.
    fn push_to(&mut self, symbol: Symbol, offset: usize, bytes: &[Option<&[u8]>]) -> Result<(), PimError>;

    /// Copies bytes from every DPU: `bytes` has the same number of bytes for each DPU, one after
    /// another.
    ///
    /// # Errors
    /// As [`DpuSet::push_to`].
    fn push_from(&mut self, symbol: Symbol, offset: usize, bytes: &mut [u8]) -> Result<(), PimError>;

    /// Copies the same bytes to every DPU (`dpu_broadcast_to`).
    ///
    /// # Errors
    /// As [`DpuSet::push_to`].
    fn broadcast_to(&mut self, symbol: Symbol, offset: usize, bytes: &[u8]) -> Result<(), PimError>;

    /// Copies bytes from one DPU (`dpu_copy_from`).
    ///
    /// # Errors
    /// As [`DpuSet::push_to`].
    fn copy_from(
        &mut self,
        dpu: usize,
        symbol: Symbol,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<(), PimError>;

    /// Launches the program (`dpu_launch`), and waits until all DPUs have ended or are in fault.
    ///
    /// # Errors
    /// [`PimError::Fault`] if any DPU is in fault; the others have finished nevertheless.
    fn launch(&mut self) -> Result<(), PimError>;
}

/// Checks a transfer of `bytes` bytes at `offset` of a place with `room` bytes.
///
/// # Errors
/// [`PimError::Transfer`] unless `offset` and `bytes` are multiples of 8 and the transfer ends
/// within the place.
pub(crate) fn check_transfer(offset: usize, bytes: usize, room: usize) -> Result<(), PimError> {
    if !offset.is_multiple_of(8) || !bytes.is_multiple_of(8) {
        return Err(PimError::Transfer(format!("{bytes} bytes at {offset}: not multiples of 8")));
    }
    match offset.checked_add(bytes) {
        Some(end) if end <= room => Ok(()),
        _ => Err(PimError::Transfer(format!("{bytes} bytes at {offset} of {room}"))),
    }
}

/// Returns the common length of all DPUs' bytes, 0 if there are none.
///
/// # Errors
/// [`PimError::Transfer`] if `bytes` does not have one entry for each DPU, or lengths differ.
pub(crate) fn common_length(dpus: usize, bytes: &[Option<&[u8]>]) -> Result<usize, PimError> {
    if bytes.len() != dpus {
        return Err(PimError::Transfer(format!("buffers for {} DPUs of {dpus}", bytes.len())));
    }
    let mut lengths = bytes.iter().flatten().map(|bytes| bytes.len());
    let first = lengths.next().unwrap_or(0);
    if lengths.any(|length| length != first) {
        return Err(PimError::Transfer("buffers of several lengths in one transfer".into()));
    }
    Ok(first)
}
