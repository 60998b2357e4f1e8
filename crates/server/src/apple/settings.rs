use std::path::PathBuf;
use std::time::Duration;

use crate::access::Quota;

/// Limits of Apple's clients.
#[derive(Clone, Debug)]
pub struct AppleConfig {
    /// File of the keys whose private tokens (Privacy Pass) are accepted. With a file, every
    /// request needs a token; without a file, none does.
    pub tokens: Option<PathBuf>,
    /// File of the keys of an OHTTP gateway, through which requests come from a relay; without a
    /// file, there is no gateway.
    pub gateway: Option<PathBuf>,
    /// Queries that one address may make in each period; `None` for any number. With private tokens
    /// this quota has no effect.
    pub quota: Option<Quota>,
    /// Maximum bytes of clients' evaluation keys in memory. Keys of one address take half at most.
    pub keys_memory: u64,
    /// Maximum number of evaluation keys from one address, or of one `User-Identifier` with private
    /// tokens; the least recently used keys are evicted first.
    pub client_keys: usize,
    /// Time after which unused evaluation keys expire.
    pub key_life: Duration,
}

impl Default for AppleConfig {
    /// No private tokens, no gateway and no quota. At most 1 GiB of keys, and 64 from one address;
    /// unused keys expire after 30 days.
    fn default() -> Self {
        Self {
            tokens: None,
            gateway: None,
            quota: None,
            keys_memory: 1 << 30,
            client_keys: 64,
            key_life: Duration::from_secs(30 * 24 * 60 * 60),
        }
    }
}
