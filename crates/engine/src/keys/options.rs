use std::path::PathBuf;
use std::time::Duration;

use super::lru::Budget;
use super::usage::Amount;

/// Places, limits and expiry of keys.
#[derive(Clone, Debug)]
pub struct KeyOptions {
    /// Maximum bytes of prepared keys in memory.
    pub memory_bytes: u64,
    /// Folder for clients' bytes; without a folder, a restart forgets all keys.
    pub folder: Option<PathBuf>,
    /// Limit of the folder.
    pub disk: Amount,
    /// Limits of one client; a single set of keys is always within them.
    pub client: ClientBudget,
    /// Time after which unused keys expire.
    pub expiry: Duration,
}

/// Limits of one client; the default of each is half of the total limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientBudget {
    /// Sets of keys; applies to memory and to the folder separately.
    pub sets: Option<usize>,
    /// Bytes of prepared keys in memory.
    pub memory_bytes: Option<u64>,
    /// Bytes in the folder.
    pub disk_bytes: Option<u64>,
}

impl Default for KeyOptions {
    /// Returns the defaults: 1 GiB of memory; no folder, but limits of 16 GiB and 65,536 sets if a
    /// folder is configured; half of each limit for one client; expiry after 30 days.
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            folder: None,
            disk: Amount { sets: 1 << 16, bytes: 16 << 30 },
            client: ClientBudget::default(),
            expiry: Duration::from_secs(30 * 24 * 60 * 60),
        }
    }
}

impl KeyOptions {
    /// Returns the budget of prepared keys.
    pub(super) fn memory_budget(&self) -> Budget {
        let all = Amount { sets: usize::MAX, bytes: self.memory_bytes };
        self.budget(all, self.client.memory_bytes)
    }

    /// Returns the budget of the folder.
    pub(super) fn disk_budget(&self) -> Budget {
        self.budget(self.disk, self.client.disk_bytes)
    }

    fn budget(&self, all: Amount, bytes: Option<u64>) -> Budget {
        let owner = Amount {
            sets: self.client.sets.unwrap_or(self.disk.sets / 2),
            bytes: bytes.unwrap_or(all.bytes / 2),
        };
        Budget { all, owner, expiry: self.expiry }
    }
}
