//! Places of a table's blocks in a cluster, and moves after a DPU fails.

use crate::cluster::{Cluster, Round};
use crate::regions::Region;
use crate::sdk::PimError;
use crate::table::Table;

/// Places of a table's blocks in a cluster.
#[derive(Debug)]
pub(crate) enum Placement {
    /// Every block was loaded once. It has a DPU and a place there: 0 for the table's region, i for
    /// `more[i - 1]`.
    Preloaded {
        /// DPU and place of each block.
        at: Vec<(usize, usize)>,
        /// Additional regions, for blocks whose DPUs have failed.
        more: Vec<Region>,
    },
    /// There are more blocks than DPUs: each query loads the blocks in several passes.
    Passes,
}

impl Placement {
    /// Loads a table into a cluster.
    ///
    /// # Errors
    /// The errors of the SDK.
    pub fn new(cluster: &mut Cluster, table: &Table) -> Result<Self, PimError> {
        let working: Vec<usize> = cluster.working().collect();
        if table.blocks() > working.len() {
            return Ok(Self::Passes);
        }
        let mut blocks = vec![None; cluster.dpus()];
        let at = working.into_iter().take(table.blocks()).map(|dpu| (dpu, 0)).collect::<Vec<_>>();
        at.iter().enumerate().for_each(|(block, &(dpu, _))| blocks[dpu] = Some(block));
        cluster.load(table, &Round { blocks, offset: table.region.offset })?;
        Ok(Self::Preloaded { at, more: Vec::new() })
    }

    /// Returns blocks of `pending` for the next launch, and loads those that are not loaded yet.
    /// Blocks of failed DPUs move to others that have room; if none has, the table is loaded in
    /// passes from then on.
    ///
    /// # Errors
    /// [`PimError::Lost`] if no DPU is left, and the errors of the SDK.
    pub fn next_round(
        &mut self,
        cluster: &mut Cluster,
        table: &Table,
        pending: &[usize],
    ) -> Result<Round, PimError> {
        self.move_blocks(cluster, table)?;
        if let Some(round) = self.preloaded(cluster, table, pending) {
            return Ok(round);
        }
        let mut blocks = vec![None; cluster.dpus()];
        let mut left = pending.iter().copied();
        cluster.working().for_each(|dpu| blocks[dpu] = left.next());
        let round = Round { blocks, offset: table.region.offset };
        cluster.load(table, &round)?;
        Ok(round)
    }

    /// Returns the pending blocks whose place is that of the first one; `None` if blocks are loaded
    /// in passes.
    fn preloaded(&self, cluster: &Cluster, table: &Table, pending: &[usize]) -> Option<Round> {
        let Self::Preloaded { at, more } = self else { return None };
        let place = at[*pending.first()?].1;
        let mut blocks = vec![None; cluster.dpus()];
        for &block in pending.iter().filter(|&&block| at[block].1 == place) {
            blocks[at[block].0] = Some(block);
        }
        Some(Round { blocks, offset: offset(table, more, place) })
    }

    fn move_blocks(&mut self, cluster: &mut Cluster, table: &Table) -> Result<(), PimError> {
        let Self::Preloaded { at, more } = self else { return Ok(()) };
        let homeless: Vec<usize> = (0..at.len()).filter(|&block| !cluster.works(at[block].0)).collect();
        for block in homeless {
            let free = |at: &[(usize, usize)], places: usize| {
                let places = (0..places).flat_map(|place| cluster.working().map(move |dpu| (dpu, place)));
                places.into_iter().find(|place| !at.contains(place))
            };
            let found = free(at, 1 + more.len()).or_else(|| {
                more.push(table.regions.take(table.block_bytes())?);
                free(at, 1 + more.len())
            });
            let Some((dpu, place)) = found else {
                *self = Self::Passes;
                return Ok(());
            };
            at[block] = (dpu, place);
            let mut blocks = vec![None; cluster.dpus()];
            blocks[dpu] = Some(block);
            cluster.load(table, &Round { blocks, offset: offset(table, more, place) })?;
        }
        Ok(())
    }
}

fn offset(table: &Table, more: &[Region], place: usize) -> usize {
    if place == 0 { table.region.offset } else { more[place - 1].offset }
}
