//! Any bytes decode to a manifest in canonical form, or give an error. Accepted manifests are
//! consistent.
#![no_main]

// Includes only this file, because its package would compile Arrow and an engine with sanitisers.
#[path = "../../conformance/specimens/src/hostile.rs"]
#[expect(dead_code, reason = "another target checks partials")]
mod hostile;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hostile::check_manifest(bytes));
