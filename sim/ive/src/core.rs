//! A core at the granularity of its functional units: each unit has a queue, which it serves in the
//! order in which instructions become ready (section VI-A).
//!
//! An instruction is the work of one unit on a residue polynomial. An external product has 8
//! inverse transforms, 2 iCRTs, 40 transforms, and 80 products of residue polynomials; a
//! substitution has half of each number, and an automorphism. The difference Y - X and the sums are
//! computed as operands are read and written; the paper does not count them either.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use spirea_math::{Expansion, Rotations};

use crate::arch::Arch;
use crate::error::IveError;
use crate::graph::{Event, Graph, Moment, Work};
use crate::rotation::{lower_rotations, lower_sums, rotating};
use crate::schedule::{Digits, Order, Schedule, Step, levels, lower_assembly};

/// Functional unit of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Unit {
    /// Transform unit; a core may have several.
    Ntt,
    /// Unit for iCRT and the extraction of digits.
    Icrt,
    /// Unit for multiply-adds.
    ElementWise,
    /// Unit for automorphisms.
    Automorphism,
    /// Channel to HBM.
    Channel,
}

/// Number of kinds of units.
pub const UNITS: usize = 5;

/// Report of a core's work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreReport {
    /// Cycles from the first to the last.
    pub cycles: f64,
    /// Cycles in which units of each kind took operands, summed over the units of a kind.
    pub busy: [f64; UNITS],
}

impl CoreReport {
    /// Returns the report of this work followed by `other`.
    pub fn then(self, other: Self) -> Self {
        let mut busy = self.busy;
        busy.iter_mut().zip(other.busy).for_each(|(sum, more)| *sum += more);
        Self { cycles: self.cycles + other.cycles, busy }
    }

    /// Returns the report of `count` repetitions of this work, one after another.
    pub fn times(self, count: f64) -> Self {
        Self { cycles: self.cycles * count, busy: self.busy.map(|busy| busy * count) }
    }
}

/// Ticks of a cycle; time is counted in ticks.
const TICKS: f64 = 64.0;
/// Marks the end of an operation, which is not an instruction of a unit.
const NO_UNIT: u8 = u8::MAX;

/// Effect of an instruction on the places for forwarded digits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DigitPlace {
    /// No effect.
    None,
    /// The instruction takes a place, and begins when there is one.
    Takes,
    /// The instruction had to wait for a place, and has it now.
    Has,
    /// The instruction frees a place.
    Frees,
}

struct Instruction {
    unit: u8,
    /// Ticks in which the unit takes no other instruction.
    interval: u64,
    /// Ticks of the interval in which the unit is idle.
    idle: u64,
    /// Ticks until followers may begin. They count from the end of the interval, or from its
    /// beginning if `forwards` is true.
    latency: u64,
    /// True if followers take results as they come, instead of reading all of them from memory.
    forwards: bool,
    /// Effect on the places for forwarded digits.
    place: DigitPlace,
    waits: u32,
    ready: u64,
    followers: Vec<u32>,
}

/// Two instructions of an operation: the operands have been read after `read`, and the operation is
/// over after `over`.
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
    /// Converts a transfer, whose operands have been read only when the transfer is over.
    fn from(over: u32) -> Self {
        Self { read: over, over }
    }
}

/// Instructions of a graph.
struct Program<'a> {
    arch: &'a Arch,
    digits: Digits,
    /// Maximum number of residue polynomials of digits at the same time.
    digit_places: usize,
    instructions: Vec<Instruction>,
    /// Multiply-adds of stored digits, in the order of the program: each frees a place for a digit.
    reductions: Vec<u32>,
    /// Last extraction of each operation, which frees its part of the iCRT buffer.
    extracted: Vec<u32>,
}

impl Program<'_> {
    fn add(&mut self, unit: Unit, cycles: f64, latency: u64, after: &[u32]) -> u32 {
        self.push(unit as u8, (cycles * TICKS).round() as u64, latency * TICKS as u64, after)
    }

    /// Adds an instruction whose results are taken as they come: each cell of an iCRT unit works on
    /// one coefficient, and digits are forwarded from the transform (sections IV-A and IV-F).
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

    /// Adds a write between reads, which costs the channel turnarounds.
    fn store(&mut self, bytes: u64, after: &[u32]) -> u32 {
        let idle = bytes as f64 * self.arch.turnaround_cycles_per_byte();
        let number = self.transfer(bytes, after);
        let instruction = &mut self.instructions[number as usize];
        instruction.idle = (idle * TICKS).round() as u64;
        instruction.interval += instruction.idle;
        number
    }

    /// Decomposes `polynomials` polynomials, and multiplies their digits by a key.
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
            // All digits of an operation need places, which are taken in the order of the program.
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
        // Instructions are ordered by the time at which they are ready, then by the order of the
        // program.
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

/// Places for forwarded digits: the first instruction that is ready takes the place that becomes
/// free first. A static schedule of the whole graph, as the compiler of section VI-A makes it,
/// fills the places in this way. In the order of the program, a product that waits for another one
/// would delay products that need not wait.
struct DigitPlaces {
    /// Times at which the untaken places are free.
    free: BinaryHeap<Reverse<u64>>,
    /// Instructions that wait for a place, with the times from which they are ready.
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
}

impl DigitPlaces {
    fn new(places: usize) -> Self {
        Self { free: (0..places).map(|_| Reverse(0)).collect(), waiting: BinaryHeap::new() }
    }

    /// Takes a place and returns the time from which it is free; if there is none, queues the
    /// instruction.
    fn take(&mut self, time: u64, number: u32) -> Option<u64> {
        let Some(Reverse(free)) = self.free.pop() else {
            self.waiting.push(Reverse((time, number)));
            return None;
        };
        Some(free)
    }

    /// Frees a place at `time`. If an instruction waits for it, returns that instruction and the
    /// time at which it may begin.
    fn free(&mut self, time: u64) -> Option<(u64, u32)> {
        let Some(Reverse((ready, number))) = self.waiting.pop() else {
            self.free.push(Reverse(time));
            return None;
        };
        Some((ready.max(time), number))
    }
}

/// Executes the graph of a schedule.
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

/// Half of the number of subtrees of a layer, or of sums of images, that are simulated one by one.
/// For the others, the pace of the second half is assumed.
const SIMULATED: u64 = 64;
/// Maximum number of leaves in half of the simulated subtrees. So if subtrees are large, fewer of
/// them are simulated.
const LEAVES: u64 = 1 << 12;

/// Executes a tournament of `rows` rows.
///
/// # Errors
/// [`IveError::RegisterFile`] if the schedule does not fit.
pub fn tournament(arch: &Arch, schedule: &Schedule, rows: u64) -> Result<CoreReport, IveError> {
    let layer = |levels, rows| {
        let graph = schedule.lower_tournament(arch, levels, rows)?;
        Ok::<_, IveError>(execute(arch, schedule, &graph))
    };
    let mut sum = CoreReport::default();
    // A layer's keys replace the keys of the layer before, so the layer begins when the one before
    // is over.
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

/// Executes an expansion.
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

/// Executes ExpandQuery for a database of `rows` rows: expands the query to the leaves of the first
/// dimension and of the selectors, then assembles the selectors from their leaves.
///
/// # Errors
/// [`IveError::RegisterFile`] if the schedule does not fit.
pub fn expand_query(arch: &Arch, schedule: &Schedule, rows: u64) -> Result<CoreReport, IveError> {
    let bits = u64::from(levels(rows));
    let leaves = arch.scheme.first_dimension + bits * arch.scheme.gadget_levels;
    let tree = expand(arch, schedule, Expansion::covering(leaves as usize))?;
    Ok(tree.then(assemble(arch, schedule.digits, bits * arch.scheme.gadget_levels)?))
}

/// Executes the assembly of selectors from `leaves` leaves.
///
/// # Errors
/// [`IveError::RegisterFile`] if the key does not fit.
pub fn assemble(arch: &Arch, digits: Digits, leaves: u64) -> Result<CoreReport, IveError> {
    let schedule = Schedule { step: Step::ColTor, order: Order::Dfs, digits, depth: 1 };
    Ok(execute(arch, &schedule, &lower_assembly(arch, digits, leaves)?))
}

/// Executes the first part of packing by rotations: the images of a query's chunks.
///
/// # Errors
/// [`IveError::RegisterFile`] if the keys do not fit.
pub fn rotate(arch: &Arch, digits: Digits, rotations: Rotations) -> Result<CoreReport, IveError> {
    Ok(execute(arch, &rotating(digits), &lower_rotations(arch, digits, rotations)?))
}

/// Executes the second part of packing by rotations: `sums` sums.
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

/// Extrapolates to `count` equal parts from the report `half` for `simulated` parts, and the report
/// `whole` for twice the number. For the other parts, the pace of the second half is assumed.
fn further(half: CoreReport, whole: CoreReport, count: u64, simulated: u64) -> CoreReport {
    let pace = whole.then(half.times(-1.0));
    whole.then(pace.times((count - 2 * simulated) as f64 / simulated as f64))
}
