//! Messages of wrong usages: each names the cause once, and the remedy.

use std::collections::BTreeSet;
use std::path::Path;

use crate::command::{RATES, folder_with, refusal};

const NOBODY: &str = "http://127.0.0.1:1";

/// A folder with a table, a file of changes, an empty folder and a snapshot `t`.
fn folder() -> tempfile::TempDir {
    let folder = folder_with(&[("d.csv", "a,b\nx,1\n"), ("lines.jsonl", "{\"key\": \"x\"}\n")]);
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    build(folder.path(), "t");
    folder
}

fn build(folder: &Path, out: &str) {
    let arguments = ["build", "-q", "--input", "d.csv", "--key", "a", "--value", "b", "--out", out];
    crate::command::expect(folder, 0, &arguments);
}

/// The parts of a message between colons and semicolons that are long enough to say something.
fn clauses(message: &str) -> Vec<&str> {
    let parts = message.trim().split([';', '\n']).flat_map(|part| part.split(": "));
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

#[test]
fn no_message_has_a_clause_twice() {
    let folder = folder();
    let build = ["build", "--key", "a", "--value", "b"];
    let get = ["get", NOBODY, "t", "x"];
    let publish = ["publish", "--repository", "r"];
    let commands: [&[&str]; 31] = [
        &[&build[..], &["--input", "none.csv", "--out", "u"]].concat(),
        &[&build[..], &["--input", "d.csv", "--out", "d.csv/u"]].concat(),
        &[&build[..], &["--input", "d.csv", "--out", "u", "--sign", "none"]].concat(),
        &["inspect", "none"],
        &["inspect", "d.csv"],
        &["inspect", "empty"],
        &["serve", "none"],
        &["serve", "d.csv"],
        &["serve", "empty"],
        &["serve", "--config", "none"],
        &["serve", "t", "--tokens", "none"],
        &["serve", "t", "--tls-certificate", "none", "--tls-key", "none"],
        &["serve", "t", "--keys-dir", "d.csv", "--listen", "127.0.0.1:0"],
        &[&publish[..], &["--base", "none"]].concat(),
        &[&publish[..], &["--base", "d.csv"]].concat(),
        &[&publish[..], &["--put", "none.csv"]].concat(),
        &["publish", "--repository", "d.csv", "--put", "d.csv"],
        &["rollback", "--repository", "none"],
        &["sign", "t", "--key", "none"],
        &["sign", "none", "--key", "none"],
        &["key", "public", "empty"],
        &["key", "new", "none/key"],
        &["plan", "--snapshot", "none"],
        &[&["plan", "--input", "none.csv", "--value", "b"], &RATES[..]].concat(),
        &["simulate-load", "none"],
        &[&get[..], &["--keys-from", "none"]].concat(),
        &[&get[..], &["--token-file", "none"]].concat(),
        &[&get[..], &["--ca", "none"]].concat(),
        &[&get[..], &["--resume", "none/file"]].concat(),
        &[&get[..], &["--other", "http://127.0.0.1:2"]].concat(),
        &["get", "127.0.0.1:1", "t", "x"],
    ];
    for arguments in commands {
        let said = refusal(folder.path(), arguments);
        let all = clauses(&said);
        let distinct: BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len(), "spirea {arguments:?}\n{said}");
        assert!(said.matches("(os error").count() <= 1, "spirea {arguments:?}\n{said}");
    }
}
