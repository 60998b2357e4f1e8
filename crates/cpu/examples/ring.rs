//! Times the steps on rings separately:
//! `cargo run --release -p spirea-cpu --example ring -- [THREADS] [STEP ...]`.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use spirea_backend::{Backend as _, EvaluationKeys, PanelLayout, RingBackend, SwitchedBits};
use spirea_cpu::{CpuBackend, Schedule, rates};
use spirea_math::{Expansion, Gadget, Modulus, Ring};

/// Primes of VIPIR's ring, and of a ring for OnionPIR.
const PAPER: [u32; 3] = [536_608_769, 533_463_041, 531_628_033];
const ONION: [u32; 4] = [134_176_769, 134_111_233, 67_084_289, 67_043_329];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let threads = arguments.next().map_or(1, |threads| threads.parse().expect("a number of threads"));
    let steps: Vec<String> = arguments.collect();
    let wanted = |step: &str| steps.is_empty() || steps.iter().any(|name| name == step);
    let backend = CpuBackend::new(threads).expect("kernels");
    println!("{} with {threads} threads", backend.name());
    let peak = rates::word_multiply_add_peak(backend.isa()).expect("the path in use") * threads as f64;
    println!("peak of vpmuludq and vpaddq: {:.2} G/s", peak / 1e9);
    if wanted("fold") {
        let layout = PanelLayout::covering(1 << 15, 1 << 14).expect("a layout");
        let matrix = backend.upload(layout, &vec![1; layout.bytes()]).expect("a matrix");
        let bandwidth = rates::read_bandwidth(threads, matrix.bytes()).expect("threads");
        println!("memory: {:.2} GB/s", bandwidth / 1e9);
    }
    for (name, degree, primes) in [
        ("paper", 4096, &PAPER[..]),
        ("paper 2048", 2048, &PAPER[..2]),
        ("onion", 4096, &ONION[..]),
        ("30 bits", 4096, &[1_073_692_673, 1_073_668_097]),
    ] {
        let seconds =
            rates::transform_seconds(backend.isa(), &ring(degree, primes)).expect("the path in use");
        println!("{name}: forward {:.2} us, inverse {:.2} us", seconds.forward * 1e6, seconds.inverse * 1e6);
    }
    let fast = Gadget::Digits { levels: 3, base_log: 16, dropped: 39 };
    let onion = Gadget::Digits { levels: 3, base_log: 22, dropped: 40 };
    if wanted("expand") {
        for schedule in [Schedule::Hierarchical, Schedule::BreadthFirst] {
            let backend = CpuBackend::new(threads).expect("kernels").with_schedule(schedule);
            expand(&backend, &PAPER, Gadget::Residues, 1320, &format!("{schedule:?}"));
        }
        expand(&backend, &ONION, Gadget::Digits { levels: 5, base_log: 22, dropped: 0 }, 286, "onion");
    }
    if wanted("fold") {
        for (primes, rows, columns) in [(&PAPER[..], 8, 1280), (&ONION[..], 128, 256)] {
            fold(&backend, primes, rows, columns, peak);
        }
    }
    if wanted("tournament") {
        tournament(&backend, &PAPER, Gadget::Residues, fast, 8);
        tournament(&backend, &ONION, Gadget::Residues, onion, 128);
    }
}

fn ring(degree: usize, primes: &[u32]) -> Arc<Ring> {
    Arc::new(Ring::new(degree, &primes.iter().map(|&q| Modulus::new(q)).collect::<Vec<_>>()))
}

/// Returns words below every prime.
fn words(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| i.wrapping_mul(0x9E37_79B9) >> 6).collect()
}

/// Returns the best and the median of several runs.
fn time<T>(runs: usize, mut run: impl FnMut() -> T) -> (f64, f64) {
    let mut seconds: Vec<f64> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            black_box(run());
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    (seconds[0], seconds[runs / 2])
}

fn keys(
    backend: &CpuBackend,
    ring: &Arc<Ring>,
    levels: usize,
    gadget: Gadget,
) -> (spirea_cpu::RingTables, spirea_cpu::RingKeys) {
    let tables = backend.tables(ring).expect("tables");
    let row = 2 * ring.words();
    let keys = EvaluationKeys {
        expansion_gadget: gadget,
        expansion: &words(levels * gadget.levels(ring) * row),
        rotations: &[],
        conversion_gadget: gadget,
        conversion: &words(2 * gadget.levels(ring) * row),
    };
    let keys = backend.keys(&tables, keys).expect("keys");
    (tables, keys)
}

fn expand(backend: &CpuBackend, primes: &[u32], gadget: Gadget, leaves: usize, name: &str) {
    let ring = ring(4096, primes);
    let expansion = Expansion::covering(leaves);
    let (tables, keys) = keys(backend, &ring, expansion.levels() as usize, gadget);
    let query = words(2 * ring.words());
    let (best, median) = time(9, || backend.expand(&tables, expansion, &[(&keys, &query)]).expect("leaves"));
    println!(
        "expand {leaves}, {name}: {:.1} ms, median {:.1}; {:.2} us a substitution",
        best * 1e3,
        median * 1e3,
        best * 1e6 / expansion.substitutions() as f64
    );
}

fn fold(backend: &CpuBackend, primes: &[u32], rows: usize, columns: usize, peak: f64) {
    let ring = ring(4096, primes);
    let expansion = Expansion::covering(columns);
    let (tables, keys) = keys(backend, &ring, expansion.levels() as usize, Gadget::Residues);
    let start = Instant::now();
    let fill = |row: usize, column: usize, to: &mut [i32]| {
        to.iter_mut()
            .zip(0..)
            .for_each(|(to, i)| *to = (row as i32 * 7 + column as i32 * 11 + i) % (1 << 17));
    };
    let plain = backend.encode(&tables, rows, columns, &fill).expect("a plain matrix");
    println!("encode {rows} x {columns}: {:.2} s", start.elapsed().as_secs_f64());
    let query = words(2 * ring.words());
    for batch in [1, 4, 32] {
        let leaves = backend.expand(&tables, expansion, &vec![(&keys, &query[..]); batch]).expect("leaves");
        let (best, median) = time(if batch > 4 { 3 } else { 9 }, || {
            backend.poly_fold(&tables, std::slice::from_ref(&plain), &leaves).expect("ciphertexts")
        });
        let products = (2 * rows * columns * ring.words() * batch) as f64;
        let bytes = plain.bytes() as f64;
        let leaf_bytes = (2 * columns * ring.words() * 4 * batch) as f64;
        println!(
            "fold {rows} x {columns}, {} primes, {batch} queries: {:.1} ms, median {:.1}; {:.2} G/s, {:.2} of the peak; \
             matrix {:.2} GB/s, with leaves {:.2} GB/s",
            primes.len(),
            best * 1e3,
            median * 1e3,
            products / best / 1e9,
            products / best / peak,
            bytes / best / 1e9,
            (bytes + leaf_bytes) / best / 1e9,
        );
    }
}

fn tournament(backend: &CpuBackend, primes: &[u32], conversion: Gadget, gadget: Gadget, players: usize) {
    let ring = ring(4096, primes);
    let depth = players.ilog2() as usize;
    let expansion = Expansion::covering(depth * gadget.levels(&ring));
    let (tables, keys) = keys(backend, &ring, expansion.levels() as usize, conversion);
    let query = words(2 * ring.words());
    let leaves = backend.expand(&tables, expansion, &[(&keys, &query)]).expect("leaves");
    let (best, median) =
        time(9, || backend.selectors(&tables, &[&keys], &leaves, 0, depth, gadget).expect("selectors"));
    println!("selectors {depth}, {} primes: {:.2} ms, median {:.2}", primes.len(), best * 1e3, median * 1e3);
    let selectors = backend.selectors(&tables, &[&keys], &leaves, 0, depth, gadget).expect("selectors");
    let plain = backend
        .encode(&tables, players, 1, &|row, _, to: &mut [i32]| to.fill(row as i32 + 1))
        .expect("a plain matrix");
    let mut folded: Vec<_> = (0..9)
        .map(|_| backend.poly_fold(&tables, std::slice::from_ref(&plain), &leaves).expect("ciphertexts"))
        .collect();
    let mut last = None;
    let (best, median) = time(9, || {
        last = Some(
            backend
                .rgsw_fold(&tables, &selectors, folded.pop().expect("one for each run"))
                .expect("a winner"),
        );
    });
    println!(
        "tournament of {players}, {} primes: {:.2} ms, median {:.2}; {:.1} us an external product",
        primes.len(),
        best * 1e3,
        median * 1e3,
        best * 1e6 / (players - 1) as f64
    );
    let winner = last.expect("a winner");
    let (best, median) = time(99, || backend.mod_switch(&tables, &[&winner], SwitchedBits { a: 18, b: 14 }));
    println!("mod_switch, {} primes: {:.1} us, median {:.1}", primes.len(), best * 1e6, median * 1e6);
}
