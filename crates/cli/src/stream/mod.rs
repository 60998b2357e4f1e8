//! `spirea publish --stream`: groups of changes from standard input, a folder of files or a socket,
//! each a version.

mod folder;
mod lines;
mod socket;

use std::convert::Infallible;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::{Value, json};
use spirea_console::output::print_bytes;
use spirea_console::status::Status;
use spirea_cpu::CpuBackend;
use spirea_protocols::Table;
use spirea_store::changes::{Cursor, Group, Grouping};
use spirea_store::{Changes, Location, Repository, Silent};

use self::lines::{Lines, Next};
use crate::remote::Publisher;

/// Bytes of keys and values at which a group is published even if it has too few changes.
const GROUP_BYTES: usize = 64 << 20;
/// Name of standard input in messages.
const INPUT: &str = "standard input";

/// Options that publish anything other than a stream.
const OTHERS: [&str; 4] = ["base", "put", "delete", "changes"];

/// The value of `--stream` for standard input.
const STANDARD_INPUT: &str = "-";

/// Origin of a stream's lines.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// Standard input.
    Input,
    /// Files of a folder.
    Folder(PathBuf),
    /// Connections to a Unix socket.
    Socket(PathBuf),
}

impl FromStr for Source {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.strip_prefix("unix:") {
            Some(path) => Self::Socket(path.into()),
            None if text == STANDARD_INPUT => Self::Input,
            None => Self::Folder(text.into()),
        })
    }
}

/// Options for a stream of changes.
#[derive(Args)]
pub struct StreamOptions {
    /// Publish changes in groups, each a version: from standard input until it ends; from the files
    /// NAME.jsonl that appear in FOLDER, in the order of their names; or from the connections to
    /// the Unix socket unix:PATH, one after another. The lines are those of --changes. The producer
    /// adds its cursor to a line, `"cursor": TEXT` with at most 256 bytes, or sends
    /// `{"cursor": TEXT}`; in a folder, a file's end is its cursor, NAME:LINES. A cursor covers its
    /// line and all lines before. Only changes that a cursor covers are published, and the version
    /// stores the cursor. The first line of output has the cursor to resume after, and each version
    /// has a line, all as JSON. A socket's lines go to its connections.
    #[arg(help_heading = "Stream", long, value_name = "FOLDER|unix:PATH", num_args = 0..=1,
        default_missing_value = STANDARD_INPUT, conflicts_with_all = OTHERS)]
    stream: Option<Source>,
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
                    "version": record.version,
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
        self.stream.is_some()
    }

    /// Publishes standard input until it ends, or the other sources for ever.
    pub fn publish(&self, destination: &Destination) -> anyhow::Result<Status> {
        let bounds = Bounds {
            changes: self.every_changes.map_or(10_000, NonZeroUsize::get),
            age: self.every_seconds.unwrap_or(Duration::from_secs(1)),
        };
        if let Some(Source::Socket(path)) = &self.stream {
            return socket::publish(path, destination, &bounds);
        }
        let (table, before) = destination.position()?;
        print_json(&json!({ "cursor": before }))?;
        let (lines, folder) = match &self.stream {
            Some(Source::Folder(folder)) => (folder::read(folder, before.as_ref())?, Some(&**folder)),
            _ => (Lines::read(io::stdin(), INPUT).context(NO_THREAD)?, None),
        };
        let grouping = Grouping::new(table.clone(), before, INPUT);
        run(lines, folder, grouping, &bounds, |changes| print_json(&destination.publish(changes, &table)?))?;
        Ok(Status::SUCCESS)
    }
}

/// Error of starting the thread that reads.
const NO_THREAD: &str = "the system gave no thread";

fn print_json(value: &Value) -> anyhow::Result<()> {
    print_bytes(format!("{value}\n").as_bytes())
}

/// Groups lines until they end, and publishes each group. While a group is published, at most two
/// chunks are read ahead; then the producer must wait. If the lines are those of files in `folder`,
/// the end of each file is a cursor.
fn run(
    mut lines: Lines,
    folder: Option<&Path>,
    mut grouping: Grouping,
    bounds: &Bounds,
    mut publish: impl FnMut(Changes) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut publish = |Group { changes, lines }: Group| publish(changes).with_context(|| lines.to_string());
    let (mut due, mut file) = (None, String::new());
    loop {
        match lines.next(due)? {
            Next::Line(line) => {
                let has_cursor = grouping.add(line)?;
                if let Some(folder) = folder.filter(|_| has_cursor) {
                    let place = Location::Line(folder.join(&file), grouping.lines());
                    bail!("{place}: a line in a folder has no cursor: the end of its file is one");
                }
            }
            Next::Begin(name) => {
                grouping.next_input(folder.unwrap_or(Path::new("")).join(&name));
                file = name;
            }
            Next::End => grouping.cover(folder::cursor(&file, grouping.lines())?),
            Next::Due => {}
            Next::Over => break,
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

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use spirea_protocols::TableKind;

    use super::lines::CHUNK_BYTES;
    use super::*;

    fn grouping() -> Grouping {
        let table =
            Table { fields: vec!["note".into()], ..spirea_specimens::table(TableKind::Keyword, 3, 40) };
        Grouping::new(table, None, INPUT)
    }

    fn line(number: usize) -> String {
        format!("{{\"key\": \"{number}\", \"value\": \"\", \"cursor\": \"{number}\"}}\n")
    }

    /// An endless input that counts the bytes read from it.
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
        let endless = Endless { number: 0, rest: Vec::new(), read: Arc::clone(&read) };
        let lines = Lines::read(endless, INPUT).unwrap();
        let (mut published, mut taken) = (0, 0);
        let ended = run(
            lines,
            None,
            grouping(),
            &Bounds { changes: 500, age: Duration::from_secs(3600) },
            |changes| {
                assert_eq!(changes.len(), 500);
                // In this time, a reader that did not wait would read far more.
                thread::sleep(Duration::from_millis(100));
                published += 1;
                taken +=
                    (published * 500 - 500..published * 500).map(|number| line(number).len()).sum::<usize>();
                let ahead = read.load(Ordering::SeqCst) - taken;
                assert!(ahead <= 2 * CHUNK_BYTES, "{ahead} bytes were read ahead");
                if published < 5 { Ok(()) } else { bail!("enough") }
            },
        );
        assert_eq!(format!("{:#}", ended.unwrap_err()), "standard input, lines 2001 to 2500: enough");
    }

    #[test]
    fn a_group_is_published_when_its_first_cursor_is_old_enough() {
        let (reader, mut writer) = io::pipe().unwrap();
        let (sender, published) = std::sync::mpsc::channel();
        let lines = Lines::read(reader, INPUT).unwrap();
        let bounds = Bounds { changes: 1000, age: Duration::from_millis(50) };
        let streaming = thread::spawn(move || {
            run(lines, None, grouping(), &bounds, |changes| Ok(sender.send((changes.len(), Instant::now()))?))
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
