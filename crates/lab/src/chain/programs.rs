//! The `spirea` program: builds, servers and streams in processes of their own.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use spirea_client::agent;
use ureq::Agent;

/// Longest time until a server is ready, or has ended.
const PATIENCE: Duration = Duration::from_secs(1800);
/// Pause between two checks of a server that is not ready.
const PAUSE: Duration = Duration::from_millis(50);

/// The program, and the folder where its processes run and log.
pub struct Programs {
    program: PathBuf,
    folder: PathBuf,
}

impl Programs {
    /// Uses `program` in `folder`.
    pub fn new(program: PathBuf, folder: &Path) -> Self {
        Self { program, folder: folder.into() }
    }

    /// Folder of the processes.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn command(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    /// Runs the program to its end; an error unless it succeeds.
    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let output = self.command(arguments).output().with_context(|| self.program.display().to_string())?;
        ensure!(
            output.status.success(),
            "spirea {}: {}: {}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// Starts a server with a port for clients and one for administration, and with these variables
    /// in its environment. Its log is the file `NAME.log`.
    pub fn serve(
        &self,
        name: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> anyhow::Result<Server> {
        const PORTS: [&str; 4] = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
        let log = self.folder.join(format!("{name}.log"));
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        let mut process = self
            .command(["serve"].iter().chain(arguments).chain(&PORTS))
            .stdout(Stdio::piped())
            .stderr(file)
            .envs(variables.iter().copied())
            .spawn()?;
        let mut lines =
            process.stdout.take().map(|output| BufReader::new(output).lines()).into_iter().flatten();
        let mut address = |announced: &str| {
            let line = lines.next().and_then(Result::ok);
            line.and_then(|line| line.strip_prefix(announced).map(str::to_owned))
        };
        let (url, admin) = (address("listening on "), address("administration on "));
        let name = name.to_owned();
        let (Some(url), Some(admin)) = (url, admin) else {
            // The server has ended, or ends now.
            let _ = process.kill();
            let _ = process.wait();
            bail!("the server {name} did not start: {}", std::fs::read_to_string(&log).unwrap_or_default());
        };
        Ok(Server { process, name, url, admin, log })
    }

    /// Starts `spirea publish --stream` to a server, with a group for each `changes` changes.
    pub fn stream(&self, admin: &str, database: &str, changes: usize) -> anyhow::Result<Stream> {
        let changes = changes.to_string();
        // With these bounds a group ends with its block, no matter how long the block takes to
        // arrive.
        let groups = ["--every-changes", &changes, "--every-seconds", "3600"];
        let target = ["publish", "--stream", "--server", admin, "--database", database];
        let log = self.folder.join(format!("{database}-stream.log"));
        let mut command = self.command(target.iter().chain(&groups));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&log)?);
        let mut process = command.spawn()?;
        let input = process.stdin.take().context("the stream has no input")?;
        let output = process.stdout.take().context("the stream has no output")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let Ok(line) = serde_json::from_str(&line) else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Stream { process, input: Some(input), lines: Some(lines), log })
    }
}

/// A running server. It is killed when dropped.
pub struct Server {
    process: Child,
    name: String,
    /// Address for clients.
    pub url: String,
    /// Address for administration.
    pub admin: String,
    log: PathBuf,
}

impl Server {
    /// Name of the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until the databases answer.
    pub fn wait_ready(&mut self) -> anyhow::Result<()> {
        let (http, began, url) = (requests(), Instant::now(), format!("{}/readyz", self.url));
        while !http.get(&url).call().is_ok_and(|response| response.status() == 200) {
            if self.process.try_wait()?.is_some() || began.elapsed() > PATIENCE {
                bail!("the server {} is not ready: {}", self.name, self.log());
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Resident memory, in bytes; `None` where the system has no `/proc`.
    pub fn memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
    }

    /// Checks that the server still runs.
    pub fn check(&mut self) -> anyhow::Result<()> {
        ensure!(self.process.try_wait()?.is_none(), "the server {} has ended: {}", self.name, self.log());
        Ok(())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A running stream of changes. It is killed when dropped.
pub struct Stream {
    process: Child,
    input: Option<ChildStdin>,
    lines: Option<Receiver<Value>>,
    log: PathBuf,
}

impl Stream {
    /// Takes the lines of output.
    pub fn take_lines(&mut self) -> Receiver<Value> {
        self.lines.take().unwrap_or_else(|| channel().1)
    }

    /// Sends lines. Blocks while the stream accepts none.
    pub fn send(&mut self, lines: &[u8]) -> anyhow::Result<()> {
        let sent = self.input.as_mut().map_or(Ok(()), |input| input.write_all(lines));
        sent.with_context(|| self.said())
    }

    /// Ends the input, and waits until all of it is published.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        drop(self.input.take());
        let status = self.process.wait()?;
        ensure!(status.success(), "{}", self.said());
        Ok(())
    }

    fn said(&self) -> String {
        format!("spirea publish --stream: {}", std::fs::read_to_string(&self.log).unwrap_or_default())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns an agent for requests to servers of this machine.
pub fn requests() -> Agent {
    let config = Agent::config_builder().http_status_as_error(false).proxy(None);
    agent(config.timeout_global(Some(Duration::from_secs(10))).build())
}
