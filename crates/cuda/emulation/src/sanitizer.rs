//! Running tests under AddressSanitizer.

use std::process::Command;

use crate::DRIVER_VARIABLE;

/// Returns the environment for a test binary that runs its kernels under AddressSanitizer, with
/// [`ASAN_LIBRARY`](crate::ASAN_LIBRARY) or [`ASAN_PLANTED_LIBRARY`](crate::ASAN_PLANTED_LIBRARY).
/// Returns `None` if the compiler has no such sanitizer.
pub fn address_sanitizer_environment(library: &str) -> Option<[(&'static str, String); 3]> {
    // The sanitizer wraps functions only in libraries that are loaded at the start.
    let preloaded = [runtime_library("libasan.so")?, runtime_library("libstdc++.so")?].join(" ");
    Some([
        (DRIVER_VARIABLE, library.to_owned()),
        ("LD_PRELOAD", preloaded),
        // Memory that the emulation keeps for ever is not a leak.
        ("ASAN_OPTIONS", "detect_leaks=0".to_owned()),
    ])
}

/// Returns the path of one of the compiler's libraries. For a library that it does not have, the
/// compiler prints the bare name.
fn runtime_library(name: &str) -> Option<String> {
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "g++".into());
    let output = Command::new(compiler).arg(format!("-print-file-name={name}")).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    path.contains('/').then_some(path)
}
