//! `spirea-lab load` against servers that answer, lie, refuse, stall and change.

use std::path::Path;

use serde_json::Value;
use spirea_specimens::program::{folder_with, text};
use spirea_specimens::proxy::{self, Fate};
use spirea_wire::{Code, Refusal};
use tempfile::TempDir;

use crate::command::{Server, build, expect, refusal};

/// Makes rows `key-i` with the value `i` of an edition.
fn csv(edition: &str) -> String {
    let rows: String = (0..50).map(|i| format!("key-{i},{edition} {i}\n")).collect();
    format!("k,v\n{rows}")
}

/// Makes a folder with two editions of a table, as files and as snapshots of one name.
fn tables(protocol: &str) -> TempDir {
    let folder = folder_with(&[("old.csv", &csv("old")), ("new.csv", &csv("new"))]);
    for edition in ["old", "new"] {
        let input = format!("{edition}.csv");
        build(
            folder.path(),
            &input,
            edition,
            &["--key", "k", "--value", "v", "--protocol", protocol, "--name", "t"],
        );
    }
    folder
}

const OLD: [&str; 6] = ["--expect", "old.csv", "--key", "k", "--value", "v"];
const BOTH: [&str; 8] = ["--expect", "old.csv", "--expect", "new.csv", "--key", "k", "--value", "v"];

/// Runs about 60 look-ups, and returns the report.
fn load(folder: &Path, status: i32, url: &str, more: &[&str]) -> Value {
    load_at(folder, status, url, "60", more)
}

/// Runs look-ups at some rate for a second. Unoptimised servers of ring protocols take long for
/// each.
fn load_at(folder: &Path, status: i32, url: &str, rate: &str, more: &[&str]) -> Value {
    let common = [
        "load",
        "--server",
        url,
        "--database",
        "t",
        "--rate",
        rate,
        "--seconds",
        "1",
        "--seed",
        "3",
        "--json",
    ];
    let report: Value =
        serde_json::from_slice(&expect(folder, status, &[&common[..], more].concat()).stdout).unwrap();
    let errors: u64 =
        report["errors"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(count(&report, "sent"), count(&report, "answered") + errors, "a look-up is lost: {report}");
    assert!(count(&report, "sent") as f64 > 0.5 * rate.parse::<f64>().unwrap(), "{report}");
    report
}

fn count(report: &Value, name: &str) -> u64 {
    report[name].as_u64().unwrap_or_else(|| panic!("no {name} in {report}"))
}

/// Checks that every look-up was answered, and rightly if the right value is known.
fn assert_clean(report: &Value, compared: bool) {
    assert_eq!(report["errors"], serde_json::json!({}), "{report}");
    assert_eq!((count(report, "wrong"), count(report, "corrupted")), (0, 0));
    assert_eq!(count(report, "checked"), if compared { count(report, "answered") } else { 0 });
}

fn refused(status: u16, code: Code, accepted: bool) -> Fate {
    let (message, remedy) = ("no".into(), "none".into());
    Fate::Reply(status, Refusal { code, message, remedy, accepted, current_version: None }.encode())
}

#[test]
fn every_answer_of_a_server_is_compared() {
    let folder = tables("simple");
    let folder = folder.path();
    let server = Server::ready(folder, &["old"]);
    let report =
        load(folder, 0, &server.url, &[&OLD[..], &["--clients", "7", "--plot", "latency.svg"]].concat());
    assert_clean(&report, true);
    assert_eq!((&report["protocol"], count(&report, "clients")), (&"simple".into(), 7));
    for figure in ["mean", "p50", "p90", "p99", "p999", "max"] {
        assert!(report[format!("{figure}_seconds")].as_f64().unwrap() > 0.0, "{figure} of {report}");
    }
    assert!(count(&report, "sent_bytes") > 1000 && count(&report, "received_bytes") > 1000);
    assert!(report["achieved_rate"].as_f64().unwrap() > 0.0);
    let drawn = std::fs::read_to_string(folder.join("latency.svg")).unwrap();
    assert!(drawn.contains("<svg") && drawn.contains("0 wrong"));

    // Checks the report for people. The values of the keys are not known, and one key is not in the
    // table.
    std::fs::write(folder.join("keys.txt"), "key-1\nkey-49\nabsent\n").unwrap();
    let arguments = ["load", "--server", &server.url, "--database", "t", "--rate", "50", "--seconds", "0.5"];
    let said = text(&expect(folder, 0, &[&arguments[..], &["--keys", "keys.txt"]].concat()).stdout);
    for part in ["t (simple)", "p99.9", "0 wrong, 0 corrupted, none compared", "from when a look-up was due"]
    {
        assert!(said.contains(part), "{part:?} is missing from\n{said}");
    }
}

#[test]
fn clients_with_keys_and_pairs_of_servers_are_asked_too() {
    let folder = tables("exppack-simple");
    let folder = folder.path();
    let server = Server::ready(folder, &["old"]);
    let patient = ["--clients", "5", "--timeout", "300"];
    let report = load_at(folder, 0, &server.url, "8", &[&OLD[..], &patient].concat());
    assert_clean(&report, true);
    assert_eq!(server.get("/metrics").matches("spirea_keys{place=\"memory\"} 5").count(), 1);

    build(folder, "old.csv", "pair", &["--value", "v", "--protocol", "dpf-xor", "--name", "t"]);
    let [zero, one] = ["0", "1"].map(|party| Server::with(folder, &["pair"], &["--party", party]));
    // The servers are given in either order. Look-ups are by position, with known and with unknown
    // values.
    let by_position = ["--expect", "old.csv", "--value", "v", "--other", &zero.url];
    assert_clean(&load(folder, 0, &one.url, &by_position), true);
    assert_clean(&load(folder, 0, &zero.url, &["--other", &one.url]), false);
}

#[test]
fn a_server_that_lies_is_found_out() {
    let folder = tables("simple");
    let folder = folder.path();
    let server = Server::ready(folder, &["new"]);
    // The answers are valid, but of another table.
    let report = load(folder, 1, &server.url, &OLD);
    assert_eq!(count(&report, "wrong"), count(&report, "answered"));
    assert_eq!(count(&report, "corrupted"), 0);
    assert_clean(&load(folder, 0, &server.url, &BOTH), true);

    // A proxy garbles every third answer.
    let address = server.address().to_owned();
    let url = proxy::start(move |part, before| match part {
        "query" if before % 3 == 0 => Fate::Garble(address.clone()),
        _ => Fate::Pass(address.clone()),
    });
    let report = load(folder, 1, &url, &BOTH);
    assert_eq!((count(&report, "wrong"), &report["errors"]), (0, &serde_json::json!({})), "{report}");
    assert_eq!(count(&report, "corrupted"), count(&report, "sent").div_ceil(3), "{report}");
}

#[test]
fn refusals_are_counted_by_their_kind_and_are_no_answers() {
    let folder = tables("simple");
    let folder = folder.path();
    let server = Server::ready(folder, &["old"]);
    let address = server.address().to_owned();
    let url = proxy::start(move |part, before| match (part, before % 6) {
        ("query", 0) => refused(429, Code::Overloaded, false),
        ("query", 1) => refused(500, Code::Internal, true),
        ("query", 2) => Fate::Reply(502, b"<html>".into()),
        ("query", 3) => Fate::Hang,
        ("query", 4) => Fate::Reply(200, b"no response".into()),
        _ => Fate::Pass(address.clone()),
    });
    let report = load(folder, 0, &url, &OLD);
    assert_eq!((count(&report, "wrong"), count(&report, "checked")), (0, count(&report, "answered")));
    let kinds: Vec<&str> = report["errors"].as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "connection broken",
        "refused: 429 Overloaded",
        "refused: 500 Internal",
        "status 502",
        "unusable response",
    ];
    assert_eq!(kinds, expected);
    let least = count(&report, "sent") / 6;
    assert!(expected.iter().all(|kind| report["errors"][kind].as_u64().unwrap() >= least), "{report}");
}

#[test]
fn a_server_that_stalls_is_not_waited_for_in_silence() {
    let folder = tables("simple");
    let folder = folder.path();
    let server = Server::ready(folder, &["old"]);
    let address = server.address().to_owned();
    let url = proxy::start(move |part, _| match part {
        "query" => Fate::Stall,
        _ => Fate::Pass(address.clone()),
    });
    // All look-ups are sent when they are due, although no earlier one has been answered.
    let report = load(folder, 0, &url, &[&OLD[..], &["--timeout", "3"]].concat());
    assert_eq!(report["errors"], serde_json::json!({ "timed out": count(&report, "sent") }));
    assert_eq!((count(&report, "answered"), &report["p99_seconds"]), (0, &0.0.into()));
}

#[test]
fn a_new_version_and_forgotten_keys_cost_no_look_up() {
    let folder = tables("exppack-simple");
    let folder = folder.path();
    let servers = ["old", "new"].map(|edition| Server::ready(folder, &[edition]));
    let [old, new] = servers.each_ref().map(|server| server.address().to_owned());
    // From the fourth query on, all requests go to a server with the new version.
    let changed = std::sync::atomic::AtomicBool::new(false);
    let url = proxy::start(move |part, before| {
        use std::sync::atomic::Ordering::SeqCst;
        if part == "query" && before >= 3 {
            changed.store(true, SeqCst);
        }
        Fate::Pass(if changed.load(SeqCst) { new.clone() } else { old.clone() })
    });
    let patient = ["--clients", "3", "--timeout", "300"];
    let report = load_at(folder, 0, &url, "10", &[&BOTH[..], &patient].concat());
    assert_clean(&report, true);
    assert!(count(&report, "refreshed") > 0, "{report}");

    let address = servers[0].address().to_owned();
    let url = proxy::start(move |part, before| match (part, before % 4) {
        ("query", 3) => refused(424, Code::UnknownKeys, false),
        _ => Fate::Pass(address.clone()),
    });
    let report = load_at(folder, 0, &url, "10", &[&OLD[..], &patient].concat());
    assert_clean(&report, true);
    assert!(count(&report, "keys_sent_again") >= 2, "{report}");
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let folder = tables("simple");
    let folder = folder.path();
    build(folder, "old.csv", "list", &["--value", "v", "--protocol", "simple"]);
    let server = Server::ready(folder, &["old", "list"]);
    let said = |database: &str, more: &[&str]| {
        let common =
            ["load", "--server", &server.url, "--database", database, "--rate", "10", "--seconds", "0.1"];
        refusal(folder, &[&common[..], more].concat())
    };
    for (database, more, part) in [
        ("t", &[][..], "--keys FILE"),
        ("t", &["--expect", "old.csv", "--value", "v"], "name its column"),
        ("list", &["--expect", "old.csv", "--key", "k", "--value", "v"], "by position"),
        ("list", &["--keys", "old.csv"], "has no keys"),
        ("t", &["--keys", "missing.txt"], "missing.txt"),
        ("t", &["--expect", "missing.csv", "--key", "k", "--value", "v"], "missing.csv"),
        ("nothing", &[], "UnknownDatabase"),
        ("t", &["--keys", "old.csv", "--timeout", "0"], "--timeout"),
        ("t", &["--keys", "old.csv", "--clients", "0"], "--clients"),
        ("t", &["--keys", "old.csv", "--ca", "old.csv"], "PEM"),
        ("t", &["--keys", "old.csv", "--token-file", "missing.token"], "missing.token"),
    ] {
        let said = said(database, more);
        assert!(said.contains(part), "{part:?} is missing from\n{said}");
    }
    let gone = ["load", "--server", "http://127.0.0.1:9", "--database", "t", "--rate", "1"];
    assert!(refusal(folder, &gone).contains("no connection"));
    let said = refusal(folder, &["load", "--server", "old.csv", "--database", "t", "--rate", "1"]);
    assert!(said.contains("invalid value 'old.csv' for '--server <URL>': it is a file"), "{said}");
    let said = refusal(folder, &["load", "--server", &server.url, "--database", "A b", "--rate", "1"]);
    assert!(said.contains("invalid value 'A b' for '--database <NAME>'"), "{said}");
}
