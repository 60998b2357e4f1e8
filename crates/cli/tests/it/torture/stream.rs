//! Streams of changes whose publisher or server is killed: each change is published once.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value as Json;
use spirea_store::changes::Cursor;
use spirea_store::{Changes, Repository};
use tempfile::tempdir;

use crate::torture::scale::{Dice, Scale};
use crate::torture::service::{SPIREA, Service, serve};
use crate::torture::table::{ROWS, key, repository, snapshot, value};

const NAME: &str = "table";
/// Number of blocks that the producer sends. Each ends with a cursor.
const BLOCKS: usize = 60;
/// Number of changes in a block, of different keys.
const CHANGES: usize = 5;
/// Options with which each block is a group.
const BLOCK_BY_BLOCK: [&str; 4] = ["--every-changes", "5", "--every-seconds", "3600"];

/// Returns the row and the edition of each change of a block; without an edition, the row's key is
/// deleted. No two changes are equal, so that the check detects a change that is repeated too late.
fn block(number: usize) -> impl Iterator<Item = (usize, Option<u64>)> {
    (0..CHANGES).map(move |i| {
        let change = number * CHANGES + i;
        ((number * 7 + i * 3) % ROWS, (!change.is_multiple_of(4)).then_some(change as u64 + 10))
    })
}

/// Returns the lines of a block. The last one has the cursor.
fn lines(number: usize) -> String {
    let cursor =
        |i| if i + 1 == CHANGES { format!(", \"cursor\": \"block {number}\"") } else { String::new() };
    let line = |(i, (row, edition)): (usize, (usize, Option<u64>))| {
        let (key, cursor) = (key(row), cursor(i));
        match edition {
            Some(edition) => {
                format!("{{\"key\": \"{key}\", \"value\": \"{}\"{cursor}}}\n", value(row, edition))
            }
            None => format!("{{\"key\": \"{key}\", \"deleted\": true{cursor}}}\n"),
        }
    };
    block(number).enumerate().map(line).collect()
}

/// Returns the changes of the first `count` blocks.
fn changes_of(count: usize) -> Changes {
    let mut changes = Changes::new();
    for (row, edition) in (0..count).flat_map(block) {
        match edition {
            Some(edition) => changes.put(key(row), value(row, edition)),
            None => changes.delete(key(row)),
        }
    }
    changes
}

/// Returns the number of blocks that a cursor covers.
fn covered(cursor: &Json) -> usize {
    let number = |text: &str| text.strip_prefix("block ").unwrap().parse::<usize>().unwrap();
    cursor.as_str().map_or(0, |text| number(text) + 1)
}

/// Checks that the current version has the changes up to its cursor and no others. Returns the
/// number of blocks that it has.
fn check(path: &Path) -> usize {
    let current = Repository::list(path).unwrap().swap_remove(0);
    let count = covered(&current.cursor.as_ref().map(Cursor::as_str).into());
    let found = current.delta.map(|delta| std::fs::read(delta.folder().join("changes.bin")).unwrap());
    assert_eq!(found, (count > 0).then(|| changes_of(count).to_bytes()), "{count} blocks");
    count
}

/// A running `spirea publish --stream`.
struct Stream {
    process: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    /// Number of blocks that had been published before.
    before: usize,
}

impl Stream {
    /// Starts a stream into a repository or to a server.
    fn start(target: &[&str], options: &[&str]) -> Self {
        let mut process = Command::new(SPIREA)
            .args(["publish", "--stream", "--threads", "1"])
            .args(target)
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
        let first: Json = serde_json::from_str(&output.next().expect("a cursor").unwrap()).unwrap();
        let input = process.stdin.take();
        Self { process, input, output, before: covered(&first["cursor"]) }
    }

    /// Sends lines. They may be lost if the publisher has ended.
    fn send(&mut self, text: &str) {
        let _ = self.input.as_mut().unwrap().write_all(text.as_bytes());
    }

    /// Sends all blocks after the cursor.
    fn send_rest(&mut self) {
        (self.before..BLOCKS).for_each(|number| self.send(&lines(number)));
    }

    /// Kills the publisher. Returns the number of blocks that it reported as published.
    fn kill(mut self) -> usize {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.reported()
    }

    /// Ends the input, and waits for the end of the publisher. Returns the number of blocks that it
    /// reported, or what it wrote to standard error if it failed.
    fn finish(mut self) -> Result<usize, String> {
        drop(self.input.take());
        let said = std::io::read_to_string(self.process.stderr.take().unwrap()).unwrap();
        let is_done = self.process.wait().unwrap().success();
        if is_done { Ok(self.reported()) } else { Err(said) }
    }

    fn reported(self) -> usize {
        let reports = self.output.map(|line| serde_json::from_str::<Json>(&line.unwrap()).unwrap());
        reports.fold(self.before, |before, report| {
            let after = covered(&report["cursor"]);
            assert!(after > before, "{report}");
            after
        })
    }
}

#[test]
fn a_killed_stream_resumes_where_its_last_version_ends() {
    let (scale, mut dice) = (Scale::chosen(), Dice::new(700));
    let folder = tempdir().unwrap();
    let base = snapshot(folder.path(), NAME, "simple", 1);
    let path = repository(folder.path(), &base);
    let target = ["--repository", path.to_str().unwrap()];

    // The publisher is killed inside a group: none of the group's changes are published, although a
    // cursor came.
    let mut stream = Stream::start(&target, &["--every-changes", "1000", "--every-seconds", "3600"]);
    assert_eq!(stream.before, 0);
    stream.send(&(lines(0) + &lines(1)));
    thread::sleep(Duration::from_millis(200));
    assert_eq!((stream.kill(), check(&path)), (0, 0));
    // The publisher is killed between groups.
    let mut stream = Stream::start(&target, &BLOCK_BY_BLOCK);
    stream.send(&(lines(0) + &lines(1)));
    assert_eq!(stream.output.by_ref().take(2).count(), 2);
    stream.kill();
    assert_eq!(check(&path), 2);

    let (mut published, mut inside) = (2, 0);
    for _ in 0..scale.kills {
        let mut stream = Stream::start(&target, &BLOCK_BY_BLOCK);
        assert_eq!(stream.before, published);
        stream.send_rest();
        thread::sleep(dice.within(scale.life / 8));
        let reported = stream.kill();
        published = check(&path);
        assert!(published == reported || published == reported + 1, "{published}, reported {reported}");
        inside += usize::from(published < BLOCKS);
    }
    let mut stream = Stream::start(&target, &BLOCK_BY_BLOCK);
    assert_eq!(stream.before, published);
    stream.send_rest();
    assert_eq!(stream.finish(), Ok(BLOCKS));
    assert_eq!(check(&path), BLOCKS);
    println!("{} kills, {inside} of them before the last block; no change lost or repeated", scale.kills);

    // One publication of everything has the same changes.
    let whole = folder.path().join("whole.jsonl");
    std::fs::write(&whole, changes_of(BLOCKS).to_lines(&base.manifest().table).unwrap()).unwrap();
    let other = folder.path().join("other");
    for what in [["--base", base.folder().to_str().unwrap()], ["--changes", whole.to_str().unwrap()]] {
        let publish = Command::new(SPIREA).args(["publish", "--repository"]).arg(&other).args(what).output();
        assert!(publish.unwrap().status.success(), "{what:?}");
    }
    let [streamed, at_once] = [&path, &other].map(|path| Repository::list(path).unwrap().swap_remove(0));
    assert_eq!(streamed.values, at_once.values);
    let changes = |record: &spirea_store::VersionRecord| {
        std::fs::read(record.delta.as_ref().unwrap().folder().join("changes.bin")).unwrap()
    };
    assert_eq!(changes(&streamed), changes(&at_once));
}

#[test]
fn a_stream_through_a_server_survives_the_end_of_either() {
    let (scale, mut dice) = (Scale::chosen(), Dice::new(701));
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), NAME, "simple", 1));
    let log = folder.path().join("server.log");
    let mut service = Service::started(serve(&[&path], &[]), &log);
    let start =
        |service: &Service| Stream::start(&["--server", &service.admin, "--database", NAME], &BLOCK_BY_BLOCK);
    // Two producers start at the same cursor: the second one publishes nothing.
    let [mut first, mut second] = [start(&service), start(&service)];
    first.send(&lines(0));
    assert_eq!(first.finish(), Ok(1));
    second.send(&lines(0));
    let refused = second.finish().unwrap_err();
    assert!(refused.contains("lines 1 to 5") && refused.contains("\"block 0\""), "{refused}");
    assert_eq!(check(&path), 1);

    let (mut ends, mut refusals) = (0, 0);
    loop {
        let mut stream = start(&service);
        stream.send_rest();
        if ends == scale.kills / 2 {
            // A late publication of the killed publisher may be applied first; then this stream is
            // refused.
            match stream.finish() {
                Ok(_) => break,
                Err(said) => assert!(refusals < 5, "{said}"),
            }
            refusals += 1;
            continue;
        }
        thread::sleep(dice.within(scale.life / 4));
        if ends % 2 == 0 {
            stream.kill();
        } else {
            service.kill();
            let before = check(&path);
            let _ = stream.finish();
            service = Service::started(serve(&[&path], &[]), &log);
            assert_eq!(check(&path), before);
        }
        ends += 1;
    }
    assert_eq!(check(&path), BLOCKS);
    println!("{ends} times a publisher or its server was killed; no change lost or repeated");
}
