//! Processing in memory as a person uses it: the plan, and a server whose emulated DPUs answer.

use spirea_pim::phases;
use spirea_specimens::program::objects;

use crate::command::{RATES, Server, expect, folder_with, refusal, text};

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
fn a_plan_prices_processing_in_memory() {
    let folder = folder_with(&[]);
    let plan = |arguments: &[&str]| {
        let records = ["plan", "--records", "2000000", "--record-bytes", "32", "--servers", "2"];
        text(&expect(folder.path(), 0, &[&records[..], &RATES, arguments].concat()).stdout)
    };
    let priced = objects(&plan(&["--json", "--pim", "2048"]));
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
