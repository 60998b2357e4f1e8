//! Changes to the current version, as a new delta.

use std::sync::Arc;

use spirea_backend::{ProtocolBackend, Residence};
use spirea_protocols::Responder;

use super::log::BASES;
use super::{Content, Repository, VersionRecord};
use crate::build::{Shape, compact, values_with};
use crate::changes::After;
use crate::{Changes, Progress, Snapshot, StoreError};

/// Result of [`Repository::apply_open`].
pub struct Applied {
    /// The current version.
    pub record: VersionRecord,
    /// Server halves of its delta, one for each of the protocol's servers, in order. Empty if no
    /// delta was built.
    pub servers: Vec<Box<dyn Responder>>,
}

impl From<VersionRecord> for Applied {
    fn from(record: VersionRecord) -> Self {
        Self { record, servers: Vec::new() }
    }
}

impl Repository {
    /// Adds changes to those of the current version, and makes the result the current version, with
    /// the changes' cursor. When this returns, the changes are on disk; after an error, nothing has
    /// changed. Changes without a cursor keep that of the current version. A table in bins has no
    /// deltas: its changes make a new base.
    ///
    /// # Errors
    /// [`StoreError::NoSuchVersion`] without a base, [`StoreError::OtherCursor`] if the changes
    /// follow another cursor, [`StoreError::BadChange`] if the table cannot
    /// accept a change, [`StoreError::Damaged`] if the existing changes cannot be read; see also
    /// [`StoreError`].
    pub fn apply<B: ProtocolBackend>(
        &self,
        changes: Changes,
        backend: &Arc<B>,
        progress: &dyn Progress,
    ) -> Result<VersionRecord, StoreError> {
        self.apply_as(changes, backend, None, progress).map(|applied| applied.record)
    }

    /// Applies changes as [`Repository::apply`] does, and returns the server halves of the new
    /// delta, which the build has opened and tested. A server can answer with them at once. Their
    /// databases are in `residence`.
    ///
    /// # Errors
    /// Those of [`Repository::apply`].
    pub fn apply_open<B: ProtocolBackend>(
        &self,
        changes: Changes,
        backend: &Arc<B>,
        residence: Residence,
        progress: &dyn Progress,
    ) -> Result<Applied, StoreError> {
        self.apply_as(changes, backend, Some(residence), progress)
    }

    fn apply_as<B: ProtocolBackend>(
        &self,
        changes: Changes,
        backend: &Arc<B>,
        kept: Option<Residence>,
        progress: &dyn Progress,
    ) -> Result<Applied, StoreError> {
        let _writing = self.writing.lock();
        let current = self.expect_current()?;
        if let After::Exactly(after) = changes.after()
            && *after != current.cursor
        {
            let (after, current) = (after.clone(), current.cursor);
            return Err(StoreError::OtherCursor { path: self.folder.clone(), after, current });
        }
        let cursor = changes.cursor().or(current.cursor.as_ref()).cloned();
        if changes.is_empty() {
            if cursor == current.cursor {
                return Ok(current.into());
            }
            let VersionRecord { base, delta, values, .. } = current;
            return self.commit(Content { base, delta, values, cursor }, None).map(Applied::from);
        }
        if current.base.manifest().apple.is_some() {
            let detail = "the table is served to Apple's clients too, whose tables take no changes: build and publish a new snapshot";
            return Err(StoreError::BadOption(detail.into()));
        }
        let mut all = current.changes()?;
        let has_deltas = current.base.manifest().protocol.bins == 1;
        let count = |values| values_with(&current.base, values, &all, &changes);
        let values = current.values.filter(|_| has_deltas).map(count).transpose()?;
        all.extend(changes);
        all.check(&current.base.manifest().table)?;
        if !has_deltas {
            // With a delta, clients would query the delta for each bin. The table is compacted
            // instead; under the protocols for two servers, this only copies records.
            let staging = self.staging()?;
            compact(&current.base, &all, staging.path(), backend, progress)?;
            let snapshot = Snapshot::open(staging.path())?;
            let base = self.install(staging, &snapshot, BASES)?;
            return self.commit(Content::of(base, cursor), None).map(Applied::from);
        }
        let shape = current.delta.as_ref().and_then(Shape::of);
        let (delta, servers) = self.make_delta(&current.base, shape, &all, backend, kept, progress)?;
        let content = Content { base: current.base, delta: Some(delta), values, cursor };
        Ok(Applied { record: self.commit(content, None)?, servers })
    }
}
