//! `spirea plan`: rates of a machine, GPUs, and protocols of two servers.

use spirea_protocols::registry::NAMES;

use crate::command::{RATES, expect, folder_with, refusal, text};

/// Number of lines of `plan`: one for each protocol, and a second one for three protocols, whose
/// queries can carry keys.
const PLANS: usize = NAMES.len() + 3;

#[test]
fn a_plan_names_what_a_gpu_has_no_memory_for() {
    let folder = folder_with(&[]);
    let plan = ["plan", "--records", "10000", "--record-bytes", "64", RATES[0], RATES[1], "--gpu"];
    let output = |gpu: &str| text(&expect(folder.path(), 0, &[&plan[..], &[gpu]].concat()).stdout);
    let (small, large) = (output("1KiB:3000"), output("80GiB:3000"));
    assert_eq!(small.matches("too big").count(), PLANS, "{small}");
    assert!(!large.contains("too big") && large.contains("recommended: "), "{large}");
    let refused = refusal(folder.path(), &[&plan[..], &["3000"]].concat());
    assert!(refused.contains("94GiB:3480"), "{refused}");
}

/// The only test of this file that measures the machine for a plan.
#[test]
fn a_plan_of_saved_rates_is_the_plan_that_was_measured() {
    let folder = folder_with(&[]);
    let folder = folder.path();
    let plan = |more: &[&str]| {
        let arguments = ["plan", "--records", "10000", "--record-bytes", "64", "--threads", "1", "--json"];
        expect(folder, 0, &[&arguments[..], more].concat())
    };
    let measured = plan(&["--save-rates", "rates.json"]);
    assert!(text(&measured.stderr).contains("measuring cpu"), "{}", text(&measured.stderr));
    let read = plan(&["--rates", "rates.json"]);
    assert_eq!(text(&read.stdout), text(&measured.stdout));
    assert_eq!(text(&read.stderr), "");
    let lines: Vec<serde_json::Value> =
        text(&read.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), PLANS);
    for line in &lines {
        let steps = line["steps"].as_array().unwrap();
        assert!(steps.iter().all(|step| step["seconds"].as_f64() > Some(0.0)), "{line}");
    }
    // The file also has the rates for a security level that was not asked for.
    plan(&["--rates", "rates.json", "--security", "conservative"]);

    let saved = std::fs::read_to_string(folder.join("rates.json")).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&saved).unwrap();
    other["processor"] = "Abacus 3000".into();
    std::fs::write(folder.join("other.json"), other.to_string()).unwrap();
    let elsewhere = plan(&["--rates", "other.json"]);
    assert_eq!(text(&elsewhere.stdout), text(&measured.stdout));
    let said = text(&elsewhere.stderr);
    assert!(said.starts_with("other.json: measured on Abacus 3000 with 1 thread(s)"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn rates_that_cannot_be_read_are_refused_with_file_field_and_remedy() {
    let wrong = std::fs::read_to_string(RATES[1]).unwrap().replace("scanned-byte", "scanned-bit");
    let folder = folder_with(&[("wrong.json", &wrong)]);
    let plan = |rates: &str| {
        refusal(folder.path(), &["plan", "--records", "9", "--record-bytes", "9", "--rates", rates])
    };
    let said = plan("wrong.json");
    for part in ["wrong.json: ", "seconds.scanned-byte is missing", "spirea plan --save-rates"] {
        assert!(said.contains(part), "{part:?} is missing from\n{said}");
    }
    let said = plan("none.json");
    assert!(said.contains("none.json: ") && said.contains("spirea plan --save-rates"), "{said}");
}

#[test]
fn a_plan_tells_how_gpus_divide_a_database_and_why() {
    let folder = folder_with(&[]);
    let plan = |more: &[&str]| {
        let arguments = ["plan", "--records", "100000", "--record-bytes", "64", "--gpus", "4"];
        text(&expect(folder.path(), 0, &[&arguments[..], &RATES, more].concat()).stdout)
    };
    let lines = |more: &[&str]| -> Vec<serde_json::Value> {
        let more = [more, &["--json"]].concat();
        plan(&more).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let of = |lines: &[serde_json::Value], protocol: &str, member: &str| {
        lines.iter().find(|line| line["protocol"] == protocol).unwrap()[member].clone()
    };
    let lone = lines(&["--gpu-memory", "80GiB"]);
    assert_eq!(of(&lone, "simple", "gpus_strategy"), "exchange");
    assert_eq!(of(&lone, "simple", "gpus_fit"), true);
    assert_eq!(of(&lone, "onion", "gpus_strategy"), "aggregate");
    assert!(of(&lone, "onion", "gpus_reason").as_str().unwrap().contains("a lone query"));
    assert!(of(&lone, "simple", "gpus_bytes_each").as_u64() < of(&lone, "simple", "memory_bytes").as_u64());
    let all = of(&lone, "onion", "memory_bytes").as_u64().unwrap();
    let less = (all - 1).to_string();
    let divided = lines(&["--gpu-memory", &less, "--gpu-batch", "32", "--gpu-link", "nvlink"]);
    assert_eq!(of(&divided, "onion", "gpus_strategy"), "gather");
    assert!(of(&divided, "onion", "gpus_reason").as_str().unwrap().starts_with("too large for one"));
    let small = plan(&["--gpu-memory", "1KiB"]);
    assert_eq!(small.matches("GPUs: too big, even in shares").count(), PLANS, "{small}");
    let alone = ["plan", "--records", "9", "--record-bytes", "9", "--gpus", "4"];
    assert!(refusal(folder.path(), &alone).contains("--gpu-memory"));
}

#[test]
fn a_plan_recommends_a_protocol_of_two_servers_where_there_are_two() {
    let folder = folder_with(&[]);
    let arguments = ["plan", "--records", "10000", "--record-bytes", "64", RATES[0], RATES[1], "--servers"];
    let plan = |servers| text(&expect(folder.path(), 0, &[&arguments[..], &[servers]].concat()).stdout);
    let (one, two) = (plan("1"), plan("2"));
    assert_eq!(one.matches("needs two servers").count(), 2, "{one}");
    assert!(!one.contains("recommended: dpf-"), "{one}");
    assert!(!two.contains("needs two servers") && two.contains("recommended: dpf-"), "{two}");
    let refused = refusal(folder.path(), &[&arguments[..], &["3"]].concat());
    assert!(refused.contains("1 or 2"), "{refused}");
}
