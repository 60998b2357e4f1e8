//! Ingest of tables, keyword index and hashed snapshots on disk.
//!
//! - [`snapshot`] and [`manifest`]: the files on disk, and how a server opens and verifies them.
//! - [`ingest`]: readers of CSV, JSONL, Arrow, Parquet, `.npy` and fixed-width files.
//! - [`mod@build`]: builds a snapshot from a table, through a spool on disk.
//! - [`changes`], [`repository`], [`signing`] and [`succession`]: changes of a table, its versions,
//!   their signatures, and the rules for a new base.
//!
//! In every message, rows are counted from 1, and a header is not counted. Record i of an index
//! table is row i + 1.

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
