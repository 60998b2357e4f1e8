//! Runs the application against a server of this process.

use std::process::{Command, Output};

use spirea::build::Builder;
use spirea::server::Server;

/// Runs the application with these arguments. Its hints are in the folder `cache`.
fn run(cache: &std::path::Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rust-client"));
    command.env("XDG_CACHE_HOME", cache).args(arguments).output().unwrap()
}

#[test]
fn keys_are_looked_up_and_a_missing_one_is_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let rows = [["example.org", "fine"], ["example.net", "bad"]];
    let table = Builder::from_rows(["domain", "verdict"], rows).key("domain");
    let snapshot = table.build(folder.path().join("domains")).unwrap();
    let server = Server::start([snapshot.folder()]).unwrap();
    let done = run(folder.path(), &[server.url(), "domains", "example.net", "example.com"]);
    assert!(done.status.success(), "{done:?}");
    let text = String::from_utf8(done.stdout).unwrap();
    assert_eq!(text, "example.net: verdict = bad\nexample.com: not found\n");
    server.stop().unwrap();
}

#[test]
fn an_error_is_told_and_is_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, cause) in [
        (&["http://127.0.0.1:1"][..], "usage"),
        (&["ftp://pir.example.org", "domains", "example.net"], "http://"),
    ] {
        let done = run(folder.path(), arguments);
        assert_eq!((done.status.code(), &done.stdout[..]), (Some(1), &b""[..]));
        assert!(String::from_utf8_lossy(&done.stderr).contains(cause), "{done:?}");
    }
}
