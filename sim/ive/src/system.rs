//! Systems: a chip with its memories, or several on a switch; the steps of a batch one after another, and their energy.

use crate::arch::{Arch, Budget};
use crate::core::{CoreReport, Unit, expand_query, tournament};
use crate::error::IveError;
use crate::rowsel::{Residence, RowSelReport, row_selection};
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

/// Seconds of one scan of the database at the nominal bandwidth of HBM: the window of the batch scheduler.
pub fn scan_seconds(arch: &Arch, gib: f64) -> f64 {
    let bytes = arch.scheme.polynomials(gib) * arch.scheme.polynomial_bytes();
    bytes as f64 / (arch.hbm.stacks as f64 * arch.hbm.stack_bytes_per_second)
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
    let bytes = (polynomials * arch.scheme.polynomial_bytes()) as f64;
    if bytes <= arch.hbm_bytes() {
        Ok(Residence::Hbm)
    } else if bytes <= arch.lpddr_bytes() {
        Ok(Residence::Lpddr)
    } else {
        let most = arch.hbm_bytes().max(arch.lpddr_bytes());
        Err(IveError::Workload {
            key: "gib",
            problem: format!(
                "{bytes:.3e} bytes of transformed polynomials on a system that holds {most:.3e}"
            ),
            remedy: "give more systems, or more memory in the architecture's file".into(),
        })
    }
}

/// Simulates a batch.
///
/// # Errors
/// [`IveError::Workload`] if there is no room for the database, [`IveError::RegisterFile`] if a schedule does not fit.
pub fn simulate(arch: &Arch, schedules: &Schedules, workload: &Workload) -> Result<BatchReport, IveError> {
    let Workload { gib, systems, queries, mapping } = *workload;
    let residence = residence(arch, gib, systems)?;
    if queries == 0 {
        return Err(IveError::Workload {
            key: "batch",
            problem: "a batch without queries".into(),
            remedy: "give at least 1".into(),
        });
    }
    let (scheme, cores) = (arch.scheme, arch.chip.cores);
    let rows = scheme.polynomials(gib).div_ceil(scheme.first_dimension);
    let own_rows = rows.div_ceil(systems);
    let of_core = queries.div_ceil(cores);
    let expand = expand_query(arch, &schedules.expand, rows)?;
    let play = |rows| tournament(arch, &schedules.coltor, rows);
    // Of the busiest core; the queries of a core follow one another, as their keys take the register file.
    let (coltor, games) = match mapping {
        Mapping::QueryPerCore => (play(own_rows)?.times(of_core as f64), queries as f64),
        Mapping::RowsPerCore => {
            let (parts, last) = (play(own_rows.div_ceil(cores))?, play(cores)?);
            (parts.times(queries as f64).then(last.times(of_core as f64)), (queries * cores) as f64)
        }
    };
    let last = play(systems)?.times(of_core as f64);
    let of_channel = match mapping {
        Mapping::QueryPerCore => of_core as f64,
        Mapping::RowsPerCore => queries as f64 / cores as f64,
    };
    let selected = row_selection(arch, own_rows, queries, of_channel, residence);

    let clock = arch.chip.clock_hz;
    let levels = u64::from(levels(scheme.first_dimension + u64::from(levels(rows)) * scheme.gadget_levels));
    let sent = scheme.ciphertext_bytes() + levels * scheme.evaluation_key_bytes() + scheme.rgsw_bytes();
    // The switch gives what a client sends to all systems at once; what they leave meets at the link of one.
    let gathered = (systems - 1) * queries * scheme.ciphertext_bytes();
    let over_link = |bytes: u64| bytes as f64 / arch.links.bytes_per_second;
    let (upload, gather) = (over_link(queries * sent), over_link(gathered));
    let expand_cycles = expand.cycles * of_core as f64;

    // What all queries keep busy, in all systems.
    let games = match mapping {
        Mapping::QueryPerCore => play(own_rows)?.times(games),
        Mapping::RowsPerCore => play(own_rows.div_ceil(cores))?.times(games),
    };
    let trees = expand.times(queries as f64).then(games);
    let energy = energy(arch, &trees, &selected, (own_rows * queries) as f64);
    Ok(BatchReport {
        queries,
        residence,
        upload,
        gather,
        expand: expand_cycles / clock,
        row_selection: selected.cycles / clock,
        coltor: (coltor.cycles + last.cycles) / clock,
        energy: Energy {
            cores: energy.cores * systems as f64,
            network: energy.network * systems as f64,
            hbm: energy.hbm * systems as f64,
        },
    })
}

/// Energy of one system: each part's peak power for the time that it is busy; of memories, for the share of their peak
/// bandwidth; of the network and of what a core has besides, while results are transposed.
fn energy(arch: &Arch, trees: &CoreReport, selected: &RowSelReport, transposed: f64) -> Energy {
    let Budget { ntt, icrt, element_wise, automorphism, memories, rest, network, hbm } = arch.budget;
    let (core, scheme, cores) = (arch.core, arch.scheme, arch.chip.cores as f64);
    let busy = |unit: Unit| trees.busy[unit as usize];
    let arrays = selected.array * cores;
    let units = ntt.power_w * (busy(Unit::Ntt) + arrays) / core.ntt_units as f64
        + icrt.power_w * busy(Unit::Icrt)
        + element_wise.power_w * busy(Unit::ElementWise)
        + automorphism.power_w * busy(Unit::Automorphism);
    // Words that cross the ports of register file and buffers: operands and results of lanes, a row and a column of an
    // array, and a key and an accumulator that is read and written for each multiply-add.
    let lanes = 2.0 * core.lanes as f64 * (busy(Unit::Ntt) + busy(Unit::Icrt) + busy(Unit::Automorphism));
    let sums = 3.0 * core.element_wise_rate as f64 * busy(Unit::ElementWise);
    let words = lanes + sums + (core.array_rows + core.array_columns) as f64 * arrays;
    let channels = (busy(Unit::Channel) + selected.channel * cores) * arch.channel_bytes_per_cycle();
    let ports = core.register_file_bytes_per_cycle
        + core.database_buffer_bytes_per_cycle
        + core.icrt_buffer_bytes_per_cycle;
    let accessed = (words * scheme.word_bits as f64 / 8.0 + channels) / ports;
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
