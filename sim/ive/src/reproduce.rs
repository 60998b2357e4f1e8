//! The paper's results, compared with the simulator's.

use serde::Serialize;
use spirea_papers::{Claim, IVE, Paper};

use crate::arch::{self, Arch, Scheme};
use crate::error::IveError;
use crate::program::Program;
use crate::schedule::{Digits, Order, Schedule, Step, assembly_traffic, levels};
use crate::scheduler::{break_even, last_rate_within, served};
use crate::system::{BatchReport, Mapping, Schedules, Workload, simulate, usual_batch};

/// Result that a machine cannot give.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Skipped {
    /// Value or figure of the paper.
    pub what: String,
    /// Reason.
    pub reason: String,
}

/// The paper's claims, compared with a machine's values.
#[derive(Clone, Debug, PartialEq)]
pub struct Reproduction {
    /// Claims with a value of the machine.
    pub rows: Vec<Claim>,
    /// Claims without a value.
    pub skipped: Vec<Skipped>,
    paper: Paper,
}

/// Function that adds the claims of a part of the evaluation.
pub type Part = fn(&mut Reproduction, &Arch);

/// All parts, in the order of the tables.
pub const PARTS: [Part; 9] = [
    operation_counts,
    traffic,
    throughput,
    schedules,
    batches,
    other_schemes,
    other_machine,
    arrivals,
    budget,
];

impl Reproduction {
    /// Computes the claims of some parts.
    pub fn of(arch: &Arch, parts: &[Part]) -> Self {
        let mut found = Self { rows: Vec::new(), skipped: Vec::new(), paper: Paper::read(IVE) };
        parts.iter().for_each(|part| part(&mut found, arch));
        found
    }

    fn add(&mut self, what: impl Into<String>, simulated: Result<f64, IveError>) {
        let what = what.into();
        match simulated {
            Ok(simulated) => self.rows.push(self.paper.claim(&what, simulated)),
            Err(error) => self.skipped.push(Skipped { what, reason: error.to_string() }),
        }
    }
}

/// Combines two results to a value.
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

/// Integer multiplications of a query. A multiplication of a transform counts as
/// `scheme.transform_multiplications`, others count as 1. The expansion has all inner nodes of its
/// tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Multiplications {
    /// Multiplications of ExpandQuery.
    pub expand: f64,
    /// Multiplications of RowSel.
    pub row_selection: f64,
    /// Multiplications of ColTor.
    pub coltor: f64,
}

impl Multiplications {
    /// Counts the multiplications for a scheme and a database of `gib` GiB.
    pub fn of(scheme: &Scheme, gib: f64) -> Self {
        let (degree, residues) = (scheme.degree as f64, (scheme.primes * scheme.degree) as f64);
        let transform = scheme.transform_multiplications * degree / 2.0 * degree.log2();
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

    /// Returns the multiplications of all three steps.
    pub fn sum(&self) -> f64 {
        self.expand + self.row_selection + self.coltor
    }
}

/// Adds RowSel's share of the multiplications (Figure 4a).
fn operation_counts(found: &mut Reproduction, arch: &Arch) {
    for gib in [2.0, 16.0] {
        let all = Multiplications::of(&arch.scheme, gib);
        let share = 100.0 * all.row_selection / all.sum();
        found.add(format!("Fig. 4a: RowSel, {gib} GiB, % of multiplications"), Ok(share));
    }
}

/// Number of rows of a 16-GiB database, as in Figure 8.
const ROWS: u64 = 1 << 12;

/// Returns the bytes that a step of one query transfers over its memory channel, for a database of
/// 16 GiB.
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

/// Adds Figure 8, for 16 GiB.
fn traffic(found: &mut Reproduction, arch: &Arch) {
    for (step, order, digits, what) in [
        (Step::ColTor, Order::Bfs, Digits::Stored, "ColTor, BFS-HS"),
        (Step::ColTor, Order::Dfs, Digits::Forwarded, "ColTor, DFS-HS with R.O."),
        (Step::Expand, Order::Bfs, Digits::Stored, "ExpandQuery, BFS-HS"),
        (Step::Expand, Order::Dfs, Digits::Stored, "ExpandQuery, DFS-HS"),
    ] {
        let bytes = |schedule: Result<Schedule, IveError>| Ok(step_traffic(arch, schedule?));
        let less = both(
            &bytes(Schedule::baseline(arch, step)),
            &bytes(Schedule::deepest(arch, step, order, digits)),
            |by_level, bytes| by_level / bytes,
        );
        found.add(format!("Fig. 8: {what}, times less traffic than BFS"), less);
    }
}

/// Simulates a batch with the best schedules.
///
/// # Errors
/// The errors of the simulator.
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

/// Simulates the batch whose size the architecture's file gives for a database of this size.
///
/// # Errors
/// The errors of the simulator.
pub fn usual(arch: &Arch, gib: f64, systems: u64) -> Result<BatchReport, IveError> {
    batch(arch, gib, systems, usual_batch(arch, gib, systems)?, Mapping::QueryPerCore)
}

/// Adds Table III, section VI-C, and the energies of section VI-B.
fn throughput(found: &mut Reproduction, arch: &Arch) {
    for (gib, systems) in
        [(2.0, 1), (4.0, 1), (8.0, 1), (16.0, 1), (128.0, 1), (384.0, 16), (288.0, 16), (1280.0, 16)]
    {
        let rate = usual(arch, gib, systems).map(|report| report.queries_per_second());
        found.add(format!("QPS: {gib} GiB, {systems} system(s)"), rate);
    }
    let rate = usual(arch, 1024.0, 16).map(|report| report.queries_per_second() / 16.0);
    found.add("QPS a system: 1 TiB, 16 systems", rate);
    for gib in [2.0, 4.0, 8.0] {
        let energy = usual(arch, gib, 1).map(|report| report.energy_of_query());
        found.add(format!("Section VI-B: energy of a query, {gib} GiB, J"), energy);
    }
}

/// Adds Figure 13b.
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
    for (what, slow, fast, step) in [
        ("DFS-HS, ExpandQuery", &by_level, &depth_first, expand),
        ("DFS-HS, ColTor", &by_level, &depth_first, coltor),
        ("DFS-HS, end to end", &by_level, &depth_first, BatchReport::seconds),
        ("R.O., ColTor", &depth_first, &overlapped, coltor),
        ("R.O., end to end", &depth_first, &overlapped, BatchReport::seconds),
        ("both, ColTor", &by_level, &overlapped, coltor),
        ("both, end to end", &by_level, &overlapped, BatchReport::seconds),
    ] {
        let faster = both(slow, fast, |slow, fast| step(slow) / step(fast));
        found.add(format!("Fig. 13b: {what}, times as fast"), faster);
    }
}

/// Adds Figures 13c and 13d.
fn batches(found: &mut Reproduction, arch: &Arch) {
    for (figure, gib, systems) in [("13c", 16.0, 1), ("13d", 128.0, 1), ("13d", 1024.0, 16)] {
        let full = usual(arch, gib, systems);
        let lone = batch(arch, gib, systems, 1, Mapping::RowsPerCore);
        let rates = both(&full, &lone, |full, lone| full.queries_per_second() / lone.queries_per_second());
        let times = both(&full, &lone, |full, lone| full.seconds() / lone.seconds());
        found.add(format!("Fig. {figure}: gain of a batch, {gib} GiB"), rates);
        found.add(format!("Fig. {figure}: growth of latency, {gib} GiB"), times);
    }
    let of = |queries| batch(arch, 16.0, 1, queries, Mapping::QueryPerCore);
    let gain = both(&of(64), &of(32), |more, less| more.queries_per_second() / less.queries_per_second());
    found.add("Fig. 13c: QPS of 64 queries over those of 32, 16 GiB", gain);
}

/// Adds Table IV. SimplePIR is the project's own `simple`, as its server runs it; KsPIR is as its
/// paper describes it.
fn other_schemes(found: &mut Reproduction, arch: &Arch) {
    let queries = arch.batch.queries;
    let rate = |program: Result<Program, IveError>| {
        let program = program?;
        let seconds: f64 = program.time(arch)?.iter().map(|(_, seconds)| seconds).sum();
        Ok(program.queries() as f64 / seconds)
    };
    for gib in [2.0, 4.0] {
        let mut row = |what: &str, simulated| {
            found.add(format!("Table IV: {what}, {gib} GiB, QPS"), simulated);
        };
        row("SimplePIR", rate(Program::of_protocol(arch, "simple", gib, 4096, queries as usize)));
        row("KsPIR", rate(Ok(Program::kspir(arch, gib, queries))));
    }
}

/// Adds Figure 14a: the ARK-like machine, for 16 GiB. This machine is simulated twice: with the
/// values of its file, and with the register file bandwidth of `arch`.
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
        let mut row = |what: &str, simulated| {
            found.add(format!("Fig. 14a: {what}{of}"), simulated);
        };
        row("throughput over the ARK-like machine's", faster);
        row("energy of a query, the ARK-like machine's over IVE's", energy);
        row("energy, delay and area, the ARK-like machine's over IVE's", product);
    }
}

/// Adds Figure 14b.
fn arrivals(found: &mut Reproduction, arch: &Arch) {
    let served = served(arch, 16.0, 1);
    let served = served.as_ref();
    let mut row = |what: &str, simulated: Result<f64, &IveError>| {
        found.add(format!("Fig. 14b: {what}"), simulated.map_err(IveError::clone));
    };
    row("lone queries, one after another, QPS", served.map(|(_, service)| 1.0 / service[0]));
    row("window: a scan of the database, ms", served.map(|(policy, _)| 1e3 * policy.window));
    let sooner = served.map(|(policy, service)| break_even(*policy, service));
    row("batches answer sooner from, QPS", sooner);
    let last = served.map(|(policy, service)| last_rate_within(*policy, service, 2.0));
    row("latency within 2 times up to, QPS", last);
}

/// Adds Table II: the parts in the architecture's file, and their sums. No part is modelled.
fn budget(found: &mut Reproduction, arch: &Arch) {
    let (budget, cores) = (arch.budget, arch.chip.cores);
    let all = arch::Part {
        area_mm2: budget.core().area_mm2 * cores as f64,
        power_w: budget.core().power_w * cores as f64,
    };
    for (what, part) in [
        ("sysNTTU", budget.ntt),
        ("iCRTU", budget.icrt),
        ("EWU", budget.element_wise),
        ("AutoU", budget.automorphism),
        ("RF and buffers", budget.memories),
        ("core", budget.core()),
        ("32 cores", all),
        ("NoC", budget.network),
        ("HBM", budget.hbm),
        ("sum", budget.chip(cores)),
    ] {
        found.add(format!("Table II: {what}, mm2"), Ok(part.area_mm2));
        found.add(format!("Table II: {what}, W"), Ok(part.power_w));
    }
}
