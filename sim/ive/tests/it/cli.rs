//! The command `spirea-ive`, called as a program.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Returns true if the call succeeded, and its output on both streams.
fn call(arguments: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_spirea-ive")).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

fn printed(arguments: &[&str]) -> String {
    let (success, printed, said) = call(arguments);
    assert!(success, "{arguments:?}: {said}");
    printed
}

fn refused(arguments: &[&str]) -> String {
    let (success, _, said) = call(arguments);
    assert!(!success && !said.contains("panicked"), "{arguments:?}: {said}");
    said
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn what_if(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("what-if").join(name)
}

#[test]
fn a_batch_is_printed_step_by_step_as_text_and_as_json() {
    for (arguments, name, steps) in [
        (&["run", "--gib", "2"][..], "ive-batch", 5),
        (&["run", "--gib", "2", "--protocol", "hybrid", "--batch", "4"], "ive-protocol", 8),
    ] {
        let text = printed(arguments);
        assert_eq!(text.lines().count(), steps + 1, "{text}");
        assert!(text.lines().last().unwrap().contains(" a second"), "{text}");
        let line = &lines(&printed(&[&["--json"], arguments].concat()))[0];
        let of_steps = line["steps"].as_array().unwrap();
        let sum: f64 = of_steps.iter().map(|step| step["seconds"].as_f64().unwrap()).sum();
        assert_eq!((line["name"].as_str(), of_steps.len()), (Some(name), steps), "{line}");
        assert!((sum / line["seconds"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{line}");
    }
}

#[test]
fn a_cluster_is_sized_drawn_and_refused_where_none_is_fast_enough() {
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("plan.svg");
    let plan = ["plan", "--db-tb", "0.002", "--qps", "50"];
    let chosen = [&plan[..], &["--chart", chart.to_str().unwrap(), "--latency-ms", "1000"]].concat();
    let text = printed(&chosen);
    assert!(text.contains("cheapest: 1 systems"), "{text}");
    assert!(std::fs::read_to_string(&chart).unwrap().ends_with("</svg>\n"));
    let choices = lines(&printed(&[&plan[..], &["--json"]].concat()));
    assert!(
        choices.iter().all(|choice| choice["name"] == "ive-plan" && choice["systems"].as_u64() > Some(0))
    );
    let said = refused(&[&plan[..], &["--latency-ms", "0.001"]].concat());
    assert!(said.contains("--latency-ms: the soonest answer"), "{said}");
}

#[test]
fn machines_come_from_files_and_bad_files_are_refused_by_file_and_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, printed(&["arch"])).unwrap();
    let own = ["--json", "run", "--gib", "2"];
    assert_eq!(printed(&[&own[..], &["--arch", path]].concat()), printed(&own));
    for (text, said) in [
        ("base = \"ive\"\n[chip]\ncores = 0", "mine.toml: chip.cores: "),
        ("base = \"ive\"\n[chip]\nkores = 1", "mine.toml: chip.kores: "),
        ("base = \"ive\"\n[core]\nregister_file_kb = 1024", "mine.toml: core.register_file_kb: "),
    ] {
        std::fs::write(&file, text).unwrap();
        let found = refused(&["run", "--gib", "2", "--arch", path]);
        assert!(found.contains(said), "{found}");
    }
    std::fs::remove_file(&file).unwrap();
    let found = refused(&["run", "--gib", "2", "--arch", path]);
    assert!(found.contains("mine.toml: cannot be read"), "{found}");
}

#[test]
fn numbers_that_no_machine_has_are_refused_by_name() {
    for (arguments, said) in [
        (&["run", "--gib", "8796093022208"][..], "gib: "),
        (&["run", "--gib", "1e10"], "gib: "),
        (&["run", "--gib", "nan"], "gib: "),
        (&["run", "--gib", "16", "--batch", "3000000000000"], "batch: "),
        (&["run", "--gib", "16", "--systems", "64"], "systems: "),
        (&["run", "--gib", "16", "--batch", "3000000000000", "--protocol", "simple"], "a batch has"),
        (&["run", "--gib", "3000000", "--record-bytes", "4096", "--protocol", "simple"], "simple: "),
        (&["plan", "--db-tb", "1", "--qps", "1e-20"], "qps: "),
        (&["plan", "--db-tb", "1", "--qps", "inf"], "qps: "),
        (&["plan", "--db-tb", "1e300", "--qps", "1"], "gib: "),
    ] {
        let found = refused(arguments);
        assert!(found.contains(said), "{arguments:?}: {found}");
    }
}

#[test]
fn what_a_machine_cannot_hold_is_left_out_and_the_rest_reproduced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let machine = what_if("no-lpddr.toml");
    let text = printed(&["reproduce", "--figures", path, "--arch", machine.to_str().unwrap()]);
    for left_out in ["QPS: 128 GiB, 1 system(s): left out: gib: ", "Figure 13d, 128 GiB: left out: gib: "] {
        assert!(text.contains(left_out), "{text}");
    }
    let written = lines(&std::fs::read_to_string(folder.path().join("reproduced.json")).unwrap());
    let count = |name: &str| written.iter().filter(|line| line["name"] == name).count();
    assert!(count("ive-comparison") > 40 && count("ive-figure") > 10 && count("ive-skipped") > 5, "{text}");
    assert!(!folder.path().join("figure-13d-128-gib.svg").exists());
}
