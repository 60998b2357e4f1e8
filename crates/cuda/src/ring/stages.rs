//! Stages: multiplication of digits by keys, as one kernel or as several.

use bytemuck::Pod;
use spirea_backend::BackendError;

use super::decomposition::Decomposition;
use super::granularity::{Granularity, WorkingSet};
use super::primes::MOST_PRIMES;
use super::tables::{Tables, by_degree};
use crate::driver::{Arg, Buffer, DriverError, Grid, View};

/// Kernels of a kind of stage.
#[derive(Debug)]
pub(super) struct Kernels {
    /// Polynomials of each item that are decomposed to digits.
    sources: usize,
    /// Ciphertexts that each item reads and writes.
    ciphertexts: usize,
    residues: [&'static str; 2],
    terms: [&'static str; 2],
    sums: &'static str,
    stage: [&'static str; 2],
    /// Stage with two items of a query in each block; `None` where this gains nothing.
    two: Option<[&'static str; 2]>,
}

/// Splits of nodes.
pub(super) const SPLITS: Kernels = Kernels {
    sources: 1,
    ciphertexts: 3,
    residues: by_degree!("ring_substitution_residues"),
    terms: by_degree!("ring_substitution_terms"),
    sums: "ring_split_children",
    stage: by_degree!("ring_split"),
    two: None,
};

/// Rotations of ciphertexts. Each may also add or copy a ciphertext.
pub(super) const ROTATIONS: Kernels = Kernels {
    sums: "ring_rotation_images",
    stage: by_degree!("ring_rotation"),
    two: Some(by_degree!("ring_two_rotations")),
    ..SPLITS
};

/// Games between two ciphertexts.
pub(super) const GAMES: Kernels = Kernels {
    sources: 2,
    ciphertexts: 2,
    residues: by_degree!("ring_game_residues"),
    terms: by_degree!("ring_game_terms"),
    sums: "ring_game_sums",
    stage: by_degree!("ring_game"),
    two: Some(by_degree!("ring_two_games")),
};

/// Stage: multiplies the digits of items by their query's key. Each query of the batch has the same
/// number of items.
pub(super) struct Stage<Query> {
    /// Number of items of each query.
    pub items: usize,
    /// Addresses of each query's items and key, as kernels take them.
    pub queries: Vec<Query>,
    /// Arguments common to all queries, as kernels take them.
    pub common: Arg,
}

/// Queues stages of one kind, one after another, with keys of one gadget. The addresses of all
/// stages' queries are uploaded at once.
pub(super) fn run<Query: Pod>(
    tables: &Tables,
    decomposition: &Decomposition,
    kernels: &'static Kernels,
    stages: &[Stage<Query>],
) -> Result<(), BackendError> {
    let queries: Vec<Query> = stages.iter().flat_map(|stage| stage.queries.iter().copied()).collect();
    if queries.is_empty() {
        return Ok(());
    }
    let queries = tables.device.upload(&queries)?;
    let mut end = 0;
    stages.iter().try_for_each(|stage| {
        let start = end;
        end += stage.queries.len();
        let Stage { items, common, .. } = stage;
        Work { tables, decomposition, kernels, items: *items, common }.run(&queries.range(start..end))
    })
}

/// Stage without its queries.
struct Work<'a> {
    tables: &'a Tables,
    decomposition: &'a Decomposition,
    kernels: &'static Kernels,
    items: usize,
    common: &'a Arg,
}

/// Threads of a block, for kernels with one coefficient a thread and for kernels with four values a
/// thread.
const RECOMBINE_THREADS: usize = 256;
const SUM_THREADS: usize = 128;
const SUM_VALUES: usize = 4;

impl Work<'_> {
    /// Queues the stage for queries whose addresses are on the device. Each kernel is launched
    /// once, or once for each part of the queries if grids cannot take all; the parts are as large
    /// as possible.
    fn run<Query: Pod>(&self, queries: &View<'_, Query>) -> Result<(), BackendError> {
        if self.items == 0 {
            return Ok(());
        }
        let working_set = self.working_set(queries.len());
        let chosen = working_set.granularity(self.tables.cache, self.tables.processors());
        let granularity = match self.tables.granularity.unwrap_or(chosen) {
            Granularity::Stages | Granularity::Pairs if !self.has_room_for_items() => Granularity::Operations,
            granularity => granularity,
        };
        // Among the kernels for [`Granularity::Operations`], recombination has the most blocks
        // beyond the first dimension.
        let of_query = match granularity {
            Granularity::Operations => self.items.saturating_mul(self.kernels.sources),
            Granularity::Stages | Granularity::Pairs => 1,
        };
        let at_once = self.tables.most_blocks / of_query;
        if at_once == 0 || self.items >= 1 << 31 {
            return Err(BackendError::Shape(format!("{} ciphertexts of a query at once", self.items)));
        }
        (0..queries.len()).step_by(at_once).try_for_each(|first| {
            let queries = queries.range(first..queries.len().min(first + at_once));
            match (granularity, self.two()) {
                (Granularity::Operations, _) => self.run_operations(&queries),
                (Granularity::Pairs, Some(kernels)) => {
                    let grid = self.tables.grid_of_pairs([self.items.div_ceil(2), queries.len(), 1]);
                    let mut args = self.args(&queries, &[]);
                    args.push(Arg::from(self.items as u32));
                    self.tables.launch(kernels, grid, &args)
                }
                (Granularity::Stages | Granularity::Pairs, _) => {
                    let grid = self.tables.grid([self.items, queries.len(), 1], self.tables.limbs());
                    self.tables.launch(self.kernels.stage, grid, &self.args(&queries, &[]))
                }
            }
        })?;
        Ok(())
    }

    /// Returns true if the device has the shared memory for blocks that compute a whole item.
    fn has_room_for_items(&self) -> bool {
        let properties = self.tables.device.properties();
        self.tables.shared_bytes(self.tables.limbs()) <= properties.shared_bytes
    }

    /// Returns the kernels for two items in a block, if there are any and the device has the shared
    /// memory for them.
    fn two(&self) -> Option<[&'static str; 2]> {
        let shared = self.tables.grid_of_pairs([1; 3]).shared;
        self.kernels.two.filter(|_| shared <= self.tables.device.properties().shared_bytes)
    }

    fn rows(&self) -> usize {
        self.kernels.sources * self.decomposition.levels
    }

    fn working_set(&self, queries: usize) -> WorkingSet {
        let (words, degree) = (self.tables.words(), self.tables.degree());
        let fields = if self.decomposition.recombines() { self.rows() * degree } else { 0 };
        let between = self.kernels.sources * words + fields + self.rows() * words;
        WorkingSet {
            items: self.items.saturating_mul(queries),
            pairs: match self.two() {
                Some(_) if self.items.is_multiple_of(2) => (self.items / 2).saturating_mul(queries),
                _ => 0,
            },
            of_item: 4 * (self.kernels.ciphertexts * 2 * words + between),
            keys: 4 * queries * self.rows() * 2 * words,
        }
    }

    fn run_operations<Query: Pod>(&self, queries: &View<'_, Query>) -> Result<(), DriverError> {
        let Self { tables, decomposition, kernels, items, .. } = self;
        let (limbs, degree, all) = (tables.limbs(), tables.degree(), items * queries.len());
        let alloc = |polynomials: usize| tables.device.alloc::<u32>(polynomials * degree);
        let stream = tables.device.main();

        let residues = alloc(all * kernels.sources * limbs)?;
        let grid = tables.grid([kernels.sources * limbs, *items, queries.len()], 0);
        tables.launch(kernels.residues, grid, &self.args(queries, &[&residues]))?;

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
        let grid = tables.grid([self.rows() * limbs, *items, queries.len()], 0);
        tables.launch(kernels.terms, grid, &self.args(queries, &[&fields, &terms]))?;

        let threads = limbs * degree / SUM_VALUES;
        let grid = Grid::cube([threads / SUM_THREADS, *items, queries.len()], SUM_THREADS);
        stream.launch(&tables.device.kernel(kernels.sums)?, grid, &self.args(queries, &[&terms]))
    }

    /// Returns a kernel's arguments: the queries, their common argument, buffers, the ring and the
    /// gadget.
    fn args<Query: Pod>(&self, queries: &View<'_, Query>, buffers: &[&Buffer<u32>]) -> Vec<Arg> {
        let named = [Arg::from(queries), self.common.clone()];
        let buffers = buffers.iter().map(|&buffer| Arg::from(buffer));
        named.into_iter().chain(buffers).chain([self.tables.arg(), self.constants()]).collect()
    }

    fn constants(&self) -> Arg {
        Arg::structure(&self.decomposition.constants)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use spirea_backend::{EvaluationKeys, RingBackend};
    use spirea_cuda_emulation::{Config, Emulation};
    use spirea_math::{Expansion, Gadget, Modulus, Ring};

    use super::*;
    use crate::CudaBackend;

    const Q: u32 = 536_608_769;
    const GADGET: Gadget = Gadget::Digits { levels: 2, base_log: 15, dropped: 0 };
    const QUERIES: usize = 5;

    fn random(count: usize, seed: u32) -> Vec<u32> {
        (0..count as u32).map(|i| (i ^ seed << 16).wrapping_mul(0x9e37_79b1) % Q).collect()
    }

    /// Plays tournaments between leaves, with selectors made from the same leaves, and returns the
    /// winners; each client has its own keys.
    fn winners(backend: &CudaBackend, tables: &Tables) -> Result<Vec<u32>, BackendError> {
        let one = tables.ciphertext();
        let keys: Vec<_> = (0..QUERIES as u32)
            .map(|client| {
                let (expansion, conversion) = (random(2 * one, client), random(4 * one, 100 + client));
                let keys = EvaluationKeys {
                    expansion_gadget: GADGET,
                    expansion: &expansion,
                    rotations: &[],
                    conversion_gadget: GADGET,
                    conversion: &conversion,
                };
                backend.keys(tables, keys).unwrap()
            })
            .collect();
        let words: Vec<_> = (0..QUERIES as u32).map(|query| random(one, 200 + query)).collect();
        let queries: Vec<_> = keys.iter().zip(words.iter().map(Vec::as_slice)).collect();
        let leaves = backend.expand(tables, Expansion::covering(2), &queries)?;
        let keys: Vec<_> = keys.iter().collect();
        let selectors = backend.selectors(tables, &keys, &leaves, 0, 1, GADGET)?;
        let winners = backend.rgsw_fold(tables, &selectors, leaves)?;
        backend.ciphertext_words(tables, &winners)
    }

    /// Tests that a batch is divided if grids have few blocks, and refused if not even one query
    /// fits.
    #[test]
    fn batches_are_divided_where_grids_end() {
        let emulation = Emulation::install(Config { compute: (8, 6), ..Config::default() });
        let ring = Arc::new(Ring::new(2048, &[Modulus::new(Q)]));
        emulation.in_every_order(|| {
            let backend = CudaBackend::new(0).unwrap();
            let found = |granularity, most_blocks| {
                let mut tables = backend.tables(&ring).unwrap().with_granularity(granularity);
                tables.most_blocks = most_blocks;
                winners(&backend, &tables)
            };
            let launches = |names: [&str; 2]| names.map(|name| emulation.launches(name));

            let expected = found(Granularity::Operations, 100).unwrap();
            emulation.reset();
            // A query needs one block for a node, four blocks for the two games that make a
            // selector, and two blocks for the last game.
            assert!(found(Granularity::Operations, 4).unwrap() == expected);
            assert_eq!(launches(["ring_split_children", "ring_game_sums"]), [2, 5 + 3]);
            assert!(matches!(found(Granularity::Operations, 3), Err(BackendError::Shape(_))));
            emulation.reset();
            assert!(found(Granularity::Stages, 4).unwrap() == expected);
            assert_eq!(launches(["ring_split_2048", "ring_game_2048"]), [2, 2 + 2]);
        });
    }
}
