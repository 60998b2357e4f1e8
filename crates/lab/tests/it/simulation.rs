//! `spirea-lab simulate-load`: the scheduler in virtual time.

use serde_json::Value;
use spirea_specimens::program::{folder_with, text};

use crate::command::{build, expect, refusal};

/// A scan takes 100 ms, and each query 4 ms.
const BATCHES: &str = "1=0.104,64=0.356";
const ALONE: f64 = 0.104;
const SATURATION: f64 = 64.0 / 0.356;

fn points(arguments: &[&str]) -> Vec<Value> {
    let folder = folder_with(&[]);
    let arguments = [&["simulate-load", "--batch-seconds", BATCHES, "--json"], arguments].concat();
    let output = text(&expect(folder.path(), 0, &arguments).stdout);
    output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn batches_cost_little_at_low_load_and_carry_all_at_high_load() {
    let points = points(&["--load", "0.01,0.1,0.9,2", "--queue", "128"]);
    assert_eq!(points.len(), 8);
    let figure = |path: &str, place: usize, name: &str| {
        let mut of_path = points.iter().filter(|point| point["path"] == path);
        of_path.nth(place).unwrap()[name].as_f64().unwrap()
    };
    for place in [0, 1] {
        assert!(figure("batched", place, "mean_seconds") <= 2.0 * ALONE);
    }
    // A lone query waits for the batching window.
    assert!(figure("batched", 0, "p50_seconds") > 1.8 * ALONE);
    assert!(figure("direct", 0, "p50_seconds") < 1.01 * ALONE);
    // If the server answers one query after another, it cannot carry a tenth of the load; with
    // batches it carries the whole load.
    assert!(figure("direct", 1, "refused") > 0.0 && figure("batched", 2, "refused") == 0.0);
    assert!(figure("batched", 3, "throughput") > 0.97 * SATURATION);
    assert!(figure("batched", 3, "mean_batch") > 62.0);
    assert!(figure("batched", 3, "utilisation") > 0.99);
    assert!((figure("direct", 3, "throughput") * ALONE - 1.0).abs() < 0.01);
    assert!(points.iter().all(|point| point["simulated"] == true));
}

#[test]
fn the_same_seed_gives_the_same_figures() {
    let arguments = ["--rate", "20,100", "--requests", "3000", "--seed"];
    let run = |seed| points(&[&arguments[..], &[seed]].concat());
    assert_eq!(run("7"), run("7"));
    assert_ne!(run("7"), run("8"));
}

#[test]
fn a_snapshot_is_timed_and_the_curve_is_drawn() {
    let folder = folder_with(&[("words.csv", "word\nzero\none\ntwo\n")]);
    let folder = folder.path();
    for protocol in ["simple", "exppack-simple", "dpf-xor"] {
        build(folder, "words.csv", protocol, &["--value", "word", "--protocol", protocol]);
        let simulate =
            ["simulate-load", protocol, "--limit", "4", "--requests", "500", "--plot", "curve.svg"];
        let said = text(&expect(folder, 0, &simulate).stdout);
        for part in
            ["simulated, not measured under load", "virtual time", protocol, "batched", "direct", "p99"]
        {
            assert!(said.contains(part), "{part:?} is missing from\n{said}");
        }
        let curve = std::fs::read_to_string(folder.join("curve.svg")).unwrap();
        for part in ["<svg", "Latency against load (simulated)", "twice a query alone", "queries a second"] {
            assert!(curve.contains(part), "{part:?} is missing from the drawing");
        }
        std::fs::remove_file(folder.join("curve.svg")).unwrap();
    }
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let folder = folder_with(&[]);
    let refused = |arguments: &[&str], part: &str| {
        let said = refusal(folder.path(), &[&["simulate-load"], arguments].concat());
        assert!(said.contains(part), "{part:?} is missing from\n{said}");
    };
    refused(&[], "SNAPSHOT");
    refused(&["nowhere"], "nowhere: there is no such snapshot");
    refused(&["--batch-seconds", "1=0.1,x"], "32=0.4");
    refused(&["--batch-seconds", "1=0.1", "--load", "0"], "above 0");
    refused(&["--batch-seconds", "1=0.1", "--rate=-3"], "above 0");
    refused(&["--batch-seconds", "1=0.1", "--limit", "0"], "--limit");
}
