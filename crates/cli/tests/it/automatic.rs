//! The protocol that a build chooses if none is named.

use std::path::Path;

use crate::command::{RATES, expect, folder_with, refusal, text};

/// Makes a folder with a table and with rates of a machine that scans very slowly, so that `onion`,
/// which scans nothing, is best.
fn folder() -> tempfile::TempDir {
    let rows: String = (0..300).map(|i| format!("key-{i},value {i}\n")).collect();
    let mut slow: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(RATES[1]).unwrap()).unwrap();
    slow["seconds"]["scanned-byte"] = 1e-4.into();
    folder_with(&[("t.csv", &format!("k,v\n{rows}")), ("slow.json", &slow.to_string())])
}

/// Builds a snapshot with these options. Returns its protocol and the build's output.
fn built(folder: &Path, out: &str, more: &[&str]) -> (String, String) {
    let build = ["build", "--input", "t.csv", "--key", "k", "--value", "v", "--out", out];
    let output = expect(folder, 0, &[&build[..], more].concat());
    let machine = text(&expect(folder, 0, &["inspect", out, "--json"]).stdout);
    let machine: serde_json::Value = serde_json::from_str(&machine).unwrap();
    let name = machine["protocol"]["protocol"].as_str().expect("a manifest names its protocol").to_owned();
    (name, text(&output.stdout) + &text(&output.stderr))
}

fn chosen(printed: &str) -> Vec<&str> {
    printed.lines().filter_map(|line| line.trim().strip_prefix("chosen  ")).collect()
}

#[test]
fn a_small_table_needs_no_measurement() {
    let folder = folder();
    let folder = folder.path();
    let (name, printed) = built(folder, "t", &[]);
    assert_eq!(name, "simple");
    let [line] = chosen(&printed)[..] else { panic!("{printed}") };
    let start = "simple, whose look-ups take a client the least time, ";
    assert!(line.starts_with(start) && line.contains("a client downloads a hint of "), "{line}");
    assert!(line.contains("; others: exppack-simple at least ") && line.contains(" with keys of "), "{line}");
    assert!(!printed.contains("measuring") && !folder.join("cache").exists(), "{printed}");
    // Quiet builds choose the same protocol and print nothing.
    assert_eq!(built(folder, "u", &["-q"]), ("simple".into(), String::new()));
    // No reason is printed for a named protocol.
    let (name, printed) = built(folder, "v", &["--protocol", "hybrid"]);
    assert_eq!((&*name, chosen(&printed).len()), ("hybrid", 0));
}

#[test]
fn the_rates_of_a_file_decide_and_a_rebuild_keeps_its_protocol() {
    let folder = folder();
    let folder = folder.path();
    for out in ["t", "u"] {
        let (name, printed) = built(folder, out, &["--rates", "slow.json"]);
        assert_eq!(name, "onion", "{printed}");
        let [line] = chosen(&printed)[..] else { panic!("{printed}") };
        assert!(line.starts_with("onion, ") && line.contains("it sends keys of "), "{line}");
    }
    let (name, printed) = built(folder, "t", &["--overwrite"]);
    assert_eq!(name, "onion");
    let kept = "onion, the protocol of the snapshot that was replaced; --protocol auto would choose anew";
    assert_eq!(chosen(&printed), [kept]);
    // An option changes only its own part of the kept choice.
    assert_eq!(built(folder, "t", &["--overwrite", "--ring", "onion-30"]).0, "onion");
    let explained = text(&expect(folder, 0, &["inspect", "t"]).stdout);
    assert!(explained.contains("onion, set onion-30"), "{explained}");
    assert_eq!(built(folder, "t", &["--overwrite", "--protocol", "hybrid"]).0, "hybrid");
    let (name, printed) = built(folder, "t", &["--overwrite", "--security", "conservative"]);
    assert_eq!(name, "hybrid");
    assert!(printed.contains("module-1536"), "{printed}");
    assert_eq!(built(folder, "t", &["--overwrite", "--protocol", "auto"]).0, "simple");
    // Publishing reports that the repository's protocol changes.
    expect(folder, 0, &["publish", "--repository", "r", "--base", "u"]);
    expect(
        folder,
        0,
        &["build", "-q", "--input", "t.csv", "--key", "k", "--value", "v", "--name", "u", "--out", "w"],
    );
    let published = expect(folder, 0, &["publish", "--repository", "r", "--base", "w"]);
    let said = text(&published.stderr);
    assert!(
        said.contains(
            "the protocol simple, and the version before onion: clients follow; build with --protocol onion"
        ),
        "{said}"
    );
}

#[test]
fn options_of_the_choice_are_refused_where_they_have_no_meaning() {
    let folder = folder();
    let build = ["build", "--input", "t.csv", "--key", "k", "--value", "v", "--out", "t"];
    for (options, part) in [
        (
            &["--set", "paper"][..],
            "--protocol auto, the default, chooses the parameters of one server too: leave --set away",
        ),
        (&["--protocol", "auto", "--bins", "2"], "leave --bins away"),
        (&["--rates", "none.json"], "none.json: "),
        (
            &["--rates", RATES[1], "--protocol", "simple"],
            "--rates is for --protocol auto: omit it with simple",
        ),
    ] {
        let said = refusal(folder.path(), &[&build[..], options].concat());
        assert!(said.contains(part), "{said}");
    }
}
