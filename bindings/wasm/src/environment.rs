//! What an instance gets from JavaScript: randomness, time, and somebody to tell of progress.
#![cfg_attr(target_arch = "wasm32", allow(unsafe_code))]

use std::time::Duration;

use spirea_client::Clock;

/// What progress is of.
#[derive(Clone, Copy)]
pub enum Stage {
    /// The download of a hint.
    Hint = 0,
    /// The making of evaluation keys.
    Keys = 1,
}

#[cfg(target_arch = "wasm32")]
mod imported {
    #[link(wasm_import_module = "spirea")]
    unsafe extern "C" {
        /// Fills memory with randomness; 0 if there was any.
        pub fn random(start: *mut u8, length: usize) -> i32;
        /// Milliseconds since 1970, which never become less.
        pub safe fn now() -> f64;
        /// Is told how much is there, and of how much.
        pub safe fn progress(stage: u32, done: f64, total: f64);
    }

    /// All that is secret is drawn here: the name is the one that the crate `getrandom` looks for.
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
}

/// The clock of JavaScript.
pub fn clock() -> Clock {
    #[cfg(target_arch = "wasm32")]
    return Clock::new(|| Duration::from_secs_f64(imported::now().max(0.0) / 1000.0));
    #[cfg(not(target_arch = "wasm32"))]
    Clock::new(|| std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default())
}

/// Tells of progress.
pub fn progress(stage: Stage, done: u64, total: u64) {
    #[cfg(target_arch = "wasm32")]
    imported::progress(stage as u32, done as f64, total as f64);
    #[cfg(not(target_arch = "wasm32"))]
    let _: (Stage, u64, u64, Duration) = (stage, done, total, Duration::ZERO);
}
