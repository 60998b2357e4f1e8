//! The figures of cards: their values, their orders, and both formats.

use serde_json::Value;

use super::card::{Capability, Card};
use super::figures::{Figure, all, of_protocol};
use super::rates::Bound;
use super::*;

fn card(name: &str) -> Card {
    Card::named(name).unwrap()
}

fn figures(name: &str) -> Vec<Figure> {
    all(&card(name)).unwrap()
}

fn figure(figures: &[Figure], name: &str, batch: usize) -> Figure {
    figures.iter().find(|figure| figure.name == name && figure.batch == batch).unwrap().clone()
}

/// Checks a value within half of a percent.
fn assert_near(found: f64, expected: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < 0.005, "{what}: {found}, not {expected}");
}

#[test]
fn the_figures_of_hopper_are_those_computed_by_hand() {
    // 2^36 bytes at 0.925 x 4.8e12 bytes a second.
    let h200 = figures("h200");
    assert_near(figure(&h200, "scalar_fold", 1).seconds, 15.48e-3, "one query");
    assert_near(figure(&h200, "scalar_fold", 8).seconds, 15.79e-3, "at 0.98");
    assert_near(figure(&h200, "scalar_fold", 16).seconds, 16.47e-3, "at 0.94");
    assert_near(figure(&h200, "scalar_fold", 32).seconds, 16.73e-3, "at 0.925");
    // 2^36 x 4 x 64 at 0.56 x 4096 x 132 x 1.83e9.
    assert_near(figure(&h200, "scalar_fold", 64).seconds, 31.75e-3, "tensor cores");
    // 32,768 bytes at 0.925 x 4.8e12, and 787 x 8 instructions of 4 x 132 x 1.83e9: the longer.
    let transforms = figure(&h200, "ntt", 3 << 17);
    assert_near(transforms.per_second, 0.81 * 1.355e8, "transforms");
    // The scan, 447 items of 1.4 us, 40,960 plaintexts of 49,152 bytes, 0.81 ms, 16 KiB of answers.
    assert_near(figure(&h200, "hybrid", 1).seconds, 15.48e-3 + 0.626e-3 + 0.453e-3 + 0.814e-3, "hybrid");
    // 0.6 of 80e9 bytes, as a square of multiples of 256, at 0.925 x 3.35e12.
    let h100 = figures("h100");
    let side = figure(&h100, "scalar_fold", 1).shape[0];
    assert_eq!(side, 218_880);
    assert_near(figure(&h100, "scalar_fold", 1).seconds, 15.46e-3, "one query");
    // (283 x 32,370 + 24 x 63,702 + 255 x 39,774) x 32 x 8 instructions in 0.4 of the slots.
    let onion = figure(&h100, "onion", 32);
    let stages = onion.steps.iter().filter(|step| step.bound == Bound::Issue);
    assert_near(stages.map(|step| step.seconds).sum(), 13.80e-3, "stages of onion");
}

#[test]
fn the_figures_of_an_h100_are_near_those_measured() {
    let lines = include_str!("../../../../../bench/results/gpu-nvidia-h100-80gb.jsonl");
    let measured: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // The card reads at 0.925 of the data sheet, and has 85.0e9 bytes.
    let card = Card { memory: 85_017_493_504.0, ..card("h100") };
    let mut figures = all(&card).unwrap();
    for (protocol, gib, batch) in [("hybrid", 8, 1), ("hybrid", 1, 1), ("onion", 4, 32)] {
        figures.extend(of_protocol(&card, protocol, gib, batch).unwrap());
    }
    for figure in figures {
        // Other lines of the same name have another shape. The scans' sides differ by less than 1%.
        let same = |line: &&Value| {
            let rows = line["shape"][0].as_f64().unwrap_or_default();
            line["name"] == figure.name
                && line["batch"] == figure.batch
                && (rows / figure.shape[0] as f64 - 1.0).abs() < 0.01
        };
        let line = measured.iter().find(same).unwrap_or_else(|| panic!("{figure:?}"));
        let ratio = figure.seconds / line["seconds"].as_f64().unwrap();
        assert!((0.93..1.07).contains(&ratio), "{} of {}: {ratio}", figure.name, figure.batch);
    }
}

#[test]
fn a_better_card_is_never_slower() {
    for name in ["h200", "h100", "a100", "l40s", "l4", "rtx-4090", "rtx-5090"] {
        let one = card(name);
        let better = [
            Card { bandwidth: 2.0 * one.bandwidth, ..one.clone() },
            Card { clock: 1.5 * one.clock, ..one.clone() },
            Card { processors: 2 * one.processors, ..one.clone() },
        ];
        for better in better {
            for (slow, fast) in all(&one).unwrap().iter().zip(all(&better).unwrap()) {
                assert_eq!((slow.name, slow.shape), (fast.name, fast.shape));
                assert!(fast.seconds <= slow.seconds, "{name}: {fast:?}");
            }
        }
    }
}

#[test]
fn the_bound_of_scans_moves_from_memory_to_tensor_cores() {
    for name in ["h200", "h100"] {
        let figures = figures(name);
        let bounds = [1, 8, 16, 32, 64].map(|batch| figure(&figures, "scalar_fold", batch).bound);
        let [memory, tensor] = [Bound::Memory, Bound::Tensor];
        assert_eq!(bounds, [memory, memory, memory, memory, tensor], "{name}");
    }
    // With half of the processors, 32 queries are bound by the tensor cores.
    let half = Card { processors: 66, ..card("h200") };
    assert_eq!(figure(&all(&half).unwrap(), "scalar_fold", 32).bound, Bound::Tensor);
}

#[test]
fn a_small_card_has_small_databases_or_none() {
    let small = figures("l4");
    let hybrid = figure(&small, "hybrid", 1);
    assert!((hybrid.shape[0] * hybrid.shape[1]) as f64 <= 0.9 * 24e9, "{hybrid:?}");
    assert!((hybrid.shape[0] * hybrid.shape[1]) as f64 >= 0.4 * 24e9, "{hybrid:?}");
    let tiny = Card { memory: 1e9, compute: Capability::C86, ..card("l4") };
    assert!(all(&tiny).unwrap().iter().all(|figure| figure.seconds.is_finite() && figure.seconds > 0.0));
}

#[test]
fn both_formats_have_the_same_figures() {
    for name in ["h200", "l4"] {
        let (card, figures) = (card(name), figures(name));
        let printed = text(&card, &figures);
        assert!(printed[0].starts_with("PREDICTION, not a measurement: "), "{}", printed[0]);
        let lines = printed.iter().filter(|line| line.starts_with("predict "));
        assert_eq!(lines.clone().count(), figures.len());
        for (figure, line) in figures.iter().zip(lines) {
            let object = serde_json::to_value(figure).unwrap();
            assert_eq!(object["prediction"], true);
            let number = |member: &str| object[member].as_f64().unwrap();
            let expected = format!(
                "{} or {}/s, bound by {}",
                seconds(number("seconds")),
                in_thousands(number("per_second")),
                object["bound"].as_str().unwrap()
            );
            assert!(line.ends_with(&expected), "{line}: {expected}");
            let parts: f64 = object["steps"]
                .as_array()
                .unwrap()
                .iter()
                .map(|step| step["seconds"].as_f64().unwrap())
                .sum();
            assert!((parts / number("seconds") - 1.0).abs() < 1e-9, "{object}");
            for assumption in object["assumptions"].as_array().unwrap() {
                let assumed = format!("assumed {}", assumption.as_str().unwrap());
                assert!(printed.contains(&assumed), "{assumed}");
            }
        }
    }
}

#[test]
fn the_figures_of_papers_are_those_beside_the_measurements() {
    let tables = include_str!("../../../../../bench/figures.toml");
    for figure in figures("h200") {
        for paper in figure.papers {
            assert!(tables.contains(paper), "{paper}");
        }
    }
}

/// Formats a number with four digits, and with commas between thousands.
fn digits(number: f64) -> String {
    let rounded: f64 = format!("{number:.3e}").parse().unwrap();
    let text = rounded.to_string();
    let whole = text.find('.').unwrap_or(text.len());
    let comma = |place: usize| place > 0 && place < whole && (whole - place).is_multiple_of(3);
    text.char_indices().map(|(i, c)| if comma(i) { format!(",{c}") } else { c.to_string() }).collect()
}

/// Returns the rows of the table in docs/gpu.md.
fn table() -> String {
    let [h200, h100] = ["h200", "h100"].map(figures);
    let rows = h200.iter().zip(&h100).map(|(h200, h100)| {
        let cells = [h200, h100].map(|figure| {
            let rate = if figure.name == "ntt" {
                format!("{:.0} million", figure.per_second / 1e6)
            } else {
                digits(figure.per_second)
            };
            let gib = match figure.name {
                "onion" => 1.0,
                "ntt" => 0.0,
                _ => (figure.shape[0] * figure.shape[1]) as f64 / (1u64 << 30) as f64,
            };
            let size = if gib > 0.0 { format!("{gib:.0} GiB: ") } else { String::new() };
            format!("{size}{}, {rate} a second ({})", seconds(figure.seconds), figure.bound.name())
        });
        let papers = h200.papers.join("; ");
        let papers = if papers.is_empty() { String::new() } else { format!("{papers} ") };
        let what = match (h200.name, h200.batch) {
            ("ntt", _) => "393,216 transforms of degree 4096".into(),
            (name, 1) => format!("`{name}`, one query"),
            (name, batch) => format!("`{name}`, {batch} queries"),
        };
        format!("| {what} | {} | {} | {papers}|\n", cells[0], cells[1])
    });
    rows.collect()
}

#[test]
fn the_table_in_the_documents_is_that_of_the_command() {
    let page = include_str!("../../../../../docs/gpu.md");
    let table = table();
    assert!(page.contains(&table), "docs/gpu.md lacks these rows:\n{table}");
}
