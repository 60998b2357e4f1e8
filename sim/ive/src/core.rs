//! A core at the granularity of its functional units: a queue in front of each, taken in the order in which instructions
//! become ready (section VI-A).
//!
//! An instruction is a residue polynomial's worth of one unit. Counts of an external product: 8 inverse transforms, 2
//! iCRTs, 40 transforms, 80 products of residue polynomials; of a substitution half of each and an automorphism. The
//! difference Y - X and the sums are made as operands are read and written; the paper counts none either.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use spirea_math::{Expansion, Rotations};

use crate::arch::Arch;
use crate::error::IveError;
use crate::graph::{Event, Graph, Moment, Work};
use crate::rotation::{lower_rotations, lower_sums, rotating};
use crate::schedule::{Digits, Order, Schedule, Step, levels, lower_assembly};

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

/// What an instruction does to the places for forwarded digits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DigitPlace {
    /// Nothing.
    None,
    /// It begins when it has one.
    Takes,
    /// It had to wait for the one that it has.
    Has,
    /// It empties one.
    Frees,
}

struct Instruction {
    unit: u8,
    /// Ticks in which the unit takes no other.
    interval: u64,
    /// How many of them it does nothing.
    idle: u64,
    /// Ticks from then until what follows may begin.
    latency: u64,
    /// Whether what follows takes results as they come, not from memory when all are there.
    forwards: bool,
    /// What it does to the places for forwarded digits.
    place: DigitPlace,
    waits: u32,
    ready: u64,
    followers: Vec<u32>,
}

/// When the operands of an operation are read, and when it is over.
#[derive(Clone, Copy)]
struct Executed {
    read: u32,
    over: u32,
}

impl Executed {
    fn at(self, moment: Moment) -> u32 {
        match moment {
            Moment::Read => self.read,
            Moment::Over => self.over,
        }
    }
}

impl From<u32> for Executed {
    /// Of a transfer, which has read all when it is over.
    fn from(over: u32) -> Self {
        Self { read: over, over }
    }
}

/// The instructions of a graph.
struct Program<'a> {
    arch: &'a Arch,
    digits: Digits,
    /// Residue polynomials of digits that exist at once.
    digit_places: usize,
    instructions: Vec<Instruction>,
    /// Multiply-adds of stored digits, in the order of the program: each empties a place for a digit.
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
            idle: 0,
            latency,
            forwards: false,
            place: DigitPlace::None,
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

    /// Writes among reads: the channel turns now and then.
    fn store(&mut self, bytes: u64, after: &[u32]) -> u32 {
        let idle = bytes as f64 * self.arch.turnaround_cycles_per_byte();
        let number = self.transfer(bytes, after);
        let instruction = &mut self.instructions[number as usize];
        instruction.idle = (idle * TICKS).round() as u64;
        instruction.interval += instruction.idle;
        number
    }

    /// Decomposes `polynomials` polynomials, and multiplies their digits with a key.
    fn key_product(&mut self, polynomials: u64, after: &[u32]) -> Executed {
        let (scheme, core, latency) = (self.arch.scheme, self.arch.core, self.arch.latency);
        let vector = scheme.degree as f64 / core.lanes as f64;
        let reduction = 2.0 * scheme.degree as f64 / core.element_wise_rate as f64;
        let buffered = core.icrt_buffer_kb * 1024 / (polynomials * scheme.polynomial_bytes());
        let mut after = after.to_vec();
        if let Some(number) = self.extracted.len().checked_sub(buffered.max(1) as usize) {
            after.push(self.extracted[number]);
        }
        let (mut extracted, mut inverted) = (Vec::new(), Vec::new());
        for _ in 0..polynomials {
            let inverse: Vec<u32> =
                (0..scheme.primes).map(|_| self.add(Unit::Ntt, vector, latency.ntt, &after)).collect();
            inverted.extend(&inverse);
            let mut last = self.stream(Unit::Icrt, vector, latency.icrt, &inverse);
            for _ in 0..scheme.gadget_levels {
                last = self.stream(Unit::Icrt, vector, latency.icrt, &[last]);
                extracted.push(last);
            }
        }
        self.extracted.push(*extracted.last().expect("at least one digit"));
        let limbs = extracted.iter().flat_map(|digit| std::iter::repeat_n(*digit, scheme.primes as usize));
        let reduced: Vec<u32> = match self.digits {
            Digits::Forwarded => limbs
                .map(|digit| {
                    let ntt = self.stream(Unit::Ntt, vector, latency.ntt, &[digit]);
                    self.instructions[ntt as usize].place = DigitPlace::Takes;
                    let reduced = self.add(Unit::ElementWise, reduction, latency.element_wise, &[ntt]);
                    self.instructions[reduced as usize].place = DigitPlace::Frees;
                    reduced
                })
                .collect(),
            // All digits of an operation have places, in the order of the program.
            Digits::Stored => {
                let first = self.reductions.len();
                let transformed: Vec<u32> = limbs
                    .enumerate()
                    .map(|(limb, digit)| {
                        let place = (first + limb).checked_sub(self.digit_places);
                        let after: Vec<u32> =
                            [digit].into_iter().chain(place.map(|number| self.reductions[number])).collect();
                        self.add(Unit::Ntt, vector, latency.ntt, &after)
                    })
                    .collect();
                let all = self.push(NO_UNIT, 0, 0, &transformed);
                let reduce = |_| self.add(Unit::ElementWise, reduction, latency.element_wise, &[all]);
                let reduced: Vec<u32> = transformed.iter().map(reduce).collect();
                self.reductions.extend(&reduced);
                reduced
            }
        };
        Executed { read: self.push(NO_UNIT, 0, 0, &inverted), over: self.push(NO_UNIT, 0, 0, &reduced) }
    }

    fn substitution(&mut self, after: &[u32]) -> Executed {
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
        let mut digits = DigitPlaces::new(self.digit_places);
        while let Some(Reverse((time, number))) = ready.pop() {
            let instruction = &mut self.instructions[number as usize];
            if instruction.place == DigitPlace::Takes {
                match digits.take(time, number) {
                    None => continue,
                    Some(free) if free > time => {
                        instruction.place = DigitPlace::Has;
                        ready.push(Reverse((free, number)));
                        continue;
                    }
                    Some(_) => {}
                }
            }
            let mut done = time;
            if instruction.unit != NO_UNIT {
                let unit = usize::from(instruction.unit);
                let next = free[unit].iter_mut().min().expect("at least one unit");
                let begun = time.max(*next);
                *next = begun + instruction.interval;
                busy[unit] += instruction.interval - instruction.idle;
                done = if instruction.forwards { begun } else { *next } + instruction.latency;
                if instruction.place == DigitPlace::Frees
                    && let Some((time, waiting)) = digits.free(*next)
                {
                    self.instructions[waiting as usize].place = DigitPlace::Has;
                    ready.push(Reverse((time, waiting)));
                }
            }
            end = end.max(done);
            for follower in std::mem::take(&mut self.instructions[number as usize].followers) {
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

/// The places for forwarded digits: whoever is ready first takes the one that is free first. A static schedule of the
/// whole graph, which section VI-A has the compiler make, fills them so; in the order of the program, a product that waits
/// for another one would hold up those that need not.
struct DigitPlaces {
    /// When each of those that are not taken is free.
    free: BinaryHeap<Reverse<u64>>,
    /// Who is ready since when, and has none.
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
}

impl DigitPlaces {
    fn new(places: usize) -> Self {
        Self { free: (0..places).map(|_| Reverse(0)).collect(), waiting: BinaryHeap::new() }
    }

    /// Takes a place; gives the time from which on it is free, or keeps the instruction until there is one.
    fn take(&mut self, time: u64, number: u32) -> Option<u64> {
        let Some(Reverse(free)) = self.free.pop() else {
            self.waiting.push(Reverse((time, number)));
            return None;
        };
        Some(free)
    }

    /// Empties a place at a time; gives who has it then, and when it may begin.
    fn free(&mut self, time: u64) -> Option<(u64, u32)> {
        let Some(Reverse((ready, number))) = self.waiting.pop() else {
            self.free.push(Reverse(time));
            return None;
        };
        Some((ready.max(time), number))
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
    let mut executed: Vec<Executed> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let at = |Event { node, moment }| executed[node].at(moment);
        let after: Vec<u32> = node.before().map(at).collect();
        executed.push(match node.work {
            Work::LoadKey { .. } => program.transfer(schedule.key_bytes(&arch.scheme), &after).into(),
            Work::LoadCiphertext { .. } => program.transfer(arch.scheme.ciphertext_bytes(), &after).into(),
            Work::StoreCiphertext { .. } => program.store(arch.scheme.ciphertext_bytes(), &after).into(),
            Work::Product | Work::Assembly => program.key_product(2, &after),
            Work::Substitution { .. } | Work::Rotation { .. } => program.substitution(&after),
        });
    }
    program.run()
}

/// Subtrees of a layer of which twice as many are simulated one by one, and sums of images; more follow at the pace of the
/// second half of these.
const SIMULATED: u64 = 64;
/// Of subtrees that have more leaves than this together, fewer.
const LEAVES: u64 = 1 << 12;

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
        let simulated = (LEAVES >> of.levels).clamp(1, SIMULATED);
        sum = sum.then(if of.subtrees <= 2 * simulated {
            layer(of.levels, of.loads)?
        } else {
            let some = |subtrees: u64| layer(of.levels, subtrees << of.levels);
            further(some(simulated)?, some(2 * simulated)?, of.subtrees, simulated)
        });
    }
    Ok(sum)
}

/// An expansion.
///
/// # Errors
/// [`IveError::RegisterFile`] if the schedule does not fit.
pub fn expand(arch: &Arch, schedule: &Schedule, expansion: Expansion) -> Result<CoreReport, IveError> {
    let (mut sum, mut top) = (CoreReport::default(), 0);
    for of in schedule.layers_of(expansion.levels(), expansion.leaves() as u64) {
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
    let tree = expand(arch, schedule, Expansion::covering(leaves as usize))?;
    Ok(tree.then(assemble(arch, schedule.digits, bits * arch.scheme.gadget_levels)?))
}

/// The selectors of so many leaves.
///
/// # Errors
/// [`IveError::RegisterFile`] if the key does not fit.
pub fn assemble(arch: &Arch, digits: Digits, leaves: u64) -> Result<CoreReport, IveError> {
    let schedule = Schedule { step: Step::ColTor, order: Order::Dfs, digits, depth: 1 };
    Ok(execute(arch, &schedule, &lower_assembly(arch, digits, leaves)?))
}

/// Packing by rotations: the images of a query's chunks.
///
/// # Errors
/// [`IveError::RegisterFile`] if the keys do not fit.
pub fn rotate(arch: &Arch, digits: Digits, rotations: Rotations) -> Result<CoreReport, IveError> {
    Ok(execute(arch, &rotating(digits), &lower_rotations(arch, digits, rotations)?))
}

/// Packing by rotations: so many sums.
///
/// # Errors
/// [`IveError::RegisterFile`] if the keys do not fit.
pub fn sum_rotated(
    arch: &Arch,
    digits: Digits,
    rotations: Rotations,
    sums: u64,
) -> Result<CoreReport, IveError> {
    let some = |sums| Ok(execute(arch, &rotating(digits), &lower_sums(arch, digits, rotations, sums)?));
    if sums <= 2 * SIMULATED {
        return some(sums);
    }
    Ok(further(some(SIMULATED)?, some(2 * SIMULATED)?, sums, SIMULATED))
}

/// So many alike, of which the first `simulated` and twice as many were: the others follow at the pace of the second half.
fn further(half: CoreReport, whole: CoreReport, count: u64, simulated: u64) -> CoreReport {
    let pace = whole.then(half.times(-1.0));
    whole.then(pace.times((count - 2 * simulated) as f64 / simulated as f64))
}
