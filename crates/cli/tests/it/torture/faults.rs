//! Servers with unreadable files and clock jumps, by a library between the server and the system.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Length of the buffer for a part of a path, including the terminating zero. It equals the length
/// in `struct faults` of faults.c.
const PART: usize = 240;
const SECONDS_AT: u64 = 0;
const FAILED_AT: u64 = 8;
const UNREADABLE_AT: u64 = 16;

/// Faults of a server.
pub struct Faults {
    preloaded: PathBuf,
    path: PathBuf,
    file: File,
}

impl Faults {
    /// Creates a set without faults, with its files in `folder`.
    pub fn new(folder: &Path) -> Self {
        let (preloaded, path) = (folder.join("libfaults.so"), folder.join("faults"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/torture/faults.c");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let compiled = Command::new(compiler)
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .args([&preloaded, &source])
            .arg("-ldl")
            .status()
            .expect("there is a C compiler, as there is one for the emulation");
        assert!(compiled.success());
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(UNREADABLE_AT + PART as u64).unwrap();
        Self { preloaded, path, file }
    }

    /// Runs the command with these faults.
    pub fn within(&self, mut command: Command) -> Command {
        command.env("LD_PRELOAD", &self.preloaded).env("SPIREA_FAULTS", &self.path);
        command
    }

    /// Makes all files unreadable whose paths contain `part`; none if `part` is empty.
    pub fn unreadable(&self, part: &str) {
        let mut bytes = [0; PART];
        bytes[..part.len()].copy_from_slice(part.as_bytes());
        assert!(part.len() < PART);
        self.file.write_all_at(&bytes, UNREADABLE_AT).unwrap();
    }

    /// Sets the clock to `seconds` after the right time.
    pub fn clock(&self, seconds: i64) {
        self.file.write_all_at(&seconds.to_ne_bytes(), SECONDS_AT).unwrap();
    }

    /// Number of reads that have failed.
    pub fn failed(&self) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, FAILED_AT).unwrap();
        u64::from_ne_bytes(bytes)
    }
}
