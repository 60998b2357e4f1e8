//! Databases that answer from snapshots, and block where a test needs it.

use std::path::Path;

use spirea_backend::Backend as _;
use spirea_engine::{Database, HintFile, Identity};
use spirea_protocols::{ProtocolError, Query, Responder, Sizes};
use spirea_store::Snapshot;

use crate::Hook;
use crate::snapshots::{BACKEND, MAPPED};

/// A real server half that runs a hook before each batch.
struct Hooked {
    inner: Box<dyn Responder>,
    hook: Hook,
}

impl Responder for Hooked {
    fn sizes(&self) -> Sizes {
        self.inner.sizes()
    }

    fn max_batch(&self) -> usize {
        self.inner.max_batch()
    }

    fn answer(&self, queries: &[Query<'_>]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        (self.hook)();
        self.inner.answer(queries)
    }
}

/// Opens a snapshot as a database that runs `hook` before each batch.
pub fn database(folder: &Path, hook: Hook) -> Database {
    let snapshot = Snapshot::open(folder).unwrap();
    let manifest = snapshot.manifest();
    let inner = manifest.protocol.on().open(&BACKEND, snapshot.files(), MAPPED).unwrap();
    let identity = Identity {
        name: manifest.name.clone(),
        version: snapshot.version(),
        party: None,
        params: manifest.protocol.clone(),
        table: manifest.table.clone(),
        hint: HintFile::of(&snapshot),
        manifest: manifest.hashed_bytes().into(),
        backend: BACKEND.id(),
    };
    Database::new(identity, Box::new(Hooked { inner, hook })).unwrap()
}
