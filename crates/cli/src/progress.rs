//! Progress bars for long steps. They are hidden if standard error is not a terminal or only
//! results are wanted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use spirea_console::output::is_quiet;
use spirea_store::{Phase, Progress};

/// Progress with one bar at a time, for the current phase.
pub struct Bars {
    current: Mutex<Option<(Phase, ProgressBar)>>,
    left_out: AtomicU64,
}

impl Bars {
    /// Creates bars on standard error.
    pub fn new() -> Self {
        Self { current: Mutex::new(None), left_out: AtomicU64::new(0) }
    }

    /// Returns the number of rows that were left out in favour of other rows with the same keys.
    pub fn rows_left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}

/// Creates a bar with this label that counts bytes.
pub fn byte_bar(label: String, total: u64) -> ProgressBar {
    bar(label, total, "{binary_bytes}/{binary_total_bytes}")
}

fn bar(label: String, total: u64, counts: &str) -> ProgressBar {
    let template = format!("{{prefix:>8}} {{bar:40}} {counts} {{eta}}");
    let style = ProgressStyle::with_template(&template).expect("the template is constant");
    let target =
        if is_quiet() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(10) };
    let bar = ProgressBar::with_draw_target(Some(total), target);
    bar.set_style(style);
    bar.set_prefix(label);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

impl Progress for Bars {
    fn update(&self, phase: Phase, done: u64, total: u64) {
        let mut current = self.current.lock();
        if current.as_ref().is_none_or(|(shown, _)| *shown != phase) {
            if let Some((_, finished)) = current.take() {
                finished.finish_and_clear();
            }
            let counts = match phase {
                Phase::Read | Phase::Verify => "{binary_bytes}/{binary_total_bytes}",
                _ => "{percent}%",
            };
            *current = Some((phase, bar(phase.to_string(), total, counts)));
        }
        let (_, bar) = current.as_ref().expect("a bar was just set");
        bar.set_length(total);
        bar.set_position(done);
    }

    fn left_out(&self, rows: u64) {
        self.left_out.fetch_add(rows, Ordering::Relaxed);
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        if let Some((_, bar)) = self.current.get_mut().take() {
            bar.finish_and_clear();
        }
    }
}
