//! `spirea-lab gpu bench` on an emulated device and without one, and drawings of its results.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use spirea_conformance::{Count, is_drawn};
use spirea_cuda_emulation::LIBRARY;
use spirea_specimens::program::{objects, text};
use tempfile::TempDir;

use crate::command::LAB;

/// Name of the draw by which the tests, except in their long form, run only some of the commands
/// that take long on an emulated device. The tests of `spirea gpu check` use the same draw.
const COMMANDS: &str = "commands on an emulated device";

fn lab(folder: &Path, driver: &Path, arguments: &[&str]) -> Output {
    Command::new(LAB)
        .args(arguments)
        .current_dir(folder)
        .env("SPIREA_CUDA_DRIVER", driver)
        .output()
        .expect("the command runs")
}

/// Checks equality up to the precision of numbers in text.
fn assert_close(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap();
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
}

#[test]
fn without_a_driver_the_benchmark_says_so_and_exits_with_3() {
    let folder = TempDir::new().unwrap();
    let output = lab(folder.path(), Path::new("no-such-library.so"), &["gpu", "bench"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.starts_with("spirea-lab: no device (no-driver): no NVIDIA driver"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was written");
}

#[test]
fn an_emulated_device_is_measured_and_the_results_are_drawn() {
    if !is_drawn(COMMANDS, &["check", "bench"], Count { short: 1, full: 1 }, "bench") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let output = lab(folder.path(), Path::new(LIBRARY), &["gpu", "bench", "--scale", "tiny"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    let files: Vec<_> = std::fs::read_dir(folder.path().join("bench/results")).unwrap().collect();
    assert_eq!(files.len(), 1);
    let path = files[0].as_ref().unwrap().path();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("spirea-emulation-20") && name.ends_with(".json"), "{name}");
    let results = objects(&std::fs::read_to_string(&path).unwrap());
    assert_eq!(results[0]["name"], "device");
    let limits: HashMap<&str, f64> = results
        .iter()
        .filter(|result| result["name"] == "limit")
        .map(|limit| (limit["floor"].as_str().unwrap(), limit["per_second"].as_f64().unwrap()))
        .collect();
    for limit in
        ["memory", "copy", "int8 (wgmma)", "IMAD", "IMAD.WIDE", "IMAD.HI", "LOP3", "PRMT", "SHF", "aes-128"]
    {
        assert!(limits.get(limit).is_some_and(|&rate| rate > 0.0), "no {limit} in {limits:?}");
    }
    for figure in ["scalar_fold", "ntt", "inverse-ntt", "poly_fold", "dpf", "onion", "dpf-xor", "dpf-sum"] {
        let measured: Vec<_> = results.iter().filter(|result| result["name"] == figure).collect();
        assert!(!measured.is_empty(), "no {figure}");
        for result in measured {
            let number =
                |member: &str| result[member].as_f64().unwrap_or_else(|| panic!("{member}: {result}"));
            assert!(number("seconds") > 0.0 && number("floor_seconds") > 0.0, "{result}");
            assert_eq!(result["backend"], "cuda-sm90");
        }
    }
    // The floor is the maximum, over the limits, of the least time at each limit. The ratio is the
    // floor divided by the measured time.
    for result in results.iter().filter(|result| result["name"] == "scalar_fold") {
        let [rows, columns, batch] =
            [&result["shape"][0], &result["shape"][1], &result["batch"]].map(|n| n.as_f64().unwrap());
        let (memory, products) = ("memory", "int8 (wgmma)");
        let times = [
            (memory, rows * columns / limits[memory]),
            (products, 4.0 * rows * columns * batch / limits[products]),
        ];
        let (floor, seconds) = if times[0].1 > times[1].1 { times[0] } else { times[1] };
        assert_eq!(result["floor"], floor, "{result}");
        assert_close(&result["floor_seconds"], seconds);
        assert_close(&result["ratio"], seconds / result["seconds"].as_f64().unwrap());
    }
    let draw = ["bench", "plot", path.to_str().unwrap(), "--out", "figures"];
    let output = lab(folder.path(), Path::new(LIBRARY), &draw);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for (figure, expected) in [("ratios.svg", "scalar_fold"), ("steps.svg", "onion")] {
        let drawing = std::fs::read_to_string(folder.path().join("figures").join(figure)).unwrap();
        assert!(drawing.starts_with("<svg") && drawing.contains(expected), "{figure}");
    }
}

#[test]
fn a_benchmark_without_time_measures_its_limits_and_tells_what_it_skips() {
    let folder = TempDir::new().unwrap();
    let arguments = ["gpu", "bench", "--out", "here.json", "--filter", "no such figure"];
    let output = lab(folder.path(), Path::new(LIBRARY), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let results = objects(&std::fs::read_to_string(folder.path().join("here.json")).unwrap());
    assert!(results[1..].iter().all(|result| result["name"] == "limit"), "{results:?}");
}

#[test]
fn the_figures_of_a_processor_are_drawn_too() {
    let folder = TempDir::new().unwrap();
    let results =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/results/cpu-amd-epyc-zen3-avx2.jsonl");
    let nowhere = folder.path().join("none.so");
    let output = lab(folder.path(), &nowhere, &["bench", "plot", results.to_str().unwrap()]);
    assert_eq!(text(&output.stdout), "wrote ./ratios.svg\nwrote ./steps.svg\n");
    std::fs::write(folder.path().join("broken.json"), "{\"name\":").unwrap();
    let output = lab(folder.path(), &nowhere, &["bench", "plot", "broken.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("broken.json: line 1 is no JSON object"),
        "{}",
        text(&output.stderr)
    );
}
