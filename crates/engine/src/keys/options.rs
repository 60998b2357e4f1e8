use std::path::PathBuf;
use std::time::Duration;

use super::lru::Budget;
use super::usage::Amount;

/// Where keys are held, how many, and for how long.
#[derive(Clone, Debug)]
pub struct KeyOptions {
    /// The most bytes of prepared keys in memory.
    pub memory_bytes: u64,
    /// The folder for clients' bytes; without one, a restart forgets all keys.
    pub folder: Option<PathBuf>,
    /// The most that the folder holds.
    pub disk: Amount,
    /// One client's part of all that; a single set of keys is always within it.
    pub client: ClientBudget,
    /// How long keys are held that nobody uses.
    pub expiry: Duration,
}

/// One client's part of the budgets: where there is no number, half of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientBudget {
    /// Sets of keys, in memory and in the folder each.
    pub sets: Option<usize>,
    /// Bytes of prepared keys in memory.
    pub memory_bytes: Option<u64>,
    /// Bytes in the folder.
    pub disk_bytes: Option<u64>,
}

impl Default for KeyOptions {
    /// 1 GiB of memory and no folder; in a folder 16 GiB or 65,536 sets; half of each for one client; 30 days.
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
    /// What prepared keys are held within.
    pub(super) fn memory_budget(&self) -> Budget {
        let all = Amount { sets: usize::MAX, bytes: self.memory_bytes };
        self.budget(all, self.client.memory_bytes)
    }

    /// What the folder is held within.
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
