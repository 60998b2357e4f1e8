/// How much there is of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Sets of keys.
    pub sets: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl Amount {
    /// Whether a further set of so many bytes is within a budget.
    pub(super) fn admits(self, bytes: u64, budget: Self) -> bool {
        self.sets < budget.sets && self.bytes.saturating_add(bytes) <= budget.bytes
    }

    /// Adds a set of so many bytes.
    pub(super) fn add(&mut self, bytes: u64) {
        self.sets += 1;
        self.bytes += bytes;
    }

    /// Takes a set of so many bytes away.
    pub(super) fn subtract(&mut self, bytes: u64) {
        self.sets -= 1;
        self.bytes -= bytes;
    }
}

/// What is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyUsage {
    /// Prepared, in memory.
    pub memory: Amount,
    /// As bytes, on disk.
    pub disk: Amount,
}

/// What has happened to keys since the registry was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyEvents {
    /// Requests whose keys were in memory.
    pub from_memory: u64,
    /// Requests whose keys were prepared from the folder.
    pub from_disk: u64,
    /// Requests whose keys another server had shared.
    pub from_shared: u64,
    /// Requests whose keys were nowhere.
    pub unknown: u64,
    /// What left memory.
    pub memory: Departures,
    /// What left the folder.
    pub disk: Departures,
}

/// Why keys have left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departures {
    /// Sets that made room for others.
    pub evicted: u64,
    /// Sets that nobody used for so long that they expired.
    pub expired: u64,
}
