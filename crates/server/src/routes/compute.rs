use spirea_engine::EngineError;
use spirea_protocols::ProtocolError;

/// Runs long work on the blocking pool.
pub(super) async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    // The panic hook has written the panic's message to standard error.
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(EngineError::Panicked))
}

/// Logs the cause of a failed computation for the operator; no error reveals a query's content.
pub(super) fn log_failure(error: &EngineError) {
    match error {
        EngineError::Protocol(ProtocolError::Malformed { .. }) => (),
        EngineError::NoRoomForKeys => tracing::error!(%error, "keys cannot be registered"),
        error if error.accepted() => tracing::error!(%error, "a computation failed"),
        _ => (),
    }
}
