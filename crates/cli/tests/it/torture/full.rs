//! A disk that is full while a version is published.

use std::process::Command;

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

#[test]
fn a_full_disk_refuses_a_version_and_keeps_the_one_before() {
    let folder = tempdir().unwrap();
    let folder = folder.path();
    let snapshots = [1, 2].map(|edition| snapshot(folder, NAME, "simple", edition));
    let path = repository(folder, &snapshots[0]);
    // Ignoring the signal XFSZ lets a write beyond the limit fail with an error. The log goes to no
    // file, which the limit would affect.
    let plain = serve(&[&path], &[]);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(plain.get_program()).args(plain.get_args());
    let service = Service::started(command, "/dev/null".as_ref());
    let http = Http::new();
    let found = || editions(&service.url, NAME, &folder.join("cache")).unwrap();
    let publications = [("snapshot", archive(&snapshots[1])), ("changes", changes([3], 3))];
    // From no bytes at all to limits at which a write stops in the middle of something.
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
