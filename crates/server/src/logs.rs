//! Structured logs on standard error, which never hold up or end what they tell of.
//!
//! Lines go through a bounded queue to a thread of their own. Where standard error takes nothing (a full disk, a pipe
//! whose reader has gone or is stuck), lines are lost and counted; requests go on.

use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tracing::Level;
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// The most bytes of lines that wait to be written: those of a second of the busiest server.
const WAITING_BYTES: usize = 4 << 20;
/// A line counts as at least so many bytes, for what it takes beside its text.
const LEAST_LINE: usize = 256;
/// The queue's own bound, which the bytes never reach: one line is being written.
const WAITING_LINES: usize = WAITING_BYTES / LEAST_LINE + 1;

/// Writes that failed; a process has one log.
static FAILED: AtomicU64 = AtomicU64::new(0);
/// The queue of the process's log, once there is one.
static QUEUE: OnceLock<Arc<Waiting>> = OnceLock::new();

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
        let dropped = QUEUE.get().map_or(0, |waiting| waiting.dropped.load(Ordering::Relaxed));
        Self { failed: FAILED.load(Ordering::Relaxed), dropped }
    }
}

/// Sends the log of this process to standard error.
///
/// # Errors
/// If it goes somewhere already.
pub fn init_logs(LogConfig { format, level }: LogConfig) -> Result<Logs, TryInitError> {
    let colours = io::stderr().is_terminal();
    let (lines, guard) = queue(Counted(io::stderr()));
    // The second of two logs is refused below.
    let _ = QUEUE.set(Arc::clone(&lines.waiting));
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

/// Bytes of lines that wait to be written, and lines that found no room.
#[derive(Debug, Default)]
struct Waiting {
    bytes: AtomicUsize,
    dropped: AtomicU64,
}

impl Waiting {
    fn cost(line: &[u8]) -> usize {
        line.len().max(LEAST_LINE)
    }

    /// Takes room for a line, if there is enough.
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

/// A queue of lines to a thread that writes them to `writer`, bounded in bytes.
fn queue(writer: impl Write + Send + 'static) -> (Lines, WorkerGuard) {
    let waiting = Arc::<Waiting>::default();
    let (queue, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(WAITING_LINES)
        .lossy(true)
        .thread_name("spirea-log")
        .finish(Written { writer, waiting: Arc::clone(&waiting) });
    (Lines { queue, waiting }, guard)
}

/// The end of the queue that takes lines; each write is a line.
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

/// The other end, which gives back the room of each line that it has written.
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

    /// A writer that says that it has a line, and writes when it may.
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
