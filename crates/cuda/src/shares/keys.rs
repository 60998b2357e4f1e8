//! Keys of a batch on a device, and the tops of their trees.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use spirea_dpf::{Block, Domain, Key, LEAF_BLOCKS, PrfKind};

use super::constants::Constants;
use super::functions::functions;
use super::plan::{THREADS, Tops};
use crate::args;
use crate::driver::{Arg, Buffer, Device, DriverError, Grid};

/// `Keys` of `share_tree.cuh`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct KeysArgument {
    roots: u64,
    levels: u64,
    leaves: u64,
    tops: u64,
    leaf_count: u64,
    count: u32,
    depth: u32,
    top: u32,
    party: u32,
}

/// Keys of one domain and one party on a device.
#[derive(Debug)]
pub(super) struct DeviceKeys {
    device: Arc<Device>,
    /// Roots, then corrections of the levels, then corrections of the leaves.
    blocks: Buffer<Block>,
    tops: Buffer<Block>,
    /// Counter that the blocks of a cooperative launch use for their barriers.
    arrived: Buffer<u32>,
    domain: Domain,
    count: usize,
    top: u32,
    party: u32,
}

impl DeviceKeys {
    /// Copies keys to a device and allocates room for the first `top` levels of their trees.
    ///
    /// # Panics
    /// If there are no keys, or the keys differ in domain or party.
    pub(super) fn new(device: &Arc<Device>, keys: &[Key], top: u32) -> Result<Self, DriverError> {
        let (domain, party) = (keys[0].domain(), keys[0].party());
        assert!(keys.iter().all(|key| key.domain() == domain && key.party() == party));
        let depth = domain.depth() as usize;
        let mut blocks = Vec::with_capacity(keys.len() * (1 + 2 * depth + LEAF_BLOCKS));
        blocks.extend(keys.iter().map(Key::root));
        for level in 0..depth {
            let corrections = keys.iter().map(|key| key.levels()[level]);
            blocks.extend(corrections.flat_map(|level| [level.left, level.right]));
        }
        blocks.extend(keys.iter().flat_map(|key| *key.leaf()));
        Ok(Self {
            device: Arc::clone(device),
            blocks: device.upload(&blocks)?,
            tops: device.alloc(keys.len() * (2 << top))?,
            arrived: device.alloc(1)?,
            domain,
            count: keys.len(),
            top,
            party: party.number().into(),
        })
    }

    /// Returns the kernel argument for all keys.
    pub(super) fn argument(&self) -> KeysArgument {
        self.argument_from(0)
    }

    /// Returns the kernel argument for the keys from `first` on. Its `count` remains the number of
    /// all keys, because kernels compute the places of a level's corrections from it. A kernel that
    /// takes fewer keys iterates over whole groups.
    pub(super) fn argument_from(&self, first: usize) -> KeysArgument {
        let (count, depth) = (self.count, self.domain.depth());
        let levels = count + 2 * count * depth as usize;
        KeysArgument {
            roots: self.blocks.range(first..count).address(),
            levels: self.blocks.range(count + 2 * first..self.blocks.len()).address(),
            leaves: self.blocks.range(levels + LEAF_BLOCKS * first..self.blocks.len()).address(),
            tops: self.tops.range(first * (2 << self.top)..self.tops.len()).address(),
            leaf_count: self.domain.leaves(),
            count: count as u32,
            depth,
            top: self.top,
            party: self.party,
        }
    }

    /// Queues the expansion of the trees' tops.
    pub(super) fn expand_tops(
        &self,
        prf: PrfKind,
        constants: &Constants,
        tops: Tops,
    ) -> Result<(), DriverError> {
        let (stream, functions) = (self.device.main(), functions(prf));
        let (keys, constants) = (Arg::structure(&self.argument()), constants.argument(prf));
        let properties = self.device.properties();
        let grid = |blocks| Grid::new(blocks, THREADS).shared(functions.tables(properties.compute));
        match tops {
            Tops::Apart => {
                let kernel = self.device.kernel(functions.tops_apart)?;
                stream.launch(&kernel, grid(self.count), args![keys, constants])
            }
            Tops::Together => {
                stream.zero(&self.arrived.all())?;
                let kernel = self.device.kernel(functions.tops_together)?;
                let blocks = properties.processors.max(1) as usize;
                stream.launch_cooperative(&kernel, grid(blocks), args![keys, constants, &self.arrived])
            }
        }
    }
}
