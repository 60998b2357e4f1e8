//! Safe wrappers of the emulation's C functions.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

/// `struct spirea_symbol`.
#[repr(C)]
struct RawSymbol {
    name: *const c_char,
    address: extern "C" fn() -> *mut c_void,
    bytes: u32,
}

/// `struct spirea_program`.
#[repr(C)]
struct RawProgram {
    name: *const c_char,
    entry: extern "C" fn() -> c_int,
    symbols: *const RawSymbol,
    symbol_count: u32,
    variable_bytes: u32,
}

/// Counts of a run: `struct spirea_counts`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunCounts {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
    pub barriers: u64,
}

/// `struct spirea_run`.
#[repr(C)]
struct RawRun {
    program: *const RawProgram,
    mram: *mut u8,
    mram_bytes: u32,
    tasklets: u32,
    stack_bytes: u32,
    copies_to_fail: u64,
    counts: RunCounts,
    fault: [c_char; 256],
}

unsafe extern "C" {
    static spirea_dpxor: RawProgram;
    static spirea_planted: [RawProgram; 64];
    static spirea_planted_count: u32;
    fn spirea_mram_new(bytes: usize) -> *mut u8;
    fn spirea_mram_free(mram: *mut u8, bytes: usize);
    fn spirea_run_dpu(run: *mut RawRun, symbols: *mut u8) -> bool;
}

/// Program that was compiled for the processor.
#[derive(Clone, Copy)]
pub(crate) struct Program(&'static RawProgram);

// SAFETY: constant data of the library.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

impl Program {
    /// Returns the device program.
    pub fn dpxor() -> Self {
        // SAFETY: constant data.
        Self(unsafe { &spirea_dpxor })
    }

    /// Returns a program that breaks a rule, by name.
    pub fn planted(name: &str) -> Option<Self> {
        // SAFETY: constant data; the array has as many programs as the count says.
        let planted = unsafe {
            let first = (&raw const spirea_planted).cast::<RawProgram>();
            std::slice::from_raw_parts(first, spirea_planted_count as usize)
        };
        planted.iter().map(Self).find(|program| program.name() == name)
    }

    fn name(self) -> &'static str {
        // SAFETY: text in constant data.
        unsafe { CStr::from_ptr(self.0.name) }.to_str().unwrap_or_default()
    }

    /// Returns the bytes of WRAM that the program's variables take.
    pub fn variable_bytes(self) -> usize {
        self.0.variable_bytes as usize
    }

    /// Returns names and bytes of the symbols that the program shares with the host, in the order
    /// in which a run takes their values.
    pub fn symbols(self) -> Vec<(&'static str, usize)> {
        if self.0.symbol_count == 0 {
            return Vec::new();
        }
        // SAFETY: constant data with `symbol_count` symbols.
        let symbols = unsafe { std::slice::from_raw_parts(self.0.symbols, self.0.symbol_count as usize) };
        // SAFETY: the names are texts in constant data.
        let name = |symbol: &RawSymbol| unsafe { CStr::from_ptr(symbol.name) }.to_str().unwrap_or_default();
        symbols.iter().map(|symbol| (name(symbol), symbol.bytes as usize)).collect()
    }
}

/// MRAM of a DPU. The system allocates pages when they are first written.
pub(crate) struct Mram {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: owned memory.
unsafe impl Send for Mram {}
// SAFETY: as above.
unsafe impl Sync for Mram {}

impl Mram {
    /// Allocates zeroed memory; returns `None` if the system does not have enough memory.
    pub fn new(bytes: usize) -> Option<Self> {
        // SAFETY: any number is allowed.
        let start = NonNull::new(unsafe { spirea_mram_new(bytes) })?;
        Some(Self { start, bytes })
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `bytes` bytes were allocated and live as long as `self`; every bit pattern is
        // valid.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the bytes are borrowed mutably, so nobody else uses them.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Mram {
    fn drop(&mut self) {
        // SAFETY: made by `spirea_mram_new`.
        unsafe { spirea_mram_free(self.start.as_ptr(), self.bytes) }
    }
}

/// Settings of a DPU's run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Number of tasklets, 1 to 24.
    pub tasklets: u32,
    pub stack_bytes: u32,
    /// Number of the copy, counted from 0, at which the DPU fails; `None` if it does not fail.
    pub copies_to_fail: Option<u64>,
}

/// Runs a program with these values of its symbols. Returns the counts, or the reason of the DPU's
/// fault.
pub(crate) fn run(
    program: Program,
    mram: &mut Mram,
    settings: Settings,
    symbols: &mut [u8],
) -> Result<RunCounts, String> {
    let bytes: usize = program.symbols().iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(symbols.len(), bytes, "values of all symbols");
    assert!((1..=crate::sdk::MOST_TASKLETS).contains(&settings.tasklets), "checked where it was set");
    let mut run = RawRun {
        program: program.0,
        mram: mram.start.as_ptr(),
        mram_bytes: mram.bytes as u32,
        tasklets: settings.tasklets,
        stack_bytes: settings.stack_bytes,
        copies_to_fail: settings.copies_to_fail.unwrap_or(u64::MAX),
        counts: RunCounts::default(),
        fault: [0; 256],
    };
    // SAFETY: the program's memory is the MRAM borrowed here, and the runtime checks every copy
    // against its length. The runtime keeps no state after the run, and each thread has its own
    // state.
    let whole = unsafe { spirea_run_dpu(&mut run, symbols.as_mut_ptr()) };
    if whole {
        return Ok(run.counts);
    }
    // SAFETY: the runtime ends the text with a zero.
    let fault = unsafe { CStr::from_ptr(run.fault.as_ptr()) };
    Err(fault.to_string_lossy().into_owned())
}
