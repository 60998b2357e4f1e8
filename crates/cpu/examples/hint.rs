#![allow(clippy::print_stdout, missing_docs)]
use spirea_backend::{Backend, PanelLayout, RingMatrix};
use spirea_cpu::{CpuBackend, Isa};
use std::time::Instant;
fn cpu() -> f64 {
    let mut s = 0.0;
    for t in std::fs::read_dir("/proc/self/task").unwrap() {
        if let Ok(x) = std::fs::read_to_string(t.unwrap().path().join("schedstat")) {
            s += x.split(' ').next().unwrap().parse::<f64>().unwrap();
        }
    }
    s * 1e-9
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let list = |i: usize, d: Vec<usize>| {
        args.get(i).map_or(d, |s| s.split(',').map(|x| x.parse().unwrap()).collect())
    };
    let mib = list(1, vec![1024])[0];
    let columns = list(4, vec![32768])[0];
    let layout = PanelLayout::covering(mib * (1 << 20) / columns, columns).unwrap();
    let bytes: Vec<u8> =
        (0..layout.bytes()).map(|i| (i as u64).wrapping_mul(0x9E3779B97F4A7C15).to_le_bytes()[6]).collect();
    let rank = list(5, vec![5])[0];
    let co: Vec<u32> = (0..columns * rank).map(|i| (i as u32).wrapping_mul(2654435761)).collect();
    let a = RingMatrix { coefficients: &co, block_rows: columns / 256, rank };
    for isa in Isa::available() {
        if args.get(3).is_some_and(|n| n != isa.name()) {
            continue;
        }
        for t in list(2, vec![1, 2]) {
            let b = CpuBackend::with_isa(isa, t).unwrap();
            let m = b.upload(layout, &bytes).unwrap();
            let (mut wall, mut used) = (vec![], vec![]);
            for _ in 0..list(6, vec![5])[0] {
                let (s, c) = (Instant::now(), cpu());
                std::hint::black_box(b.module_fold(&m, a).unwrap());
                wall.push(s.elapsed().as_secs_f64());
                used.push((cpu() - c) / t as f64);
            }
            wall.sort_by(f64::total_cmp);
            used.sort_by(f64::total_cmp);
            let units = layout.bytes() as f64 / 256.0;
            println!(
                "{isa} t{t}: wall median {:.0} best {:.0} ms, cpu median {:.0} best {:.0} ms; {:.0} ns a row-block",
                wall[wall.len() / 2] * 1e3,
                wall[0] * 1e3,
                used[used.len() / 2] * 1e3,
                used[0] * 1e3,
                used[0] * 1e9 / units * t as f64
            );
        }
    }
}
