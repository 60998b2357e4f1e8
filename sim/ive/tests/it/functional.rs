//! The lowered graphs, compared with the oracle of all backends word for word.

use std::sync::Arc;

use spirea_backend::{EvaluationKeys, NaiveBackend, Observed, Operation, RingBackend};
use spirea_ive::arch::Arch;
use spirea_ive::functional::{Ciphertext, Execution, Key, Keys, Machine};
use spirea_ive::program::{Program, Rings};
use spirea_ive::recorder::{Phase, Recorder, phases};
use spirea_ive::schedule::{Digits, levels};
use spirea_ive::system::Schedules;
use spirea_math::{Expansion, Gadget, Modulus, Ring};

/// Primes of IVE, 2^27 + 2^k + 1.
const PRIMES: [u32; 4] = [
    (1 << 27) + (1 << 15) + 1,
    (1 << 27) + (1 << 17) + 1,
    (1 << 27) + (1 << 21) + 1,
    (1 << 27) + (1 << 22) + 1,
];
const GADGET: Gadget = Gadget::Digits { levels: 5, base_log: 22, dropped: 0 };
const COLUMNS: usize = 6;

/// Generator of words below the primes. Keys and queries need not be real encryptions: the
/// arithmetic is the same.
struct Words(u64);

impl Words {
    fn polynomial(&mut self, ring: &Ring) -> Vec<u32> {
        let limbs = ring.limbs().iter().map(|limb| u64::from(limb.prime().value()));
        limbs
            .flat_map(|prime| std::iter::repeat_n(prime, ring.degree()))
            .map(|prime| self.below(prime))
            .collect()
    }

    fn below(&mut self, prime: u64) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % prime) as u32
    }

    fn ciphertexts(&mut self, ring: &Ring, count: usize) -> Vec<Ciphertext> {
        (0..count).map(|_| Ciphertext { a: self.polynomial(ring), b: self.polynomial(ring) }).collect()
    }
}

fn flat(ciphertexts: &[Ciphertext]) -> Vec<u32> {
    ciphertexts.iter().flat_map(|it| [&it.a[..], &it.b]).flatten().copied().collect()
}

struct Fixture {
    ring: Arc<Ring>,
    keys: Keys,
    query: Ciphertext,
    coefficients: Vec<Vec<Vec<i32>>>,
    depth: u32,
}

impl Fixture {
    fn new(rows: u64) -> Self {
        let ring = Arc::new(Ring::new(64, &PRIMES.map(Modulus::new)));
        let mut words = Words(7);
        let depth = levels(rows);
        let key = |rows| Key { gadget: GADGET, rows };
        let expansion = (0..7).map(|_| key(words.ciphertexts(&ring, 5))).collect();
        let conversion = key(words.ciphertexts(&ring, 10));
        let query = words.ciphertexts(&ring, 1).remove(0);
        let polynomial =
            |words: &mut Words| (0..64).map(|_| words.below(1 << 20) as i32 - (1 << 19)).collect();
        let coefficients =
            (0..rows).map(|_| (0..COLUMNS).map(|_| polynomial(&mut words)).collect()).collect();
        Self { ring, keys: Keys { expansion, rotations: Vec::new(), conversion }, query, coefficients, depth }
    }

    fn expansion(&self) -> Expansion {
        Expansion::covering(COLUMNS + 5 * self.depth as usize)
    }

    /// Computes the expected words on a backend, with the calls of `onion`'s server.
    fn expected<B: RingBackend>(&self, backend: &B) -> Vec<u32> {
        let tables = backend.tables(&self.ring).unwrap();
        let expansion: Vec<u32> = self.keys.expansion.iter().flat_map(|key| flat(&key.rows)).collect();
        let keys = EvaluationKeys {
            expansion_gadget: GADGET,
            expansion: &expansion,
            rotations: &[],
            conversion_gadget: GADGET,
            conversion: &flat(&self.keys.conversion.rows),
        };
        let keys = backend.keys(&tables, keys).unwrap();
        let query = flat(std::slice::from_ref(&self.query));
        let fill =
            |row: usize, column: usize, to: &mut [i32]| to.copy_from_slice(&self.coefficients[row][column]);
        let plain = backend.encode(&tables, self.coefficients.len(), COLUMNS, &fill).unwrap();
        let leaves = backend.expand(&tables, self.expansion(), &[(&keys, &query)]).unwrap();
        let selectors =
            backend.selectors(&tables, &[&keys], &leaves, COLUMNS, self.depth as usize, GADGET).unwrap();
        let rows = backend.poly_fold(&tables, &[plain], &leaves).unwrap();
        let won = backend.rgsw_fold(&tables, &selectors, rows).unwrap();
        backend.ciphertext_words(&tables, &won).unwrap()
    }

    fn computed(&self, arch: &Arch, schedules: Schedules, execution: Execution) -> Vec<u32> {
        let machine = Machine { arch, ring: &self.ring, schedules, execution };
        let query = machine.coefficients(&self.query);
        let leaves = machine.expand(&self.keys, self.expansion(), query).unwrap();
        let selectors = machine.assemble(&self.keys, &leaves[COLUMNS..], GADGET).unwrap();
        let plain = |coefficients: &Vec<i32>| {
            let mut values = self.ring.lift(coefficients);
            self.ring.forward(&mut values);
            values
        };
        let rows: Vec<Vec<_>> = self.coefficients.iter().map(|row| row.iter().map(plain).collect()).collect();
        let rows = machine.select_rows(&rows, &[leaves]).unwrap().remove(0);
        let won = machine.tournament(&selectors, rows).unwrap();
        flat(&[machine.transformed(&won)])
    }
}

#[test]
fn every_schedule_gives_the_words_of_the_oracle_in_any_order() {
    let arch = Arch::ive().unwrap();
    // The small register file has hardly any spare place, so that places are reused often.
    let small = Arch { core: spirea_ive::arch::Core { register_file_kb: 1800, ..arch.core }, ..arch.clone() };
    for rows in [33, 64, 1] {
        let fixture = Fixture::new(rows);
        let expected = fixture.expected(&NaiveBackend);
        for arch in [&arch, &small] {
            let schedules = [
                Schedules::baseline(arch).ok(),
                Schedules::depth_first(arch, Digits::Stored).ok(),
                Some(Schedules::depth_first(arch, Digits::Forwarded).unwrap()),
            ];
            for schedules in schedules.into_iter().flatten() {
                for execution in [Execution::Program, Execution::LatestFirst] {
                    let computed = fixture.computed(arch, schedules, execution);
                    assert!(computed == expected, "{rows} {execution:?} {schedules:?}");
                }
            }
        }
    }
}

#[test]
fn missing_keys_are_named() {
    let arch = Arch::ive().unwrap();
    let fixture = Fixture::new(8);
    let schedules = Schedules::depth_first(&arch, Digits::Forwarded).unwrap();
    let machine = Machine { arch: &arch, ring: &fixture.ring, schedules, execution: Execution::Program };
    let mut keys = fixture.keys.clone();
    keys.expansion.truncate(1);
    let refused = machine.expand(&keys, fixture.expansion(), fixture.query.clone()).unwrap_err();
    assert!(refused.to_string().contains("a key is not there"), "{refused}");
}

#[test]
fn a_recorded_batch_is_computed_and_timed() {
    let arch = Arch::ive().unwrap();
    let fixture = Fixture::new(64);
    let backend = Observed::<_, Recorder>::new(Arc::new(NaiveBackend));
    let words = fixture.expected(&backend);
    let operations = backend.observer().take();
    let recorded = phases(&operations).unwrap();
    let expected = [
        Phase::Expand { leaves: 36, queries: 1 },
        Phase::Assemble { leaves: 30, queries: 1 },
        Phase::PolyFold { rows: 64, columns: 6, queries: 1 },
        Phase::Tournament { rows: 64, queries: 1 },
    ];
    assert_eq!(recorded, expected);
    let schedules = Schedules::depth_first(&arch, Digits::Forwarded).unwrap();
    assert!(fixture.computed(&arch, schedules, Execution::LatestFirst) == words);
    let program = Program { rings: Rings::uniform(arch.scheme), phases: recorded };
    assert!(program.time(&arch).unwrap().iter().all(|(_, seconds)| *seconds > 0.0));

    // Other operations are refused, with the number of the operation.
    let other = [&operations[..], &[Operation::ScalarFoldOwn { words: 1 }]].concat();
    let refused = phases(&other).unwrap_err().to_string();
    assert!(refused.contains(&format!("operation {}: ", operations.len())), "{refused}");
}
