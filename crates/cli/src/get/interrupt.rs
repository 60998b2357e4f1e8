//! Ctrl-C: cancels the requests; answers that have arrived are printed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use spirea_console::status::Status;
use tokio::runtime::Builder;

/// Handler of Ctrl-C. The first Ctrl-C sets a flag; a second one ends the process at once.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Starts handling Ctrl-C. If the system gives no thread or refuses signals, Ctrl-C ends the
    /// process as usual.
    pub fn heed() -> Self {
        let came = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&came);
        let heed = move || {
            let Ok(runtime) = Builder::new_current_thread().enable_io().build() else { return };
            runtime.block_on(async {
                if tokio::signal::ctrl_c().await.is_ok() {
                    flag.store(true, Ordering::Relaxed);
                    if tokio::signal::ctrl_c().await.is_ok() {
                        std::process::exit(Status::INTERRUPTED.code().into());
                    }
                }
            });
        };
        let _ = thread::Builder::new().spawn(heed);
        Self(came)
    }

    /// Flag that becomes true on Ctrl-C.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Returns true after Ctrl-C.
    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
