//! Help texts: the first steps, examples, groups of options, and exit statuses.

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
        ("build", &["Examples:", "\nInput:\n", "\nTable:\n", "\nProtocol:\n", "\nSnapshot:\n"][..]),
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
