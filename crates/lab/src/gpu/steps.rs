//! Steps alone, on buffers of the device.

use spirea_backend::{EvaluationKeys, PanelLayout, RingBackend as _};
use spirea_console::device::Scale;
use spirea_cuda::driver::Buffer;
use spirea_cuda::probe::fill;
use spirea_cuda::{Butterfly, Direction, Form, Plain, ScalarFoldPlan, transform_with};
use spirea_dpf::{Domain, Key, OutputKind, PrfKind, select};
use spirea_lattice::RingSet;
use spirea_math::random::{SecretRng, Seed, public_residues};
use spirea_math::{Expansion, Ring};

use super::limits::highest;
use super::{Bench, Figure};
use crate::bench::report::median;

/// Number of timed runs, after one warm-up run.
const RUNS: usize = 5;

pub(super) fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    bench.item("scalar_fold", 20.0, scalar_fold)?;
    bench.item("ntt", 10.0, transforms)?;
    bench.item("poly_fold", 40.0, products)?;
    bench.item("dpf", 10.0, dpf)
}

impl Bench {
    /// Returns the median of the device's seconds for the work that `queue` puts on the main
    /// stream. At tiny scale, runs the work once, without warm-up.
    fn device_seconds(&self, mut queue: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
        let main = self.backend.device().main();
        let runs = if self.scale == Scale::Full { RUNS } else { 1 };
        if self.scale == Scale::Full {
            queue()?;
            main.synchronize()?;
        }
        let mut times = Vec::with_capacity(runs);
        for _ in 0..runs {
            let before = main.record()?;
            queue()?;
            times.push(main.record()?.seconds_since(&before)?);
        }
        Ok(median(times))
    }
}

/// Scans the largest matrix that fits.
fn scalar_fold(bench: &mut Bench) -> anyhow::Result<()> {
    let (wanted, batches): (usize, &[usize]) = match bench.scale {
        Scale::Full => (64 << 30, &[1, 2, 4, 8, 16, 32, 64, 128]),
        Scale::Tiny => (256 << 10, &[1, 2, 8, 32]),
    };
    let bytes = bench.database_bytes(wanted, 0.6)?;
    let side = (bytes as f64).sqrt() as usize / 256 * 256;
    let layout = PanelLayout::covering(side, side)?;
    let device = bench.backend.device().clone();
    let matrix = bench.backend.random_matrix(layout, 1)?;
    for &batch in batches {
        let queries = device.alloc::<u32>(batch * layout.columns())?;
        fill(&queries.all(), 2)?;
        let answers = device.alloc::<u32>(batch * layout.rows())?;
        let plan = ScalarFoldPlan::new(&device, layout, batch)?;
        let main = device.main();
        let seconds =
            bench.device_seconds(|| Ok(plan.run(&main, &matrix, &queries.all(), &answers.all())?))?;
        // A word of a query has four bytes.
        let products = 4.0 * layout.bytes() as f64 * batch as f64;
        let bound =
            highest([bench.limits.memory(layout.bytes() as f64), bench.limits.byte_products(products)]);
        bench.figure(Figure {
            name: "scalar_fold",
            params: None,
            shape: [layout.rows(), layout.columns()],
            batch,
            seconds,
            bound,
            steps: Vec::new(),
        })?;
    }
    Ok(())
}

/// Measures transforms alone, from memory to memory.
fn transforms(bench: &mut Bench) -> anyhow::Result<()> {
    let polynomials = if bench.scale == Scale::Full { 1 << 17 } else { 4 };
    let set = RingSet::Fast;
    let ring = set.ring();
    let tables = bench.backend.tables(ring)?;
    let words = random_polynomials(bench, set, polynomials)?;
    let count = polynomials * ring.limbs().len();
    for direction in [Direction::Forward, Direction::Inverse] {
        for butterfly in Butterfly::ALL {
            let seconds =
                bench.device_seconds(|| Ok(transform_with(butterfly, direction, &tables, &words)?))?;
            bench.figure(Figure {
                name: if direction == Direction::Forward { "ntt" } else { "inverse-ntt" },
                params: Some(format!("{}, {butterfly:?}", set.name()).to_lowercase()),
                shape: [1, ring.degree()],
                batch: count,
                seconds,
                bound: bench.limits.memory(8.0 * words.len() as f64),
                steps: Vec::new(),
            })?;
        }
    }
    Ok(())
}

/// Returns polynomials of random residues. A few come from the host; the others are copies of these
/// on the device.
fn random_polynomials(bench: &Bench, set: RingSet, polynomials: usize) -> anyhow::Result<Buffer<u32>> {
    const FROM_HOST: usize = 64;
    let (ring, device) = (set.ring(), bench.backend.device());
    let words = device.alloc::<u32>(polynomials * ring.words())?;
    let first = random_residues(ring, FROM_HOST.min(polynomials));
    let main = device.main();
    main.upload(&first, &words.range(0..first.len()))?;
    let mut filled = first.len();
    while filled < words.len() {
        let more = filled.min(words.len() - filled);
        main.copy(&words.range(0..more), &words.range(filled..filled + more))?;
        filled += more;
    }
    Ok(words)
}

/// Returns random residues of `count` polynomials.
fn random_residues(ring: &Ring, count: usize) -> Vec<u32> {
    let polynomials = (0..count as u64).flat_map(|i| {
        let mut words = ring.zero();
        for (limb, words) in ring.limbs().iter().zip(words.chunks_exact_mut(ring.degree())) {
            public_residues(&Seed::new([9; 32]), i, limb.prime(), words);
        }
        words
    });
    polynomials.collect()
}

/// Measures `poly_fold` for every form of residues, over a database of 1 GiB at full scale.
fn products(bench: &mut Bench) -> anyhow::Result<()> {
    let (rows, columns, batches): (_, _, &[usize]) = match bench.scale {
        Scale::Full => (256, 256, &[1, 32, 64]),
        Scale::Tiny => (2, 4, &[1, 2]),
    };
    let (set, device) = (RingSet::Onion32, bench.backend.device().clone());
    let ring = set.ring();
    let tables = bench.backend.tables(ring)?;
    // Leaves of a real expansion, under random words as keys.
    let expansion = Expansion::covering(columns);
    let key = set.expansion_gadget().levels(ring) * expansion.levels() as usize;
    let random = |ciphertexts: usize| random_residues(ring, 2 * ciphertexts);
    let keys = bench.backend.keys(
        &tables,
        EvaluationKeys {
            expansion_gadget: set.expansion_gadget(),
            expansion: &random(key),
            rotations: &[],
            conversion_gadget: set.conversion_gadget(),
            conversion: &[],
        },
    )?;
    let query = random(1);
    // The rows are stored one by one from the same values, so all rows are equal.
    let values = device.upload(&random(columns.div_ceil(2)))?;
    for form in Form::ALL {
        if !ring.limbs().iter().all(|limb| form.holds(limb.prime().value())) {
            continue;
        }
        let mut plain = Plain::with_form(&tables, rows, columns, form)?;
        (0..rows).try_for_each(|row| plain.store(&tables, row, 1, &values))?;
        for &batch in batches {
            let leaves = bench.backend.expand(&tables, expansion, &vec![(&keys, &query[..]); batch])?;
            let seconds = bench.device_seconds(|| {
                bench.backend.poly_fold(&tables, std::slice::from_ref(&plain), &leaves)?;
                Ok(())
            })?;
            // Each residue and query needs two products, with `a` and with `b`. Leaves and sums
            // cross the memory bus once.
            let products = (2 * rows * columns * ring.words() * batch) as f64;
            let travel = (plain.bytes() + 8 * ring.words() * batch * (columns + rows)) as f64;
            let arithmetic = match form {
                Form::Words => bench.limits.word_products(products),
                Form::Octets => bench.limits.byte_products(16.0 * products),
                Form::Septets => bench.limits.byte_products(10.0 * products),
            };
            bench.figure(Figure {
                name: "poly_fold",
                params: Some(format!("{}, {form:?}", set.name()).to_lowercase()),
                shape: [rows, columns],
                batch,
                seconds,
                bound: highest([bench.limits.memory(travel), arithmetic]),
                steps: Vec::new(),
            })?;
        }
    }
    Ok(())
}

/// Measures the evaluation of keys on whole domains of 128-bit outputs.
fn dpf(bench: &mut Bench) -> anyhow::Result<()> {
    let (points, batches): (u64, &[usize]) = match bench.scale {
        Scale::Full => (1 << 20, &[1, 32, 256]),
        Scale::Tiny => (1 << 8, &[1, 4]),
    };
    let domain = Domain::new(points, OutputKind::U128)?;
    let mut rng = SecretRng::from_os()?;
    for prf in [PrfKind::Aes128, PrfKind::ChaCha12] {
        for &batch in batches {
            let keys = (0..batch).map(|_| {
                let point = rng.next_u64() % domain.points();
                let [key, _] = select(prf, domain, point, &mut rng)?;
                Ok(key)
            });
            let keys: Vec<Key> = keys.collect::<anyhow::Result<_>>()?;
            let evaluation = bench.backend.evaluation(prf, &keys)?;
            let seconds = bench.device_seconds(|| Ok(evaluation.run()?))?;
            let leaves = (batch as u64 * domain.leaves() * 64) as f64;
            let bound = highest([
                bench.limits.calls(prf, (domain.calls(prf) * batch as u64) as f64),
                bench.limits.memory(leaves),
            ]);
            bench.figure(Figure {
                name: "dpf",
                params: Some(format!("{prf}, {}", domain.output().name())),
                shape: [points as usize, 1],
                batch,
                seconds,
                bound,
                steps: Vec::new(),
            })?;
        }
    }
    Ok(())
}
