//! Ctrl-C: requests end, and what has been answered is printed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::runtime::Builder;

use crate::status::Status;

/// Ctrl-C, from when it is heeded. A second one ends the process at once.
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Heeds Ctrl-C. Where the system gives no thread or refuses signals, Ctrl-C ends the process as ever.
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

    /// Becomes true when Ctrl-C comes.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Tells if it came.
    pub fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
