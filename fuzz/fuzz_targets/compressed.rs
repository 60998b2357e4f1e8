//! Any bytes, compressed or not, decode to rows or give an error that names the input, however long
//! the decompressed data would be.
#![no_main]

#[path = "../../crates/store/tests/it/compression/check.rs"]
mod check;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = check::check(bytes);
    // First bytes of the compression formats.
    for start in [&b"\x1f\x8b\x08"[..], b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"PK\x03\x04"] {
        let _ = check::check(&[start, bytes].concat());
    }
});
