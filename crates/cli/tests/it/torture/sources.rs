//! Streams of changes from a folder and from a socket, killed and resumed.

use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use spirea_store::{Changes, Repository};
use tempfile::{TempDir, tempdir};

use crate::torture::service::SPIREA;
use crate::torture::table::{changes, key, repository, snapshot, value};

/// Far longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A repository with one version.
fn start() -> (TempDir, PathBuf) {
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "table", "simple", 1));
    (folder, path)
}

/// A running `spirea publish --stream`, which is killed when dropped.
struct Stream {
    process: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Stream {
    fn from(source: &str, repository: &Path) -> Self {
        let mut process = Command::new(SPIREA)
            .args([
                "publish",
                "--threads",
                "1",
                "--every-seconds",
                "0.01",
                "--stream",
                source,
                "--repository",
            ])
            .arg(repository)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, output }
    }

    /// Returns the cursor in the next line of output.
    fn cursor(&mut self) -> Json {
        let line: Json = serde_json::from_str(&self.output.next().expect("a line").unwrap()).unwrap();
        line["cursor"].clone()
    }

    /// Waits until the command fails. Returns what it says.
    fn failure(mut self) -> String {
        let mut said = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(self.process.wait().unwrap().code(), Some(2), "{said}");
        said
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Adds a complete file to a folder.
fn add(folder: &Path, name: &str, text: &[u8]) {
    let part = folder.join("part");
    std::fs::write(&part, text).unwrap();
    std::fs::rename(part, folder.join(name)).unwrap();
}

/// Checks the changes and the cursor of the current version.
fn check(repository: &Path, editions: &[(usize, u64)], cursor: &Json) {
    let current = Repository::list(repository).unwrap().swap_remove(0);
    assert_eq!(&json!(current.cursor), cursor);
    let mut expected = Changes::new();
    editions.iter().for_each(|&(row, edition)| expected.put(key(row), value(row, edition)));
    let found = std::fs::read(current.delta.unwrap().folder().join("changes.bin")).unwrap();
    assert_eq!(found, expected.to_bytes());
}

#[test]
fn a_folder_is_published_file_by_file_and_resumed_behind_the_last_one() {
    let (folder, path) = start();
    let inbox = folder.path().join("inbox");
    std::fs::create_dir(&inbox).unwrap();
    let source = inbox.to_str().unwrap();
    add(&inbox, "01.jsonl", &changes([1, 2], 2));
    let mut stream = Stream::from(source, &path);
    assert_eq!([stream.cursor(), stream.cursor()], [Json::Null, json!("01.jsonl:2")]);
    // The command reads a file that appears while it runs, and ignores files with other names.
    std::fs::write(inbox.join("02.part"), "no line").unwrap();
    // The last line of a file may lack its line feed.
    add(&inbox, "02.jsonl", changes([2, 3], 3).strip_suffix(b"\n").unwrap());
    assert_eq!(stream.cursor(), json!("02.jsonl:2"));
    check(&path, &[(1, 2), (2, 3), (3, 3)], &json!("02.jsonl:2"));
    drop(stream);

    // Files that appear while no command runs are read at the next start, even an empty file. The
    // first file has been removed.
    add(&inbox, "03.jsonl", b"");
    add(&inbox, "04.jsonl", &changes([4], 4));
    std::fs::remove_file(inbox.join("01.jsonl")).unwrap();
    let mut stream = Stream::from(source, &path);
    assert_eq!(stream.cursor(), json!("02.jsonl:2"));
    while stream.cursor() != json!("04.jsonl:1") {}
    let all = [(1, 2), (2, 3), (3, 3), (4, 4)];
    check(&path, &all, &json!("04.jsonl:1"));
    // While the command runs, a file appears whose name precedes that of the last file.
    add(&inbox, "01.jsonl", &changes([5], 5));
    let said = stream.failure();
    assert!(said.contains("01.jsonl appeared after 04.jsonl"), "{said}");
    check(&path, &all, &json!("04.jsonl:1"));

    // A malformed line, and a line with a cursor, which files must not have.
    for (line, part) in [("{\n", "05.jsonl:2: "), ("{\"cursor\": \"x\"}\n", "05.jsonl:2: a line in a folder")]
    {
        add(&inbox, "05.jsonl", &[&changes([6], 6)[..], line.as_bytes()].concat());
        let said = Stream::from(source, &path).failure();
        assert!(said.contains(part), "{said}");
        check(&path, &all, &json!("04.jsonl:1"));
    }
    // The last published file has changed.
    add(&inbox, "04.jsonl", &changes([4, 5], 4));
    let said = Stream::from(source, &path).failure();
    assert!(said.contains("04.jsonl: it has 2 lines, and 1 were published"), "{said}");
    let said = Stream::from(folder.path().join("absent").to_str().unwrap(), &path).failure();
    assert!(said.contains("absent"), "{said}");
}

#[test]
fn the_cursor_of_another_stream_is_no_place_in_a_folder() {
    let (folder, path) = start();
    let mut input = Command::new(SPIREA)
        .args(["publish", "--threads", "1", "--stream", "--repository"])
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    input.stdin.take().unwrap().write_all(b"{\"cursor\": \"block 7\"}\n").unwrap();
    assert!(input.wait().unwrap().success());
    let said = Stream::from(folder.path().to_str().unwrap(), &path).failure();
    assert!(said.contains("\"block 7\", which names no file"), "{said}");
}

/// Connects to a socket once the command listens.
fn connect(socket: &Path) -> (UnixStream, Lines<BufReader<UnixStream>>) {
    let began = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(connection) => {
                connection.set_read_timeout(Some(PATIENCE)).unwrap();
                let lines = BufReader::new(connection.try_clone().unwrap()).lines();
                return (connection, lines);
            }
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn next(lines: &mut Lines<BufReader<UnixStream>>) -> Json {
    serde_json::from_str(&lines.next().expect("a line").unwrap()).unwrap()
}

#[test]
fn each_connection_to_a_socket_resumes_behind_the_last_version() {
    let (folder, path) = start();
    let socket = folder.path().join("socket");
    let source = format!("unix:{}", socket.display());
    let stream = Stream::from(&source, &path);
    let (mut connection, mut lines) = connect(&socket);
    assert_eq!(next(&mut lines), json!({ "cursor": null }));
    connection.write_all(&[&changes([1], 2)[..], b"{\"cursor\": \"1\"}\n"].concat()).unwrap();
    assert_eq!(next(&mut lines)["cursor"], "1");
    // A faulty line ends the connection, and discards the changes before it that no cursor covers.
    connection.write_all(&[&changes([2], 3)[..], b"{\n"].concat()).unwrap();
    let error = next(&mut lines)["error"].as_str().unwrap().to_owned();
    assert!(error.contains("socket:4: "), "{error}");
    assert!(lines.next().is_none());
    let (mut connection, mut lines) = connect(&socket);
    assert_eq!(next(&mut lines), json!({ "cursor": "1" }));
    connection.write_all(&[&changes([3], 4)[..], b"{\"cursor\": \"2\"}\n"].concat()).unwrap();
    assert_eq!(next(&mut lines)["cursor"], "2");
    drop((connection, lines));
    // A producer that disconnects before a cursor changes nothing, and the next connection is
    // accepted.
    let (mut connection, mut lines) = connect(&socket);
    assert_eq!(next(&mut lines), json!({ "cursor": "2" }));
    connection.write_all(&changes([4], 5)).unwrap();
    drop((connection, lines));
    drop(stream);

    // The killed command has left its socket.
    assert!(socket.exists());
    let _stream = Stream::from(&source, &path);
    let (_connection, mut lines) = connect(&socket);
    assert_eq!(next(&mut lines), json!({ "cursor": "2" }));
    check(&path, &[(1, 2), (3, 4)], &json!("2"));
    // Two commands cannot listen, and no other file is replaced.
    std::fs::write(folder.path().join("file"), "").unwrap();
    let second = tempdir().unwrap();
    let other = repository(second.path(), &snapshot(second.path(), "table", "simple", 1));
    for place in ["socket", "file"] {
        let place = format!("unix:{}", folder.path().join(place).display());
        assert!(Stream::from(&place, &other).failure().contains("in use"));
    }
}
