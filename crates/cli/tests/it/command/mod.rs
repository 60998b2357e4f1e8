//! The command as a person uses it: real processes, real files, loopback HTTP.

// No test file needs all of it.
#![allow(dead_code)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub const SPIREA: &str = env!("CARGO_BIN_EXE_spirea");

/// Rates for `plan`, so that it measures nothing.
pub const RATES: [&str; 2] = ["--rates", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rates.json")];

pub fn spirea(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(SPIREA)
        .args(arguments)
        .current_dir(folder)
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .output()
        .expect("the command runs")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs it and gives its output; fails the test if the status is another.
pub fn expect(folder: &Path, status: i32, arguments: &[&str]) -> Output {
    let output = spirea(folder, arguments);
    assert_eq!(
        output.status.code(),
        Some(status),
        "spirea {arguments:?}\n{}\n{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

/// Runs it, expects failure, and gives what it said.
pub fn refusal(folder: &Path, arguments: &[&str]) -> String {
    text(&expect(folder, 2, arguments).stderr)
}

pub fn folder_with(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

/// A running server; stopped when dropped.
pub struct Server {
    process: Child,
    pub url: String,
    /// Address of its port for administration, if it has one.
    pub admin: Option<String>,
}

impl Server {
    pub fn start(folder: &Path, snapshots: &[&str]) -> Self {
        Self::printing(folder, snapshots, &["listening on "])
    }

    /// The same, with a port for administration.
    pub fn with_administration(folder: &Path, snapshots: &[&str]) -> Self {
        let arguments = [snapshots, &["--admin-listen", "127.0.0.1:0"]].concat();
        Self::printing(folder, &arguments, &["listening on ", "administration on "])
    }

    /// Starts one that prints its addresses in lines that begin so.
    fn printing(folder: &Path, arguments: &[&str], lines: &[&str]) -> Self {
        let mut process = Command::new(SPIREA)
            .arg("serve")
            .args(arguments)
            .args(["--listen", "127.0.0.1:0", "--threads", "1"])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.join("server.log")).unwrap())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut addresses = lines.iter().map(|prefix| {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            line.trim().strip_prefix(prefix).expect("the server says where it listens").to_owned()
        });
        let (url, admin) = (addresses.next().unwrap(), addresses.next());
        drop(addresses);
        Self { process, url, admin }
    }

    pub fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    /// A plain GET; the status line and the rest.
    pub fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        text(&answer)
    }

    /// The same once its databases answer.
    pub fn ready(folder: &Path, snapshots: &[&str]) -> Self {
        let server = Self::start(folder, snapshots);
        let deadline = Instant::now() + Duration::from_secs(120);
        while !server.get("/readyz").starts_with("HTTP/1.1 200") {
            assert!(Instant::now() < deadline, "the databases are not ready: {}", server.get("/readyz"));
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Asks it to stop and waits.
    pub fn stop(mut self) -> i32 {
        let killed = Command::new("kill").args(["-TERM", &self.process.id().to_string()]).status().unwrap();
        assert!(killed.success());
        self.process.wait().unwrap().code().expect("the server stops by itself")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
