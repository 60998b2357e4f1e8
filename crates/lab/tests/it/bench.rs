//! `spirea-lab bench`: ratios to measured limits, and a model compared with its paper.

use serde_json::Value;
use spirea_specimens::program::{folder_with, objects, text};
use tempfile::TempDir;

use crate::command::{expect, refusal};

#[test]
fn benchmarks_report_a_ratio_to_a_measured_limit() {
    let folder = TempDir::new().unwrap();
    for (name, more) in [("scan", &["--batch", "4"][..]), ("hint", &[]), ("simple", &[])] {
        let arguments = [&["bench", name, "--db-gib", "0.01", "--runs", "1", "--json"], more].concat();
        let output = expect(folder.path(), 0, &arguments);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["name"], name);
        for figure in ["seconds", "floor_seconds", "ratio"] {
            assert!(report[figure].as_f64().unwrap() > 0.0, "{figure} of {report}");
        }
    }
}

#[test]
fn more_threads_than_the_machine_has_are_refused() {
    let said = refusal(TempDir::new().unwrap().path(), &["bench", "scan", "--threads", "100000"]);
    assert!(said.contains("0 for all"), "{said}");
}

#[test]
fn the_model_is_printed_beside_the_paper_and_drawn() {
    let folder = folder_with(&[]);
    let folder = folder.path();
    let bench = |arguments: &[&str]| {
        objects(&text(&expect(folder, 0, &[&["bench", "pim", "--json"], arguments].concat()).stdout))
    };
    let named = |lines: &[Value], name: &str| -> Vec<Value> {
        lines.iter().filter(|line| line["name"] == name).cloned().collect()
    };
    let paper = bench(&["--plots", "drawn"]);
    let comparisons = named(&paper, "pim-comparison");
    assert_eq!(comparisons.len(), 17);
    assert!(comparisons.iter().all(|line| line["profile"] == "paper"));
    let fitted = |line: &&Value| line["kind"] == "fitted";
    assert!(comparisons.iter().filter(fitted).all(|line| line["within"] == true));
    let simulated = named(&paper, "pim-simulation");
    assert!(
        simulated.len() == 8 && simulated.iter().all(|line| line["deviation"].as_f64().unwrap().abs() < 0.05)
    );
    assert!(named(&paper, "pim-figure").iter().any(|line| line["figure"] == "11b"));
    for drawing in ["comparisons", "figure-9a", "figure-9d", "figure-10", "figure-11a", "figure-12b"] {
        let svg = std::fs::read_to_string(folder.join("drawn").join(drawing).with_extension("svg")).unwrap();
        assert!(svg.contains("IM-PIR") && svg.contains("profile paper"), "{drawing}");
    }
    let kernel = bench(&["--profile", "kernel", "--emulate-mib", "1", "--dpus", "3", "--runs", "1"]);
    assert!(named(&kernel, "pim-comparison").iter().any(|line| line["within"] == false));
    let shared = named(&kernel, "pim-shared");
    assert!(shared.iter().any(|line| line["queries"] == 4 && line["in_memory_gain"].as_f64() > Some(1.2)));
    let emulated = named(&kernel, "pim-emulation");
    assert!(emulated[0]["ratio"].as_f64() > Some(0.0) && emulated[0]["shape"][0] == 32768);

    let readable = text(&expect(folder, 0, &["bench", "pim"]).stdout);
    assert!(readable.contains("Table 1, IM-PIR: evaluation") && readable.contains("the bound is evaluation"));
    std::fs::write(folder.join("wrong.toml"), "label = 'nothing else'\n").unwrap();
    let said = refusal(folder, &["bench", "pim", "--parameters", "wrong.toml"]);
    assert!(said.contains("the model's parameters"), "{said}");
}
