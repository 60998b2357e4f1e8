//! `spirea-lab bench steps`: the steps on rings, each compared with its limit.

use spirea_backend::{
    Backend as _, Bodies, EvaluationKeys, FixedPacking, PackedEnds, RING_DEGREE, RingBackend, SwitchedBits,
};
use spirea_cpu::{CpuBackend, Schedule, rates};
use spirea_lattice::rlwe::{Conversion, KeyShape, OneShotQuery, RingSecret, UniformHalves, parse_query};
use spirea_lattice::{LweSet, RingSet};
use spirea_math::random::{SecretRng, Seed};
use spirea_math::{Expansion, Rotations, SentChunks};

use super::report::{Report, best_seconds};
use super::{Options, random_matrix};

/// Number of rows of plaintext polynomials.
const ROWS: usize = 8;

/// Limits of the steps of a ring.
struct Floors {
    bandwidth: f64,
    multiply_adds: f64,
    forward: f64,
    inverse: f64,
}

/// Times the steps for the default sets of the protocols.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let backend = options.backend()?;
    let memory = random_matrix(&backend, options.layout()?)?;
    let bandwidth = rates::read_bandwidth(backend.threads(), memory.bytes())?;
    drop(memory);
    for set in [RingSet::Fast, RingSet::Onion32] {
        let peak = rates::word_multiply_add_peak(backend.isa());
        let transform = rates::transform_seconds(backend.isa(), set.ring());
        let (Some(peak), Some(transform)) = (peak, transform) else {
            anyhow::bail!("the path {} does not take the ring of {}", backend.name(), set.name());
        };
        let threads = backend.threads() as f64;
        let floors = Floors {
            bandwidth,
            multiply_adds: peak * threads,
            forward: transform.forward / threads,
            inverse: transform.inverse / threads,
        };
        steps(options, &backend, set, &floors)?;
    }
    Ok(())
}

fn steps(options: &Options, backend: &CpuBackend, set: RingSet, floors: &Floors) -> anyhow::Result<()> {
    let ring = set.ring();
    let (degree, primes) = (ring.degree(), ring.limbs().len());
    let print =
        |step: &str, shape: [usize; 2], batch: usize, seconds: f64, floor: &str, floor_seconds: f64| {
            let report = Report {
                name: step.into(),
                params: Some(set.name().into()),
                shape,
                backend: backend.name(),
                threads: backend.threads(),
                batch,
                seconds,
                floor: floor.into(),
                floor_seconds,
                ratio: floor_seconds / seconds,
                wire: None,
                steps: Vec::new(),
            };
            report.print(options.format())
        };
    // A butterfly needs the high half of a product, which is a 64-bit multiplication, and two low
    // halves.
    let butterflies = (degree / 2 * degree.ilog2() as usize) as f64;
    let floor = butterflies / floors.multiply_adds;
    print("ntt", [1, degree], 1, floors.forward, rates::WORD_MULTIPLY_ADD, floor)?;
    print("inverse-ntt", [1, degree], 1, floors.inverse, rates::WORD_MULTIPLY_ADD, floor)?;

    let columns = if set.plaintext_bits() < 20 { LweSet::Module1280.degree() } else { 256 };
    let depth = ROWS.trailing_zeros() as usize;
    let selector_levels = set.selector_gadget().levels(ring);
    let expansion = Expansion::covering(columns + depth * selector_levels);
    let mut rng = SecretRng::from_os()?;
    // The number of big automorphisms equals the number of rows.
    let rotations = (set.plaintext_bits() < 20)
        .then(|| Rotations::new(RING_DEGREE, LweSet::Module1280.rank(), RING_DEGREE / ROWS / 2));
    let shape = KeyShape { set, levels: expansion.levels(), rotations, conversion: Conversion::Rgsw };
    let secret = RingSecret::sample(set, &mut rng);
    let words = shape.parse(&secret.evaluation_keys(&shape, &mut rng))?;
    let tables = backend.tables(ring)?;
    let keys = EvaluationKeys {
        expansion_gadget: set.expansion_gadget(),
        expansion: &words.expansion,
        rotations: &words.rotations,
        conversion_gadget: set.conversion_gadget(),
        conversion: &words.conversion,
    };
    let keys = backend.keys(&tables, keys)?;
    let query = parse_query(set, &secret.encrypt_leaves(expansion, &[(set.scale(), 1)], &mut rng))?;
    let queries = vec![(&keys, &query[..]); options.batch];
    let seconds = best_seconds(options.runs, || {
        std::hint::black_box(backend.expand(&tables, expansion, &queries)?);
        Ok(())
    })?;
    let substitutions = (expansion.substitutions() * options.batch) as f64;
    let floor = substitutions * substitution_transforms(set, floors);
    print("expand", [expansion.substitutions(), degree], options.batch, seconds, "transforms", floor)?;
    let breadth_first =
        CpuBackend::with_isa(backend.isa(), backend.threads())?.with_schedule(Schedule::BreadthFirst);
    let seconds = best_seconds(options.runs, || {
        std::hint::black_box(breadth_first.expand(&tables, expansion, &queries)?);
        Ok(())
    })?;
    let shape = [expansion.substitutions(), degree];
    print("expand-breadth-first", shape, options.batch, seconds, "transforms", floor)?;
    let leaves = backend.expand(&tables, expansion, &queries)?;
    let clients = vec![&keys; options.batch];
    if let Some(rotations) = rotations {
        let seconds = best_seconds(options.runs, || {
            std::hint::black_box(backend.rotate(&tables, rotations, &clients, &leaves)?);
            Ok(())
        })?;
        let substitutions = rotations.substitutions(0);
        let floor = (substitutions * options.batch) as f64 * substitution_transforms(set, floors);
        print("rotate", [substitutions, degree], options.batch, seconds, "transforms", floor)?;
    }

    let fill = |row: usize, column: usize, coefficients: &mut [i32]| {
        coefficients.iter_mut().enumerate().for_each(|(i, c)| *c = (row + column + i) as i32);
    };
    let seconds = best_seconds(options.runs, || {
        std::hint::black_box(backend.encode(&tables, ROWS, columns, &fill)?);
        Ok(())
    })?;
    let floor = (ROWS * columns * primes) as f64 * floors.forward;
    print("encode", [ROWS, columns], 1, seconds, "transforms", floor)?;
    let plain = backend.encode(&tables, ROWS, columns, &fill)?;
    let seconds = best_seconds(options.runs, || {
        std::hint::black_box(backend.poly_fold(&tables, std::slice::from_ref(&plain), &leaves)?);
        Ok(())
    })?;
    let words = (ROWS * columns * ring.words()) as f64;
    let memory = (words + (2 * columns * ring.words() * options.batch) as f64) * 4.0 / floors.bandwidth;
    let products = words * 2.0 * options.batch as f64 / floors.multiply_adds;
    let (floor, name) =
        if memory > products { (memory, rates::MEMORY) } else { (products, rates::WORD_MULTIPLY_ADD) };
    print("poly_fold", [ROWS, columns], options.batch, seconds, name, floor)?;

    let one = backend.expand(&tables, expansion, &queries[..1])?;
    let selectors = backend.selectors(&tables, &[&keys], &one, columns, depth, set.selector_gadget())?;
    let mut entries = Vec::new();
    for _ in 0..=options.runs {
        entries.push(backend.poly_fold(&tables, std::slice::from_ref(&plain), &one)?);
    }
    if let Some(rotations) = rotations {
        let mut terms = Vec::new();
        for _ in 0..=options.runs {
            terms.push(backend.poly_fold(&tables, std::slice::from_ref(&plain), &leaves)?);
        }
        let seconds = best_seconds(options.runs, || {
            let Some(terms) = terms.pop() else { anyhow::bail!("fewer terms than runs") };
            std::hint::black_box(backend.sum_rotated(&tables, rotations, &clients, terms)?);
            Ok(())
        })?;
        let floor = ((ROWS - 1) * options.batch) as f64 * substitution_transforms(set, floors);
        print("sum_rotated", [ROWS - 1, degree], options.batch, seconds, "transforms", floor)?;
    }
    let bits = SwitchedBits { a: set.response_bits().0, b: set.response_bits().1 };
    if let Some(rotations) = rotations {
        let packed = Packed::new(backend, set, rotations, bits)?;
        let seconds = best_seconds(options.runs, || packed.answer(options.batch))?;
        let bytes = packed.bytes(options.batch) as f64;
        print(
            "pack_fixed",
            [ROWS, rotations.leaves()],
            options.batch,
            seconds,
            rates::MEMORY,
            bytes / floors.bandwidth,
        )?;
    }
    let seconds = best_seconds(options.runs, || {
        std::hint::black_box(backend.mod_switch(&tables, &[&entries[0]], bits)?);
        Ok(())
    })?;
    let floor = (ROWS * 2 * ring.words() * 4) as f64 / floors.bandwidth;
    print("mod_switch", [ROWS, degree], 1, seconds, rates::MEMORY, floor)?;
    let seconds = best_seconds(options.runs, || {
        let Some(entries) = entries.pop() else { anyhow::bail!("fewer entries than runs") };
        std::hint::black_box(backend.rgsw_fold(&tables, &selectors, entries)?);
        Ok(())
    })?;
    // An external product needs forward transforms of the digits of both polynomials, and inverse
    // transforms of the two polynomials of the sum.
    let product =
        (2 * selector_levels * primes) as f64 * floors.forward + (2 * primes) as f64 * floors.inverse;
    print("rgsw_fold", [ROWS, degree], 1, seconds, "transforms", (ROWS - 1) as f64 * product)
}

/// A packed result of queries that carry their keys.
struct Packed<'a> {
    backend: &'a CpuBackend,
    set: RingSet,
    bits: SwitchedBits,
    packing: FixedPacking,
    tables: <CpuBackend as RingBackend>::Tables,
    plain: [<CpuBackend as RingBackend>::Plain; 1],
    fixed: <CpuBackend as RingBackend>::Fixed,
    query: Vec<u32>,
}

impl<'a> Packed<'a> {
    fn new(
        backend: &'a CpuBackend,
        set: RingSet,
        rotations: Rotations,
        bits: SwitchedBits,
    ) -> anyhow::Result<Self> {
        let chunks = SentChunks::Apart;
        let packing = FixedPacking { gadget: set.expansion_gadget(), chunks, rotations };
        let shape = OneShotQuery { set, chunks, rotations };
        let uniform = UniformHalves::new(shape, &Seed::new([0; 32]));
        let numbers = vec![[(0, set.scale(), 1)]; rotations.chunks()];
        let (query, _) = uniform.ask(&numbers, &mut SecretRng::from_os()?);
        let query = shape.parse(&query)?;
        let tables = backend.tables(set.ring())?;
        let plain = [backend.encode(&tables, ROWS, rotations.leaves(), &|row, column, to| {
            to.iter_mut().enumerate().for_each(|(i, c)| *c = (row + column + i) as i32);
        })?];
        let (fixed, _) = backend.fix_uniform(&tables, packing, uniform.words(), &plain, bits)?;
        Ok(Self { backend, set, bits, packing, tables, plain, fixed, query })
    }

    fn answer(&self, batch: usize) -> anyhow::Result<()> {
        let Self { backend, set, bits, tables, plain, fixed, query, .. } = self;
        let degree = set.ring().degree();
        let ends = PackedEnds {
            folded: &backend.folded(batch, vec![0; batch * degree])?,
            bodies: &Bodies::whole(0, degree),
            plaintext_bits: set.plaintext_bits(),
            switched: *bits,
        };
        std::hint::black_box(backend.pack_fixed(
            tables,
            fixed,
            plain,
            &vec![query.as_slice(); batch],
            ends,
        )?);
        Ok(())
    }

    /// Returns the bytes that a batch must read: the digits and the plaintexts once, and the halves
    /// of each query.
    fn bytes(&self, batch: usize) -> usize {
        let ring = self.set.ring();
        let plain = ROWS * self.packing.rotations.leaves() * ring.words();
        self.packing.digits_bytes(ring, 1) + (plain + batch * self.query.len()) * size_of::<u32>()
    }
}

/// Returns the seconds of the transforms in a substitution.
fn substitution_transforms(set: RingSet, floors: &Floors) -> f64 {
    let (forward, inverse) =
        (set.expansion_gadget().forward_transforms(set.ring()), set.ring().limbs().len());
    forward as f64 * floors.forward + inverse as f64 * floors.inverse
}
