//! Answers of any bytes decode to records of the fixed length, or give an error.
#![no_main]

// Includes only this file, because its package would compile Arrow and an engine with sanitisers.
#[path = "../../conformance/specimens/src/hostile.rs"]
#[expect(dead_code, reason = "other targets check manifests, payloads and partials")]
mod hostile;

use std::sync::LazyLock;

use hostile::Asker;
use libfuzzer_sys::fuzz_target;

static CLIENTS: LazyLock<Vec<Asker>> = LazyLock::new(Asker::all);

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    CLIENTS[usize::from(*which) % CLIENTS.len()].check(bytes);
});
