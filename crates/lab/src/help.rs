//! Examples in help texts.

use spirea_console::help::Texts;

/// Help texts of all commands.
pub const TEXTS: Texts<'_> = Texts { examples: EXAMPLES, judging: &["chain", "load", "gpu bench"] };

/// Examples of each command: a description, and the command line.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    ("bench scan", &[("Scan 4 GiB for 16 queries at once", "spirea-lab bench scan --db-gib 4 --batch 16")]),
    ("bench hint", &[("Compute the hint of 1 GiB", "spirea-lab bench hint --db-gib 1")]),
    ("bench simple", &[("Look up through loopback HTTP", "spirea-lab bench simple --db-gib 1")]),
    ("bench steps", &[("Measure each step, one JSON object a line", "spirea-lab bench steps --json")]),
    ("bench dpf", &[("Evaluate keys on their whole domain", "spirea-lab bench dpf --runs 3")]),
    ("bench dpf-xor", &[("Fold 4 GiB by bits", "spirea-lab bench dpf-xor --db-gib 4")]),
    ("bench dpf-sum", &[("Fold 4 GiB by words", "spirea-lab bench dpf-sum --db-gib 4")]),
    ("bench pim", &[("Draw the model beside the paper", "spirea-lab bench pim --plots figures")]),
    ("bench protocol", &[("Measure a protocol by step", "spirea-lab bench protocol hybrid --db-gib 1")]),
    ("bench plot", &[("Draw results", "spirea-lab bench plot results.jsonl --out figures")]),
    (
        "chain",
        &[
            ("Change 1 GiB for five minutes", "spirea-lab chain --gib 1 --minutes 5"),
            (
                "Try it on a small table",
                "spirea-lab chain --gib 0.004 --changes 50 --every-seconds 2 --minutes 0.25",
            ),
        ],
    ),
    ("gpu bench", &[("Measure the GPU", "spirea-lab gpu bench")]),
    (
        "gpu predict",
        &[
            ("Predict the figures of an H200", "spirea-lab gpu predict --card h200"),
            (
                "Predict the figures of a card that has no name here",
                "spirea-lab gpu predict --memory-bandwidth 2TB/s --processors 114 --clock 1.7 --memory 80 --compute-capability 9.0",
            ),
        ],
    ),
    (
        "load",
        &[(
            "Ask 100 times a second for a minute, as 50 clients",
            "spirea-lab load --server http://127.0.0.1:8080 --database prices --rate 100 --seconds 60 --clients 50",
        )],
    ),
    (
        "simulate-load",
        &[
            (
                "Time the batches of a snapshot, and simulate",
                "spirea-lab simulate-load prices --plot latency.svg",
            ),
            (
                "Simulate batches of known times",
                "spirea-lab simulate-load --batch-seconds 1=0.035,32=0.4 --rate 10,50",
            ),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_examples_that_parse_as_its_own() {
        spirea_console::help::check(&crate::command(), &TEXTS).unwrap_or_else(|error| panic!("{error}"));
    }
}
