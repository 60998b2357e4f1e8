//! Help texts: the first steps, examples, groups of options, and exit statuses.

use std::process::Command;

use crate::command::{expect, folder_with, text};

#[test]
fn the_command_alone_says_what_to_do_first() {
    let folder = folder_with(&[]);
    let output = expect(folder.path(), 2, &[]);
    let said = text(&output.stderr);
    let steps: Vec<_> = said.lines().filter_map(|line| line.strip_prefix("  spirea ")).collect();
    assert!(output.stdout.is_empty() && steps.len() == 3, "{said}");
    for (step, command) in steps.iter().zip(["build", "serve", "get"]) {
        assert!(step.starts_with(command), "{said}");
    }
}

#[test]
fn help_and_man_pages_have_examples_groups_and_statuses() {
    let folder = folder_with(&[]);
    let folder = folder.path();
    let help = |command: &str| text(&expect(folder, 0, &[command, "--help"]).stdout);
    for (command, parts) in [
        (
            "build",
            &["Examples:", "\nInput:\n", "\nTable:\n", "\nProtocol:\n", "\nParameters:\n", "\nSnapshot:\n"][..],
        ),
        (
            "serve",
            &["Examples:", "\nAddresses:\n", "\nAccess:\n", "\nComputation:\n", "\nEvaluation keys:\n"],
        ),
        ("get", &["Examples:", "\nServers:\n", "\nLook-ups:\n", "Exit statuses:\n  0 ", "\n  130 "]),
        ("publish", &["Examples:", "\nRepository:\n", "\nBase:\n", "\nChanges:\n"]),
        ("plan", &["Examples:", "\nTable:\n", "\nNeeds:\n", "\nDevices:\n", "\nRates:\n", "Exit statuses:"]),
    ] {
        let help = help(command);
        for part in parts {
            assert!(help.contains(part), "{part:?} is missing from\n{help}");
        }
    }
    assert!(text(&expect(folder, 0, &["--help"]).stdout).contains("Exit statuses:"));
    expect(folder, 0, &["man", "--out", "man1"]);
    let page = std::fs::read_to_string(folder.join("man1/spirea-get.1")).unwrap();
    let page = page.replace('\\', "");
    assert!(
        page.contains("Exit statuses:") && page.contains("spirea get http://127.0.0.1:8080 prices apple")
    );
}

#[test]
fn the_version_says_more_if_it_is_asked() {
    let folder = folder_with(&[]);
    let folder = folder.path();
    let short = text(&expect(folder, 0, &["--version"]).stdout);
    assert_eq!(short.trim(), concat!("spirea ", env!("CARGO_PKG_VERSION")));
    let long = text(&expect(folder, 0, &["--version", "--verbose"]).stdout);
    for name in ["version", "commit", "compiled for", "features", "CPU kernels", "GPU kernels"] {
        assert!(long.lines().any(|line| line.starts_with(name)), "{name} is missing from\n{long}");
    }
    assert!(long.contains("portable") && long.contains("sm_"), "{long}");
    expect(folder, 2, &["--verbose", "man"]);
}

#[test]
fn a_report_for_bugs_needs_no_server_and_has_no_value_of_a_variable() {
    let folder = folder_with(&[]);
    let report = |format: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_spirea"))
            .args(["doctor", "--report"])
            .args(format)
            .current_dir(folder.path())
            .env("SPIREA_LIMITS__BODY_MEMORY", "a value of mine")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let lines = report(&[]);
    assert!(lines.contains("SPIREA_LIMITS__BODY_MEMORY") && !lines.contains("a value of mine"), "{lines}");
    assert!(lines.lines().any(|line| line.starts_with("processor")), "{lines}");
    for line in report(&["--json"]).lines() {
        let fact: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(fact["fact"].is_string() && fact["value"].is_string(), "{line}");
    }
    expect(folder.path(), 2, &["doctor"]);
}
