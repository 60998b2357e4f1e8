//! A core at the granularity of its functional units: a queue in front of each, taken in the order in which instructions
//! become ready (section VI-A).
//!
//! An instruction is a residue polynomial's worth of one unit. Counts of an external product: 8 inverse transforms, 2
//! iCRTs, 40 transforms, 80 products of residue polynomials; of a substitution half of each and an automorphism. The
//! difference Y - X and the sums are made as operands are read and written; the paper counts none either.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use spirea_math::Expansion;

use crate::arch::Arch;
use crate::error::IveError;
use crate::graph::{Graph, Work};
use crate::schedule::{Digits, Schedule, Step, levels, lower_assembly};

/// A functional unit of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Unit {
    /// Transforms; there may be several.
    Ntt,
    /// iCRT and the extraction of digits.
    Icrt,
    /// Multiply-adds.
    ElementWise,
    /// Automorphisms.
    Automorphism,
    /// The channel to HBM.
    Channel,
}

/// Kinds of units.
pub const UNITS: usize = 5;

/// What a core did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreReport {
    /// From the first to the last cycle.
    pub cycles: f64,
    /// Cycles in which units of each kind took operands; of several units all are added up.
    pub busy: [f64; UNITS],
}

impl CoreReport {
    /// One after another.
    pub fn then(self, other: Self) -> Self {
        let mut busy = self.busy;
        busy.iter_mut().zip(other.busy).for_each(|(sum, more)| *sum += more);
        Self { cycles: self.cycles + other.cycles, busy }
    }

    /// So many times, one after another.
    pub fn times(self, count: f64) -> Self {
        Self { cycles: self.cycles * count, busy: self.busy.map(|busy| busy * count) }
    }
}

/// Parts of a cycle that time is counted in.
const TICKS: f64 = 64.0;
/// Not an instruction of a unit: the end of an operation.
const NO_UNIT: u8 = u8::MAX;

struct Instruction {
    unit: u8,
    /// Ticks in which the unit takes no other.
    interval: u64,
    /// Ticks from then until what follows may begin.
    latency: u64,
    /// Whether what follows takes results as they come, not from memory when all are there.
    forwards: bool,
    waits: u32,
    ready: u64,
    followers: Vec<u32>,
}

/// The instructions of a graph.
struct Program<'a> {
    arch: &'a Arch,
    digits: Digits,
    /// Residue polynomials of digits that exist at once.
    digit_places: usize,
    instructions: Vec<Instruction>,
    /// Multiply-adds, in the order of the program: each empties a place for a digit.
    reductions: Vec<u32>,
    /// The last extraction of each operation: what empties its part of the iCRT buffer.
    extracted: Vec<u32>,
}

impl Program<'_> {
    fn add(&mut self, unit: Unit, cycles: f64, latency: u64, after: &[u32]) -> u32 {
        self.push(unit as u8, (cycles * TICKS).round() as u64, latency * TICKS as u64, after)
    }

    /// An instruction whose results are taken as they come: the cells of an iCRT unit work on a coefficient each, and
    /// digits are forwarded from the transform (sections IV-A and IV-F).
    fn stream(&mut self, unit: Unit, cycles: f64, latency: u64, after: &[u32]) -> u32 {
        let number = self.add(unit, cycles, latency, after);
        self.instructions[number as usize].forwards = true;
        number
    }

    fn push(&mut self, unit: u8, interval: u64, latency: u64, after: &[u32]) -> u32 {
        let number = self.instructions.len() as u32;
        for &before in after {
            self.instructions[before as usize].followers.push(number);
        }
        let waits = after.len() as u32;
        self.instructions.push(Instruction {
            unit,
            interval,
            latency,
            forwards: false,
            waits,
            ready: 0,
            followers: Vec::new(),
        });
        number
    }

    fn transfer(&mut self, bytes: u64, after: &[u32]) -> u32 {
        let cycles = bytes as f64 / self.arch.channel_bytes_per_cycle();
        self.add(Unit::Channel, cycles, self.arch.latency.memory, after)
    }

    /// Decomposes `polynomials` polynomials, and multiplies their digits with a key.
    fn key_product(&mut self, polynomials: u64, after: &[u32]) -> u32 {
        let (scheme, core, latency) = (self.arch.scheme, self.arch.core, self.arch.latency);
        let vector = scheme.degree as f64 / core.lanes as f64;
        let reduction = 2.0 * scheme.degree as f64 / core.element_wise_rate as f64;
        let buffered = core.icrt_buffer_kb * 1024 / (polynomials * scheme.polynomial_bytes());
        let mut after = after.to_vec();
        if let Some(number) = self.extracted.len().checked_sub(buffered.max(1) as usize) {
            after.push(self.extracted[number]);
        }
        let mut extracted = Vec::new();
        for _ in 0..polynomials {
            let inverse: Vec<u32> =
                (0..scheme.primes).map(|_| self.add(Unit::Ntt, vector, latency.ntt, &after)).collect();
            let mut last = self.stream(Unit::Icrt, vector, latency.icrt, &inverse);
            for _ in 0..scheme.gadget_levels {
                last = self.stream(Unit::Icrt, vector, latency.icrt, &[last]);
                extracted.push(last);
            }
        }
        self.extracted.push(*extracted.last().expect("at least one digit"));
        let first = self.reductions.len();
        let mut transformed = Vec::new();
        for (limb, &digit) in
            extracted.iter().flat_map(|digit| std::iter::repeat_n(digit, scheme.primes as usize)).enumerate()
        {
            let mut after = vec![digit];
            // A place for the result, in the order of the program. Reductions of this operation that are still to come
            // are those of stored digits, which have places for all.
            let place = (first + limb).checked_sub(self.digit_places);
            after.extend(place.map(|number| self.reductions[number]));
            match self.digits {
                Digits::Forwarded => {
                    let ntt = self.stream(Unit::Ntt, vector, latency.ntt, &after);
                    let reduced = self.add(Unit::ElementWise, reduction, latency.element_wise, &[ntt]);
                    self.reductions.push(reduced);
                }
                Digits::Stored => transformed.push(self.add(Unit::Ntt, vector, latency.ntt, &after)),
            }
        }
        if !transformed.is_empty() {
            let all = self.push(NO_UNIT, 0, 0, &transformed);
            for _ in 0..transformed.len() {
                let reduced = self.add(Unit::ElementWise, reduction, latency.element_wise, &[all]);
                self.reductions.push(reduced);
            }
        }
        let reduced: Vec<u32> = self.reductions[first..].to_vec();
        self.push(NO_UNIT, 0, 0, &reduced)
    }

    fn substitution(&mut self, after: &[u32]) -> u32 {
        let (scheme, core, latency) = (self.arch.scheme, self.arch.core, self.arch.latency);
        let vector = scheme.degree as f64 / core.lanes as f64;
        let images: Vec<u32> = (0..2 * scheme.primes)
            .map(|_| self.add(Unit::Automorphism, vector, latency.automorphism, after))
            .collect();
        let image = self.push(NO_UNIT, 0, 0, &images);
        self.key_product(1, &[image])
    }

    fn run(mut self) -> CoreReport {
        let mut free: [Vec<u64>; UNITS] = std::array::from_fn(|_| vec![0]);
        free[Unit::Ntt as usize] = vec![0; self.arch.core.ntt_units as usize];
        let mut busy = [0u64; UNITS];
        let mut end = 0;
        // By the time at which they are ready, and then in the order of the program.
        let mut ready: BinaryHeap<Reverse<(u64, u32)>> = (0..self.instructions.len() as u32)
            .filter(|&number| self.instructions[number as usize].waits == 0)
            .map(|number| Reverse((0, number)))
            .collect();
        while let Some(Reverse((time, number))) = ready.pop() {
            let instruction = &mut self.instructions[number as usize];
            let mut done = time;
            if instruction.unit != NO_UNIT {
                let unit = usize::from(instruction.unit);
                let next = free[unit].iter_mut().min().expect("at least one unit");
                let begun = time.max(*next);
                *next = begun + instruction.interval;
                busy[unit] += instruction.interval;
                done = if instruction.forwards { begun } else { *next } + instruction.latency;
            }
            end = end.max(done);
            for follower in std::mem::take(&mut instruction.followers) {
                let next = &mut self.instructions[follower as usize];
                next.ready = next.ready.max(done);
                next.waits -= 1;
                if next.waits == 0 {
                    ready.push(Reverse((next.ready, follower)));
                }
            }
        }
        CoreReport { cycles: end as f64 / TICKS, busy: busy.map(|ticks| ticks as f64 / TICKS) }
    }
}

/// Executes a graph that a schedule gave.
pub fn execute(arch: &Arch, schedule: &Schedule, graph: &Graph) -> CoreReport {
    let digit_places = (schedule.digit_bytes(&arch.scheme) / arch.scheme.limb_bytes()) as usize;
    let mut program = Program {
        arch,
        digits: schedule.digits,
        digit_places,
        instructions: Vec::new(),
        reductions: Vec::new(),
        extracted: Vec::new(),
    };
    let mut done: Vec<u32> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let after: Vec<u32> = node.before().map(|before| done[before]).collect();
        done.push(match node.work {
            Work::LoadKey { .. } => program.transfer(schedule.key_bytes(&arch.scheme), &after),
            Work::LoadCiphertext { .. } | Work::StoreCiphertext { .. } => {
                program.transfer(arch.scheme.ciphertext_bytes(), &after)
            }
            Work::Product { .. } | Work::Assembly => program.key_product(2, &after),
            Work::Substitution { .. } => program.substitution(&after),
        });
    }
    program.run()
}

/// Subtrees of a layer that are simulated one by one; more follow at the pace of the second half of these.
const SIMULATED: u64 = 64;

/// A tournament of so many rows.
///
/// # Errors
/// [`IveError::RegisterFile`] if the schedule does not fit.
pub fn tournament(arch: &Arch, schedule: &Schedule, rows: u64) -> Result<CoreReport, IveError> {
    let layer = |levels, rows| {
        let graph = schedule.lower_tournament(arch, levels, rows)?;
        Ok::<_, IveError>(execute(arch, schedule, &graph))
    };
    let mut sum = CoreReport::default();
    // The keys of a layer take the place of those of the one before: one begins when the other is over.
    for of in schedule.layers(rows) {
        sum = sum.then(if of.subtrees <= 2 * SIMULATED {
            layer(of.levels, of.loads)?
        } else {
            let (half, whole) =
                (layer(of.levels, SIMULATED << of.levels)?, layer(of.levels, (2 * SIMULATED) << of.levels)?);
            let pace = whole.then(half.times(-1.0));
            whole.then(pace.times((of.subtrees - 2 * SIMULATED) as f64 / SIMULATED as f64))
        });
    }
    Ok(sum)
}

/// An expansion to so many leaves.
///
/// # Errors
/// [`IveError::RegisterFile`] if the schedule does not fit.
pub fn expansion(arch: &Arch, schedule: &Schedule, leaves: u64) -> Result<CoreReport, IveError> {
    let (mut sum, mut top) = (CoreReport::default(), 0);
    let expansion = Expansion::covering(leaves as usize);
    for of in schedule.layers(leaves) {
        let graph = schedule.lower_expansion(arch, expansion, top, of.levels)?;
        sum = sum.then(execute(arch, schedule, &graph));
        top += of.levels;
    }
    Ok(sum)
}

/// ExpandQuery for a database of so many rows: the leaves of the first dimension and of the selectors, and the selectors.
///
/// # Errors
/// [`IveError::RegisterFile`] if the schedule does not fit.
pub fn expand_query(arch: &Arch, schedule: &Schedule, rows: u64) -> Result<CoreReport, IveError> {
    let bits = u64::from(levels(rows));
    let leaves = arch.scheme.first_dimension + bits * arch.scheme.gadget_levels;
    let tree = expansion(arch, schedule, leaves)?;
    let assembly = Schedule { step: Step::ColTor, depth: 1, ..*schedule };
    let graph = lower_assembly(arch, schedule.digits, bits * arch.scheme.gadget_levels)?;
    Ok(tree.then(execute(arch, &assembly, &graph)))
}
