//! Any bytes decode to the content of a record, or give an error. No content has a valid inclusion
//! proof by chance.
#![no_main]

// Includes only this file, because its package would compile Arrow and an engine with sanitisers.
#[path = "../../conformance/specimens/src/hostile.rs"]
#[expect(dead_code, reason = "other targets check manifests, answers and partials")]
mod hostile;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hostile::check_payload(bytes));
