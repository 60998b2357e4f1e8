//! Look-ups of Apple's clients: use cases of the served snapshots, and clients' evaluation keys.
//!
//! Apple's clients send no tokens of this server. With a file of private tokens, each request
//! spends one token; without the file, quotas count by address. A client chooses its
//! `User-Identifier` itself, so this header names keys and proves nothing.

mod gateway;
mod issuer;
mod keys;
mod private_file;
mod quota;
mod refused;
mod settings;
mod token_file;
mod tokens;
mod use_cases;

use std::sync::Arc;

use tokio::sync::Semaphore;

pub(crate) use self::gateway::GatewayKeys;
pub use self::gateway::GatewayKeysError;
pub(crate) use self::issuer::{ISSUE, Issuer};
pub(crate) use self::keys::{KeyName, Keys};
pub(crate) use self::quota::AddressQuota;
pub(crate) use self::refused::AppleRefused;
pub use self::settings::AppleConfig;
pub use self::token_file::PrivateTokensError;
pub(crate) use self::token_file::check as check_token_file;
pub use self::token_file::parse_tier;
pub(crate) use self::tokens::{Payment, PrivateTokens};
pub(crate) use self::use_cases::{Opened, UseCases};

/// State of the endpoints for Apple's clients.
pub(crate) struct Apple {
    /// Clients' evaluation keys.
    pub keys: Keys,
    /// Queries of each address.
    pub quota: AddressQuota,
    /// Private tokens that admit requests; without them, everyone is admitted.
    pub tokens: Option<Arc<PrivateTokens>>,
    /// Keys of the gateway, if there is one.
    pub gateway: Option<Arc<GatewayKeys>>,
    /// Permits of computations: one for each answering thread.
    pub computing: Arc<Semaphore>,
}

impl Apple {
    /// Creates the state for `threads` computations at once, with private tokens and the keys of a
    /// gateway if there are any.
    pub fn new(
        config: &AppleConfig,
        threads: usize,
        tokens: Option<Arc<PrivateTokens>>,
        gateway: Option<Arc<GatewayKeys>>,
    ) -> Self {
        Self {
            keys: Keys::new(config),
            quota: AddressQuota::new(config.quota),
            tokens,
            gateway,
            computing: Arc::new(Semaphore::new(threads)),
        }
    }
}
