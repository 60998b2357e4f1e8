//! Lists in common forms: without headers, with comments, with repeated keys, without values.

use std::process::Command;

use crate::command::{RATES, SPIREA, Server, expect, folder_with, refusal, text};

#[test]
fn lists_are_built_as_they_come() {
    let folder = folder_with(&[
        ("suffixes.dat", "// made by us\n\ncom\n\n// two of them\norg\ncom\n"),
        ("hashes.txt", "AD7:10\r\n0A8:4\r\n"),
        ("more.txt", "0A8:5\r\nFFF:6\r\n"),
    ]);
    let folder = folder.path();
    let suffixes =
        ["build", "--input", "suffixes.dat", "--no-header", "--columns", "suffix", "--key", "suffix"];
    let suffixes = [&suffixes[..], &["--comment", "//", "--out", "suffixes"]].concat();
    let refused = refusal(folder, &suffixes);
    assert!(
        refused.contains("suffixes.dat:2: a blank line") && refused.contains("--skip-blank"),
        "{refused}"
    );
    let suffixes = [&suffixes[..], &["--skip-blank"]].concat();
    let refused = refusal(folder, &suffixes);
    assert!(refused.contains("\"com\" in lines 3, 7") && refused.contains("--on-duplicate"), "{refused}");
    let built = text(&expect(folder, 0, &[&suffixes[..], &["--on-duplicate", "first"]].concat()).stdout);
    assert!(built.contains("1 rows left out") && built.contains("a set of 2 keys"), "{built}");
    let hashes = ["--no-header", "--delimiter", ":", "--columns", "hash,count", "--key", "hash"];
    let build =
        [&["build", "--input", "hashes.txt", "--value", "count", "--out", "hashes"][..], &hashes].concat();
    expect(folder, 0, &build);
    let server = Server::start(folder, &["suffixes", "hashes"]);
    let get =
        |status, arguments: &[&str]| expect(folder, status, &[&["get", &server.url][..], arguments].concat());
    assert_eq!(text(&get(0, &["suffixes", "org", "--wait", "120"]).stdout), "org\n");
    let absent = get(1, &["suffixes", "net"]);
    assert_eq!(
        (text(&absent.stdout), text(&absent.stderr).contains("net: not found")),
        (String::new(), true)
    );
    assert_eq!(text(&get(1, &["suffixes", "com", "net", "org"]).stdout), "com\norg\n");
    let lines = text(&get(1, &["suffixes", "com", "net", "--json"]).stdout);
    let said: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found = said.iter().map(|line| (line["key"].as_str().unwrap(), line["found"].as_bool().unwrap()));
    assert!(found.eq([("com", true), ("net", false)]) && said[0].get("value").is_none(), "{lines}");
    assert_eq!(text(&get(0, &["hashes", "0A8"]).stdout), "4\n");
    // Changes are read in the same way.
    expect(folder, 0, &["publish", "--repository", "r", "--base", "hashes"]);
    let changes = [&["publish", "--repository", "r", "--put", "more.txt"][..], &hashes].concat();
    expect(folder, 0, &changes);
    expect(folder, 0, &["publish", "--repository", "s", "--base", "suffixes"]);
    std::fs::write(folder.join("put.csv"), "suffix\nnet\n").unwrap();
    std::fs::write(folder.join("delete.csv"), "suffix\ncom\n").unwrap();
    expect(
        folder,
        0,
        &["publish", "--repository", "s", "--put", "put.csv", "--delete", "delete.csv", "--key", "suffix"],
    );
    let server = Server::start(folder, &["r", "s"]);
    let get =
        |status, arguments: &[&str]| expect(folder, status, &[&["get", &server.url][..], arguments].concat());
    assert_eq!(text(&get(0, &["hashes", "0A8", "FFF", "--wait", "120"]).stdout), "0A8\t5\nFFF\t6\n");
    assert_eq!(text(&get(1, &["suffixes", "com", "net", "org"]).stdout), "net\norg\n");
}

#[test]
fn pipes_are_read_once_whatever_is_compressed_in_them() {
    let folder = folder_with(&[
        ("data.csv", "k,v\na,1\nb,2\n"),
        ("twice.csv", "k,v\na,1\na,2\n"),
        ("none.csv", "k,v\n"),
    ]);
    let folder = folder.path();
    let bash = |script: &str| {
        let command = format!(
            "set -euo pipefail; build() {{ \"$SPIREA\" build --format csv --key k --value v \"$@\"; }}; {script}"
        );
        Command::new("bash")
            .args(["-c", &command])
            .current_dir(folder)
            .env("SPIREA", SPIREA)
            .output()
            .unwrap()
    };
    for (script, out) in [
        ("gzip -c data.csv | build --input - --out standard", "standard"),
        ("cat data.csv | build --input /dev/stdin --out device", "device"),
        ("build --input /dev/stdin --out file < data.csv", "file"),
        ("build --input <(gzip -c data.csv) --out substituted", "substituted"),
        ("mkfifo pipe; cat data.csv > pipe & build --input pipe --out named", "named"),
    ] {
        let built = bash(script);
        assert!(built.status.success(), "{script}: {}", text(&built.stderr));
        assert!(text(&expect(folder, 0, &["inspect", out]).stdout).contains("2 values of v"), "{script}");
    }
    // Refused rows are named by their lines in the copy.
    let refused = text(&bash("build --input <(gzip -c twice.csv) --out twice").stderr);
    assert!(refused.contains("duplicate keys: \"a\" in lines 2, 3"), "{refused}");
    let refused = text(&bash("gzip -c data.csv | head -c 30 | build --input - --out cut").stderr);
    assert!(
        refused.contains("standard input: cannot read: its gzip data is damaged or cut off"),
        "{refused}"
    );
    // Changes can come from pipes too.
    expect(folder, 0, &["publish", "--repository", "r", "--base", "file"]);
    let published =
        bash("\"$SPIREA\" publish --repository r --key k --format csv --put <(printf 'k,v\\na,3\\n')");
    assert!(published.status.success(), "{}", text(&published.stderr));
    let built = bash("build --input none.csv --out none");
    assert!(built.status.success(), "{}", text(&built.stderr));
    let server = Server::start(folder, &["r", "none"]);
    let get =
        |status, arguments: &[&str]| expect(folder, status, &[&["get", &server.url][..], arguments].concat());
    assert_eq!(text(&get(0, &["file", "a", "b", "--wait", "120"]).stdout), "a\t3\nb\t2\n");
    assert!(text(&get(1, &["none", "a"]).stderr).contains("a: not found"));
}

#[test]
fn several_files_make_one_table() {
    let folder =
        folder_with(&[("a.csv", "k,v\na,1\n"), ("b.csv", "v,k\n2,b\n3,c\n"), ("more.csv", "k,v\nd,4\n")]);
    let folder = folder.path();
    for (year, key) in [("2024", "x"), ("2025", "y")] {
        let partition = folder.join(format!("log/year={year}"));
        std::fs::create_dir_all(&partition).unwrap();
        std::fs::write(partition.join("rows.csv"), format!("k,v\n{key},9\n")).unwrap();
    }
    let build = |inputs: &[&str], values: &[&str], out: &str| {
        let rest = [&["--key", "k", "--out", out, "--value"], values].concat();
        text(&expect(folder, 0, &[&["build"], inputs, &rest[..]].concat()).stdout)
    };
    build(&["--input", "a.csv", "--input", "b.csv"], &["v"], "twice");
    build(&["--input", "a.csv", "b.csv"], &["v"], "unquoted");
    build(&["--input", "[ab].csv"], &["v"], "pattern");
    for out in ["twice", "unquoted", "pattern"] {
        assert!(text(&expect(folder, 0, &["inspect", out]).stdout).contains("3 values of v"), "{out}");
    }
    assert!(build(&["--input", "log"], &["v", "year"], "log-table").contains("2 values of v, year"));
    let refused = refusal(folder, &["build", "--input", "a.csv", "-", "--key", "k", "--out", "no"]);
    assert!(refused.contains("standard input (-) is a table of its own"), "{refused}");
    // Changes, plans and several pipes accept the same inputs.
    expect(folder, 0, &["publish", "--repository", "r", "--base", "twice"]);
    expect(folder, 0, &["publish", "--repository", "r", "--key", "k", "--put", "m*.csv"]);
    let plan = ["plan", "--input", "[ab].csv", "more.csv", "--key", "k", "--value", "v"];
    expect(folder, 0, &[&plan[..], &RATES].concat());
    let script =
        "\"$0\" build --format csv --input <(cat a.csv) <(cat a.csv b.csv | grep -v v,k) --key k --out pipes";
    let piped = Command::new("bash").args(["-c", script, SPIREA]).current_dir(folder).output().unwrap();
    let refused = text(&piped.stderr);
    assert!(
        refused.contains("duplicate keys: \"a\" in /dev/fd/") && refused.matches(":2").count() == 2,
        "{refused}"
    );
    let server = Server::start(folder, &["r", "log-table"]);
    let get = |arguments: &[&str]| {
        text(&expect(folder, 0, &[&["get", &server.url][..], arguments].concat()).stdout)
    };
    assert_eq!(get(&["twice", "a", "c", "d", "--wait", "120"]), "a\t1\nc\t3\nd\t4\n");
    assert_eq!(get(&["log-table", "x", "y", "--json"]).matches("\"year\":\"202").count(), 2);
}
