//! The command as a person uses it: real processes, real files, loopback HTTP.

// No test file uses all of this module.
#![allow(dead_code)]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use spirea_specimens::program;
pub use spirea_specimens::program::{folder_with, text};

pub const SPIREA: &str = env!("CARGO_BIN_EXE_spirea");

/// Rates for `plan`, so that it measures nothing.
pub const RATES: [&str; 2] = ["--rates", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rates.json")];

pub fn spirea(folder: &Path, arguments: &[&str]) -> Output {
    program::run(SPIREA, folder, arguments)
}

/// Runs the command and returns its output. Fails the test if the status differs from `status`.
pub fn expect(folder: &Path, status: i32, arguments: &[&str]) -> Output {
    program::expect(SPIREA, folder, status, arguments)
}

/// Runs the command, expects failure, and returns its standard error.
pub fn refusal(folder: &Path, arguments: &[&str]) -> String {
    text(&expect(folder, 2, arguments).stderr)
}

/// A running server, which is stopped when dropped.
pub struct Server {
    process: Child,
    pub url: String,
    /// Address of the administration port, if there is one.
    pub admin: Option<String>,
}

impl Server {
    pub fn start(folder: &Path, snapshots: &[&str]) -> Self {
        Self::printing(folder, snapshots, &[], &["listening on "])
    }

    /// Starts a server with these variables in its environment.
    pub fn with_environment(folder: &Path, snapshots: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::printing(folder, snapshots, variables, &["listening on "])
    }

    /// Starts a server that has an administration port too.
    pub fn with_administration(folder: &Path, snapshots: &[&str]) -> Self {
        let arguments = [snapshots, &["--admin-listen", "127.0.0.1:0"]].concat();
        Self::printing(folder, &arguments, &[], &["listening on ", "administration on "])
    }

    /// Starts a server that prints its addresses in lines with these beginnings.
    fn printing(folder: &Path, arguments: &[&str], variables: &[(&str, &str)], lines: &[&str]) -> Self {
        let mut process = Command::new(SPIREA)
            .arg("serve")
            .args(arguments)
            .args(["--listen", "127.0.0.1:0", "--threads", "1"])
            .current_dir(folder)
            .envs(variables.iter().copied())
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

    /// Sends a plain GET, and returns the whole response.
    pub fn get(&self, path: &str) -> String {
        program::get(self.address(), path)
    }

    /// Starts a server, and waits until its databases answer.
    pub fn ready(folder: &Path, snapshots: &[&str]) -> Self {
        let server = Self::start(folder, snapshots);
        let deadline = Instant::now() + Duration::from_secs(120);
        while !server.get("/readyz").starts_with("HTTP/1.1 200") {
            assert!(Instant::now() < deadline, "the databases are not ready: {}", server.get("/readyz"));
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Asks the server to stop, and waits.
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
