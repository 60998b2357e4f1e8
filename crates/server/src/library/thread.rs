/// Runs `work` on its own thread, and does not wait for its end.
pub(super) fn spawn(thread: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(thread.into()).spawn(work) {
        tracing::warn!(%error, thread, "the system gave no thread; the work is left for the next time");
    }
}
