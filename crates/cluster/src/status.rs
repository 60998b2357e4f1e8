//! Status report of a worker.

use serde::{Deserialize, Serialize};

/// State of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShareState {
    /// Takes batches.
    Ready,
    /// Finishes the batches that it has, then ends.
    Draining,
}

/// Share that a worker serves, and its load: `GET /v1/share`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareStatus {
    /// Name of the database.
    pub database: String,
    /// Version of the snapshot, in hexadecimal digits.
    pub version: String,
    /// Index of the share, from 0.
    pub share: usize,
    /// Number of shares.
    pub shares: usize,
    /// Party, for a protocol with two servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub party: Option<u8>,
    /// Bytes of the database that the worker holds.
    pub bytes: u64,
    /// Batches that wait.
    pub queue: usize,
    /// Batches that are being computed: one or none.
    pub running: usize,
    /// Maximum number of queries in a batch.
    pub max_batch: usize,
    /// Length of the evaluation keys that the share needs from each client, in bytes; 0 if it needs
    /// none.
    pub keys_bytes: usize,
    /// State of the worker.
    pub state: ShareState,
}
