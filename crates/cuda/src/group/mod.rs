//! Several devices as one backend.
//!
//! A [`DeviceGroup`] implements the operations with one [`CudaBackend`] for each device, so that
//! protocols run on it unchanged. The [`Strategy`] decides where data lies:
//!
//! | strategy | database matrix, rows | plaintext polynomials | a query's ciphertexts |
//! |---|---|---|---|
//! | `Replicate` (GPIR 6) | on every device | on every device | on one device |
//! | `Exchange` (VIPIR 4.5) | divided by rows; after the fold all-to-all | on every device | on one device |
//! | `Aggregate` (GPIR 6) | divided by rows | divided by rows | expanded on every device; each keeps those of its rows |
//! | `Gather` (GPIR 6) | divided by rows | divided by rows | expanded on one device, copied to all; each keeps those of its rows |
//!
//! A query *on one device* is on device `i mod n`, where `i` is its place in the batch.
//! - Under `Aggregate` and `Gather` each device plays its share of the tournament. The winners, one
//!   ciphertext for each device and query, are collected on the first device.
//! - The ciphertexts that are switched into a matrix go to the device of the next steps. Under the
//!   first two strategies they are on the query's device already. Under the others each device gets
//!   all ciphertexts, holds the whole matrix, which is small, and encodes its rows of the
//!   polynomials.
//! - The device that expands a query also rotates the leaves and expands them further.
//! - If there are several matrices of polynomials, their rows are exchanged after the fold, so that
//!   each device has consecutive rows of all matrices. A device adds up rotated ciphertexts itself
//!   if it has all terms of its sums; otherwise all ciphertexts are collected on the first device.
//! - Shares of rows for two servers (`share_fold`) are summed on the host: an answer is one row.

mod batch;
mod ring;
mod scalar;
mod shares;

use std::sync::Arc;

use bytemuck::Pod;
use spirea_backend::{BackendError, BackendId, Links, Share, Strategy};

pub use batch::{GroupCiphertexts, GroupLeaves, GroupMatrices, GroupPlain, GroupSelectors};
pub use scalar::{GroupFolded, GroupMatrix};
pub use shares::GroupRows;

use crate::CudaBackend;
use crate::driver::{Device, DriverError, View};

/// Several devices as one backend.
#[derive(Clone, Debug)]
pub struct DeviceGroup {
    id: BackendId,
    members: Arc<[CudaBackend]>,
    strategy: Strategy,
    links: Links,
}

impl DeviceGroup {
    /// Opens the devices with these numbers, and lets them copy from each other where they can.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] with the reason: no driver, no such device, no device named,
    /// or a device named twice.
    pub fn new(ordinals: &[usize], strategy: Strategy) -> Result<Self, BackendError> {
        let repeated = (1..ordinals.len()).any(|i| ordinals[..i].contains(&ordinals[i]));
        if ordinals.is_empty() || repeated {
            return Err(BackendError::Unavailable(format!(
                "devices {ordinals:?}: name one or more, each once"
            )));
        }
        let members = ordinals.iter().map(|&ordinal| CudaBackend::new(ordinal));
        let members = members.collect::<Result<_, _>>()?;
        let mut group = Self { id: BackendId::unique(), members, strategy, links: Links::Direct };
        let reached =
            group.pairs().map(|(one, other)| one.enable_peer(other)).collect::<Result<Vec<_>, _>>()?;
        if reached.contains(&false) {
            group.links = Links::Host;
        }
        Ok(group)
    }

    /// Returns a group of the same devices with another strategy.
    pub fn with_strategy(&self, strategy: Strategy) -> Self {
        Self { strategy, ..self.clone() }
    }

    fn pairs(&self) -> impl Iterator<Item = (&Arc<Device>, &Arc<Device>)> {
        let devices = || self.members.iter().map(CudaBackend::device);
        devices()
            .flat_map(move |one| devices().map(move |other| (one, other)))
            .filter(|(one, other)| !Arc::ptr_eq(one, other))
    }

    /// Returns the strategy: the division of data and work among the devices.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Returns the kind of connection between the devices.
    pub fn links(&self) -> Links {
        self.links
    }

    /// Returns the devices' backends.
    pub fn members(&self) -> &[CudaBackend] {
        &self.members
    }

    /// Returns the share of device `member` in divided data.
    fn share(&self, member: usize) -> Share {
        Share::new(member, self.members.len()).expect("a group has as many shares as devices")
    }

    /// Returns the device of the query at place `query` of a batch.
    fn owner(&self, query: usize) -> usize {
        query % self.members.len()
    }

    /// Returns the places in the batch of the queries on device `member`.
    fn owned(&self, member: usize, batch: usize) -> impl Iterator<Item = usize> + use<> {
        (member..batch).step_by(self.members.len())
    }

    /// Runs `work` for every device, in parallel.
    fn each_member<T: Send>(
        &self,
        work: impl Fn(usize, &CudaBackend) -> Result<T, BackendError> + Sync,
    ) -> Result<Vec<T>, BackendError> {
        std::thread::scope(|scope| {
            let work = &work;
            let running: Vec<_> = self
                .members
                .iter()
                .enumerate()
                .map(|(i, member)| scope.spawn(move || work(i, member)))
                .collect();
            let results = running
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            results.collect()
        })
    }
}

/// Copies values to another device's memory (or within one). The copy is ordered after the work
/// queued on the source, and before later work on the destination, so the host waits for neither
/// device. The driver copies through the host if it must.
fn transfer<T: Pod>(from: &View<'_, T>, to: &View<'_, T>) -> Result<(), DriverError> {
    let (source, target) = (from.device().main(), to.device().main());
    target.after(&source)?;
    target.copy(from, to)?;
    source.after(&target)
}
