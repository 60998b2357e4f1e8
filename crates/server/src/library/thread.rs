/// Runs work that nobody waits for on its own thread.
pub(super) fn spawn(thread: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(thread.into()).spawn(work) {
        tracing::warn!(%error, thread, "the system gave no thread; the work is left for the next time");
    }
}
