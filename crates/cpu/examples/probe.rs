#![allow(clippy::print_stdout, missing_docs)]
use spirea_backend::{EvaluationKeys, RingBackend};
use spirea_cpu::{CpuBackend, rates};
use spirea_math::{Expansion, Gadget, Modulus, Ring};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;
fn main() {
    let a: Vec<usize> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let (degree, primes, rows, columns, batch, runs) = (a[0], a[1], a[2], a[3], a[4], a[5]);
    let all = [536_608_769u32, 533_463_041, 531_628_033, 536_813_569];
    let onion = [134_176_769u32, 134_111_233, 67_084_289, 67_043_329];
    let set: Vec<Modulus> =
        (if primes == 4 { &onion[..] } else { &all[..primes] }).iter().map(|&q| Modulus::new(q)).collect();
    let ring = Arc::new(Ring::new(degree, &set));
    let backend = CpuBackend::new(1).unwrap();
    let tables = backend.tables(&ring).unwrap();
    let expansion = Expansion::covering(columns.min(degree));
    let words: Vec<u32> = (0..expansion.levels() as usize * primes * 2 * ring.words())
        .map(|i| (i as u32).wrapping_mul(0x9E37_79B9) >> 7)
        .collect();
    let keys = EvaluationKeys {
        expansion_gadget: Gadget::Residues,
        expansion: &words,
        conversion_gadget: Gadget::Residues,
        conversion: &[],
    };
    let keys = backend.keys(&tables, keys).unwrap();
    let query = &words[..2 * ring.words()];
    let plain =
        backend.encode(&tables, rows, columns, &|r, c, to: &mut [i32]| to.fill((r * 31 + c) as i32)).unwrap();
    let leaves = backend.expand(&tables, expansion, &vec![(&keys, query); batch]).unwrap();
    let leaves: Vec<_> = leaves.iter().collect();
    let mut best = f64::INFINITY;
    let mut all = vec![];
    for _ in 0..runs {
        let start = Instant::now();
        black_box(backend.poly_fold(&tables, &plain, &leaves).unwrap());
        let s = start.elapsed().as_secs_f64();
        all.push(s);
        best = best.min(s);
    }
    all.sort_by(f64::total_cmp);
    let products = (2 * rows * columns * ring.words() * batch) as f64;
    let peak = rates::word_multiply_add_peak(backend.isa()).unwrap();
    println!(
        "{a:?}: best {:.3} ms, p25 {:.3} {:.2} G/s {:.3} of {:.1}; {:.2} GB/s plain",
        best * 1e3,
        all[runs / 4] * 1e3,
        products / best / 1e9,
        products / best / peak,
        peak / 1e9,
        plain.bytes() as f64 / best / 1e9
    );
}
