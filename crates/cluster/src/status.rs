//! What a worker says of itself.

use serde::{Deserialize, Serialize};

/// Whether a worker takes batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShareState {
    /// It does.
    Ready,
    /// It finishes those that it has, and then ends.
    Draining,
}

/// What a worker serves, and how much waits there: `GET /v1/share`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareStatus {
    /// The database's name.
    pub database: String,
    /// The version of its snapshot, in hexadecimal digits.
    pub version: String,
    /// Which share, from 0 on.
    pub share: usize,
    /// Of how many.
    pub shares: usize,
    /// Which of a protocol's two servers, where it has two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub party: Option<u8>,
    /// Bytes of the database that it has.
    pub bytes: u64,
    /// Batches that wait.
    pub queue: usize,
    /// Batches that are being computed: one or none.
    pub running: usize,
    /// The most queries of a batch.
    pub max_batch: usize,
    /// Bytes of the evaluation keys that it needs of each client; 0 if it needs none.
    pub keys_bytes: usize,
    /// Whether it takes batches.
    pub state: ShareState,
}
