//! How to run a test under AddressSanitizer.

use std::process::Command;

use crate::DRIVER_VARIABLE;

/// The environment for a test binary that runs its kernels under AddressSanitizer, with
/// [`ASAN_LIBRARY`](crate::ASAN_LIBRARY) or [`ASAN_PLANTED_LIBRARY`](crate::ASAN_PLANTED_LIBRARY). `None` where the
/// compiler has no such sanitizer.
pub fn address_sanitizer_environment(library: &str) -> Option<[(&'static str, String); 3]> {
    // The sanitizer finds the functions that it wraps only in libraries that are there at the start.
    let preloaded = [runtime_library("libasan.so")?, runtime_library("libstdc++.so")?].join(" ");
    Some([
        (DRIVER_VARIABLE, library.to_owned()),
        ("LD_PRELOAD", preloaded),
        // What the emulation keeps for ever is no leak.
        ("ASAN_OPTIONS", "detect_leaks=0".to_owned()),
    ])
}

/// Where the compiler has one of its libraries; it answers with the bare name for those that it has not.
fn runtime_library(name: &str) -> Option<String> {
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "g++".into());
    let output = Command::new(compiler).arg(format!("-print-file-name={name}")).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    path.contains('/').then_some(path)
}
