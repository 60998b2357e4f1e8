//! Stages: what multiplies digits by keys, as one kernel or as several.

use spirea_backend::BackendError;

use super::decomposition::Decomposition;
use super::granularity::{Granularity, WorkingSet};
use super::primes::MOST_PRIMES;
use super::tables::{Tables, by_degree};
use crate::driver::{Arg, Buffer, DriverError, Grid};

/// The kernels of a kind of stage.
#[derive(Debug)]
pub(super) struct Kernels {
    /// Polynomials of an item whose digits are multiplied.
    sources: usize,
    /// Ciphertexts that an item reads and writes.
    ciphertexts: usize,
    residues: [&'static str; 2],
    terms: [&'static str; 2],
    sums: &'static str,
    stage: [&'static str; 2],
}

/// Nodes that split.
pub(super) const SPLITS: Kernels = Kernels {
    sources: 1,
    ciphertexts: 3,
    residues: by_degree!("ring_split_residues"),
    terms: by_degree!("ring_split_terms"),
    sums: "ring_split_children",
    stage: by_degree!("ring_split"),
};

/// Games between two ciphertexts.
pub(super) const GAMES: Kernels = Kernels {
    sources: 2,
    ciphertexts: 2,
    residues: by_degree!("ring_game_residues"),
    terms: by_degree!("ring_game_terms"),
    sums: "ring_game_sums",
    stage: by_degree!("ring_game"),
};

/// A stage: a number of items of a number of queries, whose digits meet their keys.
pub(super) struct Stage<'a> {
    pub tables: &'a Tables,
    pub decomposition: &'a Decomposition,
    pub kernels: &'static Kernels,
    /// Of one query.
    pub items: usize,
    pub queries: usize,
    /// What names the items and their keys: the first arguments of every kernel.
    pub named: &'a [Arg],
}

/// Threads of the kernels that take a coefficient, or four values, a thread.
const RECOMBINE_THREADS: usize = 256;
const SUM_THREADS: usize = 128;
const SUM_VALUES: usize = 4;

impl Stage<'_> {
    /// Queues it.
    pub(super) fn run(&self) -> Result<(), BackendError> {
        if self.items == 0 || self.queries == 0 {
            return Ok(());
        }
        let chosen = self.working_set().granularity(self.tables.cache, self.tables.processors());
        let granularity = self.tables.granularity.unwrap_or(chosen);
        let most = match granularity {
            Granularity::Operations => self.items.saturating_mul(self.queries * self.kernels.sources),
            Granularity::Stages => self.queries,
        };
        if most >= 1 << 16 || self.items >= 1 << 31 {
            return Err(BackendError::Shape(format!(
                "{} ciphertexts of {} queries at once",
                self.items, self.queries
            )));
        }
        match granularity {
            Granularity::Operations => self.run_operations()?,
            Granularity::Stages => {
                let grid = self.tables.grid([self.items, self.queries, 1], self.tables.limbs());
                self.tables.launch(self.kernels.stage, grid, &self.args(&[]))?;
            }
        }
        Ok(())
    }

    fn rows(&self) -> usize {
        self.kernels.sources * self.decomposition.levels
    }

    fn working_set(&self) -> WorkingSet {
        let (words, degree) = (self.tables.words(), self.tables.degree());
        let fields = if self.decomposition.recombines() { self.rows() * degree } else { 0 };
        let between = self.kernels.sources * words + fields + self.rows() * words;
        WorkingSet {
            items: self.items.saturating_mul(self.queries),
            of_item: 4 * (self.kernels.ciphertexts * 2 * words + between),
            keys: 4 * self.queries * self.rows() * 2 * words,
        }
    }

    fn run_operations(&self) -> Result<(), DriverError> {
        let Self { tables, decomposition, kernels, items, queries, .. } = self;
        let (limbs, degree, all) = (tables.limbs(), tables.degree(), items * queries);
        let alloc = |polynomials: usize| tables.device.alloc::<u32>(polynomials * degree);
        let stream = tables.device.main();

        let residues = alloc(all * kernels.sources * limbs)?;
        let grid = tables.grid([kernels.sources * limbs, *items, *queries], 0);
        tables.launch(kernels.residues, grid, &self.args(&[&residues]))?;

        let fields = if decomposition.recombines() {
            let fields = alloc(all * self.rows())?;
            let grid = Grid::cube([degree / RECOMBINE_THREADS, all * kernels.sources, 1], RECOMBINE_THREADS)
                .shared(4 * MOST_PRIMES * RECOMBINE_THREADS);
            let args = [Arg::from(&residues), Arg::from(&fields), tables.arg(), self.constants()];
            stream.launch(&tables.device.kernel("ring_recombine")?, grid, &args)?;
            fields
        } else {
            residues
        };

        let terms = alloc(all * self.rows() * limbs)?;
        let grid = tables.grid([self.rows() * limbs, *items, *queries], 0);
        tables.launch(kernels.terms, grid, &self.args(&[&fields, &terms]))?;

        let threads = limbs * degree / SUM_VALUES;
        let grid = Grid::cube([threads / SUM_THREADS, *items, *queries], SUM_THREADS);
        stream.launch(&tables.device.kernel(kernels.sums)?, grid, &self.args(&[&terms]))
    }

    /// The arguments of a kernel: what names the items, buffers, the ring and the gadget.
    fn args(&self, buffers: &[&Buffer<u32>]) -> Vec<Arg> {
        let buffers = buffers.iter().map(|&buffer| Arg::from(buffer));
        let constants = [self.tables.arg(), self.constants()];
        self.named.iter().cloned().chain(buffers).chain(constants).collect()
    }

    fn constants(&self) -> Arg {
        Arg::structure(&self.decomposition.constants)
    }
}
