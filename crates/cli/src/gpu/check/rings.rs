//! Checks of the steps on rings, in the order of the protocols, against the CPU.

use std::sync::Arc;

use anyhow::ensure;
use rayon::prelude::*;
use spirea_backend::{Bodies, EvaluationKeys, FoldedBlocks, PanelLayout, RingBackend, SwitchedBits};
use spirea_cuda::{Butterfly, Direction, Form, Granularity, Plain, transform_with};
use spirea_lattice::{LweSet, RingSet};
use spirea_math::random::{Seed, public_residues};
use spirea_math::{Expansion, Ring, Rotations};

use super::case::Case;
use super::{Check, Scale, Subject, folds};

/// Contents of residues. Ciphertexts and keys need not decrypt to anything, because arithmetic is
/// exact for all words.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Content {
    Random,
    /// The largest residues.
    Maximal,
    Zero,
}

/// Shape of the inputs.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Rows and columns of the plaintext matrix.
    rows: usize,
    columns: usize,
    /// Number of queries in a batch.
    batch: usize,
}

/// Inputs of all steps.
struct Inputs {
    case: Arc<Case>,
    shape: Shape,
    depth: usize,
    expansion: Expansion,
    /// Evaluation keys of two clients that take turns in the batch.
    expansion_keys: [Vec<u32>; 2],
    rotation_keys: [Vec<u32>; 2],
    conversion_keys: [Vec<u32>; 2],
    queries: Vec<Vec<u32>>,
    content: Content,
}

impl Inputs {
    fn new(case: &Arc<Case>, shape: Shape, content: Content) -> Self {
        let ring = &case.ring;
        let depth = shape.rows.next_power_of_two().trailing_zeros() as usize;
        let expansion = Expansion::covering(shape.columns + depth * case.selector_gadget.levels(ring));
        let key = case.expansion_gadget.levels(ring) * expansion.levels() as usize;
        let rotation = case.expansion_gadget.levels(ring) * Rotations::KEYS;
        let conversion = 2 * case.conversion_gadget.levels(ring);
        let ciphertexts = |stream: u64, count: usize| -> Vec<u32> {
            (0..2 * count as u64).flat_map(|i| residues(ring, content, stream << 32 | i)).collect()
        };
        Self {
            case: Arc::clone(case),
            shape,
            depth,
            expansion,
            expansion_keys: [1, 2].map(|client| ciphertexts(client, key)),
            conversion_keys: [3, 4].map(|client| ciphertexts(client, conversion)),
            rotation_keys: [5, 6].map(|client| ciphertexts(client, rotation)),
            queries: (0..shape.batch as u64).map(|i| ciphertexts(7 + i, 1)).collect(),
            content,
        }
    }

    /// Prepares both clients' keys.
    fn clients<B: RingBackend>(&self, backend: &B, tables: &B::Tables) -> anyhow::Result<Vec<B::Keys>> {
        let case = &self.case;
        let clients = (0..2).map(|client| {
            let keys = EvaluationKeys {
                expansion_gadget: case.expansion_gadget,
                expansion: &self.expansion_keys[client],
                rotations: &self.rotation_keys[client],
                conversion_gadget: case.conversion_gadget,
                conversion: &self.conversion_keys[client],
            };
            backend.keys(tables, keys)
        });
        Ok(clients.collect::<std::result::Result<_, _>>()?)
    }

    /// Encodes the plaintext matrix.
    fn plain<B: RingBackend>(&self, backend: &B, tables: &B::Tables) -> anyhow::Result<B::Plain> {
        self.plain_of(backend, tables, self.shape.rows, self.shape.columns)
    }

    /// Encodes a plaintext matrix of another shape.
    fn plain_of<B: RingBackend>(
        &self,
        backend: &B,
        tables: &B::Tables,
        rows: usize,
        columns: usize,
    ) -> anyhow::Result<B::Plain> {
        Ok(backend.encode(tables, rows, columns, &|row, column, coefficients| {
            let places = coefficients.iter_mut().enumerate();
            places.for_each(|(i, coefficient)| *coefficient = self.coefficient(row, column, i));
        })?)
    }

    /// Returns the plaintext matrix and the leaves of all queries.
    fn operands<B: RingBackend>(
        &self,
        backend: &B,
        tables: &B::Tables,
    ) -> anyhow::Result<(B::Plain, B::Leaves)> {
        let clients = self.clients(backend, tables)?;
        let queries: Vec<_> = self.queries.iter().zip(clients.iter().cycle()).collect();
        let queries: Vec<_> = queries.iter().map(|(query, keys)| (*keys, &query[..])).collect();
        Ok((self.plain(backend, tables)?, backend.expand(tables, self.expansion, &queries)?))
    }

    /// Returns a coefficient of a plaintext polynomial.
    fn coefficient(&self, row: usize, column: usize, i: usize) -> i32 {
        let half = 1i64 << (self.case.plaintext_bits - 1);
        match self.content {
            Content::Zero => 0,
            Content::Maximal => (if (row + column + i).is_multiple_of(2) { -half } else { half - 1 }) as i32,
            Content::Random => {
                let mixed = ((row * 4099 + column) * 65_537 + i) as u64;
                let mixed = (mixed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                ((mixed >> 20) as i64 % (2 * half) - half) as i32
            }
        }
    }
}

/// Returns a polynomial's residues, prime by prime.
fn residues(ring: &Ring, content: Content, stream: u64) -> Vec<u32> {
    let mut words = ring.zero();
    for (limb, words) in ring.limbs().iter().zip(words.chunks_exact_mut(ring.degree())) {
        match content {
            Content::Random => public_residues(&Seed::new([0xe1; 32]), stream, limb.prime(), words),
            Content::Maximal => words.fill(limb.prime().value() - 1),
            Content::Zero => {}
        }
    }
    words
}

/// Number of queries of a batch for which ciphertexts are reinterpreted as bytes and packed again.
const SECOND_HALVES: usize = 2;

/// Output of a step.
struct Result {
    step: &'static str,
    bytes: Vec<u8>,
}

/// Runs the inputs through all steps, and returns each step's output, switched to 56 bits.
fn run<B: RingBackend>(backend: &B, tables: &B::Tables, inputs: &Inputs) -> anyhow::Result<Vec<Result>> {
    let Inputs { ref case, shape, depth, expansion, .. } = *inputs;
    let (ring, bits) = (&case.ring, SwitchedBits { a: 56, b: 56 });
    let mut results = Vec::new();
    let mut note = |step, ciphertexts: &B::Ciphertexts| -> anyhow::Result<()> {
        results.push(Result { step, bytes: backend.mod_switch(tables, &[ciphertexts], bits)?.concat() });
        Ok(())
    };
    let clients = inputs.clients(backend, tables)?;
    let keys: Vec<_> = clients.iter().cycle().take(shape.batch).collect();
    let plain = inputs.plain(backend, tables)?;
    let queries: Vec<_> = keys.iter().copied().zip(inputs.queries.iter().map(Vec::as_slice)).collect();
    let leaves = backend.expand(tables, expansion, &queries)?;
    let mut folded = backend.poly_fold(tables, std::slice::from_ref(&plain), &leaves)?;
    note("expand, poly_fold", &folded)?;
    let rotations = Rotations::new(8, 1, 2);
    let matrix = inputs.plain_of(backend, tables, rotations.big(), rotations.leaves())?;
    let images = backend.rotate(tables, rotations, &keys, &leaves)?;
    let products = backend.poly_fold(tables, &[matrix], &images)?;
    note("rotate, sum_rotated", &backend.sum_rotated(tables, rotations, &keys, products)?)?;
    // Adds bodies to all ciphertexts except the last half of the last one. The bodies are answers
    // of a fold that stay with the backend.
    let degree = ring.degree();
    let words = shape.rows * degree - degree / 2;
    let layout = PanelLayout::covering(words, 4)?;
    let matrix = backend.upload(layout, &vec![7; layout.bytes()])?;
    let answers = backend.scalar_fold(&matrix, &folds::random(9, shape.batch * layout.columns()))?;
    if case.plaintext_bits < 32 {
        let bodies = Bodies { first: 0..words, stride: layout.rows() };
        backend.add_bodies(tables, &mut folded, &answers, &bodies, case.plaintext_bits)?;
        note("add_bodies", &folded)?;
    }
    // The ciphertexts of some queries, reinterpreted as matrices.
    let some = backend.expand(tables, expansion, &queries[..queries.len().min(SECOND_HALVES)])?;
    let (a, b) = case.response_bits;
    let switched = SwitchedBits { a, b };
    let layout = PanelLayout::covering(switched.bytes(degree).max(degree), shape.rows)?;
    let packed = backend.poly_fold(tables, std::slice::from_ref(&plain), &some)?;
    let matrices = backend.reinterpret(tables, &packed, switched, layout)?;
    let columns = backend.columns(layout, &folds::random(10, shape.columns * layout.columns()))?;
    let blocks = FoldedBlocks { blocks: layout.rows() / degree, bits: case.plaintext_bits.min(31) };
    note("reinterpret, encode_fold", &backend.encode_fold(tables, &matrices, &columns, blocks, &some)?)?;
    let selectors = backend.selectors(tables, &keys, &leaves, shape.columns, depth, case.selector_gadget)?;
    note("selectors, rgsw_fold", &backend.rgsw_fold(tables, &selectors, folded)?)?;
    Ok(results)
}

/// Compares the CPU's results with the device's results under every granularity. At full scale,
/// also compares them under the granularities that the device chooses, possibly a mixture.
fn compare(subject: &Subject, case: &Arc<Case>, shape: Shape, content: Content) -> anyhow::Result<String> {
    let inputs = Inputs::new(case, shape, content);
    let expected = run(&*subject.cpu, &subject.cpu.tables(&case.ring)?, &inputs)?;
    let tables = || subject.cuda.tables(&case.ring);
    let mut kinds = vec![
        ("operations", tables()?.with_granularity(Granularity::Operations)),
        ("stages", tables()?.with_granularity(Granularity::Stages)),
        ("pairs", tables()?.with_granularity(Granularity::Pairs)),
    ];
    if subject.scale == Scale::Full {
        kinds.push(("as chosen", tables()?));
    }
    for (kind, tables) in kinds {
        let found = run(&*subject.cuda, &tables, &inputs)?;
        ensure!(found.len() == expected.len(), "{kind}: other results than the CPU's");
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let (step, found, expected) = (found.step, &found.bytes, &expected.bytes);
            ensure!(found.len() == expected.len(), "{kind}, {step}: results of another size");
            if let Some(at) = found.iter().zip(expected).position(|(found, expected)| found != expected) {
                anyhow::bail!("{kind}, after {step}, result {i}: byte {at} differs from the CPU's");
            }
        }
    }
    Ok(String::new())
}

/// Compares transforms by each kind of butterfly with the definition.
fn transforms(subject: &Subject, case: &Case, count: usize) -> anyhow::Result<String> {
    let (ring, device) = (&case.ring, subject.cuda.device());
    let tables = subject.cuda.tables(ring)?;
    for content in [Content::Random, Content::Maximal] {
        let before: Vec<u32> = (0..count as u64).flat_map(|i| residues(ring, content, i)).collect();
        for (direction, transform) in [
            (Direction::Forward, Ring::forward as fn(&Ring, &mut [u32])),
            (Direction::Inverse, Ring::inverse),
        ] {
            let mut expected = before.clone();
            expected.chunks_exact_mut(ring.words()).for_each(|polynomial| transform(ring, polynomial));
            for butterfly in Butterfly::ALL {
                let polynomials = device.upload(&before)?;
                transform_with(butterfly, direction, &tables, &polynomials)?;
                let found = device.main().read(&polynomials.all())?;
                ensure!(found == expected, "{butterfly:?}, {direction:?}, {content:?}: other words");
            }
        }
    }
    Ok(String::new())
}

/// Compares products of a plain matrix, in every form of its residues, with the CPU's.
fn products(subject: &Subject, case: &Arc<Case>, shape: Shape, content: Content) -> anyhow::Result<String> {
    let inputs = Inputs::new(case, shape, content);
    let bits = SwitchedBits { a: 56, b: 56 };
    let expected = {
        let (cpu, tables) = (&*subject.cpu, subject.cpu.tables(&case.ring)?);
        let (plain, leaves) = inputs.operands(cpu, &tables)?;
        cpu.mod_switch(&tables, &[&cpu.poly_fold(&tables, std::slice::from_ref(&plain), &leaves)?], bits)?
    };
    let (cuda, tables) = (&*subject.cuda, subject.cuda.tables(&case.ring)?);
    let (_, leaves) = inputs.operands(cuda, &tables)?;
    let values: Vec<u32> = (0..shape.rows * shape.columns)
        .into_par_iter()
        .flat_map_iter(|place| {
            let (row, column) = (place / shape.columns, place % shape.columns);
            let mut polynomial = case.ring.zero();
            for i in 0..case.ring.degree() {
                let coefficient = inputs.coefficient(row, column, i);
                case.ring.set_coefficient(&mut polynomial, i, coefficient.into());
            }
            case.ring.forward(&mut polynomial);
            polynomial
        })
        .collect();
    let values = cuda.device().upload(&values)?;
    let mut forms = Vec::new();
    for form in Form::ALL {
        if !case.ring.limbs().iter().all(|limb| form.holds(limb.prime().value())) {
            continue;
        }
        let mut plain = Plain::with_form(&tables, shape.rows, shape.columns, form)?;
        plain.store(&tables, 0, shape.rows, &values)?;
        let found = cuda.mod_switch(
            &tables,
            &[&cuda.poly_fold(&tables, std::slice::from_ref(&plain), &leaves)?],
            bits,
        )?;
        for (query, (found, expected)) in found.iter().zip(&expected).enumerate() {
            ensure!(found == expected, "{form:?}, query {query}: another product than the CPU's");
        }
        forms.push(format!("{form:?}").to_lowercase());
    }
    Ok(forms.join(", "))
}

/// Returns the contents with which a case's steps and products are checked at tiny scale. Each
/// check takes an emulated device a quarter of a minute. So only the default sets of protocols,
/// which have all forms, and the steps of the shorter degree are checked.
fn tiny(case: &Case) -> (Option<Content>, Option<Content>) {
    match case.set {
        None => (Some(Content::Random), None),
        Some(RingSet::Fast) => (Some(Content::Random), Some(Content::Maximal)),
        Some(RingSet::Onion32) => (Some(Content::Maximal), Some(Content::Random)),
        Some(_) => (None, None),
    }
}

/// Returns a shape with which every kernel is launched. The number of rows is not a power of two,
/// so that a ciphertext has no partner in the tournament.
fn small(case: &Case) -> Shape {
    match case.set {
        Some(_) => Shape { rows: 3, columns: 5, batch: 2 },
        None => Shape { rows: 3, columns: 2, batch: 1 },
    }
}

/// Returns the other shapes of a case's steps at full scale.
fn shapes_of_steps(case: &Case) -> Vec<Shape> {
    if case.set.is_none() {
        return Vec::new();
    }
    let columns = if case.plaintext_bits < 20 { LweSet::Module1280.degree() } else { 256 };
    vec![
        Shape { rows: 1, columns: 1, batch: 1 },
        Shape { rows: 5, columns, batch: 3 },
        Shape { rows: 37, columns: 100, batch: 33 },
    ]
}

/// Shapes of products at full scale: sums with as many terms as in protocols, and batches around
/// the tile sizes of the tensor cores.
const SHAPES_OF_PRODUCTS: [Shape; 4] = [
    Shape { rows: 9, columns: 512, batch: 1 },
    Shape { rows: 70, columns: 33, batch: 9 },
    Shape { rows: 16, columns: 256, batch: 64 },
    Shape { rows: 3, columns: 31, batch: 70 },
];

/// Shape of a product that a device computes with its warpgroups, if it has warpgroups.
const WARPGROUPS: Shape = Shape { rows: 33, columns: 2, batch: 9 };

/// Function that checks a case with a shape and a content.
type Run = fn(&Subject, &Arc<Case>, Shape, Content) -> anyhow::Result<String>;

fn check(subject: &Subject, what: &str, case: &Arc<Case>, shape: Shape, content: Content, run: Run) -> Check {
    let Shape { rows, columns, batch } = shape;
    let name = format!("{what} {} {rows} x {columns} batch {batch} {content:?}", case.name);
    let (subject, case) = (subject.clone(), Arc::clone(case));
    Check::new(name.to_lowercase(), move || run(&subject, &case, shape, content))
}

pub(super) fn checks(subject: &Subject) -> Vec<Check> {
    let narrow = Arc::new(Case::narrow());
    let mut checks = vec![check(subject, "poly_fold", &narrow, WARPGROUPS, Content::Random, products)];
    for case in Case::all() {
        let (of_case, of_subject) = (Arc::clone(&case), subject.clone());
        checks.push(Check::new(format!("transforms {}", case.name), move || {
            transforms(&of_subject, &of_case, if of_subject.scale == Scale::Full { 1000 } else { 2 })
        }));
        let (of_steps, of_products) = tiny(&case);
        for content in [Content::Random, Content::Maximal, Content::Zero] {
            if subject.scale == Scale::Full || of_steps == Some(content) {
                checks.push(check(subject, "ring steps", &case, small(&case), content, compare));
            }
            if (subject.scale == Scale::Full && content != Content::Zero) || of_products == Some(content) {
                checks.push(check(subject, "poly_fold", &case, small(&case), content, products));
            }
        }
        if subject.scale == Scale::Tiny {
            continue;
        }
        for shape in shapes_of_steps(&case) {
            for content in [Content::Random, Content::Maximal, Content::Zero] {
                if content != Content::Zero || shape.batch <= 3 {
                    checks.push(check(subject, "ring steps", &case, shape, content, compare).later());
                }
            }
        }
        for shape in SHAPES_OF_PRODUCTS {
            for content in [Content::Random, Content::Maximal] {
                checks.push(check(subject, "poly_fold", &case, shape, content, products).later());
            }
        }
    }
    checks
}
