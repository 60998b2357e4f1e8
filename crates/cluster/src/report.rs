//! The state of a replica, as the coordinator reports it.

use serde::Serialize;

/// State of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ReplicaState {
    /// Not reached yet.
    Connecting,
    /// Answering.
    Ready,
    /// Unreachable, or not the expected worker.
    Failed,
    /// Finishing the batches that it has.
    Draining,
}

/// Report of a replica, for operators.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReplicaReport {
    pub url: String,
    pub state: ReplicaState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Reason why the share's other replicas are asked first at present; `None` if they are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avoided: Option<String>,
    /// Number of batches that wait at the replica; `in_flight` is the number of batches that this
    /// coordinator awaits from it.
    pub queue: usize,
    pub in_flight: usize,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub requests: u64,
    pub hedges: u64,
    pub failures: u64,
}

impl ReplicaReport {
    /// Returns true if the replica can be asked.
    pub fn is_ready(&self) -> bool {
        self.state == ReplicaState::Ready
    }
}
