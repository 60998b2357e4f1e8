//! Tests under AddressSanitizer: correct kernels pass, and an access out of bounds is reported with
//! the kernel's line. They need an emulation built with `SPIREA_EMULATION_ASAN=1`.

mod common;

use std::process::{Command, Output};

use common::{Device, Shape, emulation};
use spirea_cuda_emulation::{ASAN_PLANTED_LIBRARY, address_sanitizer_environment};

/// Runs one of the ignored tests below under AddressSanitizer; returns `None` if it is not
/// available.
fn child(test: &str) -> Option<Output> {
    let environment = address_sanitizer_environment(ASAN_PLANTED_LIBRARY?)?;
    let output = Command::new(std::env::current_exe().ok()?)
        .args(["--ignored", "--exact", test, "--nocapture"])
        .envs(environment)
        .output();
    Some(output.expect("this test can run itself"))
}

/// Returns the file and line of the planted kernel's bug.
fn marked(kernel: &str) -> String {
    let mark = format!("// marked: {kernel}");
    let line = include_str!("../planted/bounds.cu").lines().position(|line| line.ends_with(&mark));
    format!("bounds.cu:{}", line.expect("a mark in bounds.cu") + 1)
}

fn assert_reported(test: &str, kernel: &str) {
    let Some(output) = child(test) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("AddressSanitizer: heap-buffer-overflow"), "{said}");
    assert!(said.contains(&marked(kernel)), "{said}");
}

#[test]
fn shared_memory_has_an_end() {
    assert_reported("write_behind_shared_memory", "shared_write");
}

#[test]
fn allocations_have_an_end() {
    assert_reported("write_behind_an_allocation", "global_write");
    assert_reported("read_behind_an_allocation", "global_read");
}

#[test]
fn right_kernels_pass() {
    let Some(output) = child("right_kernels") else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn run(kernel: &str, index: u64) {
    emulation().with(emulation().config(), || {
        let device = Device::new(0).unwrap();
        let words = device.upload(&[0; 32]);
        let function = device.function(kernel).unwrap();
        device.stream().launch(function, Shape::new(1, 32).shared(128), &mut [words, index]).unwrap();
    });
}

#[test]
#[ignore = "for a child process under AddressSanitizer"]
fn write_behind_shared_memory() {
    run("shared_write", 32);
}

#[test]
#[ignore = "for a child process under AddressSanitizer"]
fn write_behind_an_allocation() {
    run("global_write", 32);
}

#[test]
#[ignore = "for a child process under AddressSanitizer"]
fn read_behind_an_allocation() {
    run("global_read", 32);
}

#[test]
#[ignore = "for a child process under AddressSanitizer"]
fn right_kernels() {
    emulation().in_every_order(|| {
        run_stages();
    });
}

/// Runs a kernel with many barriers, and a block that fails: its fibers are abandoned before the
/// same fibers run again.
fn run_stages() {
    let device = Device::new(0).unwrap();
    let stream = device.stream();
    let from = device.upload(&[1; 1024]);
    let to = device.upload(&[0; 1024]);
    for (kernel, last) in [("stages", 0), ("fetch", 0)] {
        let function = device.function(kernel).unwrap();
        stream.launch(function, Shape::new(1, 256).shared(4096), &mut [from, to, last]).unwrap();
    }
    stream.synchronize().unwrap();
    assert_eq!(device.download(to, 1024).unwrap(), vec![1; 1024]);
    let diverge = device.function("divergent_barrier").unwrap();
    let _ = stream.launch(diverge, Shape::new(4, 256), &mut [to, 100]);
    assert!(stream.synchronize().is_err());
    emulation().reset();
    let shuffle = device.function("divergent_shuffle").unwrap();
    stream.launch(shuffle, Shape::new(4, 256), &mut [to, 0]).unwrap();
    stream.synchronize().unwrap();
}
