//! Killed builds, and full disks.

// The tests print their measurements for the log.
#![allow(clippy::print_stdout)]

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use spirea_math::random::SecretRng;
use spirea_protocols::Version;
use spirea_specimens::LookUps;
use spirea_specimens::snapshots::{BACKEND, options, try_build, write_file};
use spirea_store::{Overwrite, Phase, Progress, Silent, Snapshot, StoreError, build};

const CHILD_INPUT: &str = "SPIREA_TEST_CHILD_INPUT";
/// Variable with the point at which the child waits for a byte from its parent. Without it, the
/// child does not wait.
const CHILD_WAITS_AT: &str = "SPIREA_TEST_CHILD_WAITS_AT";
/// Line that the child prints before it waits.
const WAITS: &str = "the child waits";

/// A point that every build reaches. The number of reports varies between builds.
#[derive(Clone, Copy, Debug)]
enum Point {
    /// The first report of a phase.
    Begins(Phase),
    /// The last report: all test queries have been answered, and nothing is published yet.
    Tested,
}

impl Point {
    const ALL: [Self; 7] = [
        Self::Begins(Phase::Read),
        Self::Begins(Phase::Plan),
        Self::Begins(Phase::Encode),
        Self::Begins(Phase::Hint),
        Self::Begins(Phase::Verify),
        Self::Begins(Phase::Test),
        Self::Tested,
    ];

    fn name(self) -> String {
        format!("{self:?}")
    }

    fn is_reached_by(self, phase: Phase, done: u64, total: u64) -> bool {
        match self {
            Self::Begins(own) => phase == own,
            Self::Tested => phase == Phase::Test && done == total,
        }
    }
}

/// Returns the arguments with which this program runs one of its ignored tests.
fn alone(test: &str) -> [String; 4] {
    let module = module_path!().split_once("::").map(|(_, module)| format!("{module}::"));
    ["--exact".into(), module.unwrap_or_default() + test, "--ignored".into(), "--nocapture".into()]
}

/// Waits once, at a given point.
struct WaitsAt(Cell<Option<Point>>);

impl Progress for WaitsAt {
    fn update(&self, phase: Phase, done: u64, total: u64) {
        if self.0.get().is_some_and(|point| point.is_reached_by(phase, done, total)) {
            self.0.set(None);
            println!("\n{WAITS}");
            std::io::stdin().read_exact(&mut [0]).unwrap();
        }
    }
}

#[test]
#[ignore = "a build in a process of its own, run by the tests below"]
fn child() {
    let input = std::env::var_os(CHILD_INPUT).unwrap();
    let point = std::env::var(CHILD_WAITS_AT)
        .ok()
        .map(|name| Point::ALL.into_iter().find(|point| point.name() == name).expect("the name of a point"));
    let mut options = options(Path::new(&input), Some("key"), &["value"]);
    options.overwrite = Overwrite::Replace;
    options.seed = None;
    build(&options, &BACKEND, &WaitsAt(Cell::new(point))).unwrap();
}

/// A build in its own process.
struct Building {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Building {
    fn start(input: &Path, waits_at: Option<Point>) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(alone("child"))
            .env(CHILD_INPUT, input)
            .envs(waits_at.map(|point| (CHILD_WAITS_AT, point.name())))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// Starts a build and returns once it waits at `point`.
    fn waiting(input: &Path, point: Point) -> Self {
        let mut building = Self::start(input, Some(point));
        let waits = building.lines.any(|line| line.unwrap() == WAITS);
        assert!(waits, "the build ended before {point:?}");
        building
    }

    fn go_on(&mut self) {
        self.process.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits for the successful end of the build.
    fn finish(mut self) {
        self.lines.for_each(|line| drop(line.unwrap()));
        assert!(self.process.wait().unwrap().success());
    }
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

/// Returns the version of the snapshot in `out`, and checks that the snapshot is complete.
fn whole_version(out: &Path) -> Option<Version> {
    let snapshot = Snapshot::open(out).ok()?;
    snapshot.verify(&Silent).unwrap();
    let found = LookUps::new(&snapshot).key(b"key 19999").unwrap();
    assert_eq!(found, Some(vec![b'v'; 199]));
    Some(snapshot.version())
}

#[test]
fn a_killed_build_leaves_the_snapshot_of_before_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let input = input(folder.path(), 20_000);
    let out = folder.path().join("table");
    Building::start(&input, None).finish();
    for in_place in [false, true] {
        if !in_place {
            std::fs::remove_dir_all(&out).unwrap();
        }
        let before = whole_version(&out);
        assert_eq!(before.is_some(), in_place);
        let mut stale = 0;
        for point in Point::ALL {
            Building::waiting(&input, point).kill();
            assert_eq!(whole_version(&out), before, "killed at {point:?}");
            stale += partials(folder.path());
        }
        assert!(stale > 0, "no killed build has left a folder for the next one to remove");
        Building::start(&input, None).finish();
        assert_ne!(whole_version(&out), before);
        assert_eq!(partials(folder.path()), 0, "stale folders remain");
    }
}

#[test]
fn a_build_that_is_killed_while_it_publishes_leaves_a_whole_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let input = input(folder.path(), 20_000);
    let out = folder.path().join("table");
    Building::start(&input, None).finish();
    let mut rng = SecretRng::deterministic_for_tests(8);
    let mut published = 0;
    for _ in 0..12 {
        let before = whole_version(&out);
        let mut building = Building::waiting(&input, Point::Tested);
        building.go_on();
        // Files are synced and renamed within a few milliseconds of the last report.
        std::thread::sleep(Duration::from_micros(rng.next_u64() % 20_000));
        building.kill();
        let after = whole_version(&out);
        assert!(after.is_some(), "a snapshot was lost");
        published += usize::from(after != before);
    }
    println!("{published} of 12 builds had published before they were killed");
    Building::start(&input, None).finish();
    assert_eq!(partials(folder.path()), 0, "stale folders remain");
}

#[test]
fn a_running_build_s_folder_is_not_taken_for_stale() {
    let folder = tempfile::tempdir().unwrap();
    let input = input(folder.path(), 20_000);
    let mut building = Building::waiting(&input, Point::Tested);
    assert_eq!(partials(folder.path()), 1);
    // Another build of the same target runs meanwhile, and both complete.
    let mut options = options(&input, Some("key"), &["value"]);
    options.overwrite = Overwrite::Replace;
    try_build(&options).unwrap();
    assert_eq!(partials(folder.path()), 1);
    building.go_on();
    building.finish();
    assert!(whole_version(&options.out).is_some());
    assert_eq!(partials(folder.path()), 0);
}

/// A private tmpfs, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(folder.path())
            .status()
            .unwrap();
        assert!(mounted.success());
        Self(folder)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Needs a namespace in which this process may mount, with or without root rights outside of it.
#[test]
fn a_full_disk_is_an_error_that_names_the_file_and_leaves_nothing() {
    let unshare = |program: &Path, arguments: &[String]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount"]).arg(program).args(arguments).output()
    };
    if !unshare(Path::new("true"), &[]).is_ok_and(|output| output.status.success()) {
        let why = "this system gives no namespace to mount a small disk in (unshare --user --mount)";
        assert!(std::env::var_os("CI_FULL").is_none(), "{why}: allow user namespaces, or unset CI_FULL");
        println!("skipped: {why}");
        return;
    }
    let output = unshare(&std::env::current_exe().unwrap(), &alone("full_disks")).unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "runs where it may mount, started by the test above"]
fn full_disks() {
    let folder = tempfile::tempdir().unwrap();
    let input = input(folder.path(), 20_000);
    let mut options = options(&input, Some("key"), &["value"]);
    let snapshot = try_build(&options).unwrap();
    let needed = snapshot.manifest().matrix.bytes + snapshot.manifest().hint.bytes;
    // The disk has from 1% to 99% of the needed space, so that it fills up in every phase.
    for share in [1, 10, 30, 45, 60, 75, 90, 99] {
        let disk = SmallDisk::mount(needed * share / 100);
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
    let disk = SmallDisk::mount(needed * 3);
    options.out = disk.0.path().join("table");
    try_build(&options).unwrap().verify(&Silent).unwrap();
}
