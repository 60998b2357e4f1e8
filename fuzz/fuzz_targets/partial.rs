//! Any bytes are a partial of a share, which they are again when it is sent on, or an error; and
//! whatever a partial holds, what combines it gives answers as long as always, or an error.
#![no_main]

// The file alone: the package around it would compile Arrow and an engine with sanitisers.
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
