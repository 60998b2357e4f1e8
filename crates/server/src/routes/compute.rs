use spirea_engine::EngineError;
use spirea_protocols::ProtocolError;

/// Runs what takes long on a thread that serves nobody else meanwhile.
pub(super) async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    // The panic's own words have gone to standard error.
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(EngineError::Panicked))
}

/// Logs why a computation failed, for the operator must learn it; no error carries anything of a query's content.
pub(super) fn log_failure(error: &EngineError) {
    match error {
        EngineError::Protocol(ProtocolError::Malformed { .. }) => (),
        EngineError::NoRoomForKeys => tracing::error!(%error, "keys cannot be registered"),
        error if error.accepted() => tracing::error!(%error, "a computation failed"),
        _ => (),
    }
}
