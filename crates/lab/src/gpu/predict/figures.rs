//! Figures that the model predicts.

use std::collections::BTreeMap;

use serde::Serialize;
use spirea_lattice::RingSet;
use spirea_math::Gadget;
use spirea_math::random::Seed;
use spirea_protocols::parameters::FirstFold;
use spirea_protocols::registry::{Choice, ProtocolParams};
use spirea_protocols::steps::{Unit, Work};

use super::card::Card;
use super::counts::{Stage, WARPS};
use super::rates::{ANSWERED, BATCH, Bound, LONE_ITEM, Term, UNPACKED};

/// Bytes of a GiB.
const GIB: u64 = 1 << 30;
/// Share of the memory for a database with everything that a batch needs, as for the measurements.
const DATABASE_SHARE: f64 = 0.9;
/// Share of the memory for the matrix of a scan alone, as for the measurements.
const SCAN_SHARE: f64 = 0.6;
/// Bytes of a record in the databases of protocols.
const RECORD_BYTES: u64 = 256;
/// Rows of the matrices in which `exppack-simple` and `hybrid` pack: `MATRIX_ROWS` of their crate.
const PACKED_ROWS: f64 = 64.0;

/// A predicted figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Name, as that of the measurement.
    pub name: &'static str,
    /// True: the object is no measurement.
    pub prediction: bool,
    /// Card, as `--card` takes it.
    pub card: String,
    /// Parameter set, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<String>,
    /// Rows and columns of the database, as for the measurement.
    pub shape: [usize; 2],
    /// Number of queries in a batch, or of transforms.
    pub batch: usize,
    /// Time for a whole batch.
    pub seconds: f64,
    /// Queries or transforms in a second.
    pub per_second: f64,
    /// Resource that bounds most of the time.
    pub bound: Bound,
    /// Parts of the time.
    pub steps: Vec<Term>,
    /// Assumptions about the rates of the card and of its host.
    pub assumptions: Vec<String>,
    /// Figures of papers, for their cards and databases.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub papers: Vec<&'static str>,
}

/// Returns all figures of a card. Figures without room in its memory are smaller.
///
/// # Errors
/// Those of the choice of parameters.
pub fn all(card: &Card) -> anyhow::Result<Vec<Figure>> {
    let mut figures: Vec<_> = [1, 8, 16, 32, 64].map(|batch| scan(card, batch)).into();
    figures.push(transforms(card));
    for (protocol, gib, batch) in
        [("hybrid", 64, 1), ("exppack-simple", 64, 32), ("onion", 1, 32), ("dpf-xor", 64, 1)]
    {
        figures.extend(of_protocol(card, protocol, gib, batch)?);
    }
    Ok(figures)
}

impl Figure {
    fn new(card: &Card, name: &'static str, shape: [usize; 2], batch: usize, steps: Vec<Term>) -> Self {
        let seconds = steps.iter().map(|step| step.seconds).sum();
        let mut shares = BTreeMap::<Bound, f64>::new();
        for step in &steps {
            *shares.entry(step.bound).or_default() += step.seconds;
        }
        let most = shares.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        let bound = most.map_or(Bound::Launches, |(bound, _)| bound);
        let mut assumptions = Vec::new();
        for step in &steps {
            let share = reading_share(step.name, batch);
            let reading = (step.bound == Bound::Memory && share < 1.0)
                .then(|| format!("{} for {batch} queries at {share} of the memory's rate", step.name));
            for assumption in [Some(step.bound.assumption(card, step.name)), reading].into_iter().flatten() {
                if !assumptions.contains(&assumption) {
                    assumptions.push(assumption);
                }
            }
        }
        Self {
            name,
            prediction: true,
            card: card.name.clone(),
            params: None,
            shape,
            batch,
            seconds,
            per_second: batch as f64 / seconds,
            bound,
            steps,
            assumptions,
            papers: Vec::new(),
        }
    }
}

/// Returns the figures of papers that stand beside a figure: those of docs/gpu.md.
fn papers(name: &str) -> &'static [&'static str] {
    match name {
        "hybrid" => &["VIPIR 33.5 ms (H100 NVL)"],
        "exppack-simple" => &["VIPIR 232.8 a second"],
        "onion" => &["VIPIR 516.6 a second", "GPIR 710 (RTX 5090), 1,020 (two)"],
        _ => &[],
    }
}

/// Returns the share of the memory's rate that a step for a batch reaches if memory bounds it,
/// measured on an H100 (docs/kernels/cuda-scalar-fold.md, docs/kernels/cuda-share-fold.md).
fn reading_share(step: &str, queries: usize) -> f64 {
    match (step, queries) {
        ("share_fold", _) => 0.985,
        ("scalar_fold", 3..=8) => 0.98,
        ("scalar_fold", 9..=16) => 0.94,
        ("scalar_fold", 17..) => 0.925,
        _ => 1.0,
    }
}

/// Predicts `scalar_fold` of `bytes` bytes.
fn scanned(card: &Card, bytes: f64, queries: usize) -> Term {
    let memory = card.reading(bytes) / reading_share("scalar_fold", queries);
    Term::longest("scalar_fold", [(Bound::Memory, memory), card.scanning(bytes, queries)])
}

/// Predicts a scan alone, of the largest matrix up to 64 GiB that fits.
fn scan(card: &Card, batch: usize) -> Figure {
    let bytes = (64.0 * GIB as f64).min(SCAN_SHARE * card.memory);
    let side = bytes.sqrt() as usize / 256 * 256;
    Figure::new(card, "scalar_fold", [side, side], batch, vec![scanned(card, (side * side) as f64, batch)])
}

/// Predicts transforms of degree 4096, from memory to memory.
fn transforms(card: &Card) -> Figure {
    let count = 3 << 17;
    let bytes = 2.0 * 4.0 * RingSet::DEGREE as f64;
    let instructions = WARPS * f64::from(card.compute.code().transform());
    // Neither bound is reached: transforms wait for both.
    let times = [(Bound::Memory, card.reading(bytes)), (Bound::Issue, card.issuing(instructions))];
    let times = times.map(|(bound, seconds)| (bound, count as f64 * seconds / card.transform_share()));
    let mut figure = Figure::new(card, "ntt", [1, RingSet::DEGREE], count, vec![Term::longest("ntt", times)]);
    figure.params = Some("fast, shoup".into());
    figure.assumptions = vec![
        Bound::Memory.assumption(card, "ntt"),
        format!(
            "{} instructions of a warp for a transform (docs/kernels/cuda-ntt.md), four issued a cycle",
            card.compute.code().transform()
        ),
        format!("{} of the higher bound is reached, as on an H100", card.transform_share()),
    ];
    figure
}

/// Predicts a batch of a protocol, over the largest database up to `gib` GiB that fits. Returns
/// `None` if none fits.
///
/// # Errors
/// Those of the choice of parameters.
pub fn of_protocol(
    card: &Card,
    protocol: &'static str,
    gib: u64,
    batch: usize,
) -> anyhow::Result<Option<Figure>> {
    let choice = Choice { protocol: protocol.into(), ..Choice::default() };
    let mut records = gib * GIB / RECORD_BYTES;
    while records > 0 {
        let seed = Seed::new([1; 32]);
        let params = ProtocolParams::choose(&choice, seed, records, RECORD_BYTES as usize)?;
        if params.memory_bytes as f64 <= DATABASE_SHARE * card.memory {
            let shape = match params.first_fold {
                FirstFold::Rows { .. } => [params.records() as usize, params.record_bytes()],
                _ => params.stored.shape(),
            };
            let mut figure = Figure::new(card, protocol, shape, batch, steps(card, &params, batch));
            figure.params = Some(params.set.clone());
            // The papers' databases have the full size.
            if records == gib * GIB / RECORD_BYTES {
                figure.papers = papers(protocol).to_vec();
            }
            return Ok(Some(figure));
        }
        records /= 2;
    }
    Ok(None)
}

/// Returns the parts of a batch's time.
fn steps(card: &Card, params: &ProtocolParams, batch: usize) -> Vec<Term> {
    let work = &params.work;
    let mut steps = Vec::new();
    for Work { step, unit, count } in work {
        let count = *count;
        let term = match *unit {
            Unit::ScannedByte => scanned(card, count, batch),
            Unit::SharedByte(_) => {
                Term::longest(step, [(Bound::Memory, card.reading(count) / reading_share(step, batch))])
            }
            Unit::Substitution(set) => {
                let stage = if *step == "expand" { Stage::Node } else { Stage::Rotation };
                items(card, step, stage, set, set.expansion_gadget(), count, batch)
            }
            Unit::Conversion(set) => {
                items(card, step, Stage::Game, set, set.conversion_gadget(), count, batch)
            }
            Unit::ExternalProduct(set) => {
                items(card, step, Stage::Game, set, set.selector_gadget(), count, batch)
            }
            Unit::FoldedPolynomial(set) => {
                steps.extend(products(card, params, set, count, batch));
                continue;
            }
            // Switching is part of the constant for a batch. The shares of a lone key's rows take
            // less time than reading the rows.
            _ => continue,
        };
        match steps.iter_mut().find(|one: &&mut Term| one.name == term.name && one.bound == term.bound) {
            Some(same) => same.seconds += term.seconds,
            None => steps.push(term),
        }
    }
    if work.iter().any(|work| work.unit == Unit::ScannedByte) && batch > 2 {
        // The device's copy overlaps with unpacking on the host, and the scan waits for both.
        let words = 4.0 * (params.stored.shape()[1] * batch) as f64;
        steps.push(Term { name: "queries", seconds: words / UNPACKED, bound: Bound::Host });
    }
    if params.sets.ring.is_some() {
        let answers = (params.sizes.answer_bytes * batch) as f64;
        steps.push(Term { name: "answers", seconds: answers / ANSWERED, bound: Bound::Host });
        steps.push(Term { name: "launches", seconds: BATCH, bound: Bound::Launches });
    }
    steps
}

/// Predicts the stages of `count` items of each query.
fn items(
    card: &Card,
    step: &'static str,
    stage: Stage,
    set: RingSet,
    gadget: Gadget,
    count: f64,
    batch: usize,
) -> Term {
    let count = count * batch as f64;
    let instructions = WARPS * card.compute.code().stage(stage, set, gadget);
    // Ciphertexts that an item reads and writes, if none stays in a cache.
    let ciphertexts = if stage == Stage::Rotation { 2.0 } else { 3.0 };
    let moved = count * ciphertexts * 8.0 * set.ring().words() as f64;
    let mut times =
        vec![(Bound::Issue, card.stages(count * instructions)), (Bound::Memory, card.reading(moved))];
    if batch == 1 {
        times.push((Bound::Launches, count * LONE_ITEM));
    }
    Term::longest(step, times)
}

/// Predicts `poly_fold`, which reads `polynomials` polynomials for each query: R K plaintexts and K
/// leaves of two polynomials.
fn products(card: &Card, params: &ProtocolParams, set: RingSet, polynomials: f64, batch: usize) -> Vec<Term> {
    let (words, queries) = (set.ring().words() as f64, batch as f64);
    // Files hold a packing plaintext as coefficients of one word; the device holds its residues.
    let packed = params.server_bytes > 0;
    let plaintexts = if packed {
        params.server_bytes as f64 / (4 * RingSet::DEGREE) as f64
    } else {
        params.folded_bytes() as f64 / (4.0 * words)
    };
    let bytes = 4.0 * words * plaintexts;
    let terms = (polynomials - plaintexts) / 2.0;
    let rows = plaintexts / terms;
    let matrices = if packed { (rows / PACKED_ROWS).ceil() } else { 1.0 };
    let primes = set.ring().limbs().iter().map(|limb| limb.prime().value());
    let prime_bits = u32::BITS - primes.max().unwrap_or(0).leading_zeros();
    let of_one = (rows / matrices) as usize;
    let arithmetic = card.multiplying(2.0 * plaintexts * words * queries, prime_bits, of_one, batch);
    let product = Term::longest("poly_fold", [(Bound::Memory, card.reading(bytes)), arithmetic]);
    if batch == 1 {
        return vec![product];
    }
    // Each matrix transposes the leaves anew.
    let moved = 8.0 * words * queries * (matrices * terms + rows);
    let times = [(Bound::Memory, card.reading(moved)), (Bound::Transposition, card.transposing(moved))];
    vec![product, Term::longest("transposition", times)]
}
