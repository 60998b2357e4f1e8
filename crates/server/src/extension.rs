//! Additions to a server by a program that loads the server's databases itself.

use prometheus::proto::MetricFamily;

/// Additional endpoints and metrics of a server.
pub trait Extension: Send + Sync {
    /// Returns additional endpoints of the port for operators, for tokens with the scope `admin`.
    fn admin(&self) -> axum::Router;

    /// Returns the current values of additional metrics.
    fn metrics(&self) -> Vec<MetricFamily>;
}
