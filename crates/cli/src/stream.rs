//! `spirea publish --stream`: groups of changes from standard input, each a version.

use std::io::{self, ErrorKind, Read};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::{Value, json};
use spirea_console::output::print_bytes;
use spirea_console::status::Status;
use spirea_cpu::CpuBackend;
use spirea_protocols::Table;
use spirea_store::changes::{Cursor, Group, Grouping};
use spirea_store::{Changes, Repository, Silent};

use crate::remote::Publisher;

/// Bytes that are read at once. At most two such chunks are read ahead of the lines in use.
const CHUNK_BYTES: usize = 64 << 10;
/// Bytes of keys and values with which a group is published before it has enough changes.
const GROUP_BYTES: usize = 64 << 20;
/// Name of the input in messages.
const INPUT: &str = "standard input";

/// Options that publish something else than a stream.
const OTHERS: [&str; 4] = ["base", "put", "delete", "changes"];

/// Options for a stream of changes.
#[derive(Args)]
pub struct StreamOptions {
    /// Publish changes from standard input until it ends, in groups, each a version. The lines are
    /// those of --changes. The producer adds its cursor to a line, `"cursor": TEXT` with at most
    /// 256 bytes, or sends `{"cursor": TEXT}`. A cursor covers its line and all lines before. Only
    /// changes that a cursor covers are published, and the version stores the cursor. The first
    /// line of output has the cursor to resume behind, and each version has a line, all as JSON.
    #[arg(help_heading = "Stream", long, conflicts_with_all = OTHERS)]
    stream: bool,
    /// Publish a group when it has this many changes. [default: 10000]
    #[arg(help_heading = "Stream", long, value_name = "COUNT", requires = "stream", conflicts_with_all = OTHERS)]
    every_changes: Option<NonZeroUsize>,
    /// Publish a smaller group when its first cursor is this old. [default: 1]
    #[arg(help_heading = "Stream", long, value_name = "SECONDS", requires = "stream", conflicts_with_all = OTHERS,
        value_parser = parse_seconds)]
    every_seconds: Option<Duration>,
}

/// Parses a number of seconds.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|seconds| !seconds.is_zero())
        .ok_or_else(|| "it is a number of seconds above 0, such as 0.5".into())
}

/// Destination of a stream's versions.
pub enum Destination {
    /// A repository, and the processor that makes its deltas.
    Folder(Repository, Arc<CpuBackend>),
    /// A server that has the repository open.
    Server(Publisher),
}

impl Destination {
    /// Returns the table that changes apply to, and the cursor of the current version.
    fn position(&self) -> anyhow::Result<(Table, Option<Cursor>)> {
        match self {
            Self::Folder(repository, _) => {
                let current = repository.current().with_context(|| {
                    format!(
                        "{}: it has no version yet; publish a base with --base SNAPSHOT",
                        repository.folder().display()
                    )
                })?;
                Ok((current.base.manifest().table.clone(), current.cursor))
            }
            Self::Server(server) => server.position(),
        }
    }

    /// Publishes changes. Returns the line that reports the version.
    fn publish(&self, changes: Changes, table: &Table) -> anyhow::Result<Value> {
        match self {
            Self::Folder(repository, backend) => {
                let record = repository.apply(changes, backend, &Silent)?;
                let changed = record.delta.as_ref().map_or(0, |delta| delta.manifest().table.entries);
                Ok(json!({
                    "version": record.version_hex(),
                    "sequence": record.sequence,
                    "changes": changed,
                    "cursor": record.cursor,
                }))
            }
            Self::Server(server) => server.group(changes.to_lines(table)?),
        }
    }
}

/// Bounds of a group.
struct Bounds {
    changes: usize,
    age: Duration,
}

impl StreamOptions {
    /// True if a stream is to be published.
    pub fn is_asked(&self) -> bool {
        self.stream
    }

    /// Publishes standard input until it ends.
    pub fn publish(&self, destination: &Destination) -> anyhow::Result<Status> {
        let (table, before) = destination.position()?;
        print_json(&json!({ "cursor": before }))?;
        let bounds = Bounds {
            changes: self.every_changes.map_or(10_000, NonZeroUsize::get),
            age: self.every_seconds.unwrap_or(Duration::from_secs(1)),
        };
        let grouping = Grouping::new(table.clone(), before, INPUT);
        let lines = Lines::read(io::stdin()).context("the system gave no thread")?;
        run(lines, grouping, &bounds, |changes| print_json(&destination.publish(changes, &table)?))?;
        Ok(Status::SUCCESS)
    }
}

fn print_json(value: &Value) -> anyhow::Result<()> {
    print_bytes(format!("{value}\n").as_bytes())
}

/// Groups lines until they end, and publishes each group. While a group is published, no more than
/// [`CHUNK_BYTES`] are read, so that the producer waits.
fn run(
    mut lines: Lines,
    mut grouping: Grouping,
    bounds: &Bounds,
    mut publish: impl FnMut(Changes) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut publish = |Group { changes, lines }: Group| {
        publish(changes).with_context(|| match lines.into_inner() {
            (first, last) if first == last => format!("{INPUT}, line {first}"),
            (first, last) => format!("{INPUT}, lines {first} to {last}"),
        })
    };
    let mut due = None;
    loop {
        match lines.next(due)? {
            Next::Line(line) => grouping.add(line)?,
            Next::Due => {}
            Next::End => break,
        }
        let Some((changes, bytes)) = grouping.ready() else { continue };
        let now = Instant::now();
        let is_due = *due.get_or_insert(now + bounds.age) <= now;
        if (is_due || changes >= bounds.changes || bytes >= GROUP_BYTES)
            && let Some(group) = grouping.take()
        {
            publish(group)?;
            due = None;
        }
    }
    grouping.take().map_or(Ok(()), publish)?;
    Ok(grouping.finish()?)
}

/// Lines of an input that a thread reads.
struct Lines {
    chunks: Receiver<io::Result<Vec<u8>>>,
    /// Bytes that are not in a returned line follow `start`.
    buffer: Vec<u8>,
    start: usize,
    /// Number of bytes of the buffer that were searched for the end of the line.
    searched: usize,
}

/// The next part of an input.
enum Next<'a> {
    /// A line, without its line feed.
    Line(&'a [u8]),
    /// Nothing by the time that was given.
    Due,
    /// The end.
    End,
}

impl Lines {
    /// Begins to read an input.
    fn read(input: impl Read + Send + 'static) -> io::Result<Self> {
        // The thread has one chunk ready while it waits for this one to be taken.
        let (sender, chunks) = sync_channel(0);
        thread::Builder::new().name("spirea-stream".into()).spawn(move || send_chunks(input, &sender))?;
        Ok(Self { chunks, buffer: Vec::new(), start: 0, searched: 0 })
    }

    /// Returns the next line, or waits for it until `due`.
    fn next(&mut self, due: Option<Instant>) -> anyhow::Result<Next<'_>> {
        loop {
            if let Some(length) = self.buffer[self.searched..].iter().position(|&byte| byte == b'\n') {
                let (start, end) = (self.start, self.searched + length);
                (self.start, self.searched) = (end + 1, end + 1);
                return Ok(Next::Line(&self.buffer[start..end]));
            }
            self.searched = self.buffer.len();
            if self.searched - self.start > Grouping::MOST_LINE_BYTES {
                bail!("{INPUT}: a line longer than {} MiB", Grouping::MOST_LINE_BYTES >> 20);
            }
            let received = match due {
                Some(due) => self.chunks.recv_timeout(due.saturating_duration_since(Instant::now())),
                None => self.chunks.recv().map_err(RecvTimeoutError::from),
            };
            match received {
                Ok(chunk) => {
                    let chunk = chunk.context(INPUT)?;
                    self.buffer.drain(..self.start);
                    self.searched -= self.start;
                    self.start = 0;
                    self.buffer.extend_from_slice(&chunk);
                }
                Err(RecvTimeoutError::Timeout) => return Ok(Next::Due),
                Err(RecvTimeoutError::Disconnected) if self.start < self.buffer.len() => {
                    let start = std::mem::replace(&mut self.start, self.buffer.len());
                    return Ok(Next::Line(&self.buffer[start..]));
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(Next::End),
            }
        }
    }
}

/// Reads an input until it ends or fails, or until nobody takes its chunks.
fn send_chunks(mut input: impl Read, chunks: &SyncSender<io::Result<Vec<u8>>>) {
    loop {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = input.read(&mut chunk).map(|length| {
            chunk.truncate(length);
            chunk
        });
        let is_last = match &read {
            Ok(chunk) if chunk.is_empty() => return,
            Ok(_) => false,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => true,
        };
        if chunks.send(read).is_err() || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use spirea_protocols::TableKind;

    use super::*;

    fn grouping() -> Grouping {
        let table =
            Table { fields: vec!["note".into()], ..spirea_specimens::table(TableKind::Keyword, 3, 40) };
        Grouping::new(table, None, INPUT)
    }

    fn line(number: usize) -> String {
        format!("{{\"key\": \"{number}\", \"value\": \"\", \"cursor\": \"{number}\"}}\n")
    }

    /// An input without end, which counts what was read of it.
    struct Endless {
        number: usize,
        rest: Vec<u8>,
        read: Arc<AtomicUsize>,
    }

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            while self.rest.len() < buffer.len() {
                self.rest.extend(line(self.number).bytes());
                self.number += 1;
            }
            let taken = self.rest.drain(..buffer.len()).collect::<Vec<_>>();
            buffer.copy_from_slice(&taken);
            self.read.fetch_add(taken.len(), Ordering::SeqCst);
            Ok(taken.len())
        }
    }

    #[test]
    fn the_producer_waits_while_a_group_is_published() {
        let read = Arc::new(AtomicUsize::new(0));
        let lines = Lines::read(Endless { number: 0, rest: Vec::new(), read: Arc::clone(&read) }).unwrap();
        let (mut published, mut taken) = (0, 0);
        let ended =
            run(lines, grouping(), &Bounds { changes: 500, age: Duration::from_secs(3600) }, |changes| {
                assert_eq!(changes.len(), 500);
                // Time in which a reader that did not wait would read far more.
                thread::sleep(Duration::from_millis(100));
                published += 1;
                taken +=
                    (published * 500 - 500..published * 500).map(|number| line(number).len()).sum::<usize>();
                let ahead = read.load(Ordering::SeqCst) - taken;
                assert!(ahead <= 2 * CHUNK_BYTES, "{ahead} bytes were read ahead");
                if published < 5 { Ok(()) } else { bail!("enough") }
            });
        assert_eq!(format!("{:#}", ended.unwrap_err()), "standard input, lines 2001 to 2500: enough");
    }

    #[test]
    fn lines_are_whole_however_they_are_cut() {
        struct Bytes(Vec<u8>);
        impl Read for Bytes {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let count = usize::from(!self.0.is_empty());
                buffer[..count].copy_from_slice(&self.0.drain(..count).collect::<Vec<_>>());
                Ok(count)
            }
        }
        for (text, expected) in
            [("", &[][..]), ("\n", &[""]), ("a\nbc\n\nd", &["a", "bc", "", "d"]), ("a\n", &["a"])]
        {
            let mut lines = Lines::read(Bytes(text.into())).unwrap();
            let mut found = Vec::new();
            while let Next::Line(line) = lines.next(None).unwrap() {
                found.push(String::from_utf8(line.to_vec()).unwrap());
            }
            assert_eq!(found, expected, "{text:?}");
        }
    }

    #[test]
    fn a_group_is_published_when_its_first_cursor_is_old_enough() {
        let (reader, mut writer) = io::pipe().unwrap();
        let (sender, published) = std::sync::mpsc::channel();
        let lines = Lines::read(reader).unwrap();
        let bounds = Bounds { changes: 1000, age: Duration::from_millis(50) };
        let streaming = thread::spawn(move || {
            run(lines, grouping(), &bounds, |changes| Ok(sender.send((changes.len(), Instant::now()))?))
        });
        let started = Instant::now();
        io::Write::write_all(&mut writer, (line(1) + &line(2)).as_bytes()).unwrap();
        // The third change has no cursor yet.
        io::Write::write_all(&mut writer, b"{\"key\": \"3\", \"value\": \"\"}\n").unwrap();
        let (count, at) = published.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(count, 2);
        assert!(at - started >= Duration::from_millis(50));
        drop(writer);
        let left = streaming.join().unwrap().unwrap_err().to_string();
        assert!(left.starts_with("standard input:3: no cursor follows"), "{left}");
    }
}
