//! Times of protocols other than the paper's on a machine. Their phases were recorded on the
//! project's own servers, or are described in a paper.

use spirea_lattice::RingSet;
use spirea_math::random::Seed;
use spirea_math::{Expansion, Gadget, Rotations};
use spirea_protocols::registry::{Choice, ProtocolParams};

use crate::arch::{Arch, Scheme};
use crate::core::{CoreReport, assemble, expand, rotate, sum_rotated, tournament};
use crate::error::IveError;
use crate::outline::record;
use crate::recorder::Phase;
use crate::rowsel::{Products, Residence, multiply};
use crate::schedule::Digits;
use crate::system::Schedules;

/// Parameters of a protocol's ciphertexts, as the machine's units process them. Each kind of key
/// has its own number of digits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rings {
    /// Parameters for substitutions.
    pub substitution: Scheme,
    /// Parameters for making selectors.
    pub conversion: Scheme,
    /// Parameters for tournaments.
    pub selection: Scheme,
}

impl Rings {
    /// Returns rings whose keys all have the same number of digits.
    pub fn uniform(scheme: Scheme) -> Self {
        Self { substitution: scheme, conversion: scheme, selection: scheme }
    }

    /// Returns the rings of one of the project's ring sets, on a machine whose words are as wide as
    /// its primes.
    pub fn of(arch: &Arch, set: RingSet) -> Self {
        let ring = set.ring();
        let widest = ring.limbs().iter().map(|limb| limb.prime().value().ilog2() + 1).max();
        let with = |gadget: Gadget| Scheme {
            degree: ring.degree() as u64,
            primes: ring.limbs().len() as u64,
            word_bits: widest.map_or(arch.scheme.word_bits, u64::from),
            gadget_levels: gadget.levels(ring) as u64,
            ..arch.scheme
        };
        Self {
            substitution: with(set.expansion_gadget()),
            conversion: with(set.conversion_gadget()),
            selection: with(set.selector_gadget()),
        }
    }
}

/// Batch of a protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Ciphertexts of the protocol.
    pub rings: Rings,
    /// Phases, in order.
    pub phases: Vec<Phase>,
}

/// Bytes of a word in a fold modulo 2^32.
const FOLDED_WORD: f64 = 4.0;

impl Program {
    /// Records a batch of one of the project's protocols, for a database of `gib` GiB of records,
    /// on the protocol's own server.
    ///
    /// # Errors
    /// [`IveError::Record`] as [`record`], and if the protocol cannot be chosen for such records.
    pub fn of_protocol(
        arch: &Arch,
        protocol: &str,
        gib: f64,
        record_bytes: usize,
        queries: usize,
    ) -> Result<Self, IveError> {
        let refused = |problem: String| IveError::Record {
            protocol: protocol.into(),
            problem,
            remedy: "give the name of a protocol, and records that it can be chosen for".into(),
        };
        let records = gib * f64::from(1 << 30) / record_bytes.max(1) as f64;
        if !(1.0..=1e12).contains(&records) {
            return Err(refused(format!("{gib} GiB of records of {record_bytes} bytes")));
        }
        let choice = Choice { protocol: protocol.into(), ..Choice::default() };
        let params = ProtocolParams::choose(&choice, Seed::default(), records as u64, record_bytes)
            .map_err(|error| refused(error.to_string()))?;
        let rings = params.sets.ring.map_or(Rings::uniform(arch.scheme), |set| Rings::of(arch, set));
        Ok(Self { rings, phases: record(&params, queries)? })
    }

    /// Returns KsPIR (Luo, Liu and Wang, CCS 2024) for a database of `gib` GiB. A block is a matrix
    /// of N x N/2 numbers of 16 bits. Its column is chosen by 64 rotations of the query (baby
    /// steps), a fold, and 32 rotations of the results (giant steps). Each block's result is
    /// multiplied by an RGSW ciphertext, and all results are packed into one.
    ///
    /// The IVE paper gives none of these parameters. Two primes of 28 bits, and digits of 14 bits,
    /// are those of the authors' program, which has 64 or 128 baby steps; this has 64.
    pub fn kspir(arch: &Arch, gib: f64, queries: u64) -> Self {
        const DEGREE: u64 = 4096;
        let scheme = Scheme { degree: DEGREE, primes: 2, gadget_levels: 4, ..arch.scheme };
        let selection = Scheme { gadget_levels: 2, ..scheme };
        let rings = Rings { substitution: scheme, conversion: selection, selection };
        let blocks = (gib * f64::from(1 << 30) / (DEGREE * DEGREE) as f64).ceil() as u64;
        // The automorphisms are those of packing by rotations.
        let rotations = Rotations::new(DEGREE as usize / 2, 1, 32);
        let (rows, columns) = (blocks * rotations.big() as u64, rotations.small() as u64);
        let phases = vec![
            Phase::Rotate { rotations, queries },
            Phase::PolyFold { rows, columns, queries },
            Phase::SumRotated { rotations, sums: blocks, queries },
            Phase::Assemble { leaves: blocks, queries },
            // Packing is modelled as an expansion, whose steps it reverses.
            Phase::Expand { leaves: blocks, queries },
        ];
        Self { rings, phases }
    }

    /// Returns the number of queries of the batch.
    pub fn queries(&self) -> u64 {
        self.phases.iter().map(|phase| phase.queries()).max().unwrap_or(0)
    }

    /// Returns the seconds of each phase on one system.
    ///
    /// # Errors
    /// [`IveError::Workload`] if there is no room for the database, [`IveError::RegisterFile`] if a
    /// schedule does not fit.
    pub fn time(&self, arch: &Arch) -> Result<Vec<(&'static str, f64)>, IveError> {
        let cores = arch.chip.cores;
        let of = |scheme: Scheme| Arch { scheme, ..arch.clone() };
        let (substituting, converting, selecting) =
            (of(self.rings.substitution), of(self.rings.conversion), of(self.rings.selection));
        let residence = self.residence(arch)?;
        let digits = Digits::Forwarded;
        let cycles = |phase: &Phase| -> Result<f64, IveError> {
            let of_core = phase.queries().div_ceil(cores);
            let of_queries = |report: CoreReport| report.cycles * of_core as f64;
            Ok(match *phase {
                Phase::ScalarFold { .. } => {
                    let products = self.products(phase).expect("a fold");
                    multiply(arch, &products, products.result_bytes() / cores as f64, residence).cycles
                }
                Phase::PolyFold { rows, .. } => {
                    let products = self.products(phase).expect("a fold");
                    let results = (of_core * rows * self.rings.substitution.ciphertext_bytes()) as f64;
                    multiply(&substituting, &products, results, residence).cycles
                }
                Phase::Expand { leaves, .. } => {
                    let schedule = Schedules::depth_first(&substituting, digits)?.expand;
                    of_queries(expand(&substituting, &schedule, Expansion::covering(leaves as usize))?)
                }
                Phase::Rotate { rotations, .. } => of_queries(rotate(&substituting, digits, rotations)?),
                Phase::SumRotated { rotations, sums, .. } => {
                    of_queries(sum_rotated(&substituting, digits, rotations, sums)?)
                }
                Phase::Assemble { leaves, .. } => of_queries(assemble(&converting, digits, leaves)?),
                Phase::Tournament { rows, .. } => {
                    let schedule = Schedules::depth_first(&selecting, digits)?.coltor;
                    of_queries(tournament(&selecting, &schedule, rows)?)
                }
            })
        };
        let seconds = |phase: &Phase| Ok((phase.name(), cycles(phase)? / arch.chip.clock_hz));
        self.phases.iter().map(seconds).collect()
    }

    /// Returns the products of a fold.
    fn products(&self, phase: &Phase) -> Option<Products> {
        match *phase {
            Phase::ScalarFold { rows, columns: depth, queries } => Some(Products {
                slices: 1,
                rows,
                depth,
                columns: queries,
                entry_bytes: 1.0,
                word_bytes: FOLDED_WORD,
            }),
            Phase::PolyFold { rows, columns, queries } => {
                Some(Products::of_polynomials(&self.rings.substitution, rows, columns, queries))
            }
            _ => None,
        }
    }

    fn residence(&self, arch: &Arch) -> Result<Residence, IveError> {
        let products = self.phases.iter().filter_map(|phase| self.products(phase));
        let bytes: f64 = products.map(|products| products.database_bytes()).sum();
        Residence::of(arch, bytes)
    }
}
