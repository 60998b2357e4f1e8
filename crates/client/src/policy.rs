use std::time::Duration;

use spirea_protocols::signature::PublicKey;

use crate::WeakPrf;

/// Is told how much of something is there, and of how much: bytes, or values.
pub type Progress = Box<dyn Fn(u64, u64) + Send + Sync>;

/// What a client puts up with, from servers and on the way to them.
pub struct Policy {
    /// How often a request is made at most to each address.
    pub attempts: u32,
    /// The longest pause before trying again; a server that asks for a longer one is not waited for.
    pub max_pause: Duration,
    /// How long a request is tried again, counted from when it was made first. Each address of a server gets its turn
    /// however long those before it took.
    pub patience: Duration,
    /// The longest hint that is downloaded, in bytes.
    pub max_hint_bytes: u64,
    /// The operator's key: versions that it did not sign, and those that are older than what the cache has seen, are
    /// refused.
    pub pinned_key: Option<PublicKey>,
    /// Whether a database is asked under a function that few have analysed.
    pub weak_prf: WeakPrf,
    /// Is told how far the download of a hint is.
    pub progress: Option<Progress>,
    /// Is told before evaluation keys are made, and when they are there: so many bytes, and of how many. Making them takes
    /// up to a second or two.
    pub keys_progress: Option<Progress>,
    /// Is told how many of the values that are asked for at once have been answered, and of how many: before each request,
    /// and when all have been.
    pub values_progress: Option<Progress>,
}

impl Default for Policy {
    /// 5 attempts within a minute with pauses up to 30 seconds, hints up to 8 GiB, no weak function.
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
