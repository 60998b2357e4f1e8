//! Databases whose clients have evaluation keys, with a test's view of their preparation.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use spirea_engine::Database;
use spirea_protocols::registry::ProtocolParams;
use spirea_protocols::{PreparedKeys, ProtocolError, Query, Responder, Sizes, Version};

use crate::{Hook, identity, no_hook, params};

/// Bytes of memory that a prepared set of keys takes.
pub const PREPARED: u64 = 1000;
/// First byte of keys that every responder refuses.
pub const BAD: u8 = 0xff;

/// Parameters of keyed databases.
pub static PARAMS: LazyLock<ProtocolParams> = LazyLock::new(|| params("exppack-simple"));

/// Record of a responder's work, for a test.
#[derive(Default)]
pub struct Seen {
    prepared: AtomicUsize,
    /// Prepared keys that are still referenced.
    alive: Mutex<Vec<Weak<u8>>>,
}

impl Seen {
    /// Returns the number of prepared sets of keys.
    pub fn prepared(&self) -> usize {
        self.prepared.load(Ordering::SeqCst)
    }

    /// Returns the number of prepared sets of keys that are still held.
    pub fn alive(&self) -> usize {
        let alive = self.alive.lock();
        alive.iter().filter(|keys| keys.strong_count() > 0).count()
    }
}

/// A responder whose answers repeat the first byte of its client's keys. It takes batches of up to
/// 2.
pub struct Keyed {
    /// Record of its work.
    pub seen: Arc<Seen>,
    /// Second byte of the keys that it accepts; `None` accepts any.
    pub form: Option<u8>,
    /// Runs before keys are prepared.
    pub before_keys: Hook,
    /// Runs before every batch.
    pub before_batch: Hook,
}

impl Default for Keyed {
    fn default() -> Self {
        Self { seen: Arc::default(), form: None, before_keys: no_hook(), before_batch: no_hook() }
    }
}

impl Responder for Keyed {
    fn sizes(&self) -> Sizes {
        PARAMS.sizes
    }

    fn max_batch(&self) -> usize {
        2
    }

    fn prepare_keys(&self, bytes: &[u8]) -> Result<PreparedKeys, ProtocolError> {
        (self.before_keys)();
        if bytes[0] == BAD || self.form.is_some_and(|form| bytes[1] != form) {
            let detail = "no keys of this form".into();
            return Err(ProtocolError::Malformed { what: "keys", detail });
        }
        self.seen.prepared.fetch_add(1, Ordering::SeqCst);
        let keys = Arc::new(bytes[0]);
        self.seen.alive.lock().push(Arc::downgrade(&keys));
        Ok(PreparedKeys::new(keys, PREPARED as usize))
    }

    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        (self.before_batch)();
        let first = |query: &Query<'_>| *query.keys.expect("keys").get::<u8>().expect("keys of its own");
        Ok(queries.iter().map(|query| vec![first(query); PARAMS.sizes.answer_bytes]).collect())
    }
}

/// Returns the database of a responder.
pub fn database(name: &str, version: Version, responder: Keyed) -> Database {
    Database::new(identity(name, version, &PARAMS), Box::new(responder)).expect("its parts belong together")
}

/// Returns `count` dummy queries.
pub fn queries(count: usize) -> Vec<Bytes> {
    vec![vec![0; PARAMS.sizes.query_bytes].into(); count]
}

/// Returns a client's keys; `client` is their first and third byte, and identifies them.
pub fn keys(client: u8) -> Vec<u8> {
    let mut bytes = vec![0; PARAMS.sizes.keys_bytes];
    (bytes[0], bytes[2]) = (client, client);
    bytes
}
