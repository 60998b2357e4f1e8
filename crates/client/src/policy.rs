use std::time::Duration;

use spirea_protocols::signature::PublicKey;

use crate::WeakPrf;

/// Callback for progress: how much is done, and the total, in bytes or values.
pub type Progress = Box<dyn Fn(u64, u64) + Send + Sync>;

/// Limits and preferences of a client toward servers and the network.
pub struct Policy {
    /// Maximum number of attempts of a request at each address.
    pub attempts: u32,
    /// Maximum pause before a retry; if a server requests a longer pause, the client gives up.
    pub max_pause: Duration,
    /// Time for retries of a request, counted from its first attempt. Each address of a server is
    /// tried, however long earlier addresses took.
    pub patience: Duration,
    /// Maximum length of a hint to download, in bytes.
    pub max_hint_bytes: u64,
    /// The operator's key: versions without its signature, and versions older than what the cache
    /// has seen, are refused.
    pub pinned_key: Option<PublicKey>,
    /// Policy for a database with a pseudorandom function that few have analysed.
    pub weak_prf: WeakPrf,
    /// Callback for the progress of a hint's download.
    pub progress: Option<Progress>,
    /// Callback before evaluation keys are made and after: the finished bytes, and the total.
    /// Making keys takes up to a second or two.
    pub keys_progress: Option<Progress>,
    /// Callback for the progress of a look-up, before each request and at the end: the number of
    /// answered values, and of all values.
    pub values_progress: Option<Progress>,
}

impl Default for Policy {
    /// 5 attempts within a minute with pauses up to 30 seconds, hints up to 8 GiB, no weak
    /// function.
    fn default() -> Self {
        Self {
            attempts: 5,
            max_pause: Duration::from_secs(30),
            patience: Duration::from_secs(60),
            max_hint_bytes: 8 << 30,
            pinned_key: None,
            weak_prf: WeakPrf::default(),
            progress: None,
            keys_progress: None,
            values_progress: None,
        }
    }
}
