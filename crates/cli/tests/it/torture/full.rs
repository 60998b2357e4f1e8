//! A disk that is full while a version is published, or copied from another server.

use std::process::Command;
use std::time::{Duration, Instant};

use spirea_wire::Code;
use tempfile::tempdir;

use crate::torture::service::{Http, Service, serve};
use crate::torture::table::{ROWS, archive, changes, editions, repository, snapshot};

const NAME: &str = "table";

/// Limits the size of files that the server may write, or lifts the limit. A write beyond the limit
/// fails like a write to a full disk. This needs no privilege, and there is space again when the
/// limit is lifted.
fn allow(service: &Service, bytes: Option<u64>) {
    let most = bytes.map_or("unlimited".into(), |bytes| bytes.to_string());
    let status = Command::new("prlimit")
        .args(["--pid", &service.id().to_string(), &format!("--fsize={most}:unlimited")])
        .status()
        .expect("prlimit is there (util-linux)");
    assert!(status.success());
}

/// Makes the command of a server whose writes fail beyond a limit ([`allow`]).
fn limited(plain: &Command) -> Command {
    // Ignoring the signal XFSZ lets a write beyond the limit fail with an error.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(plain.get_program()).args(plain.get_args());
    command
}

#[test]
fn a_full_disk_refuses_a_version_and_keeps_the_one_before() {
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let snapshots = [1, 2].map(|edition| snapshot(folder, NAME, "simple", edition));
    let path = repository(folder, &snapshots[0]);
    // The log is discarded, because the limit would affect a log file too.
    let service = Service::started(limited(&serve(&[&path], &[])), "/dev/null".as_ref());
    let http = Http::new();
    let found = || editions(&service.url, NAME, &folder.join("cache")).unwrap();
    let publications = [("snapshot", archive(&snapshots[1])), ("changes", changes([3], 3))];
    // The limits range from no bytes to lengths at which a write stops in the middle of a file.
    for most in [0, 64, 2000, 5000] {
        allow(&service, Some(most));
        for (what, body) in &publications {
            let reply = service.publish(&http, NAME, what, body).unwrap();
            assert_ne!(reply.status, 200, "{what} within {most} bytes");
            let refusal = reply.refusal();
            assert_eq!(refusal.code, Code::Internal, "{refusal:?}");
            assert!(refusal.message.contains(path.to_str().unwrap()), "{refusal:?}");
            let remedy =
                ["space", "raise the file size limit"].iter().any(|way| refusal.message.contains(way));
            assert!(remedy, "{refusal:?}");
            assert!(service.runs());
            // The client's cache is not subject to the server's limit.
            assert_eq!(found(), vec![1; ROWS]);
        }
    }
    assert_eq!(std::fs::read_dir(path.join("work")).unwrap().count(), 0, "what broke off is removed");

    allow(&service, None);
    for (what, body) in &publications {
        service.published(&http, NAME, what, body);
    }
    let mut expected = vec![2; ROWS];
    expected[3] = 3;
    assert_eq!(found(), expected);
    drop(service);
    let service = Service::started(serve(&[&path], &[]), &folder.join("server.log"));
    assert_eq!(editions(&service.url, NAME, &folder.join("cache")).unwrap(), expected);
    println!("a full disk refused 8 publications; the version before answered on, and later ones were taken");
}

/// Waits until a condition holds for a running server.
fn eventually(service: &Service, what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < deadline && service.runs(), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_follower_with_a_full_disk_answers_from_its_version_and_copies_the_next_one_later() {
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let snapshots = [1, 2].map(|edition| snapshot(folder, NAME, "simple", edition));
    let path = repository(folder, &snapshots[0]);
    let publisher = Service::started(serve(&[&path], &[]), &folder.join("publisher.log"));
    let settings = folder.join("follower.toml");
    std::fs::write(&settings, format!("[follow]\nurl = \"{}\"\ninterval = \"50ms\"\n", publisher.admin))
        .unwrap();
    let copy = folder.join("copy").join(NAME);
    let command =
        |more: &[&str]| serve(&[&copy], &[&["--config", settings.to_str().unwrap()], more].concat());
    let (http, cache) = (Http::new(), folder.join("cache"));
    let found = |service: &Service| editions(&service.url, NAME, &cache).unwrap_or_default();
    let refused = |service: &Service, part: &str| {
        let state = http.get(&format!("{}/readyz", service.url)).unwrap();
        String::from_utf8(state.body.to_vec()).unwrap().contains(part)
    };
    let start = |command: Command| Service::start(command, "/dev/null".as_ref()).unwrap();

    let follower = start(limited(&command(&[])));
    let mut expected = vec![1; ROWS];
    eventually(&follower, "the first version", || found(&follower) == expected);
    // The limits range from no bytes to lengths at which a write stops in the middle of a file.
    for (edition, most) in [(10, 0), (11, 64), (12, 5000)] {
        allow(&follower, Some(most));
        publisher.published(&http, NAME, "changes", &changes([3], edition));
        eventually(&follower, "a refusal", || refused(&follower, "raise the file size limit"));
        assert_eq!(found(&follower), expected);
        allow(&follower, None);
        expected[3] = edition;
        eventually(&follower, "the version", || found(&follower) == expected);
    }
    drop(follower);

    // The limit of the settings leaves no room for another base.
    let follower = start(command(&["--follow-disk", "1KiB"]));
    publisher.published(&http, NAME, "snapshot", &archive(&snapshots[1]));
    eventually(&follower, "a refusal", || refused(&follower, "follow.disk"));
    assert_eq!(found(&follower), expected);
    drop(follower);
    let follower = start(command(&[]));
    eventually(&follower, "the base", || found(&follower) == vec![2; ROWS]);
}
