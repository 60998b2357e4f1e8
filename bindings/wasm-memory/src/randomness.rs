//! The source of all secrets: `crypto.getRandomValues`.
#![allow(unsafe_code, reason = "an import fills memory")]

#[link(wasm_import_module = "spirea")]
unsafe extern "C" {
    /// Fills memory with randomness; returns 0 on success.
    fn random(start: *mut u8, length: usize) -> i32;
}

/// Fills memory with randomness. The crate `getrandom` looks for a function of this name.
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    start: *mut u8,
    length: usize,
) -> Result<(), getrandom::Error> {
    // SAFETY: the caller owns `length` bytes from `start`, and JavaScript writes no other bytes.
    match unsafe { random(start, length) } {
        0 => Ok(()),
        _ => Err(getrandom::Error::UNEXPECTED),
    }
}
