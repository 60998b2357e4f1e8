//! Several devices as one backend.
//!
//! A [`DeviceGroup`] implements the operations over one [`CudaBackend`] for each device, so that protocols run on it
//! unchanged. What lies where follows from its [`Strategy`]:
//!
//! | strategy | database matrix, rows | plaintext polynomials | a query's ciphertexts |
//! |---|---|---|---|
//! | `Replicate` (GPIR 6) | on every device | on every device | on one device |
//! | `Exchange` (VIPIR 4.5) | rows in shares; after the fold all-to-all | on every device | on one device |
//! | `Aggregate` (GPIR 6) | rows in shares | rows in shares | expanded on every device; a share's rows on each |
//! | `Gather` (GPIR 6) | rows in shares | rows in shares | expanded on one device, copied to all; likewise |
//!
//! A query *on one device* is on device `i mod n`, i its place in the batch. Under `Aggregate` and `Gather` each
//! device plays its share of the tournament and the winners meet on the first one: a ciphertext a device and query.
//! What a matrix of switched ciphertexts is made of goes where the next steps are: under the first two strategies all
//! is on the query's device already; under the others each device gets the ciphertexts of all, has the whole matrix, which
//! is small, and encodes its rows of the polynomials.
//! Leaves are rotated, and expanded further, where they were expanded. Rows of several matrices of polynomials are exchanged
//! once they are folded, so that each device has consecutive ones of all; where a device's are whole sums of rotated
//! ciphertexts, it adds them up, else all meet on the first one.
//! Shares of rows for two servers (`share_fold`) are summed on the host: an answer is one row.

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
    /// The devices with these numbers; lets them copy from each other where they can.
    ///
    /// # Errors
    /// [`BackendError::Unavailable`] with the reason: no driver, no such device, none named, one named twice.
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

    /// The same devices with another strategy.
    pub fn with_strategy(&self, strategy: Strategy) -> Self {
        Self { strategy, ..self.clone() }
    }

    fn pairs(&self) -> impl Iterator<Item = (&Arc<Device>, &Arc<Device>)> {
        let devices = || self.members.iter().map(CudaBackend::device);
        devices()
            .flat_map(move |one| devices().map(move |other| (one, other)))
            .filter(|(one, other)| !Arc::ptr_eq(one, other))
    }

    /// How it divides what there is to hold and to do.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// How its devices reach each other.
    pub fn links(&self) -> Links {
        self.links
    }

    /// Its devices.
    pub fn members(&self) -> &[CudaBackend] {
        &self.members
    }

    /// The share of device `member` of what is divided among the devices.
    fn share(&self, member: usize) -> Share {
        Share::new(member, self.members.len()).expect("a group has as many shares as devices")
    }

    /// The device of the query at place `query` of a batch.
    fn owner(&self, query: usize) -> usize {
        query % self.members.len()
    }

    /// The places of a batch whose queries are on device `member`.
    fn owned(&self, member: usize, batch: usize) -> impl Iterator<Item = usize> + use<> {
        (member..batch).step_by(self.members.len())
    }

    /// Does `work` for every device at the same time.
    fn each<T: Send>(
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

/// Copies values to another device's memory (or within one), after what is queued where they are, and before what is
/// queued there later: neither side waits on the host. The driver goes through the host where it must.
fn transfer<T: Pod>(from: &View<'_, T>, to: &View<'_, T>) -> Result<(), DriverError> {
    let (source, target) = (from.device().main(), to.device().main());
    target.after(&source)?;
    target.copy(from, to)?;
    source.after(&target)
}
