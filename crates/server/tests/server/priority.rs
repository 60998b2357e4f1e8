//! Priority of publications on Linux.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use tempfile::tempdir;

use crate::fixture::{eventually, once_published};
use crate::follow::{following, served};
use crate::publish::{publish, published, repository, serve, serve_with, snapshot, whole};
use crate::reload::{edition, reload, reloaded};

/// The priorities of this process's threads of low priority, as nice values.
fn low_priorities() -> Vec<i32> {
    let threads = fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
    // A thread that has ended has no files.
    let files = threads.filter_map(|thread| fs::read_to_string(thread.join("stat")).ok());
    let low = files.filter(|stat| stat.contains("(spirea-low-"));
    // The name may contain spaces; the nice value is the 17th field behind it (proc_pid_stat(5)).
    low.map(|stat| stat.rsplit(')').next().unwrap().split_whitespace().nth(16).unwrap().parse().unwrap())
        .collect()
}

#[test]
fn what_is_published_is_computed_at_low_priority() {
    let folder = tempdir().unwrap();
    // A delta of this protocol has loops.
    let server = serve(&repository(folder.path(), &snapshot(folder.path(), "exppack-simple", true, 0)));
    published(&publish(&server, "changes", br#"{"key": "key-1", "value": "changed"}"#));
    // Threads of another test may be about to lower their priority.
    eventually("threads of low priority", || {
        let low = low_priorities();
        !low.is_empty() && low.iter().all(|&nice| nice >= 10)
    });
}

#[test]
fn loops_of_publications_run_at_low_priority() {
    let test = format!("{}::alone", module_path!().split_once("::").unwrap().1);
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", &test, "--ignored", "--nocapture"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// The threads on which rayon runs loops that are started outside of a pool. They have normal
/// priority.
struct CommonThreads(Vec<PathBuf>);

impl CommonThreads {
    fn find() -> Self {
        let found = rayon::broadcast(|_| fs::read_link("/proc/thread-self").unwrap());
        Self(found.into_iter().map(|thread| PathBuf::from("/proc").join(thread)).collect())
    }

    /// Number of times that the threads have stopped running. It changes whenever they run.
    fn switches(&self) -> u64 {
        let of_thread = |thread: &PathBuf| -> u64 {
            let status = fs::read_to_string(thread.join("status")).unwrap();
            let switches = status.lines().filter(|line| line.contains("voluntary_ctxt_switches"));
            switches.map(|line| line.split_whitespace().next_back().unwrap().parse::<u64>().unwrap()).sum()
        };
        self.0.iter().map(of_thread).sum()
    }

    /// Runs `work`, which must start no loop on these threads.
    fn rest_during(&self, what: &str, work: impl FnOnce()) {
        // A thread looks for work for a moment before it sleeps.
        let settled = || {
            let before = self.switches();
            thread::sleep(Duration::from_millis(100));
            self.switches() == before
        };
        eventually("idle threads", settled);
        let before = self.switches();
        work();
        assert_eq!(self.switches(), before, "{what}");
    }
}

#[test]
#[ignore = "runs in a process of its own, because other tests use the same threads"]
fn alone() {
    let folder = tempdir().unwrap();
    let path = repository(folder.path(), &snapshot(folder.path(), "exppack-simple", true, 0));
    let other = whole(&snapshot(folder.path(), "exppack-simple", true, 1));
    let publisher = serve(&path);
    let replaced = folder.path().join("replaced");
    edition(&replaced, 1).make();
    let folders = serve(&replaced);
    edition(&replaced, 2).make();
    let threads = CommonThreads::find();
    // The measurement sees loops.
    let before = threads.switches();
    rayon::broadcast(|_| ());
    eventually("a loop", || threads.switches() > before);

    for (what, body) in [
        ("changes", br#"{"key": "key-1", "value": "changed"}"#.as_slice()),
        ("compact", b""),
        ("snapshot", &other),
        ("rollback", b""),
    ] {
        threads.rest_during(what, || drop(published(&publish(&publisher, what, body))));
    }
    threads.rest_during("reload", || assert!(reloaded(&reload(&folders, ""))[0].1));
    let follower = serve_with(following(folder.path(), publisher.admin.unwrap()));
    threads.rest_during("following", || {
        published(&publish(&publisher, "changes", br#"{"key": "key-1", "value": "again"}"#));
        once_published("the follower", || served(&follower) == served(&publisher));
    });
}
