//! The commands for GPUs on machines without a GPU: with an emulated device, and with none.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use spirea_conformance::is_drawn;
use spirea_cuda_emulation::LIBRARY;
use tempfile::TempDir;

const SPIREA: &str = env!("CARGO_BIN_EXE_spirea");
/// Name for the draw of the short form, of the commands that take long on an emulated device.
const COMMANDS: &str = "commands on an emulated device";

fn spirea(folder: &Path, driver: &Path, arguments: &[&str]) -> Output {
    Command::new(SPIREA)
        .args(arguments)
        .current_dir(folder)
        .env("SPIREA_CUDA_DRIVER", driver)
        .output()
        .expect("the command runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Parses a text with one JSON object per line.
fn objects(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

/// Builds a driver library whose start fails with the driver's error `code`, named `name` in its
/// header.
fn failing_driver(folder: &Path, code: u32, name: &str) -> PathBuf {
    let (source, library) = (folder.join("driver.c"), folder.join("libcuda.so"));
    let program = format!(
        "int cuInit(unsigned flags) {{ (void)flags; return {code}; }}\n\
         int cuGetErrorName(int error, const char **name) {{ (void)error; *name = \"{name}\"; return 0; }}\n"
    );
    std::fs::write(&source, program).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let compiled = Command::new(compiler)
        .args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so", "-o"])
        .args([&library, &source])
        .status()
        .expect("there is a C compiler, as there is one for the emulation");
    assert!(compiled.success());
    library
}

/// Checks equality up to the precision of numbers in text.
fn assert_close(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap();
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
}

#[test]
fn without_a_driver_both_say_so_and_exit_with_3() {
    let folder = TempDir::new().unwrap();
    let nowhere = folder.path().join("no-such-library.so");
    for command in ["check", "bench"] {
        let output = spirea(folder.path(), &nowhere, &["gpu", command]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.starts_with("spirea: no device (no-driver): no NVIDIA driver"), "{said}");
        assert_eq!(text(&output.stdout), "");
        let output = spirea(folder.path(), &nowhere, &["gpu", command, "--json"]);
        assert_eq!(output.status.code(), Some(3));
        let said = objects(&text(&output.stdout));
        assert_eq!(said.len(), 1);
        assert_eq!(said[0]["error"], "no-driver");
        assert!(said[0]["message"].as_str().unwrap().contains("SPIREA_CUDA_DRIVER"));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was written");
}

#[test]
fn a_driver_without_a_device_is_told_from_none() {
    let folder = TempDir::new().unwrap();
    let driver = failing_driver(folder.path(), 100, "CUDA_ERROR_NO_DEVICE");
    for command in ["check", "bench"] {
        let output = spirea(folder.path(), &driver, &["gpu", command]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.starts_with("spirea: no device (no-device)") && said.contains("nvidia-smi"), "{said}");
    }
}

#[test]
fn a_device_that_there_is_not_is_named() {
    let folder = TempDir::new().unwrap();
    let output = spirea(folder.path(), Path::new(LIBRARY), &["gpu", "check", "--device", "7"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("no-such-device") && said.contains("device 7 of"), "{said}");
}

#[test]
fn an_emulated_device_passes_every_check() {
    if !is_drawn(COMMANDS, &["check", "bench"], 1, "check") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let output = spirea(folder.path(), Path::new(LIBRARY), &["gpu", "check", "--scale", "tiny", "--json"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    let objects = objects(&said);
    let [device, checks @ .., summary] = &objects[..] else { panic!("no checks: {said}") };
    assert_eq!(device["device"], "Spirea emulation");
    assert_eq!(device["checks"], checks.len());
    assert!(checks.iter().all(|check| check["outcome"] == "ok" && check["seconds"].is_f64()), "{said}");
    assert_eq!((&summary["passed"], &summary["failed"]), (&checks.len().into(), &0.into()));
    let named = |text: &str| checks.iter().any(|check| check["check"].as_str().unwrap().contains(text));
    for kind in [
        "self-test wgmma",
        "scalar_fold vector",
        "scalar_fold mma",
        "scalar_fold wgmma",
        "module_fold",
        "transforms fast",
        "ring steps onion-32",
        "poly_fold fast",
        "dpf chacha12 u128",
        "share_fold sha-256 u64",
        "protocol simple",
        "protocol onion",
        "protocol dpf-xor",
    ] {
        assert!(named(kind), "no check of {kind}");
    }
}

#[test]
fn time_that_is_over_is_told() {
    let folder = TempDir::new().unwrap();
    let arguments = ["gpu", "check", "--filter", "self-test", "--minutes", "0"];
    let output = spirea(folder.path(), Path::new(LIBRARY), &arguments);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("not run") && said.contains("self-test warp: 0 minutes are over"), "{said}");
    assert!(said.contains("0 passed, 0 failed"), "{said}");
}

#[test]
fn an_emulated_device_is_measured_and_the_results_are_drawn() {
    if !is_drawn(COMMANDS, &["check", "bench"], 1, "bench") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let output = spirea(folder.path(), Path::new(LIBRARY), &["gpu", "bench", "--scale", "tiny"]);
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
    // The floor is the longest of the least times at the limits; the ratio is its share of the
    // measured time.
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
    let output = spirea(folder.path(), Path::new(LIBRARY), &draw);
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
    let output = spirea(folder.path(), Path::new(LIBRARY), &arguments);
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
    let output = spirea(folder.path(), &nowhere, &["bench", "plot", results.to_str().unwrap()]);
    assert_eq!(text(&output.stdout), "wrote ./ratios.svg\nwrote ./steps.svg\n");
    std::fs::write(folder.path().join("broken.json"), "{\"name\":").unwrap();
    let output = spirea(folder.path(), &nowhere, &["bench", "plot", "broken.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("broken.json: line 1 is no JSON object"),
        "{}",
        text(&output.stderr)
    );
}
