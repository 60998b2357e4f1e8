//! Rings with gadgets, and values computed with them on any backend.

use std::sync::{Arc, LazyLock};

use spirea_backend::{BackendError, EvaluationKeys, RingBackend, SwitchedBits};
use spirea_conformance::{Count, is_drawn};
use spirea_cpu::CpuBackend;
use spirea_cuda::{CudaBackend, Granularity};
use spirea_cuda_emulation::{Config, Emulation, StreamOrder, ThreadOrder};
use spirea_lattice::rlwe::RingSet;
use spirea_math::random::{Seed, public_residues};
use spirea_math::{Expansion, Gadget, Modulus, Ring, Rotations};

pub const GRANULARITIES: [Granularity; 3] =
    [Granularity::Operations, Granularity::Stages, Granularity::Pairs];
/// Enough bits to show every wrong residue.
pub const ALL_BITS: SwitchedBits = SwitchedBits { a: 56, b: 55 };

/// Returns a device that multiplies words, because products of bytes take longer to emulate and
/// have their own tests. Its blocks have the shared memory for pairs of items of every ring.
pub fn device() -> Config {
    Config { compute: (8, 7), ..Config::default() }
}

pub fn emulation() -> &'static Emulation {
    Emulation::install(device())
}

/// Runs a test in every order with the shorter ring, which is fast. With other rings, runs it in
/// one order, which differs between the sets: the kernels are the same for all. The short and the
/// full form draw one of the orders.
pub fn in_orders(ring: &Ring, mut test: impl FnMut()) {
    if ring.degree() == SHORT.degree() {
        return emulation().in_every_order(|| {
            let threads = format!("{:?}", emulation().config().threads);
            if is_drawn(
                "orders of threads",
                &["Forward", "Reversed", "Shuffled"],
                Count { short: 1, full: 1 },
                &threads,
            ) {
                test();
            }
        });
    }
    let is = |set: RingSet| std::ptr::eq(ring, Arc::as_ptr(set.ring()));
    let (threads, streams) = if is(RingSet::Fast) {
        (ThreadOrder::Forward, StreamOrder::LastFirst)
    } else if is(RingSet::Onion32) {
        (ThreadOrder::Reversed, StreamOrder::Eager)
    } else {
        (ThreadOrder::Shuffled, StreamOrder::Lazy)
    };
    emulation().with(Config { threads, streams, ..device() }, &mut test);
}

/// Ring of half the degree, with primes of different sizes. One prime is so large that products of
/// words are faster than products of bytes.
pub static SHORT: LazyLock<Arc<Ring>> = LazyLock::new(|| {
    Arc::new(Ring::new(
        2048,
        &[Modulus::new(536_608_769), Modulus::new(134_176_769), Modulus::new(531_628_033)],
    ))
});

/// Ring with primes close below a power of two, which leave little headroom.
pub static WIDE: LazyLock<Arc<Ring>> =
    LazyLock::new(|| Arc::new(Ring::new(2048, &[Modulus::new(1_073_692_673), Modulus::new(1_073_668_097)])));

#[derive(Clone, Copy, Debug)]
pub enum Data {
    Random(u8),
    Zeros,
    Largest,
    Alternating,
}

/// Returns polynomials with words below the primes.
pub fn polynomials(ring: &Ring, data: Data, count: usize) -> Vec<u32> {
    let mut words = vec![0; count * ring.words()];
    for (i, words) in words.chunks_exact_mut(ring.degree()).enumerate() {
        let prime = ring.limbs()[i % ring.limbs().len()].prime();
        match data {
            Data::Random(seed) => public_residues(&Seed::new([seed; 32]), i as u64, prime, words),
            Data::Zeros => {}
            Data::Largest => words.fill(prime.value() - 1),
            Data::Alternating => words.iter_mut().step_by(2).for_each(|word| *word = prime.value() - 1),
        }
    }
    words
}

/// Ring with gadgets. Random words serve as keys, because a test of exact arithmetic needs no real
/// keys.
pub struct Case {
    pub ring: Arc<Ring>,
    pub expansion: Gadget,
    pub conversion: Gadget,
    pub selector: Gadget,
}

impl Case {
    pub fn of(set: RingSet) -> Self {
        Self {
            ring: Arc::clone(set.ring()),
            expansion: set.expansion_gadget(),
            conversion: set.conversion_gadget(),
            selector: set.selector_gadget(),
        }
    }

    pub fn short() -> Self {
        Self {
            ring: Arc::clone(&SHORT),
            expansion: Gadget::Digits { levels: 14, base_log: 6, dropped: 0 },
            conversion: Gadget::Residues,
            selector: Gadget::Digits { levels: 2, base_log: 28, dropped: 29 },
        }
    }

    /// Returns a case with so many digits that sums of their products must be reduced before the
    /// end.
    pub fn wide() -> Self {
        let digits = |levels| Gadget::Digits { levels, base_log: 2, dropped: 60 - 2 * levels };
        Self { ring: Arc::clone(&WIDE), expansion: digits(13), conversion: digits(24), selector: digits(24) }
    }

    pub fn rows(&self, gadget: Gadget, sources: usize, data: Data) -> Vec<u32> {
        polynomials(&self.ring, data, 2 * sources * gadget.levels(&self.ring))
    }

    pub fn keys<B: RingBackend>(&self, backend: &B, tables: &B::Tables, levels: u32, data: Data) -> B::Keys {
        // All keys are parts of one sequence, so that they differ from each other.
        let substitutions = self.rows(self.expansion, levels as usize + Rotations::KEYS, data);
        let words = levels as usize * (substitutions.len() / (levels as usize + Rotations::KEYS));
        let (expansion, rotations) = substitutions.split_at(words);
        let conversion = self.rows(self.conversion, 2, data);
        let keys = EvaluationKeys {
            expansion_gadget: self.expansion,
            expansion,
            rotations,
            conversion_gadget: self.conversion,
            conversion: &conversion,
        };
        backend.keys(tables, keys).unwrap()
    }

    /// Expands queries, each with its own keys, and returns each leaf, switched to bytes.
    pub fn expanded<B: RingBackend>(
        &self,
        backend: &B,
        tables: &B::Tables,
        expansion: Expansion,
        data: &[Data],
    ) -> Vec<u8> {
        let keys: Vec<B::Keys> =
            data.iter().map(|&data| self.keys(backend, tables, expansion.levels(), data)).collect();
        let queries: Vec<Vec<u32>> = data.iter().map(|&data| polynomials(&self.ring, data, 2)).collect();
        let queries: Vec<(&B::Keys, &[u32])> = keys.iter().zip(queries.iter().map(Vec::as_slice)).collect();
        let expanded = backend.expand(tables, expansion, &queries).unwrap();
        let unit = |row: usize, column: usize, to: &mut [i32]| {
            to.fill(0);
            to[0] = i32::from(row == column);
        };
        let leaves = expansion.leaves();
        let plain = backend.encode(tables, leaves, leaves, &unit).unwrap();
        let folded = backend.poly_fold(tables, &[plain], &expanded).unwrap();
        backend.mod_switch(tables, &[&folded], ALL_BITS).unwrap().concat()
    }

    /// Multiplies a random ciphertext of each query by several plaintexts.
    pub fn ciphertexts<B: RingBackend>(
        &self,
        backend: &B,
        tables: &B::Tables,
        count: usize,
        queries: &[Data],
    ) -> B::Ciphertexts {
        let words: Vec<_> = queries.iter().map(|&data| polynomials(&self.ring, data, 2)).collect();
        let keys = self.keys(backend, tables, 0, Data::Random(0));
        let queries: Vec<(&B::Keys, &[u32])> = words.iter().map(|words| (&keys, &words[..])).collect();
        let leaves = backend.expand(tables, Expansion::covering(1), &queries).unwrap();
        let fill = |row: usize, _: usize, to: &mut [i32]| {
            to.iter_mut().enumerate().for_each(|(i, to)| {
                *to = match row {
                    0 => i32::MAX,
                    1 => i32::MIN,
                    _ => (i * (2 * row + 1) * 0x9e37_79b1) as i32,
                };
            });
        };
        let plain = backend.encode(tables, count, 1, &fill).unwrap();
        backend.poly_fold(tables, &[plain], &leaves).unwrap()
    }

    /// Plays a tournament for each query, with selectors from its leaves; the first leaf is not
    /// used.
    pub fn tournament<B: RingBackend>(
        &self,
        backend: &B,
        tables: &B::Tables,
        depth: usize,
        count: usize,
        data: &[Data],
    ) -> Vec<u8> {
        let leaves = 1 + depth * self.selector.levels(&self.ring);
        let expansion = Expansion::covering(leaves);
        let keys: Vec<B::Keys> =
            data.iter().map(|&data| self.keys(backend, tables, expansion.levels(), data)).collect();
        let words: Vec<_> = data.iter().map(|&data| polynomials(&self.ring, data, 2)).collect();
        let queries: Vec<(&B::Keys, &[u32])> = keys.iter().zip(words.iter().map(Vec::as_slice)).collect();
        let leaves = backend.expand(tables, expansion, &queries).unwrap();
        let keys: Vec<&B::Keys> = keys.iter().collect();
        let selectors = backend.selectors(tables, &keys, &leaves, 1, depth, self.selector).unwrap();
        let ciphertexts = self.ciphertexts(backend, tables, count, data);
        let winner = backend.rgsw_fold(tables, &selectors, ciphertexts).unwrap();
        backend.mod_switch(tables, &[&winner], ALL_BITS).unwrap().concat()
    }
}

/// Compares the results of both granularities with the CPU's.
pub fn compare(
    case: &Case,
    what: &str,
    on_cpu: impl Fn(&CpuBackend, &<CpuBackend as RingBackend>::Tables) -> Vec<u8>,
    on_cuda: impl Fn(&CudaBackend, &<CudaBackend as RingBackend>::Tables) -> Vec<u8>,
) {
    let cpu = CpuBackend::new(1).unwrap();
    let expected = on_cpu(&cpu, &cpu.tables(&case.ring).unwrap());
    in_orders(&case.ring, || {
        let backend = CudaBackend::new(0).unwrap();
        for granularity in GRANULARITIES {
            let tables = backend.tables(&case.ring).unwrap().with_granularity(granularity);
            assert!(on_cuda(&backend, &tables) == expected, "{what}, {granularity:?}");
        }
    });
}

pub fn refused<T>(result: Result<T, BackendError>) -> bool {
    matches!(result, Err(BackendError::Shape(_)))
}

/// Returns pseudorandom words.
pub fn words(count: usize, seed: u32) -> Vec<u32> {
    let mixed = |i: u32| (i ^ seed << 20).wrapping_mul(0x9e37_79b1);
    (0..count as u32).map(|i| mixed(i) ^ mixed(i) >> 15).collect()
}
