use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use spirea_protocols::signature::PublicKey;

use super::proxy::check_shared;
use super::{SharedProxy, check_address};
use crate::{ClientError, Policy, Progress, WeakPrf};

/// The place in which hints are kept for the next client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// A folder; memory, if there is none that this user may write to.
    #[default]
    Persistent,
    /// Memory: nothing is written to the disk, and no folder is read.
    Memory,
}

/// How a client connects, waits and remembers.
pub struct ClientOptions {
    /// The place for hints, and for what has been seen under a pinned key.
    pub keep: Keep,
    /// The folder for them; without one, `$XDG_CACHE_HOME/spirea` or `~/.cache/spirea`.
    pub cache: Option<PathBuf>,
    /// The token that servers ask for. It is sent over https:// only, or to this machine.
    pub token: Option<String>,
    /// A file of certificates, as PEM, that lead to those of the servers; without one, the public ones of the web.
    pub ca: Option<PathBuf>,
    /// Further addresses of each server, in the order of the servers' first ones. They are asked in turn when one
    /// cannot be reached, does not answer in time or is not ready. Each must be the same party.
    pub replicas: Vec<Vec<String>>,
    /// The longest wait for a connection.
    pub connect_timeout: Duration,
    /// The longest time of one request with its response, beside a second for each 16 KiB of either. A server that drips
    /// bytes does not extend it. It is checked whenever bytes come, so a server that falls silent at its end is waited for
    /// once more as long.
    pub timeout: Duration,
    /// How often a request is made at most to each address.
    pub attempts: u32,
    /// The longest pause before trying again; a server that asks for a longer one is not waited for.
    pub max_pause: Duration,
    /// How long a request is tried again, counted from when it was made first. Each address of a server gets its turn
    /// however long those before it took.
    pub patience: Duration,
    /// The longest hint that is downloaded.
    pub max_hint_bytes: u64,
    /// The operator's key: versions that it did not sign, and those that are older than what has been seen, are
    /// refused. What has been seen is kept in the cache.
    pub pinned_key: Option<PublicKey>,
    /// Is told how far the download of a hint is.
    pub progress: Option<Progress>,
    /// Is told how many of the values that are asked for at once have been answered, and of how many.
    pub values_progress: Option<Progress>,
    /// Whether a database is asked under a function that few have analysed.
    pub weak_prf: WeakPrf,
    /// Consent to asking two servers over `http://` through one proxy of the environment.
    pub shared_proxy: SharedProxy,
    /// Ends connecting, and what follows, with [`ClientError::Stopped`] while it is true.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for ClientOptions {
    /// 10 seconds to connect, 60 to wait, no token, no replicas, and what [`Policy`] has: 5 attempts within a minute with
    /// pauses up to 30 seconds, hints up to 8 GiB, no weak function.
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
    /// All addresses of each server, those at `urls` first.
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

    /// What does not concern the way to the servers.
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
