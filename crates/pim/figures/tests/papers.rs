//! The model, compared with IM-PIR: `papers/im-pir.toml` has the paper's values, and states the
//! effect of each parameter.

use spirea_papers::check::{Model, Part, with_values};
use spirea_papers::documents::{hold, root, with_part};
use spirea_papers::{Claim, IM_PIR, Paper};
use spirea_pim::model::parameters::{Parameters, Profile};
use spirea_pim_figures::{comparisons, figures, records, shared_passes};

fn compute(text: &str) -> Result<Vec<Part>, String> {
    let parameters = Parameters::read(text).map_err(|error| error.to_string())?;
    Ok(vec![Box::new(move || comparisons(&parameters))])
}

fn problems(parameters: &str) -> Vec<String> {
    Model { paper: &Paper::read(IM_PIR), parameters, compute: &compute, is_tested: &|_| true }.problems()
}

#[test]
fn rows_and_parameters_are_as_the_file_says() {
    assert_eq!(problems(Profile::Paper.text()), [""; 0]);
}

#[test]
fn another_machine_is_a_problem() {
    let text = Profile::Paper.text();
    for (right, wrong) in [
        ("clock_hz = 350e6", "clock_hz = 300e6"),
        ("cycles_per_byte = 0.5", "cycles_per_byte = 0.6"),
        ("dpu_to_host = [[40, 0.0267", "dpu_to_host = [[40, 0.267"),
        ("evaluate_seconds_per_point = 1.383e-10", "evaluate_seconds_per_point = 1.6e-10"),
    ] {
        assert!(text.contains(right), "{right}");
        assert!(!problems(&text.replacen(right, wrong, 1)).is_empty(), "{wrong}");
    }
}

#[test]
fn the_file_has_the_values_of_both_profiles() {
    let [paper, kernel] = [Profile::Paper, Profile::Kernel].map(|it| comparisons(&it.parameters().unwrap()));
    let both = paper.into_iter().zip(kernel);
    let claims: Vec<Claim> =
        both.map(|(paper, kernel)| Claim { other: Some(kernel.ours), ..paper }).collect();
    hold("papers/im-pir.toml", &with_values(IM_PIR, &claims)).unwrap();
}

#[test]
fn the_document_has_the_gain_of_shared_passes() {
    let mut table = String::from(
        "| table, profile | queries in a pass | in memory, for each | as fast | queries a second in all | bound | workers that \
         balance |\n|---|---:|---:|---:|---:|---|---:|\n",
    );
    for profile in Profile::ALL {
        let parameters = profile.parameters().unwrap();
        for gib in [1.0, 8.0] {
            let host = parameters.evaluations_per_second(records(gib));
            let shared = shared_passes(&parameters, gib);
            for each in &shared {
                table += &format!(
                    "| {gib} GiB, `{}` | {} | {:.2} ms | {:.2}x | {:.0} | {} | {:.1} |\n",
                    profile.name(),
                    each.queries,
                    1e3 * each.in_memory_seconds,
                    shared[0].in_memory_seconds / each.in_memory_seconds,
                    each.throughput,
                    if host <= each.in_memory_throughput { "evaluation" } else { "memory" },
                    each.workers_to_balance
                );
            }
        }
    }
    let page = std::fs::read_to_string(root().join("docs/protocols/pim.md")).unwrap();
    hold("docs/protocols/pim.md", &with_part(&page, "pim: shared passes", &table).unwrap()).unwrap();
}

#[test]
fn figures_have_what_the_paper_says_of_them() {
    let parameters = Profile::Paper.parameters().unwrap();
    let figures = figures(&parameters);
    let numbers: Vec<_> = figures.iter().map(|figure| figure.number).collect();
    assert_eq!(numbers, ["9a", "9b", "9c", "9d", "10", "11a", "11b", "12a", "12b"]);
    let line = |number: &str, name: &str| {
        let figure = figures.iter().find(|figure| figure.number == number).unwrap();
        figure.series.iter().find(|series| series.name == name).unwrap().points.clone()
    };
    // The gap to the CPU widens with the size. IM-PIR's throughput does not depend on the batch,
    // and its latency grows in proportion to it.
    let gaps: Vec<f64> =
        line("9a", "IM-PIR").iter().zip(line("9a", "CPU")).map(|(pim, cpu)| pim.1 / cpu.1).collect();
    assert!(gaps.is_sorted() && gaps[0] > 1.0, "{gaps:?}");
    let flat = line("9b", "IM-PIR");
    assert!(flat.iter().all(|point| point.1 == flat[0].1));
    let latency = line("9d", "IM-PIR");
    assert!((latency[5].1 / latency[0].1 - 32.0).abs() < 1e-9);
    // More clusters are not slower for a large batch.
    let last = |clusters: usize| line("11a", &format!("{clusters} cluster(s)")).last().unwrap().1;
    assert!(last(1) < last(2) && last(2) <= last(8) * 1.01);
}

#[test]
fn shared_passes_gain_until_the_host_is_the_bound() {
    for profile in Profile::ALL {
        let parameters = profile.parameters().unwrap();
        let shared = shared_passes(&parameters, 1.0);
        let folds: Vec<f64> = shared.iter().rev().map(|shared| shared.in_memory_seconds).collect();
        assert!(folds.is_sorted(), "{profile:?}: {folds:?}");
        let host = parameters.evaluations_per_second(records(1.0));
        assert!(shared.iter().all(|shared| shared.throughput <= host));
    }
    // At IM-PIR's rate of evaluation, the host is the bound for any number of queries in a pass.
    let paper = shared_passes(&Profile::Paper.parameters().unwrap(), 1.0);
    assert!(paper.iter().all(|shared| shared.workers_to_balance > 16.0));
}
