//! `spirea gpu check` on machines without a GPU: with an emulated device, and with none.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use spirea_conformance::{Count, is_drawn};
use spirea_cuda_emulation::LIBRARY;
use spirea_specimens::program::{objects, text};
use tempfile::TempDir;

const SPIREA: &str = env!("CARGO_BIN_EXE_spirea");
/// Name under which the short form of the tests draws among the commands that take long on an
/// emulated device.
const COMMANDS: &str = "commands on an emulated device";

fn spirea(folder: &Path, driver: &Path, arguments: &[&str]) -> Output {
    Command::new(SPIREA)
        .args(arguments)
        .current_dir(folder)
        .env("SPIREA_CUDA_DRIVER", driver)
        .output()
        .expect("the command runs")
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

#[test]
fn without_a_driver_the_check_says_so_and_exits_with_3() {
    let folder = TempDir::new().unwrap();
    let nowhere = folder.path().join("no-such-library.so");
    let output = spirea(folder.path(), &nowhere, &["gpu", "check"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.starts_with("spirea: no device (no-driver): no NVIDIA driver"), "{said}");
    assert_eq!(text(&output.stdout), "");
    let output = spirea(folder.path(), &nowhere, &["gpu", "check", "--json"]);
    assert_eq!(output.status.code(), Some(3));
    let said = objects(&text(&output.stdout));
    assert_eq!(said.len(), 1);
    assert_eq!(said[0]["error"], "no-driver");
    assert!(said[0]["message"].as_str().unwrap().contains("SPIREA_CUDA_DRIVER"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was written");
}

#[test]
fn a_driver_without_a_device_is_told_from_none() {
    let folder = TempDir::new().unwrap();
    let driver = failing_driver(folder.path(), 100, "CUDA_ERROR_NO_DEVICE");
    let output = spirea(folder.path(), &driver, &["gpu", "check"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.starts_with("spirea: no device (no-device)") && said.contains("nvidia-smi"), "{said}");
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
    if !is_drawn(COMMANDS, &["check", "bench"], Count { short: 1, full: 1 }, "check") {
        return;
    }
    let folder = TempDir::new().unwrap();
    let output = spirea(folder.path(), Path::new(LIBRARY), &["gpu", "check", "--scale", "tiny", "--json"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    let objects = objects(&said);
    let [device, checks @ .., coverage, summary] = &objects[..] else { panic!("no checks: {said}") };
    assert_eq!(device["device"], "Spirea emulation");
    assert_eq!(device["kernels"], "sm_90a");
    assert_eq!(coverage["coverage"], "every kernel was launched");
    assert_eq!(coverage["outcome"], "ok", "{coverage}");
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
        "ring steps degree-2048",
        "dpf siphash calls",
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
fn kernels_that_a_filter_leaves_out_are_listed() {
    let folder = TempDir::new().unwrap();
    let arguments = ["gpu", "check", "--filter", "self-test warp", "--json"];
    let output = spirea(folder.path(), Path::new(LIBRARY), &arguments);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}{}", text(&output.stderr));
    let objects = objects(&said);
    let coverage = &objects[2];
    assert_eq!(
        (&coverage["coverage"], &coverage["outcome"]),
        (&"every kernel was launched".into(), &"not run".into())
    );
    let detail = coverage["detail"].as_str().unwrap();
    assert!(detail.starts_with("--filter leaves out checks; not launched are "), "{detail}");
    assert!(detail.contains("ring_rotation_2048") && !detail.contains("selftest_warp"), "{detail}");
    assert_eq!(objects[3]["passed"], 1);
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
