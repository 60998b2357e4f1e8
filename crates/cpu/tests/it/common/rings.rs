//! Rings, and content for them.

use std::fmt::Debug;
use std::sync::Arc;

use spirea_cpu::{CpuBackend, Isa, Schedule};
use spirea_math::{Gadget, Modulus, Ring};

use super::Stream;

/// Primes that are 1 mod 2^13: below 2^30, 2^29, 2^27 and 2^25, largest first.
pub const PRIMES: [[u32; 4]; 4] = [
    [1_073_692_673, 1_073_668_097, 1_073_651_713, 1_073_643_521],
    [536_813_569, 536_690_689, 536_641_537, 536_616_961],
    [134_176_769, 134_111_233, 134_012_929, 133_963_777],
    [33_538_049, 33_349_633, 33_292_289, 33_177_601],
];

pub fn ring(degree: usize, primes: &[u32]) -> Arc<Ring> {
    let primes: Vec<Modulus> = primes.iter().map(|&q| Modulus::new(q)).collect();
    Arc::new(Ring::new(degree, &primes))
}

/// Kind of coefficients of polynomials.
#[derive(Clone, Copy, Debug)]
pub enum Coefficients {
    Random,
    Zero,
    Largest,
    /// 0 and q - 1 alternating.
    Alternating,
    /// Near q/2, and near values at which digits and roundings change.
    Halves,
}

/// Returns `count` polynomials as values.
pub fn polynomials(ring: &Ring, count: usize, kind: Coefficients, seed: u64) -> Vec<u32> {
    let mut stream = Stream::new(seed);
    let mut words = Vec::new();
    for _ in 0..count {
        let mut a = ring.zero();
        for i in 0..ring.degree() {
            let random = i128::from(stream.next()) << 64 >> (1 + stream.next() % 125);
            let half = (ring.modulus() / 2) as i128;
            let value = match kind {
                Coefficients::Random => (random ^ i128::from(stream.next())) % half,
                Coefficients::Zero => 0,
                Coefficients::Largest => -1,
                Coefficients::Alternating => -((i % 2) as i128),
                Coefficients::Halves => {
                    let near = (stream.next() % 5) as i128 - 2;
                    match stream.next() % 3 {
                        0 => half + near,
                        1 => near - half,
                        _ => (1i128 << (stream.next() % 110)) + near,
                    }
                }
            };
            ring.set_coefficient(&mut a, i, value);
        }
        ring.forward(&mut a);
        words.extend(a);
    }
    words
}

/// Returns random values: keys need no structure, since the steps are exact for any values.
pub fn values(ring: &Ring, polynomials: usize, seed: u64) -> Vec<u32> {
    let mut stream = Stream::new(seed);
    let residues = |q: Modulus| (0..ring.degree()).map(move |_| q);
    let primes = (0..polynomials).flat_map(|_| ring.limbs().iter().flat_map(|limb| residues(limb.prime())));
    primes
        .map(|q| match stream.next() {
            word if word >> 60 == 0 => q.value() - 1,
            word => (word % u64::from(q.value())) as u32,
        })
        .collect()
}

/// Returns gadgets for a ring, with and without dropped bits.
pub fn gadgets(ring: &Ring) -> [Gadget; 4] {
    let bits = u128::BITS - ring.modulus().leading_zeros();
    let digits = |levels: u32, base_log, dropped| Gadget::Digits { levels, base_log, dropped };
    [
        Gadget::Residues,
        digits(4, bits.div_ceil(4), 0),
        digits(3, bits.div_ceil(5), bits - 3 * bits.div_ceil(5)),
        digits(2, bits.div_ceil(6), bits - 2 * bits.div_ceil(6)),
    ]
}

/// Compares the observable results of a case, for all kernels, schedules and numbers of threads,
/// with those by definition.
pub fn check(case: &impl Debug, expected: &[Vec<u8>], run: impl Fn(&CpuBackend) -> Vec<Vec<u8>>) {
    for isa in Isa::available() {
        for (threads, schedule) in [(1, Schedule::Hierarchical), (2, Schedule::BreadthFirst)] {
            let seen = run(&CpuBackend::with_isa(isa, threads).unwrap().with_schedule(schedule));
            assert_eq!(seen.len(), expected.len());
            for (step, (seen, expected)) in seen.iter().zip(expected).enumerate() {
                assert!(seen == expected, "{isa}, {threads} threads: observation {step} of {case:?}");
            }
        }
    }
}
