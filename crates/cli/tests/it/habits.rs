//! Common habits: pipes, files of spreadsheets, sizes in usual notations, shells and man pages.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::command::{RATES, SPIREA, expect, folder_with, refusal, text};

fn rows_of(folder: &std::path::Path, table: &str) -> u64 {
    let said = text(&expect(folder, 0, &["inspect", table, "--json"]).stdout);
    let described: serde_json::Value = serde_json::from_str(&said).unwrap();
    described["statistics"]["rows"].as_u64().unwrap()
}

#[test]
fn a_table_comes_through_a_pipe_in_any_format() {
    let folder = folder_with(&[]);
    let folder = folder.path();
    let build = |format: &str, content: &str, out: &str| {
        let arguments =
            ["build", "--input", "-", "--format", format, "--key", "k", "--value", "v", "--out", out];
        let mut process = Command::new(SPIREA)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        process.stdin.take().unwrap().write_all(content.as_bytes()).unwrap();
        process.wait_with_output().unwrap()
    };
    assert!(build("csv", "k,v\na,1\nb,2\n", "one").status.success());
    assert!(build("jsonl", "{\"k\":\"a\",\"v\":1}\n", "two").status.success());
    assert_eq!((rows_of(folder, "one"), rows_of(folder, "two")), (2, 1));
    let refused = build("csv", "k,v\na,1\nb,2\na,3\n", "three");
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said.contains("standard input: duplicate keys: \"a\" in lines 2, 4"), "{said}");
    let names: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let said = refusal(folder, &["build", "--input", "-", "--key", "k", "--value", "v", "--out", "four"]);
    assert!(said.contains("--format"), "{said}");
}

#[test]
fn spreadsheets_files_are_read_or_told_how_to() {
    let folder = folder_with(&[
        ("t.tsv", "k\tv\na\t1\n"),
        ("t.csv", "k;v\na;1,5\n"),
        ("n.jsonl", "{\"k\":\"a\",\"v\":null}\n"),
    ]);
    let folder = folder.path();
    let wide: Vec<u8> = "\u{feff}k,v\na,1\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(folder.join("wide.csv"), wide).unwrap();
    let build = |input: &'static str, more: &[&'static str]| {
        let out = format!("{}-{}", input.replace('.', "-"), more.len());
        let arguments = ["build", "--input", input, "--key", "k", "--value", "v", "--out"];
        [&arguments[..], &[&*out.leak()], more].concat()
    };
    expect(folder, 0, &build("t.tsv", &[]));
    expect(folder, 0, &build("t.csv", &["--delimiter", ";"]));
    expect(folder, 0, &build("n.jsonl", &["--nulls", "empty"]));
    for (arguments, part) in [
        (build("t.csv", &[]), "give --delimiter ';'"),
        (build("wide.csv", &[]), "--encoding utf-16"),
        (build("n.jsonl", &[]), "--nulls empty"),
        (build("t.csv", &["--delimiter", "xx"]), "one character"),
    ] {
        let said = refusal(folder, &arguments);
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn sizes_and_counts_are_read_as_people_write_them() {
    let folder = folder_with(&[]);
    let arguments = ["plan", "--records", "2e3", "--record-bytes", "0.5K", "--json", RATES[0], RATES[1]];
    let plan = text(&expect(folder.path(), 0, &arguments).stdout);
    let of_dpf = plan.lines().find(|line| line.contains("dpf-xor")).unwrap();
    let of_dpf: serde_json::Value = serde_json::from_str(of_dpf).unwrap();
    assert_eq!(
        (&of_dpf["shape"], &of_dpf["download_bytes"]),
        (&[1, 2000].as_slice().into(), &512.into()),
        "{of_dpf}"
    );
    for (arguments, part) in [
        (["plan", "--records", "many", "--record-bytes", "1"], "1e6"),
        (["plan", "--records", "1", "--record-bytes", "1.5"], "512MiB"),
        (["plan", "--records", "0", "--record-bytes", "1"], "has records"),
    ] {
        let said = refusal(folder.path(), &arguments);
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_table_that_no_machine_could_serve_is_refused_once_and_at_once() {
    let folder = folder_with(&[]);
    let said = refusal(folder.path(), &["plan", "--records", "1e15", "--record-bytes", "1MB"]);
    assert!(said.contains("on whatever machine"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn more_threads_than_the_machine_has_are_refused() {
    let folder = folder_with(&[("t.csv", "k,v\na,1\n")]);
    for command in [
        &["build", "--input", "t.csv", "--key", "k", "--value", "v", "--out", "t"][..],
        &["serve", "t"],
        &["plan", "--records", "1", "--record-bytes", "1"],
    ] {
        let said = refusal(folder.path(), &[command, &["--threads", "100000"]].concat());
        assert!(said.contains("0 for all"), "{said}");
    }
}

#[test]
fn a_quiet_build_prints_nothing_but_what_is_wrong() {
    let folder = folder_with(&[("t.csv", "k,v\na,1\n")]);
    let arguments = ["build", "--quiet", "--input", "t.csv", "--key", "k", "--value", "v", "--out", "t"];
    let output = expect(folder.path(), 0, &arguments);
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    assert!(refusal(folder.path(), &arguments).contains("--overwrite"));
}

#[test]
fn what_the_python_package_does_is_said_to_be_there() {
    let folder = folder_with(&[]);
    let said = refusal(folder.path(), &["cluster", "up", "--wait", "5", "cluster.yaml"]);
    assert!(
        said.contains("cluster up is a command of the Python package: pip install 'spirea[cluster]'"),
        "{said}"
    );
}

#[test]
fn a_command_that_moved_is_said_to_be_of_the_other_program() {
    let folder = folder_with(&[]);
    for (arguments, path) in [
        (&["bench", "scan", "--db-gib", "1"][..], "bench"),
        (&["gpu", "bench"], "gpu bench"),
        (&["gpu", "predict"], "gpu predict"),
        (&["load", "--rate", "1"], "load"),
        (&["simulate-load", "prices"], "simulate-load"),
    ] {
        let said = refusal(folder.path(), arguments);
        assert!(said.starts_with(&format!("spirea: {path} is a command of spirea-lab")), "{said}");
        assert!(said.contains("cargo build") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn shells_complete_and_man_has_a_page_for_each_command() {
    let folder = folder_with(&[]);
    let folder = folder.path();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = text(&expect(folder, 0, &["completions", shell]).stdout);
        assert!(script.contains("spirea") && script.contains("record-bytes"), "{shell}");
    }
    expect(folder, 0, &["man", "--out", "share/man1"]);
    let page = |name: &str| std::fs::read_to_string(folder.join("share/man1").join(name)).unwrap();
    assert!(page("spirea.1").contains("does not learn which"));
    for (name, part) in
        [("spirea-build.1", "delimiter"), ("spirea-get.1", "timeout"), ("spirea-key-new.1", "key")]
    {
        assert!(page(name).contains(part), "{name}");
    }
}

#[test]
fn a_plan_is_made_of_the_file_that_would_be_built() {
    let folder = folder_with(&[("t.csv", "k,v\na,1\nb,22\nc,333\n"), ("twice.csv", "k,v\na,1\na,2\n")]);
    let folder = folder.path();
    let plan = |more: &[&str]| {
        let arguments = [&["plan", "--input", "t.csv", "--value", "v"][..], &RATES, more].concat();
        text(&expect(folder, 0, &arguments).stdout)
    };
    expect(folder, 0, &["build", "--input", "t.csv", "--value", "v", "--out", "rows"]);
    let built = text(&expect(folder, 0, &["inspect", "rows"]).stdout);
    let planned = plan(&[]);
    let records = planned.lines().find_map(|line| line.strip_prefix("records: ")).unwrap();
    let (records, values) = records.split_once(", of ").unwrap();
    assert_eq!(values, "3 values");
    assert!(built.contains(&format!("records  {records}: padded")), "{built}");
    let longest = planned.lines().find_map(|line| line.strip_prefix("longest value: ")).unwrap();
    assert!(built.contains(longest), "{planned}{built}");
    assert!(plan(&["--key", "k", "--proofs"]).contains("recommended: "));
    let said = refusal(folder, &["plan", "--input", "twice.csv", "--key", "k", "--value", "v"]);
    assert!(said.contains("\"a\" in lines 2, 3"), "{said}");
    let said = refusal(folder, &["plan", "--records", "9"]);
    assert!(said.contains("--record-bytes"), "{said}");
    let names: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}
