//! Any bytes are what a record holds, or an error; and no content has an inclusion proof by chance.
#![no_main]

// The file alone: the package around it would compile Arrow and an engine with sanitisers.
#[path = "../../conformance/specimens/src/hostile.rs"]
#[expect(dead_code, reason = "other targets check manifests, answers and partials")]
mod hostile;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| hostile::check_payload(bytes));
