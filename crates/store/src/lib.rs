//! Ingest of tables, keyword index and hashed snapshots on disk.
//!
//! - [`snapshot`] and [`manifest`]: what lies on disk, and how a server opens and verifies it.
//! - [`ingest`]: readers of CSV, JSONL, Arrow, Parquet, `.npy` and fixed-width files.
//! - [`mod@build`]: from a table to a snapshot, through a spool on disk.
//! - [`changes`] of a table, and the [`repository`] of its versions; [`signing`] them;
//!   [`succession`] of its bases.
//!
//! Rows are counted from 1 in every message, without a header; an index table's record i is row i +
//! 1.

mod apple;
#[cfg(feature = "object-store")]
mod bucket;
pub mod build;
pub mod changes;
mod error;
mod expected_rows;
mod files;
mod forms;
mod groups;
pub mod ingest;
pub mod manifest;
mod progress;
mod record_file;
pub mod repository;
pub mod signing;
pub mod snapshot;
pub mod succession;
mod time;

pub use apple::{AppleTables, AppleUseCase, ShardEntry, UseCaseEntry};
pub use build::{
    AppleOptions, BuildOptions, Chooser, Duplicates, Input, Overwrite, Protocol, Proving, build, survey,
};
pub use changes::Changes;
pub use error::{Location, RepeatedKey, StoreError};
pub use expected_rows::ExpectedRows;
pub use groups::{GROUP_BYTES, Groups};
pub use manifest::{FileEntry, Manifest, Statistics};
pub use progress::{Phase, Progress, Silent};
pub use repository::{Repository, VersionRecord};
pub use snapshot::Snapshot;
pub use time::today;
