//! The command as a person uses it: real processes, real files, loopback HTTP.

use std::path::PathBuf;
use std::process::Command;

use spirea_conformance::{Count, is_drawn};
use spirea_protocols::registry::NAMES;
use tempfile::TempDir;

use crate::command::{RATES, SPIREA, Server, expect, folder_with, refusal, text};

#[test]
fn a_table_is_built_served_and_looked_up_by_key() {
    let folder = folder_with(&[(
        "domains.csv",
        "domain,verdict,since\na.test,bad,2020\nb.test,\"so, so\",2021\nc.test,,2022\n",
    )]);
    let folder = folder.path();
    expect(
        folder,
        0,
        &[
            "build",
            "--input",
            "domains.csv",
            "--key",
            "domain",
            "--value",
            "verdict",
            "since",
            "--out",
            "domains",
        ],
    );
    let explained = text(&expect(folder, 0, &["inspect", "domains"]).stdout);
    for part in ["3 values", "simple", "module-1280", "2^-", "verdict", "query", "answer", "hint"] {
        assert!(explained.contains(part), "{part:?} is missing from\n{explained}");
    }
    let machine = text(&expect(folder, 0, &["inspect", "domains", "--json"]).stdout);
    let machine: serde_json::Value = serde_json::from_str(&machine).unwrap();
    assert_eq!(machine["table"]["entries"], 3);
    let told = text(&expect(folder, 0, &["inspect", "domains", "--leaks"]).stdout);
    assert!(told.contains("which of 3 values") && told.contains("not signed"), "{told}");
    let told = text(&expect(folder, 0, &["inspect", "domains", "--leaks", "--json"]).stdout);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["figures"]["values"], 3);
    assert!(told["observers"].as_array().is_some_and(|observers| observers.len() == 4), "{told}");

    let server = Server::start(folder, &["domains"]);
    let found = expect(folder, 0, &["get", &server.url, "domains", "b.test", "--json", "--wait", "120"]);
    let found: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(found["value"], serde_json::json!({"verdict": "so, so", "since": "2021"}));

    let version = found["version"].as_str().unwrap();
    assert!(version.len() == 64 && explained.contains(version), "{version}\n{explained}");
    let absent = expect(folder, 1, &["get", &server.url, "domains", "absent.test", "--json"]);
    let absent: serde_json::Value = serde_json::from_slice(&absent.stdout).unwrap();
    assert_eq!((&absent["found"], &absent["version"]), (&false.into(), &found["version"]));

    let mixed = expect(folder, 1, &["get", &server.url, "domains", "a.test", "absent.test", "c.test"]);
    assert_eq!(text(&mixed.stdout), "a.test\tbad\t2020\nc.test\t\t2022\n");
    assert!(text(&mixed.stderr).contains("absent.test: not found"));

    std::fs::write(folder.join("wanted.txt"), "c.test\na.test\n").unwrap();
    let many = expect(folder, 0, &["get", &server.url, "domains", "--keys-from", "wanted.txt", "--json"]);
    let keys: Vec<_> = text(&many.stdout)
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["key"].clone())
        .collect();
    assert_eq!(keys, ["c.test", "a.test"]);

    assert!(server.get("/readyz").starts_with("HTTP/1.1 200"));
    let metrics = server.get("/metrics");
    assert!(metrics.contains("spirea_") && !metrics.contains(".test"), "{metrics}");
    assert_eq!(server.stop(), 0);
    let log = std::fs::read_to_string(folder.join("server.log")).unwrap();
    assert!(!log.contains(".test"), "the log tells of a key:\n{log}");
}

#[test]
fn a_table_without_keys_is_looked_up_by_index() {
    let folder = folder_with(&[("words.csv", "word\nzero\none\ntwo\n")]);
    let folder = folder.path();
    expect(
        folder,
        0,
        &[
            "build",
            "--input",
            "words.csv",
            "--value",
            "word",
            "--out",
            "words",
            "--protocol",
            "simple",
            "--set",
            "paper",
        ],
    );
    std::fs::write(folder.join("fixed.bin"), b"aaaabbbbcccc").unwrap();
    expect(folder, 0, &["build", "--input", "fixed.bin", "--record-bytes", "4", "--out", "fixed"]);
    let server = Server::start(folder, &["words", "fixed"]);
    let answer = expect(folder, 0, &["get", &server.url, "words", "--index", "2", "--wait", "120"]);
    assert_eq!(text(&answer.stdout), "two\n");
    let answer = expect(folder, 0, &["get", &server.url, "fixed", "--index", "0", "2"]);
    assert_eq!(text(&answer.stdout), "0\taaaa\n2\tcccc\n");
    let refused = refusal(folder, &["get", &server.url, "words", "--index", "3"]);
    assert!(refused.contains("0 to 2"), "{refused}");
    let refused = refusal(folder, &["get", &server.url, "words", "zero"]);
    assert!(refused.contains("by index"), "{refused}");
    let refused = refusal(folder, &["get", &server.url, "nothing", "zero"]);
    assert!(refused.contains("no database of this name"), "{refused}");
}

#[test]
fn every_protocol_looks_up_keys_and_indices() {
    let needs_two = |name: &str| name.starts_with("dpf-");
    let (of_two, of_one): (Vec<_>, Vec<_>) = NAMES.into_iter().partition(|name| needs_two(name));
    let is_tested = |name: &str| match needs_two(name) {
        true => is_drawn("commands with two servers", &of_two, Count { short: 1, full: 1 }, name),
        false => is_drawn("commands with one server", &of_one, Count { short: 2, full: 4 }, name),
    };
    let protocols: Vec<_> = NAMES.into_iter().filter(|name| is_tested(name)).collect();
    // Values of 0 to 99 bytes.
    let value = |i: usize| format!("{i}-").repeat(40).chars().take(i % 100).collect::<String>();
    let rows: String = (0..500).map(|i| format!("key-{i},{}\n", value(i))).collect();
    let folder = folder_with(&[("rows.csv", &format!("key,value\n{rows}"))]);
    let folder = folder.path();
    let build = |protocol: &str, more: &[&str]| {
        let common = ["build", "--input", "rows.csv", "--protocol", protocol, "--value", "value"];
        expect(folder, 0, &[&common[..], more].concat());
    };
    // In a table by position, a value is found in its record by another method than in a keyed
    // table. The method does not depend on the protocol, so one protocol of each kind suffices.
    const KINDS: [&str; 4] = ["simple", "exppack-simple", "onion", "dpf-xor"];
    let kinds = KINDS
        .into_iter()
        .filter(|kind| is_drawn("commands with lists", &KINDS, Count { short: 1, full: 2 }, kind));
    let lists: Vec<_> = kinds.map(|protocol| (protocol, format!("{protocol}-list"))).collect();
    protocols.iter().for_each(|protocol| build(protocol, &["--key", "key", "--out", protocol]));
    lists.iter().for_each(|(protocol, list)| build(protocol, &["--out", list]));
    let snapshots: Vec<&str> =
        protocols.iter().copied().chain(lists.iter().map(|(_, list)| list.as_str())).collect();
    let of_two = snapshots.iter().copied().filter(|name| needs_two(name));
    let server = Server::start(folder, &[&snapshots[..], &["--party", "0"]].concat());
    let second = Server::start(folder, &of_two.chain(["--party", "1"]).collect::<Vec<_>>());
    let other = ["--other", &*second.url];
    let with = |protocol: &str| if needs_two(protocol) { &other[..] } else { &[] };
    for protocol in protocols {
        let keys = ["key-0", "key-99", "absent", "key-417"];
        let arguments = [&["get", &server.url, protocol, "--wait", "120"], with(protocol), &keys].concat();
        let answer = expect(folder, 1, &arguments);
        let expected = [0, 99, 417].map(|i| format!("key-{i}\t{}\n", value(i))).concat();
        assert_eq!(text(&answer.stdout), expected, "{protocol}");
        assert!(text(&answer.stderr).contains("absent: not found"), "{protocol}");
    }
    for (protocol, list) in &lists {
        let arguments = ["get", &server.url, list, "--wait", "120", "--index", "499", "250"];
        let answer = expect(folder, 0, &[&arguments, with(protocol)].concat());
        assert_eq!(text(&answer.stdout), format!("499\t{}\n250\t{}\n", value(499), value(250)), "{list}");
    }
    assert_eq!((server.stop(), second.stop()), (0, 0));
}

#[test]
fn what_cannot_be_built_is_refused_with_the_row_and_the_remedy() {
    let huge = format!(
        "k,v\n{}big,{}\n",
        (0..30_000).map(|i| format!("{i},x\n")).collect::<String>(),
        "y".repeat(1 << 19)
    );
    let oversize = format!("k,v\na,{}\n", "y".repeat((1 << 20) + 1));
    let folder = folder_with(&[
        ("twice.csv", "k,v\na,1\nb,2\na,3\n"),
        ("ragged.csv", "k,v\na,1\nb,2,3\n"),
        ("bad.jsonl", "{\"k\":\"a\",\"v\":1}\nnot json\n"),
        ("outlier.csv", &huge),
        ("oversize.csv", &oversize),
        ("data.xyz", "?"),
    ]);
    let folder = folder.path();
    let build = |input: &str, key: &str| {
        refusal(folder, &["build", "--input", input, "--key", key, "--value", "v", "--out", "out"])
    };
    for (input, key, parts) in [
        ("twice.csv", "k", &["twice.csv: duplicate keys", "\"a\" in lines 2, 4"][..]),
        ("ragged.csv", "k", &["ragged.csv:3"]),
        ("bad.jsonl", "k", &["bad.jsonl:2"]),
        ("twice.csv", "nokey", &["nokey", "\"k\", \"v\""]),
        ("oversize.csv", "k", &["oversize.csv:2", "1048576"]),
        ("missing.csv", "k", &["missing.csv"]),
        ("data.xyz", "k", &["data.xyz", "--format"]),
    ] {
        let said = build(input, key);
        for part in parts {
            assert!(said.contains(part), "{input}: {part:?} is missing from\n{said}");
        }
        assert!(!folder.join("out").exists(), "{input} left something behind");
    }
    // A value much longer than the others is accepted, unless it exceeds the given limit.
    let outlier = ["build", "--input", "outlier.csv", "--key", "k", "--value", "v", "--out", "out"];
    let said = refusal(folder, &[&outlier[..], &["--max-value", "64K"]].concat());
    assert!(said.contains("outlier.csv:30002") && said.contains("65536"), "{said}");
    let said = text(&expect(folder, 0, &[&outlier[..], &RATES].concat()).stdout);
    assert!(said.contains("(row 30001)"), "{said}");
}

#[test]
fn versions_are_published_taken_back_compacted_and_signed() {
    let folder = folder_with(&[
        ("notes.csv", "key,note\nalpha,first\nbeta,second\n"),
        ("put.csv", "key,note\nbeta,changed\ngamma,added\n"),
        ("gone.csv", "key\nalpha\n"),
        ("lines.jsonl", "{\"key\": \"delta\", \"value\": 4}\n"),
        ("twice.jsonl", "{\"key\": 1, \"value\": 4}\n{\"key\": 1, \"deleted\": true}\n"),
    ]);
    let run = |arguments: &[&str]| text(&expect(folder.path(), 0, arguments).stdout);
    let key = run(&["key", "new", "operator.key"]);
    assert_eq!(run(&["key", "public", "operator.key"]), key);
    run(&[
        "build",
        "--input",
        "notes.csv",
        "--key",
        "key",
        "--value",
        "note",
        "--out",
        "notes",
        "--sign",
        "operator.key",
    ]);
    assert!(folder.path().join("notes/signature.json").exists());
    let sign: [&str; 2] = ["--sign", "operator.key"];
    let on = |command: &str, rest: &[&str]| {
        run(&[&[command, "--repository", "versions-of-notes"][..], rest, &sign[..]].concat())
    };
    let base = on("publish", &["--base", "notes"]);
    assert!(base.contains("2 values, no changes") && base.contains(&format!("signed by {key}")), "{base}");
    let changed = on("publish", &["--put", "put.csv", "--delete", "gone.csv"]);
    assert!(changed.contains("3 changed"), "{changed}");
    let told = run(&["inspect", "versions-of-notes", "--leaks"]);
    assert!(told.contains("3 values changed since") && told.contains(key.trim()), "{told}");
    let told = run(&["inspect", "versions-of-notes", "--leaks", "--json"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&told).unwrap()["figures"]["changes"], 3);
    assert!(on("publish", &["--changes", "lines.jsonl"]).contains("4 changed"));
    let refused =
        refusal(folder.path(), &["publish", "--repository", "versions-of-notes", "--changes", "twice.jsonl"]);
    assert!(refused.contains("twice.jsonl:2") && refused.contains("twice.jsonl:1"), "{refused}");
    assert!(on("rollback", &[]).contains("3 changed"));
    let compacted = on("compact", &[]);
    assert!(compacted.contains("2 values, no changes"), "{compacted}");
    let listed = run(&["inspect", "versions-of-notes", "--verify"]);
    assert!(listed.contains("2 values, no changes") && listed.contains("3 changed"), "{listed}");
    let to = |digits: &str| {
        refusal(folder.path(), &["rollback", "--repository", "versions-of-notes", "--to", digits])
    };
    assert!(to("xyz").contains("hexadecimal digits"));
    assert!(to(&"0f".repeat(32)).contains("no version that begins with"));
    let nothing = refusal(folder.path(), &["publish", "--repository", "notes", "--put", "put.csv"]);
    assert!(nothing.contains("not a repository"), "{nothing}");
}

#[test]
fn a_damaged_snapshot_is_not_served() {
    let folder = folder_with(&[("t.csv", "k,v\na,1\n")]);
    let folder = folder.path();
    expect(folder, 0, &["build", "--input", "t.csv", "--key", "k", "--value", "v", "--out", "t"]);
    let again = refusal(folder, &["build", "--input", "t.csv", "--key", "k", "--value", "v", "--out", "t"]);
    assert!(again.contains("exists"), "{again}");
    let said = refusal(folder, &["inspect", "nowhere"]);
    assert!(said.contains("nowhere"), "{said}");
    let matrix: PathBuf = folder.join("t/matrix.bin");
    let mut bytes = std::fs::read(&matrix).unwrap();
    bytes[1234] ^= 1;
    std::fs::write(&matrix, bytes).unwrap();
    expect(folder, 0, &["inspect", "t"]);
    let said = refusal(folder, &["inspect", "t", "--verify"]);
    assert!(said.contains("matrix.bin"), "{said}");
    let server = Server::start(folder, &["t"]);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    let mut state = server.get("/readyz");
    while !state.contains("matrix.bin") && std::time::Instant::now() < deadline {
        std::thread::sleep(std::time::Duration::from_millis(50));
        state = server.get("/readyz");
    }
    assert!(state.starts_with("HTTP/1.1 503") && state.contains("matrix.bin"), "{state}");
    assert!(server.get("/healthz").starts_with("HTTP/1.1 200"));
}

#[test]
fn nothing_that_a_server_or_a_table_says_reaches_a_terminal_as_a_command() {
    let hostile = r#"{"k":"a\tb","v":"\u001b[2Jx\ny","w":"1"}"#;
    let other = r#"{"k":"c","v":"plain","w":"2"}"#;
    let folder = folder_with(&[("t.jsonl", &format!("{hostile}\n{other}\n"))]);
    let folder = folder.path();
    expect(folder, 0, &["build", "--input", "t.jsonl", "--key", "k", "--value", "v", "--out", "one"]);
    expect(folder, 0, &["build", "--input", "t.jsonl", "--key", "k", "--value", "v", "w", "--out", "two"]);
    let server = Server::ready(folder, &["one", "two"]);
    let get =
        |arguments: &[&str]| text(&expect(folder, 0, &[&["get", &server.url], arguments].concat()).stdout);
    // A single value for a program is printed unchanged. With several values, each line has a key
    // and its fields.
    assert_eq!(get(&["one", "a\tb"]), "\u{1b}[2Jx\ny\n");
    let line = "a\\tb\t\\u001b[2Jx\\ny";
    assert_eq!(get(&["one", "a\tb", "c"]), format!("{line}\nc\tplain\n"));
    assert_eq!(get(&["two", "a\tb"]), "\\u001b[2Jx\\ny\t1\n");
    let watched = Command::new("script")
        .args(["-qec", &format!("{SPIREA} get {} one 'a\tb'", server.url), "/dev/null"])
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .output()
        .expect("util-linux has script");
    assert_eq!(text(&watched.stdout), "\\u001b[2Jx\\ny\r\n");
    // Text from a server is printed as one line of printable characters.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let liar = std::thread::spawn(move || {
        let refusal = spirea_wire::Refusal {
            code: spirea_wire::Code::UnknownDatabase,
            message: "\u{1b}]0;title\u{7}\nspirea: found".into(),
            remedy: "\u{9b}31m".into(),
            accepted: false,
            current_version: None,
        };
        let body = refusal.encode();
        let head = format!("HTTP/1.1 404 x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        let (mut stream, _) = listener.accept().unwrap();
        let _ = std::io::Read::read(&mut stream, &mut [0; 4096]).unwrap();
        std::io::Write::write_all(&mut stream, &[head.as_bytes(), &body].concat()).unwrap();
        // Unread bytes would reset the connection before the refusal arrives.
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
    });
    let said = refusal(folder, &["get", &url, "one", "a"]);
    liar.join().unwrap();
    assert!(said.contains("\\u001b]0;title\\u0007\\u000aspirea: found; \\u009b31m"), "{said}");
    assert_eq!(said.matches(char::is_control).collect::<String>(), "\n");
}

#[test]
fn a_silent_server_is_waited_for_as_long_as_was_said() {
    let folder = folder_with(&[]);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let started = std::time::Instant::now();
    let said = refusal(folder.path(), &["get", &url, "t", "a", "--timeout", "1"]);
    assert!(said.contains("took too long"), "{said}");
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn a_port_in_use_and_a_server_that_is_not_there_are_explained() {
    let folder = folder_with(&[("t.csv", "k,v\na,1\n")]);
    let folder = folder.path();
    expect(folder, 0, &["build", "--input", "t.csv", "--key", "k", "--value", "v", "--out", "t"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = refusal(folder, &["serve", "t", "--listen", &address]);
    assert!(said.contains(&address), "{said}");
    // The local end of a connection reserves its port, and nobody listens there.
    let connection = std::net::TcpStream::connect(&address).unwrap();
    let address = connection.local_addr().unwrap().to_string();
    let said = refusal(folder, &["get", &format!("http://{address}"), "t", "a"]);
    assert!(said.contains(&address), "{said}");
}

#[test]
fn a_database_of_one_server_is_served_by_any_party_and_asked_at_one_address() {
    let folder = folder_with(&[("t.csv", "k,v\na,1\n")]);
    let folder = folder.path();
    expect(folder, 0, &["build", "--input", "t.csv", "--key", "k", "--value", "v", "--out", "t"]);
    let said = refusal(folder, &["serve", "t", "--party", "2"]);
    assert!(said.contains("the parties are 0 and 1"), "{said}");
    let server = Server::start(folder, &["t", "--party", "1"]);
    let answer = expect(folder, 0, &["get", &server.url, "t", "a", "--wait", "120"]);
    assert_eq!(text(&answer.stdout), "1\n");
    let said = refusal(folder, &["get", &server.url, "t", "a", "--other", &server.url]);
    assert!(said.contains("give one address"), "{said}");
}

#[test]
fn conservative_sets_are_chosen_named_and_never_weakened() {
    let folder = folder_with(&[("t.csv", "k,v\na,1\nb,2\n")]);
    let folder = folder.path();
    let build = ["build", "--input", "t.csv", "--key", "k", "--value", "v", "--security", "conservative"];
    expect(folder, 0, &[&build[..], &["--protocol", "hybrid", "--out", "t"]].concat());
    let explained = text(&expect(folder, 0, &["inspect", "t"]).stdout);
    for part in [
        "module-1536: 161.1 bits under MATZOV, 164.7 under BDGL16, 138.1 by core-SVP",
        "brief: 159.7 bits under MATZOV, 162.6 under BDGL16, 132.3 by core-SVP; no figure below ML-KEM-512's",
    ] {
        assert!(explained.contains(part), "{part:?} is missing from\n{explained}");
    }
    let machine = text(&expect(folder, 0, &["inspect", "t", "--json"]).stdout);
    let machine: serde_json::Value = serde_json::from_str(&machine).unwrap();
    assert_eq!(machine["security"][0]["set"], "module-1536");
    assert_eq!(machine["security"][1]["core_svp"], 132.3);
    let server = Server::start(folder, &["t"]);
    let answer = expect(folder, 0, &["get", &server.url, "t", "b", "--wait", "120"]);
    assert_eq!(text(&answer.stdout), "2\n");

    let weaker: [&[&str]; 3] = [
        &["--protocol", "simple", "--set", "module-1280"],
        &["--protocol", "onion", "--ring", "onion-32"],
        &["--protocol", "dpf-xor", "--prf", "siphash", "--accept-weak-prf"],
    ];
    for weaker in weaker {
        let said = refusal(folder, &[&build[..], weaker, &["--out", "weaker"]].concat());
        assert!(said.contains("conservative security"), "{said}");
    }
}

#[test]
fn budgets_for_keys_are_sizes_and_the_disk_s_needs_a_folder() {
    let folder = TempDir::new().unwrap();
    let said = refusal(folder.path(), &["serve", "t", "--keys-memory", "plenty"]);
    assert!(said.contains("512MiB"), "{said}");
    let said = refusal(folder.path(), &["serve", "t", "--keys-disk", "1GiB"]);
    assert!(said.contains("--keys-dir"), "{said}");
    // Both options are fine here; only the snapshot is wrong.
    let said = refusal(folder.path(), &["serve", "t", "--keys-memory", "1GiB"]);
    assert!(said.contains("t: there is no such snapshot"), "{said}");
}
