//! Structured logs on standard error, which never hold up or end what they tell of.
//!
//! Lines go through a bounded queue to a thread of their own. Where standard error takes nothing (a full disk, a pipe
//! whose reader has gone or is stuck), lines are lost and counted; requests go on.

use std::io::{self, IsTerminal as _, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::Level;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// The most lines that wait to be written: those of a second of the busiest server, a few megabytes.
const WAITING_LINES: usize = 16 << 10;

/// Writes that failed; a process has one log.
static FAILED: AtomicU64 = AtomicU64::new(0);
/// Lines that found the queue full, once there is a log.
static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// How a line looks.
    pub format: LogFormat,
    /// The least important events that are logged.
    pub level: Level,
}

impl Default for LogConfig {
    /// Text, and what an operator wants to know.
    fn default() -> Self {
        Self { format: LogFormat::Text, level: Level::INFO }
    }
}

/// The log of this process. Dropping it waits a second at most for lines to be written.
#[must_use = "what has been logged is lost if the process ends before it was written"]
pub struct Logs(#[expect(dead_code, reason = "it writes what waits when it is dropped")] WorkerGuard);

/// Lines of the log that were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LostLines {
    /// Standard error refused them.
    pub failed: u64,
    /// Standard error did not take them in time.
    pub dropped: u64,
}

impl LostLines {
    /// Those of this process until now.
    pub fn now() -> Self {
        let dropped = DROPPED.get().map_or(0, |counter| counter.dropped_lines() as u64);
        Self { failed: FAILED.load(Ordering::Relaxed), dropped }
    }
}

/// Sends the log of this process to standard error.
///
/// # Errors
/// If it goes somewhere already.
pub fn init_logs(LogConfig { format, level }: LogConfig) -> Result<Logs, TryInitError> {
    let colours = io::stderr().is_terminal();
    let (lines, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(WAITING_LINES)
        .lossy(true)
        .thread_name("spirea-log")
        .finish(Counted(io::stderr()));
    // The second of two logs is refused below.
    let _ = DROPPED.set(lines.error_counter());
    let subscriber = fmt()
        .with_writer(lines)
        .with_ansi(colours)
        .with_max_level(level)
        .with_target(false)
        // Otherwise the subscriber would report a failed write on standard error, and panic where that fails too.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => subscriber.finish().try_init()?,
        LogFormat::Json => subscriber.json().flatten_event(true).finish().try_init()?,
    }
    Ok(Logs(guard))
}

/// A writer that counts what it cannot write and goes on.
struct Counted<W>(W);

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.0.write_all(line).is_err() {
            FAILED.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // Standard error has no buffer.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_cannot_be_written_is_counted() {
        let before = LostLines::now().failed;
        Counted(Full).write_all(b"request\n").unwrap();
        assert_eq!(LostLines::now().failed, before + 1);
        Counted(Vec::new()).write_all(b"request\n").unwrap();
        assert_eq!(LostLines::now().failed, before + 1);
    }
}
