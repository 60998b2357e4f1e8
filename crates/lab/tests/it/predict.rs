//! `spirea-lab gpu predict`: the output of the program, and its refusals.

use std::process::{Command, Output};

use spirea_specimens::program::{objects, text};

use crate::command::LAB;

fn predict(arguments: &str) -> Output {
    let mut command = Command::new(LAB);
    command.args(["gpu", "predict"]).args(arguments.split_whitespace());
    command.env("SPIREA_CUDA_DRIVER", "no-such-library.so").output().expect("the command runs")
}

/// Runs the command. Returns its standard output.
fn printed(arguments: &str) -> String {
    let output = predict(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_card_is_predicted_as_text_and_as_json() {
    let lines = printed("--card h100");
    assert!(lines.starts_with("PREDICTION, not a measurement: h100, compute capability 9.0, "), "{lines}");
    let [card, figures @ ..] = &objects(&printed("--card h100 --json"))[..] else { panic!("no objects") };
    assert_eq!(card["card"], "h100");
    assert_eq!(lines.lines().filter(|line| line.starts_with("predict ")).count(), figures.len());
    let batches = |name: &str| -> Vec<u64> {
        let named = figures.iter().filter(|figure| figure["name"] == name);
        named.map(|figure| figure["batch"].as_u64().unwrap()).collect()
    };
    assert_eq!(batches("scalar_fold"), [1, 8, 16, 32, 64]);
    for (name, batch) in [("hybrid", 1), ("exppack-simple", 32), ("onion", 32), ("dpf-xor", 1)] {
        assert_eq!(batches(name), [batch], "{name}");
    }
    for figure in figures {
        assert_eq!(figure["prediction"], true, "{figure}");
        // A measurement has a ratio to its limit; a prediction must not look like one.
        assert!(figure.get("ratio").is_none() && figure.get("backend").is_none(), "{figure}");
        assert!(figure["seconds"].as_f64().unwrap() > 0.0 && figure["bound"].is_string(), "{figure}");
        assert!(!figure["assumptions"].as_array().unwrap().is_empty(), "{figure}");
    }
}

#[test]
fn a_described_card_is_the_named_one() {
    let seconds = |arguments: &str| -> Vec<f64> {
        let objects = objects(&printed(arguments));
        objects[1..].iter().map(|figure| figure["seconds"].as_f64().unwrap()).collect()
    };
    let named = seconds("--card h200 --memory 131 --json");
    let numbers = "--memory-bandwidth 4800GB/s --processors 132 --clock 1.83 --memory 131 --compute-capability 9.0 --json";
    assert_eq!(named, seconds(numbers));
}

#[test]
fn wrong_numbers_are_refused() {
    for (arguments, reason) in [
        ("", "name a card, as in --card h100"),
        ("--card h300", "known are h200"),
        ("--processors 132", "missing: --memory-bandwidth, --clock, --memory, --compute-capability"),
        ("--card h200 --clock NaN", "from 0.1 to 10 GHz"),
        ("--card h200 --memory-bandwidth=-1TB/s", "from 0.01 to 100 TB/s"),
        ("--card h200 --compute-capability 7.0", "rates for 8.0"),
    ] {
        let output = predict(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        assert!(said.contains(reason) && output.stdout.is_empty(), "{arguments}: {said}");
    }
}
