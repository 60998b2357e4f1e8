//! Two servers: their parties, versions, bins and functions.

use crate::command::{RATES, Server, expect, folder_with, refusal, spirea, text};

#[test]
fn two_servers_answer_together_and_each_must_say_which_it_is() {
    let folder = folder_with(&[("t.csv", "k,v\na,1\nb,2\n")]);
    let folder = folder.path();
    let arguments = ["build", "--input", "t.csv", "--key", "k", "--value", "v", "--protocol", "dpf-xor"];
    expect(folder, 0, &[&arguments[..], &["--out", "t"]].concat());
    let explained = text(&expect(folder, 0, &["inspect", "t"]).stdout);
    for part in [
        "dpf-xor, set aes-128, bit, 127-bit security",
        "aes-128: A standard block cipher",
        "with each of two servers",
        "neither of the two servers can tell which was asked for, unless they work together",
        "never: there is no noise",
    ] {
        assert!(explained.contains(part), "{part:?} is missing from\n{explained}");
    }
    let said = refusal(folder, &["serve", "t"]);
    assert!(said.contains("t: database t") && said.contains("--party 0 or --party 1"), "{said}");

    let [zero, one] = ["0", "1"].map(|party| Server::start(folder, &["t", "--party", party]));
    for (url, other) in [(&zero.url, &one.url), (&one.url, &zero.url)] {
        let arguments = ["get", url, "t", "b", "absent", "--other", other, "--wait", "120"];
        let answer = expect(folder, 1, &arguments);
        assert_eq!(text(&answer.stdout), "b\t2\n");
        assert!(text(&answer.stderr).contains("absent: not found"));
    }
    let said = refusal(folder, &["get", &one.url, "t", "b"]);
    assert!(said.contains("give both addresses"), "{said}");
    let said = refusal(folder, &["get", &one.url, "t", "b", "--other", &one.url]);
    assert!(said.contains("both addresses are of party 1"), "{said}");
    assert_eq!((zero.stop(), one.stop()), (0, 0));
}

#[test]
fn two_servers_answer_a_query_for_a_row_of_each_bin() {
    let rows: String = (0..100).map(|row| format!("value {row}\n")).collect();
    let folder = folder_with(&[
        ("t.csv", &format!("v\n{rows}")),
        ("changed.jsonl", "{\"key\":4,\"value\":\"new\"}\n"),
    ]);
    let folder = folder.path();
    let build = ["build", "--input", "t.csv", "--value", "v", "--out", "t"];
    let built = [&build[..], &["--protocol", "dpf-xor", "--bins", "10"]].concat();
    let explained = text(&expect(folder, 0, &built).stdout);
    let of_bins = "10 of 10 records each, the last filled up: a query has a key of 81 B for each";
    assert!(explained.contains(of_bins) && explained.contains("aes-128, bit, 10 bins"), "{explained}");
    let machine = text(&expect(folder, 0, &["inspect", "t", "--json"]).stdout);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&machine).unwrap()["protocol"]["bins"], 10);
    let said =
        refusal(folder, &[&build[..4], &["v", "--out", "u", "--protocol", "simple", "--bins", "2"]].concat());
    assert!(said.contains("simple has no bins"), "{said}");

    let [zero, one] = ["0", "1"].map(|party| Server::start(folder, &["t", "--party", party]));
    let of_both = |status, arguments: &[&str]| {
        let common = ["get", &zero.url, "t", "--other", &one.url, "--wait", "120"];
        expect(folder, status, &[&common[..], arguments].concat())
    };
    let answer = of_both(1, &["--fetch", "--index", "4", "15", "7", "99"]);
    assert_eq!(text(&answer.stdout), "4\tvalue 4\n15\tvalue 15\n99\tvalue 99\n");
    assert!(text(&answer.stderr).contains("7: dropped: one before it lies in the same bin"));
    let answer = of_both(1, &["--fetch", "--json", "--index", "4", "7"]);
    let lines = text(&answer.stdout);
    let dropped: serde_json::Value = serde_json::from_str(lines.lines().nth(1).unwrap()).unwrap();
    assert_eq!((&dropped["index"], &dropped["dropped"]), (&7.into(), &true.into()), "{lines}");
    // Each index has its own query.
    let answer = of_both(0, &["--timings", "--index", "4", "7"]);
    assert_eq!(text(&answer.stdout), "4\tvalue 4\n7\tvalue 7\n");
    assert_eq!((zero.stop(), one.stop()), (0, 0));

    expect(folder, 0, &["publish", "--repository", "r", "--base", "t"]);
    let changed = expect(folder, 0, &["publish", "--repository", "r", "--changes", "changed.jsonl"]);
    assert!(text(&changed.stdout).contains("100 rows, no changes"), "{}", text(&changed.stdout));
    let plan =
        ["plan", "--records", "10000", "--record-bytes", "64", "--servers", "2", "--bins", "8", "--json"];
    let plan = text(&expect(folder, 0, &[&plan[..], &RATES].concat()).stdout);
    let lines: Vec<serde_json::Value> =
        plan.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let xor = lines.iter().find(|line| line["protocol"] == "dpf-xor").unwrap();
    // Keys for 1250 rows have two levels. Each key has 1 + 16 + 32 + 1 + 64 = 114 bytes, and the
    // keys of 8 bins have 912 bytes.
    assert_eq!(
        (&xor["bins"], &xor["upload_bytes"], &xor["download_bytes"]),
        (&8.into(), &912.into(), &512.into())
    );
    assert!(lines[0]["refused"].as_str().unwrap().contains("has no bins"));
}

#[test]
fn servers_of_different_snapshots_are_told_apart_and_serve_again_once_both_are_updated() {
    let folder = folder_with(&[("old.csv", "k,v\na,1\nb,2\n"), ("new.csv", "k,v\na,1\nb,3\n")]);
    let folder = folder.path();
    let versions = ["old", "new"].map(|version| {
        let input = format!("{version}.csv");
        let arguments = ["build", "--input", &input, "--key", "k", "--value", "v", "--protocol", "dpf-xor"];
        let built = expect(folder, 0, &[&arguments[..], &["--name", "t", "--out", version]].concat());
        let line = text(&built.stdout)
            .lines()
            .find_map(|line| Some(line.trim().strip_prefix("version ")?.trim().to_owned()));
        line.expect("the build tells the version")
    });
    let start = |version: &str, party: &str| Server::start(folder, &[version, "--party", party]);
    let get = |status, [zero, one]: [&Server; 2]| {
        let arguments = ["get", &zero.url, "t", "b", "--other", &one.url, "--wait", "120"];
        expect(folder, status, &arguments)
    };
    let (zero, one) = (start("old", "0"), start("old", "1"));
    assert_eq!(text(&get(0, [&zero, &one]).stdout), "2\n");

    assert_eq!(one.stop(), 0);
    let one = start("new", "1");
    let answer = get(2, [&zero, &one]);
    let said = text(&answer.stderr);
    let [old, new] = versions.each_ref().map(|version| &version[..8]);
    assert!(said.contains(&format!("party 0 serves version {old}…, party 1 serves {new}…")), "{said}");
    assert!(answer.stdout.is_empty());

    assert_eq!(zero.stop(), 0);
    let zero = start("new", "0");
    assert_eq!(text(&get(0, [&zero, &one]).stdout), "3\n");
}

#[test]
fn the_functions_and_words_of_two_servers_are_chosen_by_name() {
    let folder = folder_with(&[("t.csv", "v\nzero\none\n")]);
    let folder = folder.path();
    let build = |out: &str, more: &[&str]| {
        let arguments = [&["build", "--input", "t.csv", "--value", "v", "--out", out], more].concat();
        spirea(folder, &arguments)
    };
    let refused = |more: &[&str], parts: &[&str]| {
        let output = build("refused", more);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        for part in parts {
            assert!(said.contains(part), "{part:?} is missing from\n{said}");
        }
        assert!(!folder.join("refused").exists());
    };
    let weak = ["--protocol", "dpf-xor", "--prf", "siphash"];
    refused(&weak, &["siphash", "hash tables", "--accept-weak-prf"]);
    refused(&["--protocol", "dpf-xor", "--prf", "rot13"], &["rot13", "chacha12"]);
    refused(&["--protocol", "dpf-sum", "--word-bits", "16"], &["32 or 64"]);
    for (out, more, set) in [
        ("words", &["--protocol", "dpf-sum", "--word-bits", "64"][..], "aes-128, u64"),
        ("chacha", &["--protocol", "dpf-sum", "--prf", "chacha12"], "chacha12, u32"),
        ("weak", &[&weak[..], &["--accept-weak-prf"]].concat(), "siphash, bit"),
    ] {
        let output = build(out, more);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains(set), "{}", text(&output.stdout));
    }
    let snapshots = ["words", "chacha", "weak"];
    let [zero, one] =
        ["0", "1"].map(|party| Server::start(folder, &[&snapshots, &["--party", party][..]].concat()));
    let get = |name| ["get", &zero.url, name, "--other", &one.url, "--wait", "120", "--index", "1"];
    for name in ["words", "chacha"] {
        assert_eq!(text(&expect(folder, 0, &get(name)).stdout), "one\n");
    }
    let said = refusal(folder, &get("weak"));
    for part in ["siphash", "hash tables", "--accept-weak-prf"] {
        assert!(said.contains(part), "{part:?} is missing from\n{said}");
    }
    let answer = expect(folder, 0, &[&get("weak")[..], &["--accept-weak-prf"]].concat());
    assert_eq!(text(&answer.stdout), "one\n");
}
