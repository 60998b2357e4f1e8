//! Structured logs on standard error, which never delay or abort the logging code.
//!
//! Lines go through a bounded queue to a writer thread. If standard error accepts nothing (a full
//! disk, a pipe whose reader has gone or is stuck), lines are lost and counted; requests continue.

use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tracing::Level;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// Maximum bytes of queued lines: about one second of the busiest server.
const WAITING_BYTES: usize = 4 << 20;
/// Minimum cost of a line in bytes, which covers its overhead.
const LEAST_LINE: usize = 256;
/// Bound of the queue in lines, for the library. The bound in bytes is always reached first, also
/// while one more line is being written.
const WAITING_LINES: usize = WAITING_BYTES / LEAST_LINE + 1;

/// Number of failed writes; a process has one log.
static FAILED: AtomicU64 = AtomicU64::new(0);
/// Queue of the process's log, once initialised.
static QUEUE: OnceLock<Arc<Waiting>> = OnceLock::new();

/// Format of a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Configuration of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Format of a line.
    pub format: LogFormat,
    /// Least important level that is logged.
    pub level: Level,
}

impl Default for LogConfig {
    /// Text, at the level that operators need.
    fn default() -> Self {
        Self { format: LogFormat::Text, level: Level::INFO }
    }
}

/// The log of this process. Dropping it waits up to one second for queued lines to be written.
#[must_use = "what has been logged is lost if the process ends before it was written"]
pub struct Logs(#[expect(dead_code, reason = "it writes what waits when it is dropped")] WorkerGuard);

/// Counts of lost lines of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LostLines {
    /// Lines that standard error refused.
    pub failed: u64,
    /// Lines that standard error did not accept in time.
    pub dropped: u64,
}

impl LostLines {
    /// Returns the counts of this process so far.
    pub fn now() -> Self {
        let dropped = QUEUE.get().map_or(0, |waiting| waiting.dropped.load(Ordering::Relaxed));
        Self { failed: FAILED.load(Ordering::Relaxed), dropped }
    }
}

/// Sends the log of this process to standard error.
///
/// # Errors
/// If the process already has a log.
pub fn init_logs(LogConfig { format, level }: LogConfig) -> Result<Logs, TryInitError> {
    let colours = io::stderr().is_terminal();
    let (lines, guard) = queue(Counted(io::stderr()));
    // If there is a log already, `try_init` below refuses this one.
    let _ = QUEUE.set(Arc::clone(&lines.waiting));
    let subscriber = fmt()
        .with_writer(lines)
        .with_ansi(colours)
        .with_max_level(level)
        .with_target(false)
        // Otherwise the subscriber would report a failed write on standard error, and panic if that
        // fails too.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => subscriber.finish().try_init()?,
        LogFormat::Json => subscriber.json().flatten_event(true).finish().try_init()?,
    }
    Ok(Logs(guard))
}

/// Bytes of queued lines, and the number of lines that found no room.
#[derive(Debug, Default)]
struct Waiting {
    bytes: AtomicUsize,
    dropped: AtomicU64,
}

impl Waiting {
    fn cost(line: &[u8]) -> usize {
        line.len().max(LEAST_LINE)
    }

    /// Reserves room for a line; false if there is not enough.
    fn take(&self, line: &[u8]) -> bool {
        let cost = Self::cost(line);
        let more = |bytes: usize| bytes.checked_add(cost).filter(|&bytes| bytes <= WAITING_BYTES);
        let taken = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if !taken {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    fn give_back(&self, line: &[u8]) {
        self.bytes.fetch_sub(Self::cost(line), Ordering::Relaxed);
    }
}

/// Creates a queue of lines, bounded in bytes, and the thread that writes them to `writer`.
fn queue(writer: impl Write + Send + 'static) -> (Lines, WorkerGuard) {
    let waiting = Arc::<Waiting>::default();
    let (queue, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(WAITING_LINES)
        .lossy(true)
        .thread_name("spirea-log")
        .finish(Written { writer, waiting: Arc::clone(&waiting) });
    (Lines { queue, waiting }, guard)
}

/// The queue's input end; each write is one line.
#[derive(Clone)]
struct Lines {
    queue: NonBlocking,
    waiting: Arc<Waiting>,
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.waiting.take(line) { self.queue.write(line) } else { Ok(line.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.queue.flush()
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The queue's output end, which releases the room of each line after writing it.
struct Written<W> {
    writer: W,
    waiting: Arc<Waiting>,
}

impl<W: Write> Write for Written<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let written = self.writer.write_all(line);
        self.waiting.give_back(line);
        written.map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// A writer that counts failed writes and continues.
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
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

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

    /// A writer that signals each line, then waits for permission to return.
    struct Stuck {
        has: mpsc::Sender<()>,
        go: mpsc::Receiver<()>,
    }

    impl Write for Stuck {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.has.send(());
            let _ = self.go.recv();
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_wait_are_bounded_in_bytes() {
        let ((has, begun), (go_on, go)) = (mpsc::channel(), mpsc::channel());
        let (mut lines, guard) = queue(Stuck { has, go });
        let line = vec![b'x'; 1 << 20];
        for _ in 0..10 {
            lines.write_all(&line).unwrap();
        }
        begun.recv().unwrap();
        assert_eq!(lines.waiting.bytes.load(Ordering::Relaxed), WAITING_BYTES);
        assert_eq!(lines.waiting.dropped.load(Ordering::Relaxed), 10 - (WAITING_BYTES >> 20) as u64);
        drop(go_on);
        let started = Instant::now();
        while lines.waiting.bytes.load(Ordering::Relaxed) > 0 {
            assert!(started.elapsed() < Duration::from_secs(20), "room is not given back");
            std::thread::yield_now();
        }
        drop(guard);
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
