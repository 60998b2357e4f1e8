//! Tables in object stores and on web servers. A small server in this file answers like S3, Google
//! Cloud Storage and a web server; it also fails, cuts bodies off and changes objects.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tempfile::TempDir;

use crate::command::{SPIREA, Server, expect, refusal, text};

/// Behaviour of the server for an object.
#[derive(Clone, Copy, PartialEq)]
enum Habit {
    Answers,
    /// Answers the first requests with status 500, up to this number.
    Fails(u32),
    /// Ends the body early in the first responses, up to this number.
    CutsOff(u32),
    /// Serves changed content from the second request on.
    Changes,
    /// Serves changed content from the second request on, with a status that does not reveal the
    /// change.
    ChangesSilently,
    /// Sends only whole objects.
    GivesNoRanges,
    Refuses,
}

struct Object {
    content: Vec<u8>,
    habit: Habit,
    requests: u32,
}

/// Objects by their paths, which begin with the bucket.
#[derive(Clone, Default)]
struct Objects(Arc<Mutex<BTreeMap<String, Object>>>);

impl Objects {
    fn put(&self, path: &str, content: impl AsRef<[u8]>, habit: Habit) {
        let object = Object { content: content.as_ref().into(), habit, requests: 0 };
        self.0.lock().insert(path.into(), object);
    }

    fn requests(&self, path: &str) -> u32 {
        self.0.lock()[path].requests
    }

    /// Serves the objects until the test ends, and returns the port.
    fn serve(&self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let objects = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let objects = objects.clone();
                std::thread::spawn(move || objects.answer(stream.unwrap()));
            }
        });
        port
    }

    /// Answers one request, and closes the connection.
    fn answer(&self, mut stream: TcpStream) {
        let lines: Vec<String> = BufReader::new(&stream)
            .lines()
            .map_while(Result::ok)
            .take_while(|line| !line.is_empty())
            .collect();
        let Some(target) = lines.first().and_then(|line| line.split(' ').nth(1)) else { return };
        let header = |name: &str| {
            lines.iter().find_map(|line| {
                let (found, value) = line.split_once(": ")?;
                found.eq_ignore_ascii_case(name).then(|| value.to_owned())
            })
        };
        let target = decoded(target);
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let mut objects = self.0.lock();
        let (status, more, body) = if query.contains("list-type=2") {
            ("200 OK", String::new(), list(&objects, path, query).into_bytes())
        } else if let Some(object) = objects.get_mut(&path[1..]) {
            object.requests += 1;
            object.get(header("range"), header("if-match"))
        } else {
            ("404 Not Found", String::new(), b"<Error><Key>secret-body</Key></Error>".to_vec())
        };
        drop(objects);
        let cut = more.contains("X-Cut");
        let head =
            format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n{more}\r\n", body.len());
        // The client may have closed the connection.
        let _ = stream.write_all(head.as_bytes());
        let _ = stream.write_all(if cut { &body[..body.len() / 2] } else { &body });
    }
}

impl Object {
    fn get(&self, range: Option<String>, if_match: Option<String>) -> (&'static str, String, Vec<u8>) {
        let is_other = matches!(self.habit, Habit::Changes | Habit::ChangesSilently) && self.requests > 1;
        let e_tag = if is_other { "\"2\"" } else { "\"1\"" };
        match self.habit {
            Habit::Fails(times) if self.requests <= times => {
                return ("500 Internal Server Error", String::new(), Vec::new());
            }
            Habit::Refuses => {
                return ("403 Forbidden", String::new(), b"<Error>secret-body</Error>".to_vec());
            }
            Habit::Changes if if_match.is_some_and(|wanted| wanted != e_tag) => {
                return ("412 Precondition Failed", String::new(), Vec::new());
            }
            _ => {}
        }
        let mut more = format!("ETag: {e_tag}\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n");
        if matches!(self.habit, Habit::CutsOff(times) if self.requests <= times) {
            more.push_str("X-Cut: yes\r\n");
        }
        let range = range.filter(|_| self.habit != Habit::GivesNoRanges);
        let Some(range) = range else { return ("200 OK", more, self.content.clone()) };
        let (start, end) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
        let (start, last): (usize, usize) = (start.parse().unwrap(), end.parse().unwrap());
        if start >= self.content.len() {
            return ("416 Range Not Satisfiable", String::new(), Vec::new());
        }
        let end = self.content.len().min(last + 1);
        more.push_str(&format!("Content-Range: bytes {start}-{}/{}\r\n", end - 1, self.content.len()));
        ("206 Partial Content", more, self.content[start..end].to_vec())
    }
}

/// Decodes percent-encoding.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).unwrap()
}

/// Lists the objects of a bucket whose keys begin with the query's prefix, in the form of S3.
fn list(objects: &BTreeMap<String, Object>, bucket: &str, query: &str) -> String {
    let prefix = query.split('&').find_map(|part| part.strip_prefix("prefix=")).unwrap_or_default();
    let prefix = format!("{}/{}", bucket.trim_matches('/'), prefix);
    let contents: String = objects
        .iter()
        .filter(|(path, _)| path.starts_with(&prefix))
        .map(|(path, object)| {
            format!(
                "<Contents><Key>{}</Key><LastModified>2015-10-21T07:28:00.000Z</LastModified><ETag>\"1\"</ETag><Size>{}</Size></Contents>",
                path.split_once('/').unwrap().1,
                object.content.len()
            )
        })
        .collect();
    format!(
        "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
    )
}

/// A folder to build in, and a server.
struct Fixture {
    folder: TempDir,
    objects: Objects,
    port: u16,
}

const SECRETS: [&str; 4] = ["AKIDTEST", "top-secret", "secret-body", "my-signature"];

impl Fixture {
    fn new() -> Self {
        let objects = Objects::default();
        let port = objects.serve();
        Self { folder: TempDir::new().unwrap(), objects, port }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the variables by which the command finds the server, and its credentials.
    fn variables(&self) -> [(&'static str, String); 5] {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        let google = format!(
            r#"{{"gcs_base_url": "{endpoint}", "disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}}"#
        );
        [
            ("AWS_ENDPOINT", endpoint),
            ("AWS_ALLOW_HTTP", "true".into()),
            ("AWS_ACCESS_KEY_ID", "AKIDTEST".into()),
            ("AWS_SECRET_ACCESS_KEY", "top-secret".into()),
            ("GOOGLE_SERVICE_ACCOUNT_KEY", google),
        ]
    }

    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        Command::new(SPIREA)
            .arg("build")
            .args(arguments)
            .current_dir(self.path())
            .envs(self.variables())
            .envs(variables.iter().copied())
            .output()
            .unwrap()
    }

    /// Builds from these inputs, and returns the output of `inspect`.
    fn build(&self, inputs: &[&str], more: &[&str], out: &str) -> String {
        // The protocol has no hint, because a hint would take long to compute.
        let rest = ["--protocol", "dpf-xor", "--out", out];
        let built = self.run(&[&["--input"], inputs, &rest, more].concat(), &[]);
        assert!(built.status.success(), "{inputs:?}: {}", text(&built.stderr));
        text(&expect(self.path(), 0, &["inspect", out]).stdout)
    }

    /// Returns the error of a build. Checks that the error has no secrets and that the build leaves
    /// no files.
    fn refused(&self, input: &str, variables: &[(&str, &str)]) -> String {
        let arguments = ["--input", input, "--key", "k", "--value", "v", "--out", "refused"];
        let output = self.run(&arguments, variables);
        assert_eq!(output.status.code(), Some(2), "{input}");
        let error = text(&output.stderr);
        assert!(!SECRETS.iter().any(|secret| error.contains(secret)), "{error}");
        assert_eq!(self.path().read_dir().unwrap().count(), 0, "{input}");
        error
    }

    fn web(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }
}

const BY_KEY: [&str; 4] = ["--key", "k", "--value", "v"];

/// Makes rows of 11 MB, which take several range requests.
fn large() -> Vec<u8> {
    let value = "x".repeat(1_000_000);
    let rows: String = (0..11).map(|row| format!("{row},{value}\n")).collect();
    format!("k,v\n{rows}").into_bytes()
}

#[test]
fn objects_are_read_as_files_are() {
    let fixture = Fixture::new();
    let put = |path, content: &[u8]| fixture.objects.put(path, content, Habit::Answers);
    put("b/a b.csv", b"k,v\na,1\nb,2\n");
    put("b/table.csv.gz", include_bytes!("objects/table.csv.gz"));
    put("b/values.raw", b"onintwelve");
    put("b/empty.csv", b"");
    put("b/large.csv", &large());
    assert!(fixture.build(&["s3://b/a b.csv"], &BY_KEY, "s3").contains("2 values of v"));
    assert!(fixture.build(&["gs://b/a b.csv"], &BY_KEY, "gs").contains("2 values of v"));
    assert!(
        fixture.build(&[&fixture.web("b/a%20b.csv?signature=1#x")], &BY_KEY, "web").contains("2 values of v")
    );
    assert!(fixture.build(&["s3://b/table.csv.gz"], &BY_KEY, "gzip").contains("1 values of v"));
    assert!(fixture.build(&["s3://b/values.raw"], &["--record-bytes", "2"], "raw").contains("5 "));
    assert!(fixture.build(&["s3://b/large.csv"], &BY_KEY, "large").contains("11 values of v"));
    assert!(fixture.objects.requests("b/large.csv") >= 2);
    // An object and a file make one table.
    std::fs::write(fixture.path().join("more.csv"), "v,k\n3,c\n").unwrap();
    assert!(fixture.build(&["more.csv", "s3://b/a b.csv"], &BY_KEY, "both").contains("3 values of v"));

    let fixture = Fixture { folder: TempDir::new().unwrap(), ..fixture };
    for input in ["s3://b/empty.csv", "gs://b/empty.csv", &fixture.web("b/empty.csv")] {
        assert!(fixture.refused(input, &[]).contains("it is empty"), "{input}");
    }
}

#[test]
fn prefixes_are_folders_and_patterns_match_keys() {
    let fixture = Fixture::new();
    let put = |path, content: &[u8]| fixture.objects.put(path, content, Habit::Answers);
    put("b/d/year=2024/1.csv", b"k,v\na,1\n");
    put("b/d/year=2025/1.csv", b"v,k\n2,b\n");
    put("b/d/_SUCCESS", b"");
    put("b/d/year=2025", b"");
    put("b/dx/1.csv", b"k,v\nc,3\n");
    put("b/e/1.csv", b"k,v\na,1\n");
    put("b/e/2.csv", b"k,v\nb,1\na,2\n");
    for scheme in ["s3", "gs"] {
        let values = [&BY_KEY[..], &["year"]].concat();
        let folder = fixture.build(&[&format!("{scheme}://b/d/")], &values, &format!("folder-{scheme}"));
        assert!(folder.contains("2 values of v, year"), "{folder}");
        let pattern =
            fixture.build(&[&format!("{scheme}://b/d*/*.csv")], &BY_KEY, &format!("pattern-{scheme}"));
        assert!(pattern.contains("1 values of v"), "{pattern}");
    }
    let fixture = Fixture { folder: TempDir::new().unwrap(), ..fixture };
    let refused = |input: &str| fixture.refused(input, &[]);
    assert!(
        refused("s3://b/e/")
            .contains("s3://b/e/: duplicate keys: \"a\" in s3://b/e/1.csv:2, s3://b/e/2.csv:3")
    );
    assert!(refused("s3://b/f/").contains("s3://b/f/: there is no object below this prefix"));
    assert!(refused("s3://b/*.jsonl").contains("no object matches this pattern"));
    assert!(refused(&fixture.web("b/")).contains("a web server lists no folders"));
    assert!(refused("ftp://b/a.csv").contains("addresses begin with s3://, gs:// or https://"));
    assert!(
        refused("http://example.com/a.csv?signature=my-signature")
            .contains("http://example.com/a.csv: anybody on the way")
    );
    assert!(
        refused("https://me:top-secret@localhost/a.csv").contains("https://localhost/a.csv: it has a user")
    );
}

#[test]
fn faults_are_tried_again_and_changes_are_refused() {
    let fixture = Fixture::new();
    let put = |path, habit| fixture.objects.put(path, large(), habit);
    put("b/fails.csv", Habit::Fails(2));
    put("b/cut.csv", Habit::CutsOff(2));
    put("b/whole.csv", Habit::GivesNoRanges);
    for (input, out) in
        [("s3://b/fails.csv", "fails"), ("s3://b/cut.csv", "cut"), (&fixture.web("b/whole.csv"), "whole")]
    {
        assert!(fixture.build(&[input], &BY_KEY, out).contains("11 values of v"), "{input}");
    }
    let fixture = Fixture { folder: TempDir::new().unwrap(), ..fixture };
    for (path, habit) in [("b/changes.csv", Habit::Changes), ("b/silently.csv", Habit::ChangesSilently)] {
        for input in [format!("s3://{path}"), fixture.web(path)] {
            fixture.objects.put(path, large(), habit);
            let error = fixture.refused(&input, &[]);
            assert!(
                error.contains(&format!("{input}: cannot read: it changed while it was read")),
                "{error}"
            );
        }
    }
    fixture.objects.put("b/refuses.csv", "", Habit::Refuses);
    for input in ["s3://b/refuses.csv", &fixture.web("b/refuses.csv?signature=my-signature")] {
        let error = fixture.refused(input, &[]);
        let name = input.split('?').next().unwrap();
        assert!(
            error.contains(&format!(
                "{name}: cannot open: 127.0.0.1 answers with status 403; check the credentials"
            )),
            "{error}"
        );
    }
    let error = fixture.refused("s3://b/none.csv", &[]);
    assert!(
        error.contains("s3://b/none.csv: cannot open: 127.0.0.1 answers with status 404; check the address"),
        "{error}"
    );
    let error = fixture.refused("s3://b/none.csv", &[("AWS_ALLOW_HTTP", "false")]);
    assert!(
        error.contains("127.0.0.1 is asked over http://") && error.contains("AWS_ALLOW_HTTP=true"),
        "{error}"
    );
}

/// Copies the files of some of a repository's folders to the bucket.
fn upload(repository: &Path, parts: &[&str], objects: &Objects) {
    for part in parts {
        let mut folders = vec![repository.join(part)];
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let key = path.strip_prefix(repository).unwrap().to_str().unwrap();
                objects.put(&format!("b/tables/t/{key}"), std::fs::read(&path).unwrap(), Habit::Answers);
            }
        }
    }
}

/// Looks a key up until its value is `expected`.
fn await_value(folder: &Path, server: &Server, key: &str, expected: &str) {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let found = text(&expect(folder, 0, &["get", &server.url, "t", key, "--wait", "120"]).stdout);
        if found == format!("{expected}\n") {
            return;
        }
        assert!(Instant::now() < deadline, "{found}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_server_follows_a_repository_in_a_bucket() {
    let fixture = Fixture::new();
    let folder = fixture.path();
    std::fs::write(folder.join("t.csv"), "k,v\na,1\nb,2\n").unwrap();
    std::fs::write(folder.join("1.jsonl"), "{\"key\": \"b\", \"value\": \"3\"}\n").unwrap();
    std::fs::write(folder.join("2.jsonl"), "{\"key\": \"a\", \"value\": \"4\"}\n").unwrap();
    expect(folder, 0, &["build", "--input", "t.csv", "--key", "k", "--value", "v", "--out", "t"]);
    let publish = |what: &[&str]| expect(folder, 0, &[&["publish", "--repository", "r"], what].concat());
    publish(&["--base", "t"]);
    publish(&["--changes", "1.jsonl"]);
    let (repository, snapshots) = (folder.join("r"), ["bases", "deltas"]);
    upload(&repository, &snapshots, &fixture.objects);
    upload(&repository, &["versions"], &fixture.objects);

    std::fs::create_dir_all(folder.join("copy/t")).unwrap();
    std::fs::write(
        folder.join("follow.toml"),
        "databases = [{ path = \"copy/t\" }]\n[follow]\nurl = \"s3://b/tables\"\ninterval = \"50ms\"\n",
    )
    .unwrap();
    let variables = fixture.variables();
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
    let server = Server::with_environment(folder, &["--config", "follow.toml"], &variables);
    await_value(folder, &server, "a", "1");
    await_value(folder, &server, "b", "3");

    // A snapshot that does not match its version is refused, and the former snapshot still answers.
    publish(&["--changes", "2.jsonl"]);
    let deltas = repository.join("deltas").read_dir().unwrap().map(|entry| entry.unwrap().path());
    let newest = deltas.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).unwrap();
    let matrix = newest.join("matrix.bin");
    let key = format!("b/tables/t/{}", matrix.strip_prefix(&repository).unwrap().to_str().unwrap());
    let whole = std::fs::read(&matrix).unwrap();
    let mut damaged = whole.clone();
    damaged[100] ^= 1;
    upload(&repository, &snapshots, &fixture.objects);
    fixture.objects.put(&key, &damaged, Habit::Answers);
    upload(&repository, &["versions"], &fixture.objects);
    let log = || std::fs::read_to_string(folder.join("server.log")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while !log().contains("following failed") {
        assert!(Instant::now() < deadline, "{}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
    await_value(folder, &server, "a", "1");
    fixture.objects.put(&key, &whole, Habit::Answers);
    await_value(folder, &server, "a", "4");
    let log = log();
    assert!(!SECRETS.iter().any(|secret| log.contains(secret)), "{log}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_bucket_is_followed_without_a_token_and_certificates() {
    let folder = TempDir::new().unwrap();
    std::fs::create_dir(folder.path().join("t")).unwrap();
    std::fs::write(folder.path().join("token"), "spirea_x\n").unwrap();
    let follow = ["serve", "t", "--check-config", "--follow"];
    let refused = |more: &[&str]| refusal(folder.path(), &[&follow, more].concat());
    let token = refused(&["s3://b/tables", "--token-file", "token"]);
    assert!(token.contains("--token-file") && token.contains("credentials in the environment"), "{token}");
    assert!(refused(&["s3://"]).contains("it names no bucket"), "{}", refused(&["s3://"]));
    assert!(refused(&["ftp://b/t"]).contains("http:// or https://"));
}
