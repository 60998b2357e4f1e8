//! Any bytes are the record of a version in canonical form or an error.
#![no_main]

// The file alone: the package around it would compile Arrow and an engine with sanitisers.
#[path = "../../conformance/specimens/src/hostile.rs"]
#[expect(dead_code, reason = "another target checks partials")]
mod hostile;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hostile::check_record(bytes));
