use std::time::Duration;

use crate::access::Quota;

/// Limits of Apple's clients.
#[derive(Clone, Debug)]
pub struct AppleConfig {
    /// Queries that one address may make in each period; `None` for any number.
    pub quota: Option<Quota>,
    /// Maximum bytes of clients' evaluation keys in memory. Keys of one address take half at most.
    pub keys_memory: u64,
    /// Maximum number of evaluation keys from one address; the least recently used leave first.
    pub client_keys: usize,
    /// Time after which unused evaluation keys expire.
    pub key_life: Duration,
}

impl Default for AppleConfig {
    /// No quota; 1 GiB of keys, 64 from one address; 30 days.
    fn default() -> Self {
        Self {
            quota: None,
            keys_memory: 1 << 30,
            client_keys: 64,
            key_life: Duration::from_secs(30 * 24 * 60 * 60),
        }
    }
}
