use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use spirea_protocols::signature::PublicKey;

use super::proxy::check_shared;
use super::{SharedProxy, check_address};
use crate::{ClientError, Policy, Progress, WeakPrf};

/// Storage of hints for the next client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// A folder; memory if there is no folder that this user may write to.
    #[default]
    Persistent,
    /// Memory: writes nothing to disk and reads no folder.
    Memory,
}

/// Options of a client.
pub struct ClientOptions {
    /// Storage for hints, and for what has been seen under a pinned key.
    pub keep: Keep,
    /// Folder of the storage; the default is `$XDG_CACHE_HOME/spirea` or `~/.cache/spirea`.
    pub cache: Option<PathBuf>,
    /// Token for the servers. It is sent only over https:// or to this machine.
    pub token: Option<String>,
    /// PEM file of root certificates for the servers; the default is the public roots of the web.
    pub ca: Option<PathBuf>,
    /// Further addresses of each server, in the order of the servers' first addresses. They are
    /// tried in turn if an address is unreachable, does not answer in time or is not ready. Each
    /// must belong to the same party.
    pub replicas: Vec<Vec<String>>,
    /// Timeout for connecting.
    pub connect_timeout: Duration,
    /// Timeout of a request with its response; each 16 KiB of either extends it by a second, so a
    /// server that drips bytes hardly extends it. The timeout is checked when bytes arrive, so a
    /// server that falls silent just before the timeout may take twice the time.
    pub timeout: Duration,
    /// Maximum number of attempts of a request at each address.
    pub attempts: u32,
    /// Maximum pause before a retry; if a server requests a longer pause, the client gives up.
    pub max_pause: Duration,
    /// Time for retries of a request, counted from its first attempt. Each address of a server is
    /// tried, however long earlier addresses took.
    pub patience: Duration,
    /// Maximum length of a hint to download, in bytes.
    pub max_hint_bytes: u64,
    /// The operator's key: versions without its signature, and versions older than any seen before,
    /// are refused. The cache keeps what has been seen.
    pub pinned_key: Option<PublicKey>,
    /// Callback for the progress of a hint's download.
    pub progress: Option<Progress>,
    /// Callback for the progress of a look-up: the number of answered values, and of all values.
    pub values_progress: Option<Progress>,
    /// Policy for a database with a pseudorandom function that few have analysed.
    pub weak_prf: WeakPrf,
    /// Consent to use one proxy of the environment for two servers over `http://`.
    pub shared_proxy: SharedProxy,
    /// Flag that ends connecting and all later calls with [`ClientError::Stopped`] while it is
    /// true.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for ClientOptions {
    /// 10 seconds to connect, 60 to wait, no token, no replicas, and the defaults of [`Policy`]: 5
    /// attempts within a minute with pauses up to 30 seconds, hints up to 8 GiB, no weak function.
    fn default() -> Self {
        let Policy { attempts, max_pause, patience, max_hint_bytes, pinned_key, weak_prf, progress, .. } =
            Policy::default();
        Self {
            keep: Keep::default(),
            cache: None,
            token: None,
            ca: None,
            replicas: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(60),
            attempts,
            max_pause,
            patience,
            max_hint_bytes,
            pinned_key,
            progress,
            values_progress: None,
            weak_prf,
            shared_proxy: SharedProxy::default(),
            stop: None,
        }
    }
}

impl ClientOptions {
    /// Returns all addresses of each server, those at `urls` first.
    pub(super) fn addresses(&self, urls: &[&str]) -> Result<Vec<Vec<String>>, ClientError> {
        if self.replicas.len() > urls.len() {
            let text = "there are further addresses of more servers than there are servers";
            return Err(ClientError::BadOption(text.into()));
        }
        let all = |(i, url): (usize, &&str)| {
            let further = self.replicas.get(i).into_iter().flatten().cloned();
            let addresses: Vec<String> = [String::from(*url)].into_iter().chain(further).collect();
            addresses.iter().try_for_each(|address| check_address(address, self.token.is_some()))?;
            Ok(addresses)
        };
        let addresses = urls.iter().enumerate().map(all).collect::<Result<Vec<_>, ClientError>>()?;
        check_shared(&addresses, self.shared_proxy)?;
        Ok(addresses)
    }

    /// Returns the options that do not concern the transport.
    pub(super) fn into_policy(self) -> Policy {
        let Self { attempts, max_pause, patience, max_hint_bytes, pinned_key, weak_prf, progress, .. } = self;
        Policy {
            attempts,
            max_pause,
            patience,
            max_hint_bytes,
            pinned_key,
            weak_prf,
            progress,
            keys_progress: None,
            values_progress: self.values_progress,
        }
    }
}
