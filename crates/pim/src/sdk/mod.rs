//! The host calls of the vendor's SDK, and nothing else: what the backend knows of the hardware.
//!
//! A set of DPUs is driven by `dpu_alloc`, `dpu_load`, `dpu_prepare_xfer`, `dpu_push_xfer`, `dpu_broadcast_to`,
//! `dpu_copy_from`, `dpu_launch`, `dpu_free` and `DPU_FOREACH`. Two implementations: [`Emulation`](crate::Emulation),
//! and the vendor's library ([`vendor`]), which is found at run time.

mod error;
pub mod vendor;

pub use error::PimError;

/// A place that the host and a program share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// MRAM behind the program's own variables.
    MramHeap,
    /// The program's `dpxor_arguments`.
    Arguments,
}

impl Symbol {
    /// The name that the SDK knows it by.
    pub fn name(self) -> &'static str {
        match self {
            Self::MramHeap => "__sys_used_mram_end",
            Self::Arguments => "dpxor_arguments",
        }
    }
}

/// The largest number of bytes that one DPU sends or takes in a transfer: its MRAM.
pub const MRAM_BYTES: usize = 64 << 20;
/// Bytes of WRAM of a DPU.
pub const WRAM_BYTES: usize = 64 << 10;
/// The most tasklets of a DPU.
pub const MOST_TASKLETS: u32 = 24;

/// Where sets of DPUs come from.
pub trait Sdk: Send + Sync {
    /// `dpu_alloc`: so many DPUs, or all that are free if none is said. They are freed when the set is dropped.
    ///
    /// # Errors
    /// [`PimError::Allocation`] if there are fewer.
    fn alloc(&self, dpus: Option<usize>) -> Result<Box<dyn DpuSet>, PimError>;

    /// What it is, in a word.
    fn name(&self) -> &'static str;
}

/// DPUs that run one program.
pub trait DpuSet: Send {
    /// How many there are, as `DPU_FOREACH` goes over them; at least one.
    fn dpus(&self) -> usize;

    /// `dpu_load`: the device program in every DPU.
    ///
    /// # Errors
    /// [`PimError::Program`] if it is not there or no program, [`PimError::Wram`] if its stacks overflow WRAM.
    fn load(&mut self) -> Result<(), PimError>;

    /// `dpu_prepare_xfer` for every DPU that has bytes, then `dpu_push_xfer` to them: to the place `offset` bytes
    /// behind a symbol. All are of one length; a DPU without any is left alone.
    ///
    /// # Errors
    /// [`PimError::Transfer`] if there are more or fewer entries than DPUs, lengths that differ, a length or an offset
    /// that is not a multiple of 8, or a place that is not there.
    fn push_to(&mut self, symbol: Symbol, offset: usize, bytes: &[Option<&[u8]>]) -> Result<(), PimError>;

    /// The same from every DPU: `bytes` has as many for each of them, one after another.
    ///
    /// # Errors
    /// As [`DpuSet::push_to`].
    fn push_from(&mut self, symbol: Symbol, offset: usize, bytes: &mut [u8]) -> Result<(), PimError>;

    /// `dpu_broadcast_to`: the same bytes to every DPU.
    ///
    /// # Errors
    /// As [`DpuSet::push_to`].
    fn broadcast_to(&mut self, symbol: Symbol, offset: usize, bytes: &[u8]) -> Result<(), PimError>;

    /// `dpu_copy_from`: from one DPU.
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

    /// `dpu_launch`, and waits until all have ended or are in fault.
    ///
    /// # Errors
    /// [`PimError::Fault`] if any is in fault; the others have ended all the same.
    fn launch(&mut self) -> Result<(), PimError>;
}

/// Checks a transfer of `bytes` bytes at `offset` of a place with `room` bytes.
///
/// # Errors
/// [`PimError::Transfer`] unless both are multiples of 8 and they end within the place.
pub(crate) fn check_transfer(offset: usize, bytes: usize, room: usize) -> Result<(), PimError> {
    if !offset.is_multiple_of(8) || !bytes.is_multiple_of(8) {
        return Err(PimError::Transfer(format!("{bytes} bytes at {offset}: not multiples of 8")));
    }
    match offset.checked_add(bytes) {
        Some(end) if end <= room => Ok(()),
        _ => Err(PimError::Transfer(format!("{bytes} bytes at {offset} of {room}"))),
    }
}

/// The length that all DPUs' bytes have, 0 if there are none.
///
/// # Errors
/// [`PimError::Transfer`] if there are not as many entries as DPUs, or lengths differ.
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
