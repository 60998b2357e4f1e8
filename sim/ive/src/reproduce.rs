//! What the paper reports, beside what the simulator gives.

use serde::Serialize;

use crate::arch::{Arch, Part, Scheme};
use crate::error::IveError;
use crate::program::Program;
use crate::schedule::{Digits, Order, Schedule, Step, assembly_traffic, levels};
use crate::scheduler::{break_even, last_rate_within, served};
use crate::system::{BatchReport, Mapping, Schedules, Workload, simulate, usual_batch};

/// A value of the paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Where it stands, and what it is.
    pub what: String,
    /// The paper's value.
    pub paper: f64,
    /// The simulator's.
    pub simulated: f64,
    /// How far off it may be, as a share of the paper's.
    pub tolerance: f64,
    /// The value of the architecture's file that was fitted to it.
    pub fitted: Option<&'static str>,
}

/// What was fitted to which rows. A gain and a growth of latency are of the same lone query.
const FITTED: [(&str, &str); 7] = [
    ("Fig. 13c: gain of a batch, 16 GiB", "hbm.efficiency"),
    ("Fig. 13c: growth of latency, 16 GiB", "hbm.efficiency"),
    ("Fig. 13d: gain of a batch, 128 GiB", "lpddr.efficiency"),
    ("Fig. 13d: growth of latency, 128 GiB", "lpddr.efficiency"),
    ("Fig. 13d: gain of a batch, 1024 GiB", "lpddr.efficiency"),
    ("Fig. 13d: growth of latency, 1024 GiB", "lpddr.efficiency"),
    ("Fig. 14b: lone queries, one after another, QPS", "hbm.write_queue_bytes"),
];

impl Row {
    /// The simulator's value over the paper's, less 1.
    pub fn deviation(&self) -> f64 {
        self.simulated / self.paper - 1.0
    }

    /// Whether it is near enough.
    pub fn is_within(&self) -> bool {
        self.deviation().abs() <= self.tolerance
    }
}

/// What a machine cannot be asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Skipped {
    /// A value or a figure of the paper.
    pub what: String,
    /// Why not.
    pub reason: String,
}

/// The paper's values beside a machine's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reproduction {
    /// Those that it has.
    pub rows: Vec<Row>,
    /// Those that it has not.
    pub skipped: Vec<Skipped>,
}

impl Reproduction {
    /// All of them.
    pub fn of(arch: &Arch) -> Self {
        let mut found = Self::default();
        operation_counts(&mut found, &arch.scheme);
        traffic(&mut found, arch);
        throughput(&mut found, arch);
        schedules(&mut found, arch);
        batches(&mut found, arch);
        other_schemes(&mut found, arch);
        other_machine(&mut found, arch);
        arrivals(&mut found, arch);
        budget(&mut found, arch);
        found
    }

    fn add(&mut self, what: impl Into<String>, paper: f64, tolerance: f64, simulated: Result<f64, IveError>) {
        let what = what.into();
        match simulated {
            Ok(simulated) => {
                let fitted = FITTED.iter().find(|(row, _)| *row == what).map(|(_, key)| *key);
                self.rows.push(Row { what, paper, simulated, tolerance, fitted });
            }
            Err(error) => self.skipped.push(Skipped { what, reason: error.to_string() }),
        }
    }
}

/// A value of two results.
fn both<A, B>(
    a: &Result<A, IveError>,
    b: &Result<B, IveError>,
    value: impl FnOnce(&A, &B) -> f64,
) -> Result<f64, IveError> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok(value(a, b)),
        (Err(error), _) | (_, Err(error)) => Err(error.clone()),
    }
}

/// Integer multiplications of a query: a multiplication of a transform counts 3, others 1; the expansion has all inner nodes
/// of its tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Multiplications {
    /// Of ExpandQuery.
    pub expand: f64,
    /// Of RowSel.
    pub row_selection: f64,
    /// Of ColTor.
    pub coltor: f64,
}

impl Multiplications {
    /// Those of a scheme and a database of so many GiB.
    pub fn of(scheme: &Scheme, gib: f64) -> Self {
        let (degree, residues) = (scheme.degree as f64, (scheme.primes * scheme.degree) as f64);
        let transform = 3.0 * degree / 2.0 * degree.log2();
        let digits = (scheme.gadget_levels * scheme.primes) as f64;
        let substitution =
            (digits + scheme.primes as f64) * transform + 2.0 * scheme.gadget_levels as f64 * residues;
        let product =
            2.0 * (digits + scheme.primes as f64) * transform + 4.0 * scheme.gadget_levels as f64 * residues;
        let polynomials = scheme.polynomials(gib);
        let rows = polynomials.div_ceil(scheme.first_dimension);
        let selectors = u64::from(levels(rows)) * scheme.gadget_levels;
        let inner = (1u64 << levels(scheme.first_dimension + selectors)) - 1;
        Self {
            expand: inner as f64 * substitution + selectors as f64 * product,
            row_selection: 2.0 * polynomials as f64 * residues,
            coltor: (rows - 1) as f64 * product,
        }
    }

    /// Of all three.
    pub fn sum(&self) -> f64 {
        self.expand + self.row_selection + self.coltor
    }
}

/// The share of RowSel among them (Figure 4a).
fn operation_counts(found: &mut Reproduction, scheme: &Scheme) {
    for (gib, paper) in [(2.0, 58.0), (16.0, 66.0)] {
        let all = Multiplications::of(scheme, gib);
        let share = 100.0 * all.row_selection / all.sum();
        found.add(format!("Fig. 4a: RowSel, {gib} GiB, % of multiplications"), paper, 0.05, Ok(share));
    }
}

/// Rows of a database of 16 GiB, which Figure 8 is of.
const ROWS: u64 = 1 << 12;

/// Bytes that a step of one query has cross its memory channel, for a database of 16 GiB.
pub fn step_traffic(arch: &Arch, schedule: Schedule) -> f64 {
    let scheme = &arch.scheme;
    let bits = u64::from(levels(ROWS));
    let tree = match schedule.step {
        Step::ColTor => schedule.traffic(scheme, ROWS),
        Step::Expand => {
            let leaves = scheme.first_dimension + bits * scheme.gadget_levels;
            schedule.traffic(scheme, leaves).plus(assembly_traffic(scheme, bits))
        }
    };
    tree.bytes(scheme) as f64
}

/// Figure 8, for 16 GiB.
fn traffic(found: &mut Reproduction, arch: &Arch) {
    for (step, order, digits, what, paper, tolerance) in [
        (Step::ColTor, Order::Bfs, Digits::Stored, "ColTor, BFS-HS", 1.81, 0.05),
        (Step::ColTor, Order::Dfs, Digits::Forwarded, "ColTor, DFS-HS with R.O.", 2.24, 0.05),
        (Step::Expand, Order::Bfs, Digits::Stored, "ExpandQuery, BFS-HS", 1.75, 0.12),
        (Step::Expand, Order::Dfs, Digits::Stored, "ExpandQuery, DFS-HS", 1.87, 0.12),
    ] {
        let bytes = |schedule: Result<Schedule, IveError>| Ok(step_traffic(arch, schedule?));
        let less = both(
            &bytes(Schedule::baseline(arch, step)),
            &bytes(Schedule::deepest(arch, step, order, digits)),
            |by_level, bytes| by_level / bytes,
        );
        found.add(format!("Fig. 8: {what}, times less traffic than BFS"), paper, tolerance, less);
    }
}

/// A batch under the best schedules.
///
/// # Errors
/// Those of the simulator.
pub fn batch(
    arch: &Arch,
    gib: f64,
    systems: u64,
    queries: u64,
    mapping: Mapping,
) -> Result<BatchReport, IveError> {
    let schedules = Schedules::depth_first(arch, Digits::Forwarded)?;
    simulate(arch, &schedules, &Workload { gib, systems, queries, mapping })
}

/// The batch that the architecture's file has for a database of this size.
///
/// # Errors
/// Those of the simulator.
pub fn usual(arch: &Arch, gib: f64, systems: u64) -> Result<BatchReport, IveError> {
    batch(arch, gib, systems, usual_batch(arch, gib, systems)?, Mapping::QueryPerCore)
}

/// Table III, section VI-C, and the energies of section VI-B.
fn throughput(found: &mut Reproduction, arch: &Arch) {
    for (gib, systems, paper) in [
        (2.0, 1, 4261.0),
        (4.0, 1, 2350.0),
        (8.0, 1, 1242.0),
        (16.0, 1, 591.0),
        (128.0, 1, 79.9),
        (384.0, 16, 413.0),
        (288.0, 16, 544.6),
        (1280.0, 16, 127.5),
    ] {
        let rate = usual(arch, gib, systems).map(|report| report.queries_per_second());
        found.add(format!("QPS: {gib} GiB, {systems} system(s)"), paper, 0.08, rate);
    }
    let rate = usual(arch, 1024.0, 16).map(|report| report.queries_per_second() / 16.0);
    found.add("QPS a system: 1 TiB, 16 systems", 9.89, 0.08, rate);
    for (gib, paper) in [(2.0, 0.03), (4.0, 0.05), (8.0, 0.09)] {
        let energy = usual(arch, gib, 1).map(|report| report.energy_of_query());
        found.add(format!("Section VI-B: energy of a query, {gib} GiB, J"), paper, 0.25, energy);
    }
}

/// Figure 13b.
fn schedules(found: &mut Reproduction, arch: &Arch) {
    let time = |schedules: Result<Schedules, IveError>| {
        let queries = usual_batch(arch, 16.0, 1)?;
        let workload = Workload { gib: 16.0, systems: 1, queries, mapping: Mapping::QueryPerCore };
        simulate(arch, &schedules?, &workload)
    };
    let by_level = time(Schedules::baseline(arch));
    let depth_first = time(Schedules::depth_first(arch, Digits::Stored));
    let overlapped = time(Schedules::depth_first(arch, Digits::Forwarded));
    let expand: fn(&BatchReport) -> f64 = |report| report.expand;
    let coltor: fn(&BatchReport) -> f64 = |report| report.coltor;
    for (what, paper, slow, fast, step) in [
        ("DFS-HS, ExpandQuery", 1.3, &by_level, &depth_first, expand),
        ("DFS-HS, ColTor", 1.75, &by_level, &depth_first, coltor),
        ("DFS-HS, end to end", 1.2, &by_level, &depth_first, BatchReport::seconds),
        ("R.O., ColTor", 1.28, &depth_first, &overlapped, coltor),
        ("R.O., end to end", 1.06, &depth_first, &overlapped, BatchReport::seconds),
        ("both, ColTor", 2.23, &by_level, &overlapped, coltor),
        ("both, end to end", 1.26, &by_level, &overlapped, BatchReport::seconds),
    ] {
        let faster = both(slow, fast, |slow, fast| step(slow) / step(fast));
        found.add(format!("Fig. 13b: {what}, times as fast"), paper, 0.10, faster);
    }
}

/// Figures 13c and 13d.
fn batches(found: &mut Reproduction, arch: &Arch) {
    for (figure, gib, systems, gain, growth) in
        [("13c", 16.0, 1, 18.9, 3.46), ("13d", 128.0, 1, 79.9, 1.60), ("13d", 1024.0, 16, 79.1, 1.62)]
    {
        let full = usual(arch, gib, systems);
        let lone = batch(arch, gib, systems, 1, Mapping::RowsPerCore);
        let rates = both(&full, &lone, |full, lone| full.queries_per_second() / lone.queries_per_second());
        let times = both(&full, &lone, |full, lone| full.seconds() / lone.seconds());
        found.add(format!("Fig. {figure}: gain of a batch, {gib} GiB"), gain, 0.10, rates);
        found.add(format!("Fig. {figure}: growth of latency, {gib} GiB"), growth, 0.10, times);
    }
    let of = |queries| batch(arch, 16.0, 1, queries, Mapping::QueryPerCore);
    let gain = both(&of(64), &of(32), |more, less| more.queries_per_second() / less.queries_per_second());
    found.add("Fig. 13c: QPS of 64 queries over those of 32, 16 GiB", 1.1, 0.10, gain);
}

/// Table IV. SimplePIR is the project's own `simple`, as its server does it; KsPIR as its paper describes it.
fn other_schemes(found: &mut Reproduction, arch: &Arch) {
    let queries = arch.batch.queries;
    let rate = |program: Result<Program, IveError>| {
        let program = program?;
        let seconds: f64 = program.time(arch)?.iter().map(|(_, seconds)| seconds).sum();
        Ok(program.queries() as f64 / seconds)
    };
    for (gib, simple, kspir) in [(2.0, 11_766.0, 2_555.0), (4.0, 5_883.0, 1_288.0)] {
        let mut row = |what: &str, paper, simulated| {
            found.add(format!("Table IV: {what}, {gib} GiB, QPS"), paper, 0.35, simulated);
        };
        row("SimplePIR", simple, rate(Program::of_protocol(arch, "simple", gib, 4096, queries as usize)));
        row("KsPIR", kspir, rate(Ok(Program::kspir(arch, gib, queries))));
    }
}

/// Figure 14a: the ARK-like machine, 16 GiB; as its file has it, and with a register file of as many bytes a cycle as the
/// other machine's.
fn other_machine(found: &mut Reproduction, arch: &Arch) {
    let ours = usual(arch, 16.0, 1);
    let ark = Arch::ark();
    let wide = ark.clone().map(|mut ark| {
        ark.core.register_file_bytes_per_cycle = arch.core.register_file_bytes_per_cycle;
        ark
    });
    for (ark, of) in [(ark, ""), (wide, ", with IVE's register file bandwidth")] {
        let theirs = ark.as_ref().map_err(IveError::clone).and_then(|ark| usual(ark, 16.0, 1));
        let faster =
            both(&ours, &theirs, |ours, theirs| ours.queries_per_second() / theirs.queries_per_second());
        let energy = both(&ours, &theirs, |ours, theirs| theirs.energy_of_query() / ours.energy_of_query());
        let chip = |arch: &Arch| arch.budget.chip(arch.chip.cores).area_mm2;
        let area = ark.as_ref().map_err(IveError::clone).map(|ark| chip(ark) / chip(arch));
        let product = both(&faster, &energy, |faster, energy| faster * energy);
        let product = both(&product, &area, |product, area| product * area);
        let mut row = |what: &str, paper, simulated| {
            found.add(format!("Fig. 14a: {what}{of}"), paper, 0.30, simulated);
        };
        row("throughput over the ARK-like machine's", 4.2, faster);
        row("energy of a query, the ARK-like machine's over IVE's", 2.4, energy);
        row("energy, delay and area, the ARK-like machine's over IVE's", 9.7, product);
    }
}

/// Figure 14b.
fn arrivals(found: &mut Reproduction, arch: &Arch) {
    let served = served(arch, 16.0, 1);
    let served = served.as_ref();
    let mut row = |what: &str, paper, simulated: Result<f64, &IveError>| {
        found.add(format!("Fig. 14b: {what}"), paper, 0.10, simulated.map_err(IveError::clone));
    };
    row("lone queries, one after another, QPS", 17.8, served.map(|(_, service)| 1.0 / service[0]));
    row("window: a scan of the database, ms", 29.4, served.map(|(policy, _)| 1e3 * policy.window));
    let sooner = served.map(|(policy, service)| break_even(*policy, service));
    row("batches answer sooner from, QPS", 9.5, sooner);
    let last = served.map(|(policy, service)| last_rate_within(*policy, service, 2.0));
    row("latency within 2 times up to, QPS", 420.0, last);
}

/// Table II: the paper's parts, and what they add up to. No part of it is modelled here.
fn budget(found: &mut Reproduction, arch: &Arch) {
    let (budget, cores) = (arch.budget, arch.chip.cores);
    let all = Part {
        area_mm2: budget.core().area_mm2 * cores as f64,
        power_w: budget.core().power_w * cores as f64,
    };
    for (what, part, area_mm2, power_w) in [
        ("sysNTTU", budget.ntt, 0.77, 2.17),
        ("iCRTU", budget.icrt, 0.05, 0.13),
        ("EWU", budget.element_wise, 0.10, 0.37),
        ("AutoU", budget.automorphism, 0.07, 0.11),
        ("RF and buffers", budget.memories, 1.38, 1.63),
        ("core", budget.core(), 2.91, 5.12),
        ("32 cores", all, 93.1, 163.8),
        ("NoC", budget.network, 2.6, 6.7),
        ("HBM", budget.hbm, 59.6, 68.6),
        ("sum", budget.chip(cores), 155.3, 239.1),
    ] {
        let mut row = |unit: &str, paper, simulated| {
            found.add(format!("Table II (the paper's parts): {what}, {unit}"), paper, 0.01, Ok(simulated));
        };
        row("mm2", area_mm2, part.area_mm2);
        row("W", power_w, part.power_w);
    }
}
