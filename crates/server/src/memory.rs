//! Memory budgets, reserved before the memory is used.

use std::any::Any;
use std::sync::Arc;

use prometheus::IntGauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::{Share, Shares};

/// A budget of bytes, shared by all users of the memory.
pub(crate) struct Memory {
    permits: Arc<Semaphore>,
    total: u32,
}

impl Memory {
    /// Bytes of one semaphore permit.
    const UNIT: u64 = 1 << 10;

    pub fn new(bytes: u64) -> Self {
        let total = u32::try_from(bytes / Self::UNIT).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 4);
        Self { permits: Arc::new(Semaphore::new(total as usize)), total }
    }

    /// Returns the bytes that are taken.
    pub fn taken(&self) -> u64 {
        (u64::from(self.total) - self.permits.available_permits() as u64) * Self::UNIT
    }

    /// Takes `bytes`; returns `None` if too few are left. An amount above the budget takes the
    /// whole budget.
    pub fn take(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_many_owned(self.units(bytes)).ok()
    }

    /// Waits until `bytes` are left, and takes them.
    async fn wait(&self, bytes: u64) -> OwnedSemaphorePermit {
        let permit = Arc::clone(&self.permits).acquire_many_owned(self.units(bytes)).await;
        permit.expect("the semaphore is never closed")
    }

    fn has(&self, bytes: u64) -> bool {
        self.permits.available_permits() >= self.units(bytes) as usize
    }

    fn units(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(Self::UNIT)).unwrap_or(u32::MAX).min(self.total)
    }
}

/// Memory of a port's connections: buffers, request heads, HTTP/2 windows and responses. Each
/// client has a maximum share.
pub(crate) struct ConnectionMemory {
    memory: Memory,
    shares: Arc<Shares>,
    reserved: IntGauge,
}

impl ConnectionMemory {
    /// Creates a budget. `reserved` counts the bytes taken, over all ports that share the gauge.
    pub fn new(bytes: u64, client_bytes: u64, reserved: IntGauge) -> Arc<Self> {
        Arc::new(Self { memory: Memory::new(bytes), shares: Shares::new(client_bytes), reserved })
    }

    /// Returns true if `bytes` are left.
    pub fn has(&self, bytes: u64) -> bool {
        self.memory.has(bytes)
    }

    /// Takes bytes whose client is not known yet, waiting until they are free.
    pub async fn wait(self: &Arc<Self>, bytes: u64) -> Unassigned {
        Unassigned { permit: self.memory.wait(bytes).await, memory: Arc::clone(self), bytes }
    }

    /// Takes bytes for a client; `None` if too few are left or the client would exceed its share.
    pub fn take(self: &Arc<Self>, client: &[u8], bytes: u64) -> Option<Reserved> {
        let permit = self.memory.take(bytes)?;
        Unassigned { permit, memory: Arc::clone(self), bytes }.assign(client)
    }
}

/// Memory for the response to a client's request, to be reserved before the response is computed.
#[derive(Clone)]
pub(crate) struct ResponseMemory {
    memory: Arc<ConnectionMemory>,
    client: Arc<[u8]>,
}

impl ResponseMemory {
    /// Bytes of a response that fit in the reservation of its request: a short body, or the pieces
    /// of a file that wait to be written.
    pub const OWN_BYTES: u64 = 192 << 10;

    pub fn new(memory: Arc<ConnectionMemory>, client: &[u8]) -> Self {
        Self { memory, client: client.into() }
    }

    /// Reserves the memory that a response of `bytes` bytes needs beyond [`Self::OWN_BYTES`];
    /// `None` if too little is left. The response carries the reservation in its extensions.
    pub fn reserve(&self, bytes: u64) -> Option<Accounted> {
        let reserved = self.memory.take(&self.client, bytes.saturating_sub(Self::OWN_BYTES))?;
        Some(Accounted(Arc::new(reserved)))
    }
}

/// Memory for the requests to a program's own router, to be taken before a request is read.
pub struct RequestMemory(Memory);

impl RequestMemory {
    /// Creates a budget of `bytes`.
    pub fn new(bytes: u64) -> Self {
        Self(Memory::new(bytes))
    }

    /// Takes `bytes`; returns `None` if too few are left. An amount above the budget takes the
    /// whole budget.
    pub fn take(&self, bytes: u64) -> Option<Accounted> {
        Some(Accounted(Arc::new(self.0.take(bytes)?)))
    }

    /// Returns the bytes that are taken.
    pub fn taken(&self) -> u64 {
        self.0.taken()
    }
}

/// Reserved memory, given back when the last clone is dropped. The server reserves nothing for a
/// response that carries this value in its extensions, and keeps the value until the response is
/// sent.
#[derive(Clone)]
pub struct Accounted(#[expect(dead_code, reason = "held until dropped")] Arc<dyn Any + Send + Sync>);

/// Bytes that are taken and belong to no client yet.
pub(crate) struct Unassigned {
    permit: OwnedSemaphorePermit,
    memory: Arc<ConnectionMemory>,
    bytes: u64,
}

impl Unassigned {
    /// Assigns the bytes to a client; `None` if the client would exceed its share.
    pub fn assign(self, client: &[u8]) -> Option<Reserved> {
        let share = self.memory.shares.take(client, self.bytes)?;
        let reserved = self.memory.reserved.clone();
        let bytes = (self.permit.num_permits() as u64 * Memory::UNIT) as i64;
        reserved.add(bytes);
        Some(Reserved { _permit: self.permit, _share: share, reserved, bytes })
    }
}

/// A client's bytes, given back when dropped.
pub(crate) struct Reserved {
    _permit: OwnedSemaphorePermit,
    _share: Share,
    reserved: IntGauge,
    bytes: i64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.reserved.sub(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_given_while_they_last_and_counted_until_they_are_back() {
        let gauge = IntGauge::new("reserved", "bytes").unwrap();
        let memory = ConnectionMemory::new(10 << 10, 6 << 10, gauge.clone());
        let one = memory.take(b"one", 5 << 10).unwrap();
        assert!(memory.take(b"one", 2 << 10).is_none(), "above its share");
        let other = memory.take(b"other", 5 << 10).unwrap();
        assert!(memory.take(b"third", 1).is_none() && !memory.has(1), "nothing is left");
        assert_eq!(gauge.get(), 10 << 10);
        drop((one, other));
        assert_eq!((gauge.get(), memory.memory.taken()), (0, 0));
    }
}
