#![allow(clippy::print_stdout, missing_docs)]
use spirea_backend::{Backend, PanelLayout};
use spirea_cpu::{CpuBackend, Isa, rates};
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
    let (batches, threads) = (list(2, vec![1, 32]), list(3, vec![1, 2]));
    let columns = 32768;
    let layout = PanelLayout::covering(mib * (1 << 20) / columns, columns).unwrap();
    let bytes: Vec<u8> =
        (0..layout.bytes()).map(|i| (i as u64).wrapping_mul(0x9E3779B97F4A7C15).to_le_bytes()[6]).collect();
    for isa in Isa::available() {
        if args.get(4).is_some_and(|n| n != isa.name()) {
            continue;
        }
        println!(
            "{isa} peak {} {:.2} G/s",
            rates::multiply_add_floor(isa),
            rates::multiply_add_peak(isa).unwrap() * 1e-9
        );
        for &t in &threads {
            let b = CpuBackend::with_isa(isa, t).unwrap();
            let m = b.upload(layout, &bytes).unwrap();
            let mut bw = vec![];
            for _ in 0..3 {
                bw.push(rates::read_bandwidth(t, &m).unwrap() * 1e-9);
            }
            println!("read {bw:.2?} GB/s");
            for &batch in &batches {
                let q: Vec<u32> = (0..columns * batch).map(|i| (i as u32).wrapping_mul(2654435761)).collect();
                let (mut wall, mut used) = (vec![], vec![]);
                for _ in 0..200 {
                    let (s, c) = (Instant::now(), cpu());
                    std::hint::black_box(b.scalar_fold(&m, &q).unwrap());
                    wall.push(s.elapsed().as_secs_f64());
                    used.push((cpu() - c) / t as f64);
                }
                wall.sort_by(f64::total_cmp);
                used.sort_by(f64::total_cmp);
                let g = layout.bytes() as f64 / 1e9;
                println!(
                    "{isa} t{t} batch {batch}: wall median {:.1} best {:.1} ms, cpu median {:.1} best {:.1} ms: best cpu {:.2} GB/s  {:.2} G/s",
                    wall[100] * 1e3,
                    wall[0] * 1e3,
                    used[100] * 1e3,
                    used[0] * 1e3,
                    g / used[0],
                    g * batch as f64 / used[0]
                );
            }
        }
    }
}
