//! Builds that are killed, and disks that are full.

// What was skipped and measured is worth reading in a log.
#![allow(clippy::print_stdout)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use spirea_math::random::SecretRng;
use spirea_specimens::LookUps;
use spirea_specimens::snapshots::{options, try_build, write_file};
use spirea_store::{Overwrite, Silent, Snapshot, StoreError};

const CHILD_INPUT: &str = "SPIREA_TEST_CHILD_INPUT";

/// Not a test: a build in a process of its own, run by the tests below.
#[test]
fn child() {
    let Some(input) = std::env::var_os(CHILD_INPUT) else { return };
    let mut options = options(Path::new(&input), Some("key"), &["value"]);
    options.overwrite = Overwrite::Replace;
    options.seed = None;
    try_build(&options).unwrap();
}

fn spawn_build(input: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::child", "--quiet"])
        .env(CHILD_INPUT, input)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn input(folder: &Path, rows: usize) -> PathBuf {
    let mut csv = b"key,value\n".to_vec();
    for i in 0..rows {
        writeln!(csv, "key {i},{}", "v".repeat(i % 200)).unwrap();
    }
    write_file(folder, "data.csv", csv)
}

fn partials(folder: &Path) -> usize {
    let names = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).count()
}

#[test]
fn a_killed_build_leaves_a_complete_snapshot_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let input = input(folder.path(), 20_000);
    let started = Instant::now();
    assert!(spawn_build(&input).wait().unwrap().success());
    let whole = started.elapsed();
    let out = folder.path().join("table");
    let mut rng = SecretRng::deterministic_for_tests(8);
    let (mut killed, mut replaced) = (0, 0);
    for round in 0..30 {
        // The first half without a snapshot in place, the second half over one.
        if round < 15 {
            let _ = std::fs::remove_dir_all(&out);
        }
        let before = Snapshot::open(&out).ok().map(|snapshot| snapshot.version());
        let mut child = spawn_build(&input);
        // Past the end now and then, and often near it, where files are published.
        let share = rng.next_u64() % 1000;
        let share = if round % 2 == 0 { 800 + share * 3 / 10 } else { share };
        std::thread::sleep(whole.mul_f64(share as f64 / 1000.0));
        child.kill().unwrap();
        killed += usize::from(!child.wait().unwrap().success());
        match Snapshot::open(&out) {
            Ok(snapshot) => {
                snapshot.verify(&Silent).unwrap();
                replaced += usize::from(before != Some(snapshot.version()));
                let found = LookUps::new(&snapshot).key(b"key 19999").unwrap();
                assert_eq!(found, Some(vec![b'v'; 199]));
            }
            Err(error) => assert!(before.is_none(), "a snapshot was lost: {error}"),
        }
    }
    println!("{killed} of 30 builds killed, {replaced} published");
    assert!(killed > 0);
    assert!(spawn_build(&input).wait().unwrap().success());
    assert_eq!(partials(folder.path()), 0, "stale folders remain");
}

#[test]
fn a_running_build_s_folder_is_not_taken_for_stale() {
    let folder = tempfile::tempdir().unwrap();
    let input = input(folder.path(), 40_000);
    let mut child = spawn_build(&input);
    let deadline = Instant::now() + Duration::from_secs(20);
    while partials(folder.path()) == 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    // A build of the same target meanwhile, and both are complete.
    let mut options = options(&input, Some("key"), &["value"]);
    options.overwrite = Overwrite::Replace;
    try_build(&options).unwrap();
    assert!(child.wait().unwrap().success());
    Snapshot::open(&options.out).unwrap().verify(&Silent).unwrap();
    assert_eq!(partials(folder.path()), 0);
}

/// A tmpfs of its own, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(folder.path())
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let input = input(folder.path(), 20_000);
    let mut options = options(&input, Some("key"), &["value"]);
    let snapshot = try_build(&options).unwrap();
    let needed = snapshot.manifest().matrix.bytes + snapshot.manifest().hint.bytes;
    // From room for nothing to nearly enough: the disk fills up in every phase.
    for share in [1, 10, 30, 45, 60, 75, 90, 99] {
        let Some(disk) = SmallDisk::mount(needed * share / 100) else {
            println!("skipped: mounting a tmpfs needs root");
            return;
        };
        options.out = disk.0.path().join("table");
        match try_build(&options).unwrap_err() {
            error @ StoreError::Io { .. } => {
                let message = error.to_string();
                assert!(message.contains(".table.partial-") && message.contains("free space"), "{message}");
                println!("{share} %: {message}");
            }
            other => panic!("{other}"),
        }
        assert_eq!(disk.0.path().read_dir().unwrap().count(), 0, "{share} %");
    }
    let disk = SmallDisk::mount(needed * 3).unwrap();
    options.out = disk.0.path().join("table");
    try_build(&options).unwrap().verify(&Silent).unwrap();
}
