//! A build's peak memory: below 1.5 times the encoded size.
//!
//! `SPIREA_MEMORY_MIB=1024 cargo test --release -p spirea-store --test it memory -- --nocapture`
//! measures a table of one gibibyte and prints the figures.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use spirea_specimens::snapshots::{BACKEND, options};
use spirea_store::{Phase, Progress, Silent, Snapshot, build};

const CHILD_INPUT: &str = "SPIREA_TEST_CHILD_INPUT";
const VALUE_BYTES: usize = 256;

/// Prints each phase when it begins.
struct Phases(Instant, std::cell::Cell<Option<Phase>>);

impl Progress for Phases {
    fn update(&self, phase: Phase, _: u64, _: u64) {
        if self.1.replace(Some(phase)) != Some(phase) {
            println!("{:7.2} s, {:7.1} MiB: {phase}", self.0.elapsed().as_secs_f64(), peak_mib());
        }
    }
}

fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
}

/// Not a test: runs the build in its own process, which the test below starts.
#[test]
fn child() {
    let Some(input) = std::env::var_os(CHILD_INPUT) else { return };
    let progress = Phases(Instant::now(), std::cell::Cell::new(None));
    build(&options(Path::new(&input), Some("key"), &["value"]), &BACKEND, &progress).unwrap();
    println!("{:7.2} s, {:7.1} MiB: peak", progress.0.elapsed().as_secs_f64(), peak_mib());
}

#[test]
fn peak_memory_stays_below_one_and_a_half_times_the_encoded_size() {
    let mib: usize =
        std::env::var("SPIREA_MEMORY_MIB").map_or(160, |text| text.parse().expect("a number of MiB"));
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("data.csv");
    let mut csv = BufWriter::new(File::create(&input).unwrap());
    writeln!(csv, "key,value").unwrap();
    for i in 0..mib << 20 >> VALUE_BYTES.ilog2() {
        writeln!(csv, "{i},{i:0VALUE_BYTES$}").unwrap();
    }
    drop(csv);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory::child", "--nocapture"])
        .env(CHILD_INPUT, &input)
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let line = output.lines().find(|line| line.ends_with("peak")).expect(&output);
    let peak: f64 = line.split(',').nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    let snapshot = Snapshot::open(folder.path().join("table")).unwrap();
    let manifest = snapshot.manifest();
    let (matrix, hint) = (manifest.matrix.bytes as f64, manifest.hint.bytes as f64);
    let started = Instant::now();
    snapshot.verify(&Silent).unwrap();
    let verify = (matrix + hint) / started.elapsed().as_secs_f64() / 1e9;
    println!("{output}{:?}\npadding {:.2}, verify {verify:.2} GB/s", manifest.protocol, manifest.padding());
    let ratio = peak * (1 << 20) as f64 / matrix;
    println!("peak {peak} MiB, {ratio:.2} times the matrix, hint {:.2} times", hint / matrix);
    assert!(ratio < 1.5, "peak memory is {ratio:.2} times the matrix\n{output}");
}
