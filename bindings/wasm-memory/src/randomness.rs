//! The source of all that is secret: `crypto.getRandomValues`.
#![allow(unsafe_code, reason = "an import fills memory")]

#[link(wasm_import_module = "spirea")]
unsafe extern "C" {
    /// Fills memory with randomness; 0 if there was any.
    fn random(start: *mut u8, length: usize) -> i32;
}

/// Fills memory with randomness: the name is the one that the crate `getrandom` looks for.
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    start: *mut u8,
    length: usize,
) -> Result<(), getrandom::Error> {
    // SAFETY: the caller owns so many bytes from `start`, and JavaScript writes no others.
    match unsafe { random(start, length) } {
        0 => Ok(()),
        _ => Err(getrandom::Error::UNEXPECTED),
    }
}
