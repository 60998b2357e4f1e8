//! Any bytes decode to rows of an Arrow file or stream, or give an error that names the input.
#![no_main]

#[path = "../../crates/store/tests/it/ipc/check.rs"]
mod check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = check::check(bytes);
    // The magic of a file, and the marker of a stream's message, so that the reader gets past them.
    for start in [&b"ARROW1\0\0"[..], b"\xff\xff\xff\xff"] {
        let _ = check::check(&[start, bytes].concat());
    }
});
