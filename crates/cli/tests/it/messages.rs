//! Messages of wrong usages: each names the cause once, and the remedy.

use std::collections::BTreeSet;
use std::path::Path;

use crate::command::{RATES, Server, expect, folder_with, refusal};

const NOBODY: &str = "http://127.0.0.1:1";

/// Makes a folder with a table, a file of changes, an empty folder and a snapshot `t`.
fn folder() -> tempfile::TempDir {
    let folder = folder_with(&[("d.csv", "a,b\nx,1\n"), ("lines.jsonl", "{\"key\": \"x\"}\n")]);
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    build(folder.path(), "t");
    folder
}

fn build(folder: &Path, out: &str) {
    let arguments = ["build", "-q", "--input", "d.csv", "--key", "a", "--value", "b", "--out", out];
    expect(folder, 0, &arguments);
}

/// Splits a message at colons, semicolons and line ends, and drops empty parts.
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
    let commands: [&[&str]; 30] = [
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

/// Returns the message of a wrong usage, without clap's additions.
fn said(folder: &Path, arguments: &[&str]) -> String {
    let said = refusal(folder, arguments);
    let first = said.split("\n\n").next().unwrap().trim();
    let text = first.strip_prefix("spirea: ").or_else(|| first.strip_prefix("error: "));
    text.expect("a message says whose it is").to_owned()
}

const MAKE: &str = "spirea build --input d.csv --key COLUMN --value COLUMN --out FOLDER";

#[test]
fn a_wrong_usage_is_named_with_its_remedy() {
    let folder = folder();
    let folder = folder.path();
    std::fs::write(folder.join("rows.jsonl"), "{\"a\":\"x\",\"b\":1}\n{\"a\":\"y\"}\n").unwrap();
    expect(folder, 0, &["publish", "--repository", "r", "--base", "t"]);
    std::fs::create_dir(folder.join("folder")).unwrap();
    let other = ["build", "-q", "--input", "d.csv", "--key", "a", "--value", "b", "--out", "other"];
    expect(folder, 0, &other);
    let file = format!(
        "d.csv: it is a file, not a snapshot: a snapshot is the folder that `{MAKE}` makes of a table"
    );
    let none = "none: there is no such snapshot: check the path, or make it with `spirea build --input FILE --key COLUMN --value COLUMN --out none`";
    let asked = format!(
        "it is a file, not the address of a server: build a snapshot of it with `{MAKE}`, serve that with `spirea serve FOLDER`, and give the address that the server prints"
    );
    let is_folder = "folder: cannot open: is a directory; it is a folder: name a file";
    let is_empty = "folder: the folder has no files, but for hidden ones and those whose names begin with _";
    let rule = "a database's name has 1 to 128 of the characters a-z, 0-9 and -";
    let which =
        "name the repository: --repository FOLDER, or --server URL --database NAME if a server has it open";
    let what = "say what to publish: --base SNAPSHOT, or changes with --put FILE, --delete FILE, --changes FILE or --stream; such as `spirea publish --repository FOLDER --base SNAPSHOT`";
    let plan = "say which table to plan for: --records NUMBER --record-bytes SIZE, --input FILE, or --snapshot FOLDER; such as `spirea plan --records 1e6 --record-bytes 256`";
    let cases: &[(&[&str], &str)] = &[
        (&["serve", "d.csv"], &file),
        (&["inspect", "d.csv"], &file),
        (&["sign", "d.csv", "--key", "none"], &file),
        (&["publish", "--repository", "r", "--base", "d.csv"], &file),
        (&["plan", "--snapshot", "d.csv"], &file),
        (&["serve", "none"], none),
        (&["inspect", "none"], none),
        (
            &["inspect", "t/manifest.json"],
            "t/manifest.json: it is the manifest of a snapshot: name the folder that it lies in",
        ),
        (
            &["sign", "r", "--key", "none"],
            "r: not a complete snapshot: it has no manifest.json; name a folder that `spirea build` made (a repository has its own in bases/), or build it again",
        ),
        (&["get", "d.csv", "t", "x"], &format!("invalid value 'd.csv' for '<URL>': {asked}")),
        (
            &["get", NOBODY, "t", "x", "--other", "d.csv"],
            &format!("invalid value 'd.csv' for '--other <URL>': {asked}"),
        ),
        (&["doctor", "d.csv"], &format!("invalid value 'd.csv' for '[URL]': {asked}")),
        (
            &["publish", "--server", "d.csv", "--database", "t", "--base", "t"],
            &format!("invalid value 'd.csv' for '--server <URL>': {asked}"),
        ),
        (
            &["get", "t", "t", "x"],
            "invalid value 't' for '<URL>': it is a folder, not the address of a server: serve it with `spirea serve t`, and give the address that the server prints",
        ),
        (&["get", NOBODY, "A b", "x"], &format!("invalid value 'A b' for '<NAME>': {rule}")),
        (
            &["doctor", NOBODY, "--database", "A b"],
            &format!("invalid value 'A b' for '--database <NAME>': {rule}"),
        ),
        (
            &["publish", "--server", NOBODY, "--database", "A b", "--base", "t"],
            &format!("invalid value 'A b' for '--database <NAME>': {rule}"),
        ),
        (
            &["build", "--input", "d.csv", "--key", "a", "--value", "b", "--out", "A b"],
            "\"A b\" cannot name a dataset: give --name 1 to 128 of the characters a-z, 0-9 and -",
        ),
        (
            &["serve", "t", "--listen", "8080"],
            "invalid value '8080' for '--listen <ADDRESS>': the address is missing before the port: write 127.0.0.1:8080, or 0.0.0.0:8080 for all addresses of this machine",
        ),
        (
            &["serve", "t", "--admin-listen", "localhost:80"],
            "invalid value 'localhost:80' for '--admin-listen <ADDRESS>': localhost is a name, and a server listens on an address: write 127.0.0.1:80, or 0.0.0.0:80 for all addresses of this machine",
        ),
        (
            &["build", "--input", "d.csv", "--key", "a", "--value", "a,b", "--out", "u"],
            "d.csv:1: no column \"a,b\"; there are \"a\", \"b\"; give columns of values one by one: --value a --value b",
        ),
        (
            &["build", "--input", "rows.jsonl", "--key", "a", "--value", "b", "--out", "u"],
            "rows.jsonl:2: the row has no field \"b\"; it has \"a\"; give every row the field, with null where there is nothing (see --nulls)",
        ),
        (
            &["build", "--input", "rows.jsonl", "--value", "a, b", "--out", "u"],
            "rows.jsonl:1: the row has no field \"a, b\"; it has \"a\", \"b\"; give columns of values one by one: --value a --value b",
        ),
        (&["publish"], what),
        (&["publish", "--repository", "r"], what),
        (&["publish", "--base", "t"], which),
        (&["rollback"], which),
        (&["compact"], which),
        (&["plan"], plan),
        (&["plan", "--records", "9"], plan),
        (
            &["publish", "--repository", "r", "--base", "other"],
            "the current version is of \"t\", and the snapshot of \"other\": build it with --name t, or give \"other\" a folder of its own",
        ),
        (
            &["publish", "--server", NOBODY, "--database", "t", "--base", "other"],
            "other: it is a snapshot of other, and --database is t: publish it to other, or build it with --name t",
        ),
        (&["publish", "--repository", "r", "--put", "folder"], is_empty),
        (&["publish", "--repository", "r", "--delete", "folder"], is_empty),
        (&["publish", "--repository", "r", "--changes", "folder"], is_folder),
        (&["get", NOBODY, "t", "--keys-from", "folder"], is_folder),
        (&["get", NOBODY, "t", "x", "--token-file", "folder"], is_folder),
        (
            &["sign", "t", "--key", "folder"],
            "folder: cannot read: is a directory; it is a folder: name a file",
        ),
    ];
    for (arguments, message) in cases {
        assert_eq!(said(folder, arguments), *message, "spirea {arguments:?}");
    }
}

#[test]
fn options_that_a_protocol_does_not_use_are_refused_and_named() {
    const RING: &str = "exppack-simple, exppack-double, double-pack, hybrid, onion";
    const LWE: &str = "simple, double, exppack-simple, exppack-double, double-pack, hybrid";
    let lwe_and_onion = format!("{LWE}, onion");
    let folder = folder();
    let cases: [(&str, &[&str], &str, &str); 13] = [
        ("hybrid", &["--prf", "aes-128"], "dpf-xor, dpf-sum", "hybrid"),
        ("onion", &["--accept-weak-prf"], "dpf-xor, dpf-sum", "onion"),
        ("simple", &["--word-bits", "32"], "dpf-sum", "simple"),
        ("dpf-xor", &["--word-bits", "64"], "dpf-sum", "dpf-xor"),
        ("simple", &["--ring", "fast"], RING, "simple"),
        ("dpf-sum", &["--ring", "fast"], RING, "dpf-sum"),
        ("double", &["--keys", "registered"], RING, "double"),
        ("double", &["--key-queries", "64"], RING, "double"),
        ("hybrid", &["--hint", "whole"], "simple, double", "hybrid"),
        ("hybrid", &["--keys", "per-query", "--key-queries", "64"], RING, "hybrid with --keys per-query"),
        ("onion", &["--set", "paper"], LWE, "onion"),
        ("dpf-sum", &["--set", "paper"], LWE, "dpf-sum"),
        ("dpf-xor", &["--prefer", "time"], &lwe_and_onion, "dpf-xor"),
    ];
    let build = ["build", "--input", "d.csv", "--key", "a", "--value", "b", "--out", "u", "--protocol"];
    for (protocol, options, users, user) in cases {
        let flag = options[options.len().saturating_sub(2)];
        let message =
            format!("{flag} is for {users}, and {user} has no use for it: omit it, or name another protocol");
        assert_eq!(said(folder.path(), &[&build[..], &[protocol], options].concat()), message);
    }
    let brought = "--queries is the form of queries that bring their keys: add --keys per-query, or omit it";
    assert_eq!(said(folder.path(), &[&build[..], &["hybrid", "--queries", "whole"]].concat()), brought);
    let auto = "--protocol auto, the default, chooses the parameters of one server too: leave --prf away, or name a protocol";
    assert_eq!(said(folder.path(), &[&build[..], &["auto", "--prf", "aes-128"]].concat()), auto);
}

#[test]
fn the_ports_of_a_server_are_told_apart() {
    let folder = folder();
    let folder = folder.path();
    std::fs::write(folder.join("twice.jsonl"), "{\"key\":\"x\",\"value\":\"1\"}\n".repeat(2)).unwrap();
    expect(folder, 0, &["publish", "--repository", "r", "--base", "t"]);
    let server = Server::with_administration(folder, &["r"]);
    let admin = server.admin.as_deref().unwrap();
    let publish = |url: &str, more: &[&str]| {
        said(folder, &[&["publish", "--server", url, "--database", "t"], more].concat())
    };
    let message = "the server refused (404 Not Found): there is no such endpoint; publishing and administration have a port of their own, whose address the server prints when it starts (--admin-listen): GET /v1/admin/databases lists its databases";
    assert_eq!(publish(&server.url, &["--base", "t"]), message);
    assert_eq!(publish(&server.url, &["--changes", "lines.jsonl"]), message);
    let message = format!(
        "{admin}: the server refused (404): there is no such endpoint; GET /v1/databases lists the databases at the port for clients (--listen): each has config, hint, keys and query below its name"
    );
    assert_eq!(said(folder, &["get", admin, "t", "x"]), message);
    // A file of changes is named in errors, with the line.
    assert_eq!(
        publish(admin, &["--changes", "lines.jsonl"]),
        "lines.jsonl:1: it is neither a value nor a deletion; write {\"key\": KEY, \"value\": VALUE} or {\"key\": KEY, \"deleted\": true}"
    );
    assert_eq!(
        publish(admin, &["--changes", "twice.jsonl"]),
        "twice.jsonl:2: key \"x\" is changed in twice.jsonl:1 already; keep one of the two"
    );
}

#[test]
fn the_address_that_failed_is_named() {
    let folder = folder();
    // The local ends of these connections reserve their ports, and nobody listens there.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ends = [(); 2].map(|()| std::net::TcpStream::connect(taken.local_addr().unwrap()).unwrap());
    let [first, second] = ends.each_ref().map(|end| format!("http://{}", end.local_addr().unwrap()));
    for (more, failed) in [("--replica", &second), ("--other", &first)] {
        let said = said(folder.path(), &["get", &first, "t", "x", more, &second]);
        assert!(said.starts_with(&format!("{failed}: cannot reach the server: ")), "{said}");
        assert_eq!(said.matches("http://").count(), 1, "{said}");
    }
}
