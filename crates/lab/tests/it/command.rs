//! The command as a person uses it, and servers in the process of the tests.

use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spirea_cpu::CpuBackend;
use spirea_server::{Background, Readiness};
use spirea_specimens::program;
use spirea_store::Silent;

pub const LAB: &str = env!("CARGO_BIN_EXE_spirea-lab");

/// Runs the command and returns its output. Fails the test if the status differs from `status`.
pub fn expect(folder: &Path, status: i32, arguments: &[&str]) -> Output {
    program::expect(LAB, folder, status, arguments)
}

/// Runs the command, expects failure, and returns its standard error.
pub fn refusal(folder: &Path, arguments: &[&str]) -> String {
    program::text(&expect(folder, 2, arguments).stderr)
}

/// Builds the snapshot `out` of the file `input`, both in the folder, with options of `spirea
/// build`.
pub fn build(folder: &Path, input: &str, out: &str, options: &[&str]) {
    let place = |option: &str, name: &str| format!("--{option}={}", folder.join(name).display());
    let mut arguments = vec![place("input", input), place("out", out)];
    arguments.extend(options.iter().map(ToString::to_string));
    let (options, threads) = spirea_cli::build_options(&arguments, None).unwrap();
    let backend = Arc::new(CpuBackend::new(threads.count()).unwrap());
    spirea_store::build(&options, &backend, &Silent).unwrap();
}

/// A running server of this process, which is stopped when dropped.
pub struct Server {
    _running: Background,
    pub url: String,
}

impl Server {
    /// Starts a server of snapshots in a folder, and waits until they answer.
    pub fn ready(folder: &Path, snapshots: &[&str]) -> Self {
        Self::with(folder, snapshots, &[])
    }

    /// Starts a server like [`Server::ready`], with further options of `spirea serve`.
    pub fn with(folder: &Path, snapshots: &[&str], options: &[&str]) -> Self {
        let mut arguments: Vec<String> =
            snapshots.iter().map(|name| folder.join(name).display().to_string()).collect();
        let common = ["--listen=127.0.0.1:0", "--threads=1"];
        arguments.extend(common.iter().chain(options).map(ToString::to_string));
        let running = Background::start(spirea_cli::server_config(&arguments).unwrap()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(120);
        while running.readiness() != Readiness::Ready {
            assert!(running.readiness() == Readiness::Loading && Instant::now() < deadline, "no database");
            std::thread::sleep(Duration::from_millis(5));
        }
        let url = format!("http://{}", running.addresses().data);
        Self { _running: running, url }
    }

    pub fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    /// Sends a plain GET, and returns the whole response.
    pub fn get(&self, path: &str) -> String {
        program::get(self.address(), path)
    }
}
