//! What a program adds to the server of an engine whose databases it loads itself.

use prometheus::proto::MetricFamily;

/// More of a server than its engine's databases.
pub trait Extension: Send + Sync {
    /// More endpoints of the port for operators, for tokens with the scope `admin`.
    fn admin(&self) -> axum::Router;

    /// More metrics, as they are now.
    fn metrics(&self) -> Vec<MetricFamily>;
}
