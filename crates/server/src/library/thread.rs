use spirea_cpu::priority::lower_priority;

/// Runs `work` on its own thread at low priority, since look-ups go on meanwhile. Does not wait for
/// its end.
pub(super) fn spawn(thread: &str, work: impl FnOnce() + Send + 'static) {
    let work = || {
        lower_priority();
        work();
    };
    if let Err(error) = std::thread::Builder::new().name(thread.into()).spawn(work) {
        tracing::warn!(%error, thread, "the system gave no thread; the work is left for the next time");
    }
}
