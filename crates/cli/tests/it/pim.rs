//! Processing in memory as a person uses it: the model, the plan, and a server whose emulated DPUs
//! answer.

use spirea_pim::phases;

use crate::command::{RATES, Server, expect, folder_with, refusal, text};

fn lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_server_answers_in_memory_and_its_metrics_have_the_phases() {
    let rows: String = (0..3000).map(|i| format!("key-{i},value {}\n", i * 7)).collect();
    let folder = folder_with(&[("t.csv", &format!("k,v\n{rows}"))]);
    let folder = folder.path();
    let build = ["build", "--input", "t.csv", "--key", "k", "--value", "v"];
    for protocol in ["dpf-xor", "dpf-sum"] {
        expect(folder, 0, &[&build[..], &["--protocol", protocol, "--out", protocol]].concat());
    }
    let both = ["dpf-xor", "dpf-sum"];
    let zero = [&both[..], &["--party", "0", "--backend", "pim-emulated:5:2"]].concat();
    let zero = Server::ready(folder, &zero);
    let one = Server::ready(folder, &[&both[..], &["--party", "1", "--backend", "cpu"]].concat());
    // Databases of words, which the memories do not support, are answered by the processor of the
    // same server.
    for protocol in both {
        let keys = ["key-0", "absent", "key-2999"];
        let with = ["get", &zero.url, protocol, "--other", &one.url, "--wait", "120"];
        let answer = expect(folder, 1, &[&with[..], &keys].concat());
        assert_eq!(text(&answer.stdout), "key-0\tvalue 0\nkey-2999\tvalue 20993\n", "{protocol}");
        assert!(text(&answer.stderr).contains("absent: not found"));
    }
    let metrics = zero.get("/metrics");
    for phase in phases::ALL.into_iter().filter(|&phase| phase != phases::LOAD) {
        let name = format!("spirea_step_seconds_total{{database=\"dpf-xor\",step=\"{phase}\"}} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse::<f64>().ok());
        assert!(value.is_some_and(|value| value > 0.0), "{phase}: {metrics}");
    }
    assert!(!metrics.contains("database=\"dpf-sum\",step=\"pim_fold\""));
    assert_eq!((zero.stop(), one.stop()), (0, 0));
}

#[test]
fn a_machine_that_is_not_there_is_said() {
    let folder = folder_with(&[("t.csv", "k,v\na,1\n")]);
    let folder = folder.path();
    expect(
        folder,
        0,
        &["build", "--input", "t.csv", "--key", "k", "--value", "v", "--protocol", "dpf-xor", "--out", "t"],
    );
    let said = refusal(folder, &["serve", "t", "--party", "0", "--backend", "pim"]);
    assert!(said.contains("libdpu.so") && said.contains("SPIREA_DPU_LIBRARY"), "{said}");
    let said = refusal(folder, &["serve", "t", "--party", "0", "--backend", "pim-emulated:2:3"]);
    assert!(said.contains("3 clusters of 2 DPUs"), "{said}");
    let said = refusal(folder, &["serve", "t", "--party", "0", "--backend", "pim-emulated:0"]);
    assert!(said.contains("none of auto, cpu"), "{said}");
}

#[test]
fn the_model_is_printed_beside_the_paper_and_drawn() {
    let folder = folder_with(&[]);
    let folder = folder.path();
    let bench = |arguments: &[&str]| {
        lines(&text(&expect(folder, 0, &[&["bench", "pim", "--json"], arguments].concat()).stdout))
    };
    let named = |lines: &[serde_json::Value], name: &str| -> Vec<serde_json::Value> {
        lines.iter().filter(|line| line["name"] == name).cloned().collect()
    };
    let paper = bench(&["--plots", "drawn"]);
    let comparisons = named(&paper, "pim-comparison");
    assert_eq!(comparisons.len(), 17);
    assert!(comparisons.iter().all(|line| line["profile"] == "paper"));
    let fitted = |line: &&serde_json::Value| line["kind"] == "fitted";
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

#[test]
fn a_plan_prices_processing_in_memory() {
    let folder = folder_with(&[]);
    let plan = |arguments: &[&str]| {
        let records = ["plan", "--records", "2000000", "--record-bytes", "32", "--servers", "2"];
        text(&expect(folder.path(), 0, &[&records[..], &RATES, arguments].concat()).stdout)
    };
    let priced = lines(&plan(&["--json", "--pim", "2048"]));
    for line in &priced {
        let is_priced = line["pim_queries_per_second"].as_f64().is_some_and(|rate| rate > 1.0);
        assert_eq!(is_priced, line["protocol"] == "dpf-xor", "{line}");
    }
    let readable = plan(&["--pim", "2048", "--pim-profile", "paper", "--pim-batch", "1"]);
    assert!(
        readable.contains("PIM: 2048 DPUs in 1 cluster(s)") && readable.contains("modelled"),
        "{readable}"
    );
    assert!(!plan(&[]).contains("PIM:"));
}
