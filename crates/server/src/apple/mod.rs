//! Look-ups of Apple's clients: use cases of the served snapshots, and clients' evaluation keys.
//!
//! Apple's clients send no tokens of this server. A client chooses its `User-Identifier` itself, so
//! it names keys and proves nothing; quotas go by address.

mod keys;
mod quota;
mod refused;
mod settings;
mod use_cases;

use std::sync::Arc;

use tokio::sync::Semaphore;

pub(crate) use self::keys::{KeyName, Keys};
pub(crate) use self::quota::AddressQuota;
pub(crate) use self::refused::AppleRefused;
pub use self::settings::AppleConfig;
pub(crate) use self::use_cases::{Opened, UseCases};

/// State of the endpoints for Apple's clients.
pub(crate) struct Apple {
    /// Clients' evaluation keys.
    pub keys: Keys,
    /// Queries of each address.
    pub quota: AddressQuota,
    /// Permits of computations: one for each answering thread.
    pub computing: Arc<Semaphore>,
}

impl Apple {
    /// Creates the state for `threads` computations at once.
    pub fn new(config: &AppleConfig, threads: usize) -> Self {
        Self {
            keys: Keys::new(config),
            quota: AddressQuota::new(config.quota),
            computing: Arc::new(Semaphore::new(threads)),
        }
    }
}
