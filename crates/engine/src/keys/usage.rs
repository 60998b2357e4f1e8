/// Amount of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Sets of keys.
    pub sets: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl Amount {
    /// Returns true if a further set of `bytes` bytes is within the budget.
    pub(super) fn admits(self, bytes: u64, budget: Self) -> bool {
        self.sets < budget.sets && self.bytes.saturating_add(bytes) <= budget.bytes
    }

    /// Adds a set of `bytes` bytes.
    pub(super) fn add(&mut self, bytes: u64) {
        self.sets += 1;
        self.bytes += bytes;
    }

    /// Removes a set of `bytes` bytes.
    pub(super) fn subtract(&mut self, bytes: u64) {
        self.sets -= 1;
        self.bytes -= bytes;
    }
}

/// Keys held in memory and on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyUsage {
    /// Prepared keys in memory.
    pub memory: Amount,
    /// Clients' bytes on disk.
    pub disk: Amount,
}

/// Counts of events of keys since the registry was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyEvents {
    /// Requests whose keys were in memory.
    pub from_memory: u64,
    /// Requests whose keys were prepared from the folder.
    pub from_disk: u64,
    /// Requests whose keys another server had shared.
    pub from_shared: u64,
    /// Requests whose keys were not found.
    pub unknown: u64,
    /// Keys that left memory.
    pub memory: Departures,
    /// Keys that left the folder.
    pub disk: Departures,
}

/// Counts of keys that left, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departures {
    /// Sets that made room for others.
    pub evicted: u64,
    /// Sets that expired because nobody used them.
    pub expired: u64,
}
