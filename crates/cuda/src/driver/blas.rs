//! NVIDIA's own product of byte matrices, for comparison only; used if its library is installed.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use libloading::Library;

use super::{Buffer, Device, DriverError, Stream};

/// Names of the cuBLASLt library, newest first.
const NAMES: [&str; 3] = ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"];

// Constants from the library's headers.
const COMPUTE_32I: c_int = 72;
const R_8I: c_int = 3;
const R_32I: c_int = 10;
const DESC_TRANSA: c_int = 3;
const OP_T: c_int = 1;
const PREF_MAX_WORKSPACE_BYTES: c_int = 1;
const WORKSPACE_BYTES: usize = 32 << 20;

/// Opaque pointer to an object of the library.
type Handle = *mut c_void;
type Status = c_int;

#[repr(C)]
#[derive(Clone, Copy)]
struct Algorithm {
    data: [u64; 8],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Heuristic {
    algorithm: Algorithm,
    workspace_bytes: usize,
    state: Status,
    waves: f32,
    reserved: [c_int; 4],
}

/// Product of two square matrices of signed bytes into words, ready to be queued.
#[derive(Debug)]
pub struct ByteProduct {
    library: Library,
    side: usize,
    handle: Handle,
    description: Handle,
    /// Layouts of the factors and of the product.
    layouts: [Handle; 2],
    preference: Handle,
    algorithm: Box<[u64; 8]>,
    workspace: Buffer<u8>,
}

impl ByteProduct {
    /// Prepares the product of matrices with `side` rows and columns; `side` must be a multiple of
    /// 16. Returns `None` if the library is not installed or has no such product for this device.
    pub fn load(device: &Arc<Device>, side: usize) -> Option<Self> {
        device.bind().ok()?;
        // SAFETY: a library of NVIDIA's, whose initialisers have no side effects of note.
        let library = NAMES.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
        let workspace = device.alloc::<u8>(WORKSPACE_BYTES).ok()?;
        let mut product = Self {
            library,
            side,
            handle: ptr::null_mut(),
            description: ptr::null_mut(),
            layouts: [ptr::null_mut(); 2],
            preference: ptr::null_mut(),
            algorithm: Box::default(),
            workspace,
        };
        product.prepare().is_some().then_some(product)
    }

    /// Looks up a function of the library.
    ///
    /// # Safety
    /// `F` must be the function's type.
    unsafe fn function<F: Copy>(&self, name: &str) -> Option<F> {
        // SAFETY: `F` is the function's type, as the caller ensures.
        unsafe { self.library.get::<F>(name.as_bytes()) }.ok().map(|function| *function)
    }

    fn prepare(&mut self) -> Option<()> {
        type Create = unsafe extern "C" fn(*mut Handle) -> Status;
        type CreateDescription = unsafe extern "C" fn(*mut Handle, c_int, c_int) -> Status;
        type CreateLayout = unsafe extern "C" fn(*mut Handle, c_int, u64, u64, i64) -> Status;
        type SetAttribute = unsafe extern "C" fn(Handle, c_int, *const c_void, usize) -> Status;
        type Choose = unsafe extern "C" fn(
            Handle,
            Handle,
            Handle,
            Handle,
            Handle,
            Handle,
            Handle,
            c_int,
            *mut Heuristic,
            *mut c_int,
        ) -> Status;
        let side = self.side as u64;
        let done = |status: Status| (status == 0).then_some(());
        let mut found = Heuristic {
            algorithm: Algorithm { data: [0; 8] },
            workspace_bytes: 0,
            state: 0,
            waves: 0.0,
            reserved: [0; 4],
        };
        let mut count = 0;
        // SAFETY: the types are those of the library's headers. All pointers are to values that
        // live through the calls. Each object is made once, and destroyed once by drop.
        unsafe {
            let create: Create = self.function("cublasLtCreate")?;
            done(create(&raw mut self.handle))?;
            let create: CreateDescription = self.function("cublasLtMatmulDescCreate")?;
            done(create(&raw mut self.description, COMPUTE_32I, R_32I))?;
            // The library multiplies bytes only if the first factor is transposed.
            let set: SetAttribute = self.function("cublasLtMatmulDescSetAttribute")?;
            let transposed: *const c_int = &OP_T;
            done(set(self.description, DESC_TRANSA, transposed.cast(), size_of::<c_int>()))?;
            let create: CreateLayout = self.function("cublasLtMatrixLayoutCreate")?;
            for (layout, kind) in self.layouts.iter_mut().zip([R_8I, R_32I]) {
                done(create(layout, kind, side, side, side as i64))?;
            }
            let create: Create = self.function("cublasLtMatmulPreferenceCreate")?;
            done(create(&raw mut self.preference))?;
            let set: SetAttribute = self.function("cublasLtMatmulPreferenceSetAttribute")?;
            let bytes: *const usize = &WORKSPACE_BYTES;
            done(set(self.preference, PREF_MAX_WORKSPACE_BYTES, bytes.cast(), size_of::<usize>()))?;
            let choose: Choose = self.function("cublasLtMatmulAlgoGetHeuristic")?;
            let [factor, product] = self.layouts;
            done(choose(
                self.handle,
                self.description,
                factor,
                factor,
                product,
                product,
                self.preference,
                1,
                &raw mut found,
                &raw mut count,
            ))?;
        }
        (count == 1 && found.state == 0 && found.workspace_bytes <= WORKSPACE_BYTES).then_some(())?;
        *self.algorithm = found.algorithm.data;
        Some(())
    }

    /// Queues `product = a^T b`. Returns false if the library refuses.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Panics
    /// If a matrix does not have `side` rows and columns.
    pub fn queue(
        &self,
        stream: &Stream,
        a: &Buffer<u8>,
        b: &Buffer<u8>,
        product: &Buffer<u32>,
    ) -> Result<bool, DriverError> {
        type Multiply = unsafe extern "C" fn(
            Handle,
            Handle,
            *const c_void,
            *const c_void,
            Handle,
            *const c_void,
            Handle,
            *const c_void,
            *const c_void,
            Handle,
            *mut c_void,
            Handle,
            *const u64,
            *mut c_void,
            usize,
            Handle,
        ) -> Status;
        let entries = self.side * self.side;
        assert!(a.len() == entries && b.len() == entries && product.len() == entries, "square matrices");
        stream.device().bind()?;
        let (one, zero): (i32, i32) = (1, 0);
        let address = |address: u64| ptr::with_exposed_provenance_mut::<c_void>(address as usize);
        let [factor, sum] = self.layouts;
        let to = address(product.all().address());
        // SAFETY: the types are those of the library's headers, as above. The matrices have the
        // sizes that the layouts state. They live as long as the queued work, because buffers are
        // freed in the stream's order.
        let status = unsafe {
            let Some(multiply) = self.function::<Multiply>("cublasLtMatmul") else { return Ok(false) };
            multiply(
                self.handle,
                self.description,
                (&raw const one).cast(),
                address(a.all().address()),
                factor,
                address(b.all().address()),
                factor,
                (&raw const zero).cast(),
                to,
                sum,
                to,
                sum,
                self.algorithm.as_ptr(),
                address(self.workspace.all().address()),
                WORKSPACE_BYTES,
                stream.handle.cast(),
            )
        };
        Ok(status == 0)
    }
}

impl Drop for ByteProduct {
    fn drop(&mut self) {
        type Destroy = unsafe extern "C" fn(Handle) -> Status;
        let [factor, product] = self.layouts;
        let objects = [
            ("cublasLtMatmulPreferenceDestroy", self.preference),
            ("cublasLtMatrixLayoutDestroy", factor),
            ("cublasLtMatrixLayoutDestroy", product),
            ("cublasLtMatmulDescDestroy", self.description),
            ("cublasLtDestroy", self.handle),
        ];
        for (destroy, object) in objects {
            if !object.is_null() {
                // SAFETY: made by prepare, destroyed once.
                unsafe { self.function::<Destroy>(destroy).map(|destroy| destroy(object)) };
            }
        }
    }
}
