//! Interrupted look-ups of lists: the printed results, and the requests that servers see.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use spirea_specimens::proxy::{self, Fate};
use tempfile::TempDir;

use crate::command::{SPIREA, Server, expect, folder_with, refusal, text};

const KEYS: usize = 600;

/// Longer than any test should take.
const LONG: Duration = Duration::from_secs(120);

/// Makes a folder with a table and the list `keys.txt` of its keys, and starts its server.
fn served() -> (TempDir, Server) {
    let (mut table, mut keys) = (String::from("k,v\n"), String::new());
    for i in 0..KEYS {
        // The values together exceed the capacity of a pipe.
        writeln!(table, "key{i},{i:0>400}").unwrap();
        writeln!(keys, "key{i}").unwrap();
    }
    let folder = folder_with(&[("t.csv", &table), ("keys.txt", &keys)]);
    let build = ["build", "--input", "t.csv", "--key", "k", "--value", "v", "--out", "t"];
    expect(folder.path(), 0, &build);
    let server = Server::ready(folder.path(), &["t"]);
    (folder, server)
}

/// Starts a proxy that forwards requests unless `fate` decides otherwise. The receiver gets a
/// message for each request for answers.
fn passing(
    server: &Server,
    fate: impl Fn(usize, &str) -> Option<Fate> + Send + Sync + 'static,
) -> (String, Receiver<usize>) {
    let (address, (told, seen)) = (server.address().to_owned(), channel());
    let url = proxy::start(move |part, before| {
        let decided = (part == "query").then(|| {
            let _ = told.send(before);
            fate(before, &address)
        });
        decided.flatten().unwrap_or_else(|| Fate::Pass(address.clone()))
    });
    (url, seen)
}

/// Waits until the server has received this number of requests.
fn await_requests(seen: &Receiver<usize>, requests: usize) {
    for _ in 0..requests {
        seen.recv_timeout(LONG).expect("a request is made");
    }
}

/// Returns the number of complete look-ups in the file of `--resume`.
fn recorded(folder: &Path) -> u64 {
    let record = std::fs::read_to_string(folder.join("progress")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    record["complete"].as_u64().unwrap()
}

fn get<'a>(url: &'a str, further: &[&'a str]) -> Vec<&'a str> {
    [&["get", url, "t", "--keys-from", "keys.txt"], further].concat()
}

/// Returns the results of the whole list, and the number of requests for them.
fn whole(folder: &Path, server: &Server) -> (String, usize) {
    let (url, seen) = passing(server, |_, _| None);
    let all = text(&expect(folder, 0, &get(&url, &[])).stdout);
    assert_eq!(all.lines().count(), KEYS);
    let requests = seen.try_iter().count();
    assert!(requests >= 4, "{requests} requests leave nothing to interrupt");
    (all, requests)
}

#[test]
fn a_list_whose_server_dies_prints_what_was_answered_and_is_resumed_behind_it() {
    let (folder, server) = served();
    let folder = folder.path();
    let (all, requests) = whole(folder, &server);

    let is_dead = Arc::new(AtomicBool::new(true));
    let dead = Arc::clone(&is_dead);
    let (url, seen) = passing(&server, move |before, _| {
        (before >= 2 && dead.load(Ordering::Relaxed)).then_some(Fate::Hang)
    });
    let resume = ["--resume", "progress", "--timeout", "1"];
    let interrupted = expect(folder, 2, &get(&url, &resume));
    let (printed, said) = (text(&interrupted.stdout), text(&interrupted.stderr));
    let complete = printed.lines().count();
    assert!(all.starts_with(&printed) && 0 < complete && complete < KEYS, "{complete} lines");
    assert!(said.contains(&format!("{complete} of {KEYS} look-ups are complete and printed: ")), "{said}");
    assert_eq!(recorded(folder), complete as u64);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = folder.join("progress").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert!(!folder.join("progress.new").exists());

    // The file is refused for another list, then for another server.
    std::fs::write(folder.join("others.txt"), "key1\n").unwrap();
    let other = ["get", &url, "t", "--keys-from", "others.txt", "--resume", "progress"];
    for refused in [refusal(folder, &other), refusal(folder, &get(&server.url, &resume))] {
        assert!(
            refused.contains("of another list of keys, another database or other addresses"),
            "{refused}"
        );
    }
    let refused = refusal(folder, &get(&url, &["--resume", "keys.txt"]));
    assert!(refused.contains("no file of --resume"), "{refused}");

    is_dead.store(false, Ordering::Relaxed);
    let _ = seen.try_iter().count();
    let rest = text(&expect(folder, 0, &get(&url, &resume)).stdout);
    assert_eq!(printed + &rest, all);
    assert_eq!(seen.try_iter().count(), requests - 2);
    let done = expect(folder, 0, &get(&url, &resume));
    assert!(done.stdout.is_empty() && text(&done.stderr).contains("are complete"));
    assert_eq!(seen.try_iter().count(), 0);
}

#[test]
fn a_refused_answer_changes_no_request_and_resumes_nothing() {
    let (folder, server) = served();
    let folder = folder.path();
    let (all, requests) = whole(folder, &server);
    let (url, seen) =
        passing(&server, |before, address| (before == 1).then(|| Fate::Garble(address.to_owned())));
    let refused = expect(folder, 2, &get(&url, &["--resume", "progress"]));
    let (printed, said) = (text(&refused.stdout), text(&refused.stderr));
    assert!(said.contains("were withheld; ask for the whole list again"), "{said}");
    assert_eq!(seen.try_iter().count(), requests);
    // Requests of this protocol share no secret, so the results of the other requests are printed.
    let printed: Vec<_> = printed.lines().collect();
    assert!(printed.iter().all(|line| all.contains(line)) && (KEYS / 2..KEYS).contains(&printed.len()));
    assert_eq!(recorded(folder), 0);
}

fn spawn(folder: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(SPIREA);
    command.args(arguments).current_dir(folder).env("XDG_CACHE_HOME", folder.join("cache"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn requests_wait_for_no_reader() {
    let (folder, server) = served();
    let folder = folder.path();
    let (all, requests) = whole(folder, &server);

    // The reader takes nothing until the last request has been made.
    let (url, seen) = passing(&server, |_, _| None);
    let mut slow = spawn(folder, &get(&url, &[]));
    await_requests(&seen, requests);
    let mut read = String::new();
    slow.stdout.take().unwrap().read_to_string(&mut read).unwrap();
    assert_eq!((slow.wait().unwrap().code(), read), (Some(0), all));

    // The reader closes the pipe at once.
    let (url, seen) = passing(&server, |_, _| None);
    let mut gone = spawn(folder, &get(&url, &["--resume", "progress"]));
    drop(gone.stdout.take());
    await_requests(&seen, requests);
    assert_eq!(gone.wait().unwrap().code(), Some(0));
    assert_eq!(recorded(folder), 0);
}

#[cfg(unix)]
#[test]
fn an_interruption_leaves_what_was_answered() {
    let (folder, server) = served();
    let folder = folder.path();
    let (all, _) = whole(folder, &server);
    let (url, seen) = passing(&server, |before, _| (before == 2).then_some(Fate::Stall));
    let mut get = spawn(folder, &get(&url, &["--resume", "progress"]));
    await_requests(&seen, 3);
    let sent = Command::new("kill").args(["-INT", &get.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let mut printed = String::new();
    get.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(get.wait().unwrap().code(), Some(130));
    assert!(all.starts_with(&printed) && !printed.is_empty());
    assert_eq!(recorded(folder), printed.lines().count() as u64);
}
