use spirea_engine::{Database, Served};
use spirea_protocols::Sizes;
use spirea_wire::{Lengths, Limits};

/// Returns the lengths of a version's messages.
pub(super) fn limits(served: &Served) -> Limits {
    Limits {
        base: lengths(served.base()),
        delta: served.delta().map(|delta| lengths(delta)),
        max_batch: served.max_batch(),
    }
}

/// Returns the lengths of the messages of one part of a version.
pub(super) fn lengths(database: &Database) -> Lengths {
    let Sizes { query_bytes, answer_bytes, keys_bytes, .. } = database.sizes();
    Lengths { query_bytes, answer_bytes, keys_bytes }
}
