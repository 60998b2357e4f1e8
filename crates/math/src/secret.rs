//! Where secrets begin and where they end, said in the code so that a test can follow them in between.
//!
//! Client code has no branch and no address that depends on a secret. `make test-constant-time` runs it under valgrind
//! with every secret marked as undefined, and `make test-constant-time-web` interprets the WebAssembly module that ships; both
//! fail where a secret steers the program. In any other build these functions do nothing. (docs/constant-time.md)

/// The reason for which kept evaluation keys may steer the client.
pub const DAMAGED_KEYS_ARE_DROPPED: &str = "kept evaluation keys that are damaged are dropped";

/// A mask made of a secret, as a value that the compiler knows nothing of: where it can tell that one is all ones or
/// zero, it puts a branch back in place of the arithmetic.
#[inline(always)]
pub fn opaque<T: Copy>(mask: T) -> T {
    std::hint::black_box(mask)
}

/// Marks bytes as secret: what is drawn, or what is asked for. Not those that they point to.
#[inline(always)]
pub fn poison<T: ?Sized>(value: &mut T) {
    #[cfg(feature = "memcheck")]
    spirea_memcheck::make_undefined(value);
    #[cfg(not(feature = "memcheck"))]
    let _ = value;
}

/// The value, which may steer the program from here on, for the reason that `why` states.
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

/// Lets bytes steer the program from here on: [`declassify`] in place.
#[inline(always)]
pub fn declassify_bytes(bytes: &mut [u8], why: &'static str) {
    #[cfg(feature = "memcheck")]
    checked::declassify(bytes, why);
    #[cfg(target_arch = "wasm32")]
    declassified(bytes.as_mut_ptr(), bytes.len(), why);
    let _ = (bytes, why);
}

/// Does nothing: the scan of the WebAssembly module that ships finds this call and ends the mark of `bytes` bytes there.
/// The compiler must take the bytes for changed, so it cannot move their use before the call.
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

    /// Why something was declassified so far.
    pub fn reasons() -> Vec<&'static str> {
        REASONS.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }
}
