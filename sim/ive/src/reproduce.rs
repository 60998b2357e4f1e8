//! What the paper reports, beside what the simulator gives.

use serde::Serialize;

use crate::arch::{Arch, Scheme};
use crate::error::IveError;
use crate::program::Program;
use crate::schedule::{Digits, Order, Schedule, Step, assembly_traffic, levels};
use crate::scheduler::{Policy, break_even, last_rate_within};
use crate::system::{
    BatchReport, Deployment, Mapping, Schedules, Workload, scan_seconds, simulate, usual_batch,
};

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
}

impl Row {
    fn new(what: impl Into<String>, paper: f64, simulated: f64, tolerance: f64) -> Self {
        Self { what: what.into(), paper, simulated, tolerance }
    }

    /// The simulator's value over the paper's, less 1.
    pub fn deviation(&self) -> f64 {
        self.simulated / self.paper - 1.0
    }

    /// Whether it is near enough.
    pub fn is_within(&self) -> bool {
        self.deviation().abs() <= self.tolerance
    }
}

/// All rows.
///
/// # Errors
/// Those of the simulator, if the architecture has no room for what the paper did.
pub fn rows(arch: &Arch) -> Result<Vec<Row>, IveError> {
    let mut rows = operation_counts(&arch.scheme);
    rows.extend(traffic(arch)?);
    rows.extend(throughput(arch)?);
    rows.extend(schedules(arch)?);
    rows.extend(batches(arch)?);
    rows.extend(other_schemes(arch)?);
    rows.extend(other_machine(arch)?);
    rows.extend(arrivals(arch)?);
    rows.extend(budget(arch));
    Ok(rows)
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
fn operation_counts(scheme: &Scheme) -> Vec<Row> {
    [(2.0, 58.0), (16.0, 66.0)]
        .into_iter()
        .map(|(gib, paper)| {
            let all = Multiplications::of(scheme, gib);
            let share = 100.0 * all.row_selection / all.sum();
            Row::new(format!("Fig. 4a: RowSel, {gib} GiB, % of multiplications"), paper, share, 0.05)
        })
        .collect()
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
fn traffic(arch: &Arch) -> Result<Vec<Row>, IveError> {
    let mut found = Vec::new();
    for (step, order, digits, what, paper, tolerance) in [
        (Step::ColTor, Order::Bfs, Digits::Stored, "ColTor, BFS-HS", 1.81, 0.05),
        (Step::ColTor, Order::Dfs, Digits::Forwarded, "ColTor, DFS-HS with R.O.", 2.24, 0.05),
        (Step::Expand, Order::Bfs, Digits::Stored, "ExpandQuery, BFS-HS", 1.75, 0.12),
        (Step::Expand, Order::Dfs, Digits::Stored, "ExpandQuery, DFS-HS", 1.87, 0.12),
    ] {
        let less = step_traffic(arch, Schedule::baseline(arch, step)?)
            / step_traffic(arch, Schedule::deepest(arch, step, order, digits)?);
        found.push(Row::new(format!("Fig. 8: {what}, times less traffic than BFS"), paper, less, tolerance));
    }
    Ok(found)
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
fn throughput(arch: &Arch) -> Result<Vec<Row>, IveError> {
    let mut found = Vec::new();
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
        let rate = usual(arch, gib, systems)?.queries_per_second();
        found.push(Row::new(format!("QPS: {gib} GiB, {systems} system(s)"), paper, rate, 0.08));
    }
    let rate = usual(arch, 1024.0, 16)?.queries_per_second() / 16.0;
    found.push(Row::new("QPS a system: 1 TiB, 16 systems", 9.89, rate, 0.08));
    for (gib, paper) in [(2.0, 0.03), (4.0, 0.05), (8.0, 0.09)] {
        let energy = usual(arch, gib, 1)?.energy_of_query();
        found.push(Row::new(format!("Section VI-B: energy of a query, {gib} GiB, J"), paper, energy, 0.25));
    }
    Ok(found)
}

/// Figure 13b.
fn schedules(arch: &Arch) -> Result<Vec<Row>, IveError> {
    let workload = Workload {
        gib: 16.0,
        systems: 1,
        queries: usual_batch(arch, 16.0, 1)?,
        mapping: Mapping::QueryPerCore,
    };
    let by_level = simulate(arch, &Schedules::baseline(arch)?, &workload)?;
    let depth_first = simulate(arch, &Schedules::depth_first(arch, Digits::Stored)?, &workload)?;
    let overlapped = simulate(arch, &Schedules::depth_first(arch, Digits::Forwarded)?, &workload)?;
    let row = |what: &str, paper, simulated| Row::new(format!("Fig. 13b: {what}"), paper, simulated, 0.10);
    Ok(vec![
        row("DFS-HS, ExpandQuery, times as fast", 1.3, by_level.expand / depth_first.expand),
        row("DFS-HS, ColTor, times as fast", 1.75, by_level.coltor / depth_first.coltor),
        row("R.O., ColTor, times as fast", 1.28, depth_first.coltor / overlapped.coltor),
        row("both, end to end, times as fast", 1.26, by_level.seconds() / overlapped.seconds()),
    ])
}

/// Figures 13c and 13d.
fn batches(arch: &Arch) -> Result<Vec<Row>, IveError> {
    let mut found = Vec::new();
    for (gib, systems, gain, growth) in
        [(16.0, 1, 18.9, 3.46), (128.0, 1, 79.9, 1.60), (1024.0, 16, 79.1, 1.62)]
    {
        let full = usual(arch, gib, systems)?;
        let lone = batch(arch, gib, systems, 1, Mapping::RowsPerCore)?;
        let (rates, times) =
            (full.queries_per_second() / lone.queries_per_second(), full.seconds() / lone.seconds());
        let figure = if gib == 16.0 { "13c" } else { "13d" };
        found.push(Row::new(format!("Fig. {figure}: gain of a batch, {gib} GiB"), gain, rates, 0.10));
        found.push(Row::new(format!("Fig. {figure}: growth of latency, {gib} GiB"), growth, times, 0.10));
    }
    let rate = |queries| Ok(batch(arch, 16.0, 1, queries, Mapping::QueryPerCore)?.queries_per_second());
    let gain = rate(64)? / rate(32)?;
    found.push(Row::new("Fig. 13c: QPS of 64 queries over those of 32, 16 GiB", 1.1, gain, 0.10));
    Ok(found)
}

/// Table IV. SimplePIR is the project's own `simple`, as its server does it; KsPIR as its paper describes it.
fn other_schemes(arch: &Arch) -> Result<Vec<Row>, IveError> {
    let queries = arch.batch.queries;
    let rate = |program: &Program| -> Result<f64, IveError> {
        let seconds: f64 = program.time(arch)?.iter().map(|(_, seconds)| seconds).sum();
        Ok(program.queries() as f64 / seconds)
    };
    let mut found = Vec::new();
    for (gib, simple, kspir) in [(2.0, 11_766.0, 2_555.0), (4.0, 5_883.0, 1_288.0)] {
        let row = |what: &str, paper, simulated| {
            Row::new(format!("Table IV: {what}, {gib} GiB, QPS"), paper, simulated, 0.35)
        };
        let recorded = Program::of_protocol(arch, "simple", gib, 4096, queries as usize)?;
        found.push(row("SimplePIR", simple, rate(&recorded)?));
        found.push(row("KsPIR", kspir, rate(&Program::kspir(arch, gib, queries))?));
    }
    Ok(found)
}

/// Figure 14a: the ARK-like machine, 16 GiB.
fn other_machine(arch: &Arch) -> Result<Vec<Row>, IveError> {
    let ark = Arch::ark()?;
    let (ours, theirs) = (usual(arch, 16.0, 1)?, usual(&ark, 16.0, 1)?);
    let faster = ours.queries_per_second() / theirs.queries_per_second();
    let energy = theirs.energy_of_query() / ours.energy_of_query();
    let area = ark.budget.chip(ark.chip.cores).area_mm2 / arch.budget.chip(arch.chip.cores).area_mm2;
    let row = |what: &str, paper, simulated| Row::new(format!("Fig. 14a: {what}"), paper, simulated, 0.30);
    Ok(vec![
        row("throughput over the ARK-like machine's", 4.2, faster),
        row("energy of a query, the ARK-like machine's over IVE's", 2.4, energy),
        row("energy, delay and area, the ARK-like machine's over IVE's", 9.7, energy * faster * area),
    ])
}

/// Seconds of batches of 1, 2, ... queries, and the scheduler's policy, for a database of so many GiB on so many systems.
///
/// # Errors
/// Those of the simulator.
pub fn served(arch: &Arch, gib: f64, systems: u64) -> Result<(Policy, Vec<f64>), IveError> {
    let limit = usual_batch(arch, gib, systems)?;
    let schedules = Schedules::depth_first(arch, Digits::Forwarded)?;
    let deployment = Deployment::new(arch, &schedules, gib, systems)?;
    let seconds = |queries| Ok(deployment.batch(queries, Mapping::QueryPerCore)?.seconds());
    let service = (1..=limit).map(seconds).collect::<Result<_, IveError>>()?;
    Ok((Policy { window: scan_seconds(arch, gib, systems)?, limit: limit as usize }, service))
}

/// Figure 14b.
fn arrivals(arch: &Arch) -> Result<Vec<Row>, IveError> {
    let (policy, service) = served(arch, 16.0, 1)?;
    let row = |what: &str, paper, simulated| Row::new(format!("Fig. 14b: {what}"), paper, simulated, 0.10);
    Ok(vec![
        row("lone queries, one after another, QPS", 17.8, 1.0 / service[0]),
        row("window: a scan of the database, ms", 29.4, 1e3 * policy.window),
        row("batches answer sooner from, QPS", 9.5, break_even(policy, &service)),
        row("latency within 2 times up to, QPS", 420.0, last_rate_within(policy, &service, 2.0)),
    ])
}

/// Table II: the paper's parts, added up. No part of it is modelled here.
fn budget(arch: &Arch) -> Vec<Row> {
    let (core, chip) = (arch.budget.core(), arch.budget.chip(arch.chip.cores));
    let row = |what: &str, paper, simulated| {
        Row::new(format!("Table II (the paper's parts): {what}"), paper, simulated, 0.01)
    };
    vec![
        row("core, mm2", 2.91, core.area_mm2),
        row("core, W", 5.12, core.power_w),
        row("sum, mm2", 155.3, chip.area_mm2),
        row("sum, W", 239.1, chip.power_w),
    ]
}
