//! Functions that mark where secrets begin and end in the code, so that a test can follow the
//! secrets in between.
//!
//! No branch and no address in client code depends on a secret. `make test-constant-time` runs
//! client code under valgrind with every secret marked as undefined, and
//! `make test-constant-time-web` interprets the WebAssembly module that ships; both fail if a
//! secret affects control flow or addresses. In all other builds these functions do nothing.
//! (docs/constant-time.md)

/// Reason for declassifying whether stored evaluation keys are intact.
pub const DAMAGED_KEYS_ARE_DROPPED: &str = "kept evaluation keys that are damaged are dropped";

/// Returns a mask made of a secret as a value that the compiler cannot analyse. If the compiler
/// could prove the mask to be all ones or zero, it would replace the arithmetic by a branch.
#[inline(always)]
pub fn opaque<T: Copy>(mask: T) -> T {
    std::hint::black_box(mask)
}

/// Marks bytes as secret: random bytes or a look-up's input. Does not follow pointers in them.
#[inline(always)]
pub fn poison<T: ?Sized>(value: &mut T) {
    #[cfg(feature = "memcheck")]
    spirea_memcheck::make_undefined(value);
    #[cfg(not(feature = "memcheck"))]
    let _ = value;
}

/// Returns the value as public, so that branches and addresses may depend on it; `why` states the
/// reason.
#[inline(always)]
pub fn declassify<T: Copy>(value: T, why: &'static str) -> T {
    #[cfg(feature = "memcheck")]
    let value = {
        let mut value = std::hint::black_box(value);
        checked::declassify(&mut value, why);
        value
    };
    #[cfg(target_arch = "wasm32")]
    let value = {
        let mut value = value;
        declassified((&raw mut value).cast(), size_of::<T>(), why);
        value
    };
    let _ = why;
    value
}

/// Makes bytes public, like [`declassify`], in place.
#[inline(always)]
pub fn declassify_bytes(bytes: &mut [u8], why: &'static str) {
    #[cfg(feature = "memcheck")]
    checked::declassify(bytes, why);
    #[cfg(target_arch = "wasm32")]
    declassified(bytes.as_mut_ptr(), bytes.len(), why);
    let _ = (bytes, why);
}

/// Does nothing. The scan of the shipped WebAssembly module finds this call and ends the mark of
/// `bytes` bytes there. The compiler must assume that the bytes change, so it cannot move their use
/// before the call.
#[cfg(target_arch = "wasm32")]
#[inline(never)]
fn declassified(start: *mut u8, bytes: usize, why: &'static str) {
    std::hint::black_box((start, bytes, why));
}

#[cfg(feature = "memcheck")]
pub use checked::reasons;

#[cfg(feature = "memcheck")]
mod checked {
    use std::collections::BTreeSet;
    use std::sync::{Mutex, PoisonError};

    static REASONS: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());

    #[inline(never)]
    pub fn declassify<T: ?Sized>(value: &mut T, why: &'static str) {
        REASONS.lock().unwrap_or_else(PoisonError::into_inner).insert(why);
        spirea_memcheck::make_defined(value);
    }

    /// Returns the reasons of all declassifications so far.
    pub fn reasons() -> Vec<&'static str> {
        REASONS.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}
