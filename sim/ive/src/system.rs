//! Systems: a chip with its memories, or several chips on a switch; the steps of a batch in
//! sequence, and their energy.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::arch::{Arch, Budget, Gemm, Scheme};
use crate::core::{CoreReport, Unit, expand_query, tournament};
use crate::error::IveError;
use crate::rowsel::{Residence, RowSelReport, element_wise_rate, row_selection};
use crate::schedule::{Digits, Order, Schedule, Step, levels};

/// Schedules of both trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedules {
    /// Schedule of ExpandQuery.
    pub expand: Schedule,
    /// Schedule of ColTor.
    pub coltor: Schedule,
}

impl Schedules {
    /// Returns hierarchical search, depth first, with the deepest subtrees that fit.
    ///
    /// # Errors
    /// [`IveError::RegisterFile`] if not even one level fits.
    pub fn depth_first(arch: &Arch, digits: Digits) -> Result<Self, IveError> {
        Ok(Self {
            expand: Schedule::deepest(arch, Step::Expand, Order::Dfs, digits)?,
            coltor: Schedule::deepest(arch, Step::ColTor, Order::Dfs, digits)?,
        })
    }

    /// Returns schedules that go level by level, without hierarchical search.
    ///
    /// # Errors
    /// [`IveError::RegisterFile`] if they do not fit.
    pub fn baseline(arch: &Arch) -> Result<Self, IveError> {
        Ok(Self {
            expand: Schedule::baseline(arch, Step::Expand)?,
            coltor: Schedule::baseline(arch, Step::ColTor)?,
        })
    }
}

/// Division of ColTor among cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Each query on one core from first to last (section IV-D).
    QueryPerCore,
    /// Rows of each query divided among the cores; one core continues with the winners. Suits a
    /// batch that is smaller than the number of cores; section V does this between systems.
    RowsPerCore,
}

/// Workload to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Size of the database in GiB, before its transform.
    pub gib: f64,
    /// Number of systems on the switch, each with its part of the rows.
    pub systems: u64,
    /// Number of queries of a batch.
    pub queries: u64,
    /// Division of ColTor among cores.
    pub mapping: Mapping,
}

/// Energy of a batch in all systems, in J.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Energy {
    /// Energy of the units, register files and buffers of the cores.
    pub cores: f64,
    /// Energy of the network between the cores.
    pub network: f64,
    /// Energy of HBM. The paper gives no power of LPDDR, so none is counted.
    pub hbm: f64,
}

impl Energy {
    /// Returns the sum.
    pub fn total(&self) -> f64 {
        self.cores + self.network + self.hbm
    }

    /// Returns the energy of `systems` systems with this energy each, plus `other`.
    fn of_systems(self, systems: u64, other: Self) -> Self {
        let sum = |of: fn(&Self) -> f64| of(&self) * systems as f64 + of(&other);
        Self { cores: sum(|it| it.cores), network: sum(|it| it.network), hbm: sum(|it| it.hbm) }
    }
}

/// Times of a batch, in seconds, and its energy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchReport {
    /// Number of queries.
    pub queries: u64,
    /// Memory that holds the database.
    pub residence: Residence,
    /// Time of keys and queries on the link.
    pub upload: f64,
    /// Time of the transfers between systems before the last rounds of ColTor.
    pub gather: f64,
    /// Time of ExpandQuery.
    pub expand: f64,
    /// Time of RowSel.
    pub row_selection: f64,
    /// Time of ColTor.
    pub coltor: f64,
    /// Energy of the batch.
    pub energy: Energy,
}

impl BatchReport {
    /// Returns the seconds from the first byte of the keys to the last ciphertext.
    pub fn seconds(&self) -> f64 {
        self.upload + self.computing()
    }

    /// Returns the seconds of the batch without the upload.
    pub fn computing(&self) -> f64 {
        self.expand + self.row_selection + self.gather + self.coltor
    }

    /// Returns the queries a second of consecutive batches: the keys of one batch cross the link
    /// while another is computed. Figure 13c implies that the paper counts in this way: for a batch
    /// of 64, latency grows 3.46 times, but 64 divided by the gain in throughput is 3.39.
    pub fn queries_per_second(&self) -> f64 {
        self.queries as f64 / self.computing().max(self.upload)
    }

    /// Returns the energy of a query, in J.
    pub fn energy_of_query(&self) -> f64 {
        self.energy.total() / self.queries as f64
    }
}

/// Returns the seconds of one scan of the database at the nominal bandwidth of its memory: the
/// window of the batch scheduler.
///
/// # Errors
/// [`IveError::Workload`] if there is no room for the database.
pub fn scan_seconds(arch: &Arch, gib: f64, systems: u64) -> Result<f64, IveError> {
    let bandwidth = match Placement::of(arch, gib, systems)?.residence {
        Residence::Hbm => arch.hbm.stacks as f64 * arch.hbm.stack_bytes_per_second,
        Residence::Lpddr => arch.lpddr.modules as f64 * arch.lpddr.module_bytes_per_second,
    };
    let bytes = arch.scheme.polynomials(gib).div_ceil(systems) * arch.scheme.polynomial_bytes();
    Ok(bytes as f64 / bandwidth)
}

/// Returns the batch size that the architecture's file gives for a database of this size.
///
/// # Errors
/// [`IveError::Workload`] if there is no room for the database.
pub fn usual_batch(arch: &Arch, gib: f64, systems: u64) -> Result<u64, IveError> {
    Ok(match Placement::of(arch, gib, systems)?.residence {
        Residence::Hbm if systems == 1 => arch.batch.queries,
        _ => arch.batch.queries_beyond_hbm,
    })
}

/// Placement of a database, and the remaining room.
#[derive(Clone, Copy, Debug)]
struct Placement {
    scheme: Scheme,
    residence: Residence,
    /// Bytes of HBM that the database leaves free.
    room: f64,
    /// Rows of each system.
    rows: u64,
    /// Number of bits of selectors.
    bits: u64,
}

impl Placement {
    /// Places the database in HBM if there is room beside it for the largest batch of the
    /// architecture's file, or if there is no other memory; otherwise in LPDDR.
    fn of(arch: &Arch, gib: f64, systems: u64) -> Result<Self, IveError> {
        let (scheme, most) = (arch.scheme, arch.links.most_systems);
        if !systems.is_power_of_two() || systems > most {
            return Err(IveError::Workload {
                key: "systems",
                problem: format!("{systems} systems, which play a tournament on a switch for {most}"),
                remedy: format!(
                    "give a power of 2 up to {most}, or links.most_systems in the architecture's file"
                ),
            });
        }
        let polynomials = gib * f64::from(1 << 30) / scheme.plaintext_bytes as f64 / systems as f64;
        if polynomials.is_nan() || polynomials < scheme.first_dimension as f64 {
            return Err(IveError::Workload {
                key: "gib",
                problem: format!("{gib} GiB on {systems} systems are less than a row on each"),
                remedy: "give a larger database, or fewer systems".into(),
            });
        }
        let bytes = polynomials * scheme.polynomial_bytes() as f64;
        let residence = Residence::of(arch, bytes)?;
        let rows = scheme.polynomials(gib).div_ceil(scheme.first_dimension);
        let (bits, rows) = (u64::from(levels(rows)), rows.div_ceil(systems));
        let beside = Self { scheme, residence, room: arch.hbm_bytes() - bytes, rows, bits };
        let beyond = Self { residence: Residence::Lpddr, room: arch.hbm_bytes(), ..beside };
        let largest = arch.batch.queries.max(arch.batch.queries_beyond_hbm);
        let crowded = residence == Residence::Hbm && beside.passes(largest).is_err();
        Ok(if residence == Residence::Lpddr || crowded && bytes <= arch.lpddr_bytes() {
            beyond
        } else {
            beside
        })
    }

    /// Returns the number of leaves of a query.
    fn leaves(&self) -> u64 {
        self.scheme.first_dimension + self.bits * self.scheme.gadget_levels
    }

    /// Returns the bytes of a query and its keys: a substitution key for each level, and the RGSW
    /// encryption of the secret.
    fn sent_bytes(&self) -> u64 {
        let keys = u64::from(levels(self.leaves())) * self.scheme.evaluation_key_bytes();
        keys + self.scheme.rgsw_bytes() + self.scheme.ciphertext_bytes()
    }

    /// Returns the number of parts of the rows that a batch processes in sequence, with RowSel and
    /// ColTor for each. HBM must have room for the results of one part, the winners of the parts
    /// before, and the keys, leaves and selectors of all queries. The number is the smallest
    /// possible power of 2.
    fn passes(&self, queries: u64) -> Result<u64, IveError> {
        let (scheme, room) = (self.scheme, self.room / queries as f64);
        let own =
            self.sent_bytes() + self.leaves() * scheme.ciphertext_bytes() + self.bits * scheme.rgsw_bytes();
        let needed = |passes: u64| own + (self.rows.div_ceil(passes) + passes) * scheme.ciphertext_bytes();
        let mut choices = (0..=levels(self.rows)).map(|power| 1 << power);
        choices.find(|&passes| needed(passes) as f64 <= room).ok_or_else(|| IveError::Workload {
            key: "batch",
            problem: format!(
                "HBM has {room:.3e} bytes for each of {queries} queries, whose keys and leaves take {own:.3e}"
            ),
            remedy: "give fewer queries, more systems, or more memory in the architecture's file".into(),
        })
    }
}

/// Simulates a batch.
///
/// # Errors
/// [`IveError::Workload`] if there is no room for the database, [`IveError::RegisterFile`] if a
/// schedule does not fit.
pub fn simulate(arch: &Arch, schedules: &Schedules, workload: &Workload) -> Result<BatchReport, IveError> {
    Deployment::new(arch, schedules, workload.gib, workload.systems)?
        .batch(workload.queries, workload.mapping)
}

/// Maximum number of queries of a batch, far above what memory can hold.
const MOST_QUERIES: u64 = 1 << 16;

/// Database on systems: the cost of a query on a core, which batches of all sizes share.
#[derive(Clone, Debug)]
pub struct Deployment<'a> {
    arch: &'a Arch,
    schedules: Schedules,
    systems: u64,
    placement: Placement,
    expand: CoreReport,
    /// Cost of ColTor for one query on a core, by number of rows.
    tournaments: RefCell<BTreeMap<u64, CoreReport>>,
}

impl<'a> Deployment<'a> {
    /// Places `gib` GiB on `systems` systems.
    ///
    /// # Errors
    /// [`IveError::Workload`] if there is no room for the database, [`IveError::RegisterFile`] if a
    /// schedule does not fit.
    pub fn new(arch: &'a Arch, schedules: &Schedules, gib: f64, systems: u64) -> Result<Self, IveError> {
        let placement = Placement::of(arch, gib, systems)?;
        let rows = arch.scheme.polynomials(gib).div_ceil(arch.scheme.first_dimension);
        let expand = expand_query(arch, &schedules.expand, rows)?;
        Ok(Self { arch, schedules: *schedules, systems, placement, expand, tournaments: RefCell::default() })
    }

    /// Returns the memory that holds the database.
    pub fn residence(&self) -> Residence {
        self.placement.residence
    }

    fn tournament(&self, rows: u64) -> Result<CoreReport, IveError> {
        if let Some(known) = self.tournaments.borrow().get(&rows) {
            return Ok(*known);
        }
        let played = tournament(self.arch, &self.schedules.coltor, rows)?;
        self.tournaments.borrow_mut().insert(rows, played);
        Ok(played)
    }

    /// Simulates a batch.
    ///
    /// # Errors
    /// [`IveError::Workload`] if the batch has no queries or there is no room for them,
    /// [`IveError::RegisterFile`] if a schedule does not fit.
    pub fn batch(&self, queries: u64, mapping: Mapping) -> Result<BatchReport, IveError> {
        if queries == 0 || queries > MOST_QUERIES {
            return Err(IveError::Workload {
                key: "batch",
                problem: format!("a batch of {queries} queries"),
                remedy: format!("give 1 to {MOST_QUERIES}"),
            });
        }
        let Self { arch, systems, placement, .. } = *self;
        let (scheme, cores, clock) = (arch.scheme, arch.chip.cores, arch.chip.clock_hz);
        let (residence, passes) = (placement.residence, placement.passes(queries)?);
        let rows = placement.rows.div_ceil(passes);
        let (of_core, all) = (queries.div_ceil(cores) as f64, queries as f64);
        // Reports of ColTor on the busiest core, and on all cores. The queries of a core follow one
        // another, because their keys fill the register file.
        let (coltor, games, of_channel) = match mapping {
            Mapping::QueryPerCore => {
                let one = self.tournament(rows)?;
                (one.times(of_core), one.times(all), of_core)
            }
            Mapping::RowsPerCore => {
                let (part, last) = (self.tournament(rows.div_ceil(cores))?, self.tournament(cores)?);
                let games = part.times(cores as f64).then(last).times(all);
                (part.times(all).then(last.times(of_core)), games, all / cores as f64)
            }
        };
        // Tournaments among the winners of the parts, and among those of the systems.
        let (joined, last) = (self.tournament(passes)?, self.tournament(systems)?);
        let coltor = coltor.times(passes as f64).then(joined.then(last).times(of_core));
        let selected = row_selection(arch, rows, queries, of_channel, residence).times(passes as f64);
        let trees = self.expand.then(joined).times(all).then(games.times(passes as f64));
        // Leaves cross the network to the cores that have their residues, and results cross it back
        // to the cores that have their queries.
        let transposed = (scheme.first_dimension + placement.rows) as f64 * all;
        let of_system = energy(arch, &trees, &selected, transposed);
        let of_last = energy(arch, &last.times(all), &RowSelReport::default(), 0.0);
        // The switch sends a client's upload to all systems at once; the systems' winners meet at
        // the link of one system.
        let link = |bytes: u64| (queries * bytes) as f64 / arch.links.bytes_per_second;
        Ok(BatchReport {
            queries,
            residence,
            upload: link(placement.sent_bytes()),
            gather: link((systems - 1) * scheme.ciphertext_bytes()),
            expand: self.expand.times(of_core).cycles / clock,
            row_selection: selected.cycles / clock,
            coltor: coltor.cycles / clock,
            energy: of_system.of_systems(systems, of_last),
        })
    }
}

/// Returns the energy of one system. Each part draws its peak power while it is busy. Memories draw
/// power in proportion to the used bandwidth. The network and the other parts of a core draw peak
/// power while leaves and results are transposed.
fn energy(arch: &Arch, trees: &CoreReport, selected: &RowSelReport, transposed: f64) -> Energy {
    let Budget { ntt, icrt, element_wise, automorphism, memories, rest, network, hbm } = arch.budget;
    let (core, scheme, cores) = (arch.core, arch.scheme, arch.chip.cores as f64);
    let busy = |unit: Unit| trees.busy[unit as usize];
    let multiplying = selected.multiplying * cores;
    // Words that cross the ports of register file and buffers in a product of matrices: a row and a
    // column of an array, or the operands and sums of each multiply-add.
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
    // Words of the other work: operands and results of the lanes, and for each multiply-add a key
    // and an accumulator, which is read and written.
    let lanes = 2.0 * core.lanes as f64 * (busy(Unit::Ntt) + busy(Unit::Icrt) + busy(Unit::Automorphism));
    let sums = 3.0 * core.element_wise_rate as f64 * busy(Unit::ElementWise);
    let channels = (busy(Unit::Channel) + selected.channel * cores) * arch.channel_bytes_per_cycle();
    let ports = core.register_file_bytes_per_cycle
        + core.database_buffer_bytes_per_cycle
        + core.icrt_buffer_bytes_per_cycle;
    let accessed = ((lanes + sums + words) * scheme.word_bits as f64 / 8.0 + channels) / ports;
    let clock = arch.chip.clock_hz;
    let peak = arch.hbm.stacks as f64 * arch.hbm.stack_bytes_per_second;
    // Each lane transfers one word a cycle.
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
        for (gib, systems, queries, key) in [
            (256.0, 1, 64, "gib"),
            (1e-6, 1, 64, "gib"),
            (1e10, 1, 64, "gib"),
            (8_796_093_022_208.0, 1, 64, "gib"),
            (f64::INFINITY, 1, 64, "gib"),
            (f64::NAN, 1, 64, "gib"),
            (-1.0, 1, 64, "gib"),
            (16.0, 0, 64, "systems"),
            (16.0, 3, 64, "systems"),
            (16.0, 32, 64, "systems"),
            (16.0, 1, 0, "batch"),
            (16.0, 1, 3_000_000_000_000, "batch"),
            (16.0, 1, u64::MAX, "batch"),
            // With this batch, HBM has no room for the leaves.
            (16.0, 1, 1024, "batch"),
        ] {
            let refused = of(gib, systems, queries);
            assert!(
                matches!(&refused, Err(IveError::Workload { key: named, remedy, .. })
                    if *named == key && !remedy.is_empty()),
                "{gib} {systems} {queries}: {refused:?}"
            );
        }
    }

    #[test]
    fn results_that_hbm_has_no_room_for_come_in_parts() {
        let arch = Arch::ive().unwrap();
        let schedules = Schedules::depth_first(&arch, Digits::Forwarded).unwrap();
        let passes = |gib, queries| Placement::of(&arch, gib, 1).unwrap().passes(queries).unwrap();
        // With 64 queries, the database has 60 GB, the results have 30 GB, and keys, leaves and
        // selectors have 4 GB. Together they just fit in 96 GB.
        assert_eq!([64, 96, 128].map(|queries| passes(16.0, queries)), [1, 2, 4]);
        // The results have 481 GB, and the database is in LPDDR.
        assert_eq!(passes(128.0, 128), 8);
        let parts = of(16.0, 1, 96).unwrap();
        let mut larger = arch.clone();
        larger.hbm.stack_bytes *= 4.0;
        let workload = Workload { gib: 16.0, systems: 1, queries: 96, mapping: Mapping::QueryPerCore };
        let whole = simulate(&larger, &schedules, &workload).unwrap();
        let more = parts.computing() / whole.computing() - 1.0;
        assert!((0.0..0.02).contains(&more), "{more}");
    }

    #[test]
    fn large_databases_lie_beyond_the_package_and_systems_share_them() {
        assert_eq!(of(16.0, 1, 64).unwrap().residence, Residence::Hbm);
        let large = of(128.0, 1, 128).unwrap();
        assert_eq!(large.residence, Residence::Lpddr);
        // The database would fit in HBM, but leave no room for a batch.
        assert_eq!(of(24.0, 1, 64).unwrap().residence, Residence::Lpddr);
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
        // An external product has 48 transforms of 64 cycles, and 20 * 4N multiply-adds at 128 a
        // cycle.
        assert!((report.busy[Unit::Ntt as usize] / products - 3072.0).abs() < 1.0);
        assert!((report.busy[Unit::ElementWise as usize] / products - 2560.0).abs() < 1.0);
        for (unit, units) in [(Unit::Ntt, 2.0), (Unit::ElementWise, 1.0), (Unit::Channel, 1.0)] {
            assert!(report.busy[unit as usize] <= report.cycles * units, "{unit:?}");
        }
    }
}
