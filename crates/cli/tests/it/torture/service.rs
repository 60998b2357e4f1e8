//! A server in a process of its own, and plain requests to it.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use spirea_wire::Refusal;
use ureq::Agent;
use ureq::http::Response;

use crate::torture::mutate::content_type;

pub const SPIREA: &str = env!("CARGO_BIN_EXE_spirea");
/// Far longer than any operation takes.
const PATIENCE: Duration = Duration::from_secs(120);
const ANY_PORT: &str = "127.0.0.1:0";

/// A running server, which is killed when dropped.
pub struct Service {
    process: Mutex<Child>,
    pub url: String,
    pub admin: String,
}

/// Makes the command that serves folders, with both ports.
pub fn serve(folders: &[&Path], more: &[&str]) -> Command {
    let mut command = Command::new(SPIREA);
    command.arg("serve").args(folders).args(["--listen", ANY_PORT, "--admin-listen", ANY_PORT]);
    command.args(["--threads", "1", "--backend", "cpu"]).args(more);
    command
}

impl Service {
    /// Runs a server that logs into a file.
    ///
    /// # Errors
    /// The server's log, if the server ends instead.
    pub fn start(command: Command, log: &Path) -> Result<Self, String> {
        let log_file = File::create(log).unwrap();
        Self::start_with(command, log_file.into()).ok_or_else(|| std::fs::read_to_string(log).unwrap())
    }

    /// Runs a server with this standard error. Returns `None` if the server ends at once.
    pub fn start_with(mut command: Command, stderr: Stdio) -> Option<Self> {
        let mut process = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut address = |announced: &str| {
            let line = lines.next()?.unwrap();
            Some(line.strip_prefix(announced).expect("the server says where it listens").to_owned())
        };
        match (address("listening on "), address("administration on ")) {
            (Some(url), Some(admin)) => Some(Self { process: Mutex::new(process), url, admin }),
            _ => {
                assert!(!process.wait().unwrap().success());
                None
            }
        }
    }

    /// Waits until the databases answer.
    ///
    /// # Errors
    /// The server's message about a database that will not answer.
    pub fn ready(&self) -> Result<(), String> {
        let (http, deadline) = (Http::new(), Instant::now() + PATIENCE);
        loop {
            let reply = http.get(&format!("{}/readyz", self.url)).unwrap();
            let text = String::from_utf8(reply.body.to_vec()).unwrap();
            match reply.status {
                200 => return Ok(()),
                _ if text.contains("\"failed\"") => return Err(text),
                _ => assert!(Instant::now() < deadline, "the databases are not ready: {text}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts a server, and waits until it is ready.
    pub fn started(command: Command, log: &Path) -> Self {
        let service = Self::start(command, log).unwrap();
        service.ready().unwrap();
        service
    }

    /// Kills the server, no matter what it is doing.
    pub fn kill(&self) {
        let mut process = self.process.lock();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    pub fn id(&self) -> u32 {
        self.process.lock().id()
    }

    /// True while the process runs.
    pub fn runs(&self) -> bool {
        self.process.lock().try_wait().unwrap().is_none()
    }

    /// Exit code, if the process ends by itself within this time.
    pub fn ended(&self, patience: Duration) -> Option<i32> {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(status) = self.process.lock().try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Resident memory of the process, in KiB.
    pub fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// URL of a database's endpoint for clients.
    pub fn data(&self, name: &str, endpoint: &str) -> String {
        format!("{}/v1/databases/{name}/{endpoint}", self.url)
    }

    /// Sends a publication.
    ///
    /// # Errors
    /// No response came.
    pub fn publish(&self, http: &Http, name: &str, what: &str, body: &[u8]) -> Result<Reply, ureq::Error> {
        http.post(&format!("{}/v1/admin/databases/{name}/{what}", self.admin), &[], body)
    }

    /// Sends a publication that must be accepted.
    pub fn published(&self, http: &Http, name: &str, what: &str, body: &[u8]) {
        let reply = self.publish(http, name, what, body).unwrap();
        assert_eq!(reply.status, 200, "{what}: {:?}", reply.refusal());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let process = self.process.get_mut();
        // The process may have been killed already.
        let _ = process.kill();
        let _ = process.wait();
    }
}

/// A response.
pub struct Reply {
    pub status: u16,
    pub body: Bytes,
}

impl Reply {
    /// Returns the refusal: every status of 400 or above has one.
    pub fn refusal(&self) -> Refusal {
        Refusal::decode(self.body.clone())
            .unwrap_or_else(|error| panic!("status {} without a refusal: {error}", self.status))
    }
}

/// A client that sends each request once.
pub struct Http(Agent);

impl Http {
    pub fn new() -> Self {
        let config = Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
        Self(config.build().new_agent())
    }

    /// # Errors
    /// No response came.
    pub fn get(&self, url: &str) -> Result<Reply, ureq::Error> {
        Self::read(self.0.get(url).call()?)
    }

    /// Sends a GET with a token, which must succeed.
    pub fn get_with(&self, url: &str, authorization: &str) -> Reply {
        let reply =
            Self::read(self.0.get(url).header("authorization", authorization).call().unwrap()).unwrap();
        assert_eq!(reply.status, 200, "{:?}", reply.refusal());
        reply
    }

    /// # Errors
    /// No response came.
    pub fn post(&self, url: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Reply, ureq::Error> {
        let request = self.0.post(url).content_type(content_type(url));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        Self::read(request.send(body)?)
    }

    fn read(response: Response<ureq::Body>) -> Result<Reply, ureq::Error> {
        let status = response.status().as_u16();
        let body = response.into_body().into_with_config().limit(1 << 30).read_to_vec()?;
        Ok(Reply { status, body: body.into() })
    }
}
