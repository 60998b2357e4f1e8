//! Outcome of a check, whether it returns an error or panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use serde_json::{Value, json};
use spirea_console::output::explained;

/// Outcome of a check.
pub enum Outcome {
    /// The check passed.
    Passed {
        /// Duration.
        seconds: f64,
        /// Detail for the report.
        detail: String,
    },
    /// The check found an error, or panicked as a test does.
    Failed {
        /// Duration.
        seconds: f64,
        /// Description of the error.
        reason: String,
    },
    /// The check did not run, for this reason.
    Skipped(String),
}

impl Outcome {
    /// Formats the outcome as a JSON object, with the name in its member `kind`.
    pub fn json(&self, kind: &str, name: &str) -> Value {
        match self {
            Self::Passed { seconds, detail } => {
                json!({ kind: name, "outcome": "ok", "seconds": seconds, "detail": detail })
            }
            Self::Failed { seconds, reason } => {
                json!({ kind: name, "outcome": "failed", "seconds": seconds, "detail": reason })
            }
            Self::Skipped(reason) => json!({ kind: name, "outcome": "not run", "detail": reason }),
        }
    }
}

/// Recorder of panics, with which the bodies of tests fail.
pub struct Watch {
    said: Arc<Mutex<Option<String>>>,
}

impl Watch {
    /// Records panics until the process ends, instead of printing them.
    pub fn begin() -> Self {
        let said = Arc::new(Mutex::new(None));
        let heard = Arc::clone(&said);
        std::panic::set_hook(Box::new(move |panic| {
            let mut heard = heard.lock();
            // The first panic is the cause.
            heard.get_or_insert_with(|| {
                let message = panic.payload_as_str().unwrap_or("a panic without a message");
                let place = panic.location().map(|at| format!(" ({}:{})", at.file(), at.line()));
                format!("{message}{}", place.unwrap_or_default())
            });
        }));
        Self { said }
    }

    /// Runs a check to its end.
    pub fn run(&self, check: impl FnOnce() -> anyhow::Result<String>) -> Outcome {
        let started = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(check));
        let seconds = started.elapsed().as_secs_f64();
        let panic = self.said.lock().take();
        match result {
            Ok(Ok(detail)) => Outcome::Passed { seconds, detail },
            Ok(Err(error)) => Outcome::Failed { seconds, reason: explained(&error) },
            Err(_) => {
                let reason = panic.unwrap_or_else(|| "a panic".into());
                Outcome::Failed { seconds, reason: reason.lines().collect::<Vec<_>>().join(" | ") }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_check_does_its_outcome_is_told() {
        let watch = Watch::begin();
        let passed = watch.run(|| Ok("well".into()));
        assert!(matches!(&passed, Outcome::Passed { detail, .. } if detail == "well"));
        let failed = watch.run(|| anyhow::bail!("a reason"));
        assert!(matches!(&failed, Outcome::Failed { reason, .. } if reason == "a reason"));
        let panicked = watch.run(|| panic!("a panic\nin two lines"));
        let _ = std::panic::take_hook();
        let Outcome::Failed { reason, .. } = panicked else { panic!("a panic passed") };
        assert!(reason.starts_with("a panic | in two lines (") && reason.contains("outcome.rs"), "{reason}");
        assert_eq!(Outcome::Skipped("late".into()).json("check", "x")["outcome"], "not run");
    }
}
