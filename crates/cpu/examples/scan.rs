#![allow(clippy::print_stdout, missing_docs)]
use spirea_backend::{Backend, PanelLayout};
use spirea_cpu::{CpuBackend, Isa, rates};
use std::time::Instant;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let list = |i: usize, d: Vec<usize>| {
        args.get(i).map_or(d, |s| s.split(',').map(|x| x.parse().unwrap()).collect())
    };
    let (mib, reps) = (list(1, vec![128])[0], list(2, vec![100])[0]);
    let columns = 32768;
    let layout = PanelLayout::covering(mib * (1 << 20) / columns, columns).unwrap();
    let bytes: Vec<u8> =
        (0..layout.bytes()).map(|i| (i as u64).wrapping_mul(0x9E3779B97F4A7C15).to_le_bytes()[6]).collect();
    let q: Vec<u32> = (0..columns).map(|i| (i as u32).wrapping_mul(2654435761)).collect();
    for t in [1, 2] {
        let b = CpuBackend::with_isa(Isa::Avx2, t).unwrap();
        let p = CpuBackend::with_isa(Isa::Portable, t).unwrap();
        let m = b.upload(layout, &bytes).unwrap();
        let (mut read, mut fold, mut port) = (0f64, f64::INFINITY, f64::INFINITY);
        for _ in 0..reps {
            read = read.max(rates::read_bandwidth(t, &m).unwrap());
            for _ in 0..5 {
                let s = Instant::now();
                std::hint::black_box(b.scalar_fold(&m, &q).unwrap());
                fold = fold.min(s.elapsed().as_secs_f64());
                let s = Instant::now();
                std::hint::black_box(p.scalar_fold(&m, &q).unwrap());
                port = port.min(s.elapsed().as_secs_f64());
            }
        }
        let g = layout.bytes() as f64;
        println!(
            "t{t}: read {:.2} fold {:.2} GB/s = {:.3}; portable {:.2}",
            read * 1e-9,
            g / fold * 1e-9,
            g / fold / read,
            g / port * 1e-9
        );
    }
}
