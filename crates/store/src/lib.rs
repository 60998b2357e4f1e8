//! Ingest of tables, keyword index and hashed snapshots on disk.
//!
//! - [`snapshot`] and [`manifest`]: what lies on disk, and how a server opens and verifies it.
//! - [`ingest`]: readers of CSV, JSONL, Parquet, `.npy` and fixed-width files.
//! - [`mod@build`]: from a table to a snapshot, through a spool on disk.
//!
//! Rows are counted from 1 in every message, without a header; an index table's record i is row i + 1.

pub mod build;
mod error;
mod files;
pub mod ingest;
pub mod manifest;
mod progress;
pub mod snapshot;
mod time;

pub use build::{BuildOptions, Overwrite, Protocol, build};
pub use error::{Place, StoreError};
pub use manifest::{FileEntry, Manifest, Statistics};
pub use progress::{Phase, Progress, Silent};
pub use snapshot::Snapshot;
pub use time::today;
