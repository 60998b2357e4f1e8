//! Systems: a chip with its memories, or several on a switch; the steps of a batch one after another, and their energy.

use crate::arch::{Arch, Budget, Gemm};
use crate::core::{CoreReport, Unit, expand_query, tournament};
use crate::error::IveError;
use crate::rowsel::{Residence, RowSelReport, element_wise_rate, row_selection};
use crate::schedule::{Digits, Order, Schedule, Step, levels};

/// How the trees are worked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedules {
    /// ExpandQuery.
    pub expand: Schedule,
    /// ColTor.
    pub coltor: Schedule,
}

impl Schedules {
    /// Hierarchical search, depth first, as deep as fits.
    ///
    /// # Errors
    /// [`IveError::RegisterFile`] if not even one level fits.
    pub fn depth_first(arch: &Arch, digits: Digits) -> Result<Self, IveError> {
        Ok(Self {
            expand: Schedule::deepest(arch, Step::Expand, Order::Dfs, digits)?,
            coltor: Schedule::deepest(arch, Step::ColTor, Order::Dfs, digits)?,
        })
    }

    /// Level by level, without hierarchical search.
    ///
    /// # Errors
    /// [`IveError::RegisterFile`] if it does not fit.
    pub fn baseline(arch: &Arch) -> Result<Self, IveError> {
        Ok(Self {
            expand: Schedule::baseline(arch, Step::Expand)?,
            coltor: Schedule::baseline(arch, Step::ColTor)?,
        })
    }
}

/// Who does what of ColTor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// A query on a core from first to last (section IV-D).
    QueryPerCore,
    /// Of each query, each core has its part of the rows; one core goes on with what they leave. What a batch that is
    /// smaller than the cores would want: section V does it between systems.
    RowsPerCore,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// GiB of the database, before it is transformed.
    pub gib: f64,
    /// Systems on the switch, each with its part of the rows.
    pub systems: u64,
    /// Queries of a batch.
    pub queries: u64,
    /// Who does what of ColTor.
    pub mapping: Mapping,
}

/// Energy of a batch in all systems, in J.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Energy {
    /// Units, register files and buffers of the cores.
    pub cores: f64,
    /// The network between them.
    pub network: f64,
    /// HBM. The paper gives no power of LPDDR, and none is counted.
    pub hbm: f64,
}

impl Energy {
    /// The sum.
    pub fn total(&self) -> f64 {
        self.cores + self.network + self.hbm
    }
}

/// The times of a batch, in seconds, and its energy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchReport {
    /// Its queries.
    pub queries: u64,
    /// Where the database lies.
    pub residence: Residence,
    /// Keys and queries over the link.
    pub upload: f64,
    /// What systems send each other before the last rounds of ColTor.
    pub gather: f64,
    /// ExpandQuery.
    pub expand: f64,
    /// RowSel.
    pub row_selection: f64,
    /// ColTor.
    pub coltor: f64,
    /// Energy.
    pub energy: Energy,
}

impl BatchReport {
    /// From the first byte of the keys to the last ciphertext, in seconds.
    pub fn seconds(&self) -> f64 {
        self.upload + self.computing()
    }

    /// The same without the keys on their way, in seconds.
    pub fn computing(&self) -> f64 {
        self.expand + self.row_selection + self.gather + self.coltor
    }

    /// Queries a second of batches one after another: the keys of one cross the link while another is computed. That the
    /// paper counts so is read from Figure 13c: of a batch of 64, latency grows 3.46 times, and 64 over the gain is 3.39.
    pub fn queries_per_second(&self) -> f64 {
        self.queries as f64 / self.computing().max(self.upload)
    }

    /// Energy of a query, in J.
    pub fn energy_of_query(&self) -> f64 {
        self.energy.total() / self.queries as f64
    }
}

/// Seconds of one scan of the database at the nominal bandwidth of the memory that it lies in: the window of the batch
/// scheduler.
///
/// # Errors
/// [`IveError::Workload`] if there is no room for the database.
pub fn scan_seconds(arch: &Arch, gib: f64, systems: u64) -> Result<f64, IveError> {
    let bandwidth = match residence(arch, gib, systems)? {
        Residence::Hbm => arch.hbm.stacks as f64 * arch.hbm.stack_bytes_per_second,
        Residence::Lpddr => arch.lpddr.modules as f64 * arch.lpddr.module_bytes_per_second,
    };
    let bytes = arch.scheme.polynomials(gib).div_ceil(systems) * arch.scheme.polynomial_bytes();
    Ok(bytes as f64 / bandwidth)
}

/// Queries of a batch, as the file has them for a database of this size.
///
/// # Errors
/// [`IveError::Workload`] if there is no room for the database.
pub fn usual_batch(arch: &Arch, gib: f64, systems: u64) -> Result<u64, IveError> {
    Ok(match residence(arch, gib, systems)? {
        Residence::Hbm if systems == 1 => arch.batch.queries,
        _ => arch.batch.queries_beyond_hbm,
    })
}

fn residence(arch: &Arch, gib: f64, systems: u64) -> Result<Residence, IveError> {
    if systems == 0 || !systems.is_power_of_two() {
        return Err(IveError::Workload {
            key: "systems",
            problem: format!("{systems} systems cannot play a tournament"),
            remedy: "give a power of 2".into(),
        });
    }
    let polynomials = arch.scheme.polynomials(gib).div_ceil(systems);
    if !gib.is_finite() || polynomials < arch.scheme.first_dimension {
        return Err(IveError::Workload {
            key: "gib",
            problem: format!("{gib} GiB on {systems} systems are less than a row on each"),
            remedy: "give a larger database, or fewer systems".into(),
        });
    }
    Residence::of(arch, (polynomials * arch.scheme.polynomial_bytes()) as f64)
}

/// Simulates a batch.
///
/// # Errors
/// [`IveError::Workload`] if there is no room for the database, [`IveError::RegisterFile`] if a schedule does not fit.
pub fn simulate(arch: &Arch, schedules: &Schedules, workload: &Workload) -> Result<BatchReport, IveError> {
    Deployment::new(arch, schedules, workload.gib, workload.systems)?
        .batch(workload.queries, workload.mapping)
}

/// A database on systems: what a query takes on a core, which batches of all sizes share.
#[derive(Clone, Debug)]
pub struct Deployment<'a> {
    arch: &'a Arch,
    schedules: Schedules,
    systems: u64,
    residence: Residence,
    /// Rows of a system.
    own_rows: u64,
    /// Bits of selectors.
    bits: u64,
    expand: CoreReport,
    /// ColTor among the rows of a system, and among the systems.
    coltor: CoreReport,
    last: CoreReport,
}

impl<'a> Deployment<'a> {
    /// So many GiB on so many systems.
    ///
    /// # Errors
    /// [`IveError::Workload`] if there is no room for the database, [`IveError::RegisterFile`] if a schedule does not fit.
    pub fn new(arch: &'a Arch, schedules: &Schedules, gib: f64, systems: u64) -> Result<Self, IveError> {
        let residence = residence(arch, gib, systems)?;
        let rows = arch.scheme.polynomials(gib).div_ceil(arch.scheme.first_dimension);
        let own_rows = rows.div_ceil(systems);
        Ok(Self {
            arch,
            schedules: *schedules,
            systems,
            residence,
            own_rows,
            bits: u64::from(levels(rows)),
            expand: expand_query(arch, &schedules.expand, rows)?,
            coltor: tournament(arch, &schedules.coltor, own_rows)?,
            last: tournament(arch, &schedules.coltor, systems)?,
        })
    }

    /// Where the database lies.
    pub fn residence(&self) -> Residence {
        self.residence
    }

    /// A batch.
    ///
    /// # Errors
    /// [`IveError::Workload`] if it has no queries, [`IveError::RegisterFile`] if a schedule does not fit.
    pub fn batch(&self, queries: u64, mapping: Mapping) -> Result<BatchReport, IveError> {
        if queries == 0 {
            return Err(IveError::Workload {
                key: "batch",
                problem: "a batch without queries".into(),
                remedy: "give at least 1".into(),
            });
        }
        let Self { arch, systems, own_rows, residence, .. } = *self;
        let (scheme, cores, clock) = (arch.scheme, arch.chip.cores, arch.chip.clock_hz);
        let of_core = queries.div_ceil(cores) as f64;
        // Of the busiest core, and of all; the queries of a core follow one another, as their keys take the register file.
        let (coltor, games, of_channel) = match mapping {
            Mapping::QueryPerCore => (self.coltor.times(of_core), self.coltor.times(queries as f64), of_core),
            Mapping::RowsPerCore => {
                let part = tournament(arch, &self.schedules.coltor, own_rows.div_ceil(cores))?;
                let last = tournament(arch, &self.schedules.coltor, cores)?;
                let all = part.times((queries * cores) as f64);
                (part.times(queries as f64).then(last.times(of_core)), all, queries as f64 / cores as f64)
            }
        };
        let selected = row_selection(arch, own_rows, queries, of_channel, residence);
        let energy = energy(
            arch,
            &self.expand.times(queries as f64).then(games),
            &selected,
            (own_rows * queries) as f64,
        );
        // Keys: a substitution for each level, and the RGSW encryption of the secret; then the query itself. The switch
        // gives what a client sends to all systems at once; what they leave meets at the link of one.
        let leaves = scheme.first_dimension + self.bits * scheme.gadget_levels;
        let keys = u64::from(levels(leaves)) * scheme.evaluation_key_bytes() + scheme.rgsw_bytes();
        let link = |bytes: u64| (queries * bytes) as f64 / arch.links.bytes_per_second;
        Ok(BatchReport {
            queries,
            residence,
            upload: link(keys + scheme.ciphertext_bytes()),
            gather: link((systems - 1) * scheme.ciphertext_bytes()),
            expand: self.expand.times(of_core).cycles / clock,
            row_selection: selected.cycles / clock,
            coltor: (coltor.cycles + self.last.times(of_core).cycles) / clock,
            energy: Energy {
                cores: energy.cores * systems as f64,
                network: energy.network * systems as f64,
                hbm: energy.hbm * systems as f64,
            },
        })
    }
}

/// Energy of one system: each part's peak power for the time that it is busy; of memories, for the share of their peak
/// bandwidth; of the network and of what a core has besides, while results are transposed.
fn energy(arch: &Arch, trees: &CoreReport, selected: &RowSelReport, transposed: f64) -> Energy {
    let Budget { ntt, icrt, element_wise, automorphism, memories, rest, network, hbm } = arch.budget;
    let (core, scheme, cores) = (arch.core, arch.scheme, arch.chip.cores as f64);
    let busy = |unit: Unit| trees.busy[unit as usize];
    let multiplying = selected.multiplying * cores;
    // Words that cross the ports of register file and buffers for a product of matrices: a row and a column of an
    // array, or operands and sums of each multiply-add.
    let (arrays, multiply_adds, words) = match core.gemm {
        Gemm::Arrays => (multiplying, 0.0, (core.array_rows + core.array_columns) as f64 * multiplying),
        Gemm::ElementWise => {
            let rate = element_wise_rate(arch, scheme.word_bits as f64 / 8.0);
            let share = rate / core.element_wise_rate as f64;
            (0.0, share * multiplying, 4.0 * rate * multiplying)
        }
    };
    let units = ntt.power_w * (busy(Unit::Ntt) + arrays) / core.ntt_units as f64
        + icrt.power_w * busy(Unit::Icrt)
        + element_wise.power_w * (busy(Unit::ElementWise) + multiply_adds)
        + automorphism.power_w * busy(Unit::Automorphism);
    // And for the rest: operands and results of lanes, a key and an accumulator that is read and written for each
    // multiply-add.
    let lanes = 2.0 * core.lanes as f64 * (busy(Unit::Ntt) + busy(Unit::Icrt) + busy(Unit::Automorphism));
    let sums = 3.0 * core.element_wise_rate as f64 * busy(Unit::ElementWise);
    let channels = (busy(Unit::Channel) + selected.channel * cores) * arch.channel_bytes_per_cycle();
    let ports = core.register_file_bytes_per_cycle
        + core.database_buffer_bytes_per_cycle
        + core.icrt_buffer_bytes_per_cycle;
    let accessed = ((lanes + sums + words) * scheme.word_bits as f64 / 8.0 + channels) / ports;
    let clock = arch.chip.clock_hz;
    let peak = arch.hbm.stacks as f64 * arch.hbm.stack_bytes_per_second;
    // Every result of RowSel crosses the network once, a word a cycle of each lane.
    let crossings = transposed * 2.0 * (scheme.primes * scheme.degree) as f64 / (cores * core.lanes as f64);
    Energy {
        cores: (units + memories.power_w * accessed + cores * rest.power_w * crossings) / clock,
        network: network.power_w * crossings / clock,
        hbm: hbm.power_w * channels / peak,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(gib: f64, systems: u64, queries: u64) -> Result<BatchReport, IveError> {
        let arch = Arch::ive().unwrap();
        let schedules = Schedules::depth_first(&arch, Digits::Forwarded).unwrap();
        simulate(&arch, &schedules, &Workload { gib, systems, queries, mapping: Mapping::QueryPerCore })
    }

    #[test]
    fn what_has_no_room_or_no_sense_is_refused_by_key() {
        for (gib, systems, queries, key) in
            [(256.0, 1, 64, "gib"), (1e-6, 1, 64, "gib"), (16.0, 3, 64, "systems"), (16.0, 1, 0, "batch")]
        {
            let refused = of(gib, systems, queries);
            assert!(
                matches!(&refused, Err(IveError::Workload { key: named, remedy, .. })
                    if *named == key && !remedy.is_empty()),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn large_databases_lie_beyond_the_package_and_systems_share_them() {
        assert_eq!(of(16.0, 1, 64).unwrap().residence, Residence::Hbm);
        let large = of(128.0, 1, 128).unwrap();
        assert_eq!(large.residence, Residence::Lpddr);
        let shared = of(128.0, 8, 128).unwrap();
        assert_eq!(shared.residence, Residence::Hbm);
        assert!(shared.seconds() < large.seconds() / 7.0 && shared.gather > large.gather);
        assert!((0.9..1.1).contains(&(shared.energy.cores / large.energy.cores)));
    }

    #[test]
    fn no_unit_is_busier_than_time_allows() {
        let arch = Arch::ive().unwrap();
        let schedules = Schedules::depth_first(&arch, Digits::Forwarded).unwrap();
        let report = tournament(&arch, &schedules.coltor, 1 << 9).unwrap();
        let products = ((1 << 9) - 1) as f64;
        // 48 transforms of 64 cycles and 20 * 4N multiply-adds at 128 a cycle.
        assert!((report.busy[Unit::Ntt as usize] / products - 3072.0).abs() < 1.0);
        assert!((report.busy[Unit::ElementWise as usize] / products - 2560.0).abs() < 1.0);
        for (unit, units) in [(Unit::Ntt, 2.0), (Unit::ElementWise, 1.0), (Unit::Channel, 1.0)] {
            assert!(report.busy[unit as usize] <= report.cycles * units, "{unit:?}");
        }
    }
}
