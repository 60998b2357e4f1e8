//! The vendor's library, found at run time.
//!
//! The system's loader finds `libdpu.so`, unless [`LIBRARY_VARIABLE`] names the library. The types
//! are those of the SDK's public headers `dpu.h` and `dpu_types.h`, versions 2020.5 to 2025.1.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::Library;

use super::{DpuSet, MRAM_BYTES, PimError, Sdk, Symbol, check_transfer, common_length};

/// Environment variable with the path of the vendor's library, for a library that the system's
/// loader does not find.
pub const LIBRARY_VARIABLE: &str = "SPIREA_DPU_LIBRARY";
/// Environment variable with the path of the device program, compiled from `dpu/dpxor.c` by the
/// vendor's compiler.
pub const PROGRAM_VARIABLE: &str = "SPIREA_DPU_PROGRAM";
/// Name of the library for the system's loader.
const LIBRARY: &str = "libdpu.so";

const OK: u32 = 0;
/// Code `DPU_ERR_ALLOCATION`.
const ALLOCATION: u32 = 4;
/// Codes of `DPU_ERR_DPU_FAULT` in the two versions of the SDK's list of errors. The second version
/// has one more error before this one.
const FAULT: [u32; 2] = [20, 21];
const ALLOCATE_ALL: u32 = u32::MAX;
const SYNCHRONOUS: u32 = 1;
const TO_DPU: u32 = 0;
const FROM_DPU: u32 = 1;
/// Flag `DPU_XFER_DEFAULT`: the library forgets buffers after a transfer.
const DEFAULT: u32 = 0;

/// `struct dpu_set_t`: several ranks or one DPU, depending on `kind`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Set {
    kind: u32,
    union: [u64; 2],
}

/// `struct dpu_set_rank_iterator_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RankIterator {
    set: *mut Set,
    count: u32,
    next_index: u32,
    has_next: bool,
    next: Set,
}

/// `struct dpu_set_dpu_iterator_t`, which `DPU_FOREACH` uses.
#[repr(C)]
#[derive(Clone, Copy)]
struct DpuIterator {
    ranks: RankIterator,
    count: u32,
    next_index: u32,
    has_next: bool,
    next: Set,
}

/// Functions of the library that are used.
struct Functions {
    alloc: unsafe extern "C" fn(u32, *const c_char, *mut Set) -> u32,
    free: unsafe extern "C" fn(Set) -> u32,
    load: unsafe extern "C" fn(Set, *const c_char, *mut *mut c_void) -> u32,
    iterator_from: unsafe extern "C" fn(*mut Set) -> DpuIterator,
    iterator_next: unsafe extern "C" fn(*mut DpuIterator),
    prepare: unsafe extern "C" fn(Set, *mut c_void) -> u32,
    push: unsafe extern "C" fn(Set, u32, *const c_char, u32, usize, u32) -> u32,
    broadcast: unsafe extern "C" fn(Set, *const c_char, u32, *const c_void, usize, u32) -> u32,
    copy_from: unsafe extern "C" fn(Set, *const c_char, u32, *mut c_void, usize) -> u32,
    launch: unsafe extern "C" fn(Set, u32) -> u32,
    /// Keeps the functions loaded.
    _library: Library,
}

/// SDK of the vendor on this machine.
#[derive(Clone)]
pub struct Vendor {
    functions: Arc<Functions>,
    program: PathBuf,
}

impl Vendor {
    /// Opens the library of [`LIBRARY_VARIABLE`] or of the system, and the program of
    /// [`PROGRAM_VARIABLE`].
    ///
    /// # Errors
    /// [`PimError::NoLibrary`], [`PimError::Program`].
    pub fn find() -> Result<Self, PimError> {
        let library = std::env::var_os(LIBRARY_VARIABLE).map_or_else(|| LIBRARY.into(), PathBuf::from);
        let Some(program) = std::env::var_os(PROGRAM_VARIABLE) else {
            // A missing library is reported before a missing program.
            open(&library)?;
            return Err(PimError::Program(format!(
                "name it in {PROGRAM_VARIABLE}; docs/protocols/pim.md builds it"
            )));
        };
        Self::open(&library, Path::new(&program))
    }

    /// Opens a library and a program.
    ///
    /// # Errors
    /// [`PimError::NoLibrary`] if the library cannot be loaded or lacks a function,
    /// [`PimError::Program`] if the program's file does not exist.
    pub fn open(library: &Path, program: &Path) -> Result<Self, PimError> {
        let functions = Arc::new(functions(library)?);
        if !program.is_file() {
            return Err(PimError::Program(format!("{}: no such file", program.display())));
        }
        Ok(Self { functions, program: program.into() })
    }
}

fn open(path: &Path) -> Result<Library, PimError> {
    // SAFETY: the person who installed the library or set the variable promises that it is the
    // vendor's.
    unsafe { Library::new(path) }
        .map_err(|error| PimError::NoLibrary(format!("{} ({error})", path.display())))
}

fn functions(path: &Path) -> Result<Functions, PimError> {
    let library = open(path)?;
    let missing = |error: libloading::Error| PimError::NoLibrary(format!("{} ({error})", path.display()));
    // SAFETY: the types are those of dpu.h.
    unsafe {
        Ok(Functions {
            alloc: *library.get(b"dpu_alloc").map_err(missing)?,
            free: *library.get(b"dpu_free").map_err(missing)?,
            load: *library.get(b"dpu_load").map_err(missing)?,
            iterator_from: *library.get(b"dpu_set_dpu_iterator_from").map_err(missing)?,
            iterator_next: *library.get(b"dpu_set_dpu_iterator_next").map_err(missing)?,
            prepare: *library.get(b"dpu_prepare_xfer").map_err(missing)?,
            push: *library.get(b"dpu_push_xfer").map_err(missing)?,
            broadcast: *library.get(b"dpu_broadcast_to").map_err(missing)?,
            copy_from: *library.get(b"dpu_copy_from").map_err(missing)?,
            launch: *library.get(b"dpu_launch").map_err(missing)?,
            _library: library,
        })
    }
}

fn check(call: &'static str, code: u32) -> Result<(), PimError> {
    match code {
        OK => Ok(()),
        code if FAULT.contains(&code) => Err(PimError::Fault(format!("{call} says so"))),
        code => Err(PimError::Call { call, code }),
    }
}

fn c_text(text: &str) -> Result<CString, PimError> {
    CString::new(text).map_err(|_| PimError::Program(format!("{text:?} has a zero in it")))
}

impl Sdk for Vendor {
    fn alloc(&self, dpus: Option<usize>) -> Result<Box<dyn DpuSet>, PimError> {
        let wanted = match dpus {
            None => ALLOCATE_ALL,
            Some(dpus) => u32::try_from(dpus).map_err(|_| PimError::Allocation { wanted: dpus, free: 0 })?,
        };
        let mut set = Set { kind: 0, union: [0; 2] };
        // SAFETY: the default profile, and room for a set.
        let code = unsafe { (self.functions.alloc)(wanted, std::ptr::null(), &mut set) };
        if code == ALLOCATION {
            return Err(PimError::Allocation { wanted: dpus.unwrap_or(1), free: 0 });
        }
        check("dpu_alloc", code)?;
        let mut owned = VendorSet { sdk: self.clone(), set, dpus: Vec::new() };
        // SAFETY: the set was allocated, and its iterator says when it ends.
        unsafe {
            let mut iterator = (self.functions.iterator_from)(&mut owned.set);
            while iterator.has_next {
                owned.dpus.push(iterator.next);
                (self.functions.iterator_next)(&mut iterator);
            }
        }
        match owned.dpus.is_empty() {
            true => Err(PimError::Allocation { wanted: dpus.unwrap_or(1), free: 0 }),
            false => Ok(Box::new(owned)),
        }
    }

    fn name(&self) -> &'static str {
        "pim"
    }
}

/// Allocated set, and its DPUs.
struct VendorSet {
    sdk: Vendor,
    set: Set,
    dpus: Vec<Set>,
}

// SAFETY: the library allows any thread to use a set, one thread at a time; its pointers are the
// library's own.
unsafe impl Send for VendorSet {}

impl Drop for VendorSet {
    fn drop(&mut self) {
        // SAFETY: allocated once, freed once. An error cannot be handled here.
        unsafe { (self.sdk.functions.free)(self.set) };
    }
}

impl VendorSet {
    fn prepare(&self, dpu: usize, bytes: *mut u8) -> Result<(), PimError> {
        // SAFETY: the caller pushes while the bytes live, and pushes no more bytes than there are.
        check("dpu_prepare_xfer", unsafe { (self.sdk.functions.prepare)(self.dpus[dpu], bytes.cast()) })
    }

    fn push(&self, direction: u32, symbol: Symbol, offset: usize, length: usize) -> Result<(), PimError> {
        let name = c_text(symbol.name())?;
        // SAFETY: the prepared buffers have `length` bytes; the name outlives the call.
        check("dpu_push_xfer", unsafe {
            (self.sdk.functions.push)(self.set, direction, name.as_ptr(), offset as u32, length, DEFAULT)
        })
    }
}

impl DpuSet for VendorSet {
    fn dpus(&self) -> usize {
        self.dpus.len()
    }

    fn load(&mut self) -> Result<(), PimError> {
        let path = c_text(&self.sdk.program.to_string_lossy())?;
        // SAFETY: the path outlives the call; a null pointer declines the program's description.
        let code = unsafe { (self.sdk.functions.load)(self.set, path.as_ptr(), std::ptr::null_mut()) };
        check("dpu_load", code)
    }

    fn push_to(&mut self, symbol: Symbol, offset: usize, bytes: &[Option<&[u8]>]) -> Result<(), PimError> {
        let length = common_length(self.dpus(), bytes)?;
        check_transfer(offset, length, MRAM_BYTES)?;
        if length == 0 {
            return Ok(());
        }
        for (dpu, bytes) in bytes.iter().enumerate() {
            if let Some(bytes) = bytes {
                // The library only reads buffers that go to a DPU.
                self.prepare(dpu, bytes.as_ptr().cast_mut())?;
            }
        }
        self.push(TO_DPU, symbol, offset, length)
    }

    fn push_from(&mut self, symbol: Symbol, offset: usize, bytes: &mut [u8]) -> Result<(), PimError> {
        let length = bytes.len() / self.dpus();
        if length * self.dpus() != bytes.len() {
            return Err(PimError::Transfer(format!("{} bytes for {} DPUs", bytes.len(), self.dpus())));
        }
        check_transfer(offset, length, MRAM_BYTES)?;
        if length == 0 {
            return Ok(());
        }
        for (dpu, bytes) in bytes.chunks_exact_mut(length).enumerate() {
            self.prepare(dpu, bytes.as_mut_ptr())?;
        }
        self.push(FROM_DPU, symbol, offset, length)
    }

    fn broadcast_to(&mut self, symbol: Symbol, offset: usize, bytes: &[u8]) -> Result<(), PimError> {
        check_transfer(offset, bytes.len(), MRAM_BYTES)?;
        let name = c_text(symbol.name())?;
        let functions = &self.sdk.functions;
        // SAFETY: name and bytes outlive the call, and there are `bytes.len()` bytes.
        check("dpu_broadcast_to", unsafe {
            let (to, from) = (name.as_ptr(), bytes.as_ptr().cast());
            (functions.broadcast)(self.set, to, offset as u32, from, bytes.len(), DEFAULT)
        })
    }

    fn copy_from(
        &mut self,
        dpu: usize,
        symbol: Symbol,
        offset: usize,
        bytes: &mut [u8],
    ) -> Result<(), PimError> {
        check_transfer(offset, bytes.len(), MRAM_BYTES)?;
        let name = c_text(symbol.name())?;
        // SAFETY: name and bytes outlive the call, and there is room for `bytes.len()` bytes.
        check("dpu_copy_from", unsafe {
            let (from, to) = (name.as_ptr(), bytes.as_mut_ptr().cast());
            (self.sdk.functions.copy_from)(self.dpus[dpu], from, offset as u32, to, bytes.len())
        })
    }

    fn launch(&mut self) -> Result<(), PimError> {
        // SAFETY: the set was allocated.
        check("dpu_launch", unsafe { (self.sdk.functions.launch)(self.set, SYNCHRONOUS) })
    }
}
