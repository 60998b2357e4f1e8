//! Evaluation of keys on their whole domain, and bare function calls, to compare folds with.

use std::sync::Arc;

use spirea_backend::{BackendError, MAX_KEYS};
use spirea_dpf::{Block, Key, LEAF_BLOCKS, Leaf, OutputKind, PrfKind};

use super::constants::Constants;
use super::functions::functions;
use super::keys::DeviceKeys;
use super::plan::{EvaluationPlan, Machine, THREADS, Tops};
use crate::CudaBackend;
use crate::args;
use crate::driver::{Arg, Buffer, Device, Grid, Kernel};

/// Keys on a device, with room for all their shares.
#[derive(Debug)]
pub struct Evaluation {
    keys: DeviceKeys,
    constants: Constants,
    prf: PrfKind,
    tops: Tops,
    plan: EvaluationPlan,
    output: OutputKind,
    count: usize,
    shares: Buffer<Block>,
}

impl CudaBackend {
    /// Prepares the evaluation of keys on their whole domain. The keys must have one domain and one
    /// party.
    ///
    /// # Errors
    /// [`BackendError::Shape`] unless there are 1 to [`MAX_KEYS`] keys of one domain and party,
    /// [`BackendError::Unavailable`] if there is no room for their shares.
    pub fn evaluation(&self, prf: PrfKind, keys: &[Key]) -> Result<Evaluation, BackendError> {
        self.prepare(prf, keys, None)
    }

    /// Prepares an evaluation like [`CudaBackend::evaluation`], with the given expansion of the
    /// trees' tops.
    ///
    /// # Errors
    /// As [`CudaBackend::evaluation`].
    pub fn evaluation_with(
        &self,
        prf: PrfKind,
        keys: &[Key],
        tops: Tops,
    ) -> Result<Evaluation, BackendError> {
        self.prepare(prf, keys, Some(tops))
    }

    fn prepare(&self, prf: PrfKind, keys: &[Key], tops: Option<Tops>) -> Result<Evaluation, BackendError> {
        let wrong = |detail: &str| Err(BackendError::Shape(detail.into()));
        let Some(first) = keys.first().filter(|_| keys.len() <= MAX_KEYS) else {
            return wrong("a batch has 1 to 512 keys");
        };
        let (domain, party) = (first.domain(), first.party());
        if keys.iter().any(|key| key.domain() != domain || key.party() != party) {
            return wrong("the keys of a batch belong to different domains or parties");
        }
        let device = self.device();
        let machine = Machine::new(device.properties(), functions(prf));
        let plan = EvaluationPlan::new(machine, domain, keys.len())?;
        let blocks = keys.len() as u64 * domain.leaves() * LEAF_BLOCKS as u64;
        Ok(Evaluation {
            shares: device.alloc(usize::try_from(blocks).unwrap_or(usize::MAX))?,
            keys: DeviceKeys::new(device, keys, plan.top)?,
            constants: Constants::new(device)?,
            prf,
            tops: tops.unwrap_or_else(|| Tops::of(keys.len(), plan.top, machine.processors)),
            plan,
            output: domain.output(),
            count: keys.len(),
        })
    }

    /// Measures the calls of a function per second with no other work: each thread computes a chain
    /// of `leaves` leaves.
    ///
    /// # Errors
    /// The device's error.
    pub fn prf_rate(&self, prf: PrfKind, leaves: u32) -> Result<f64, BackendError> {
        let blocks = 4 * self.device().properties().processors.max(1) as usize;
        let calls = Calls::new(self.device(), prf, blocks)?;
        calls.run(1)?;
        let before = self.device().main().record()?;
        calls.run(leaves)?;
        let seconds = self.device().main().record()?.seconds_since(&before)?;
        let of_leaf = (LEAF_BLOCKS as u64).div_ceil(prf.blocks_per_call());
        Ok((blocks * THREADS) as f64 * f64::from(leaves) * of_leaf as f64 / seconds)
    }

    /// Returns the last seed of each chain of leaves that [`CudaBackend::prf_rate`] computes, for
    /// the threads of one block. The seed of thread t is 2 t; the exclusive or of a leaf's blocks,
    /// with its lowest bit cleared, is the next seed.
    ///
    /// # Errors
    /// The device's error.
    pub fn prf_chains(&self, prf: PrfKind, leaves: u32) -> Result<Vec<Block>, BackendError> {
        let calls = Calls::new(self.device(), prf, 1)?;
        calls.run(leaves)?;
        Ok(self.device().main().read(&calls.sink.all())?)
    }
}

/// Launches of a function's calls, a chain in each thread.
struct Calls {
    prf: PrfKind,
    constants: Constants,
    kernel: Kernel,
    grid: Grid,
    sink: Buffer<Block>,
}

impl Calls {
    fn new(device: &Arc<Device>, prf: PrfKind, blocks: usize) -> Result<Self, BackendError> {
        let functions = functions(prf);
        Ok(Self {
            prf,
            constants: Constants::new(device)?,
            kernel: device.kernel(functions.calls)?,
            grid: Grid::new(blocks, THREADS).shared(functions.tables(device.properties().compute)),
            sink: device.alloc(blocks * THREADS)?,
        })
    }

    /// Queues chains of `leaves` leaves.
    fn run(&self, leaves: u32) -> Result<(), BackendError> {
        let arguments = args![self.constants.argument(self.prf), leaves, &self.sink];
        Ok(self.sink.device().main().launch(&self.kernel, self.grid, arguments)?)
    }
}

impl Evaluation {
    /// Queues the evaluation on the main stream.
    ///
    /// # Errors
    /// The device's error.
    pub fn run(&self) -> Result<(), BackendError> {
        let (device, functions) = (self.shares.device(), functions(self.prf));
        self.keys.expand_tops(self.prf, &self.constants, self.tops)?;
        let kernel = device.kernel(functions.evaluate)?;
        let grid = Grid::cube([self.plan.blocks, self.count, 1], THREADS).shared(self.plan.shared);
        let keys = Arg::structure(&self.keys.argument());
        let constants = self.constants.argument(self.prf);
        let output = self.output.bits().ilog2();
        device.main().launch(
            &kernel,
            grid,
            args![keys, constants, self.plan.height, output, &self.shares],
        )?;
        Ok(())
    }

    /// Returns the shares of the last run: key by key, leaf by leaf. Outputs after the last point
    /// are undefined.
    ///
    /// # Errors
    /// The device's error, also of the run.
    pub fn shares(&self) -> Result<Vec<Leaf>, BackendError> {
        let blocks = self.shares.device().main().read(&self.shares.all())?;
        Ok(blocks.as_chunks::<LEAF_BLOCKS>().0.to_vec())
    }
}
