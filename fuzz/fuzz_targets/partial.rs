//! Any bytes either decode to a partial of a share, and encoding the partial gives the same bytes,
//! or give an error. Combining a partial with any content gives answers of the fixed length, or an
//! error.
#![no_main]

// Includes only this file, because its package would compile Arrow and an engine with sanitisers.
#[path = "../../conformance/specimens/src/hostile.rs"]
#[expect(dead_code, reason = "another target checks manifests")]
mod hostile;

use std::sync::LazyLock;

use hostile::Combiner;
use libfuzzer_sys::fuzz_target;

static COMBINERS: LazyLock<Vec<Combiner>> = LazyLock::new(Combiner::all);

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    COMBINERS[usize::from(*which) % COMBINERS.len()].check(bytes);
});
