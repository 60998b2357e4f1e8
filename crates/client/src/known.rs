//! Evaluation keys that exist before a session uses them.

use std::time::Duration;

use spirea_math::random::SecretRng;
use spirea_math::secret::declassify;
use spirea_protocols::ClientKeys;
use spirea_protocols::registry::ProtocolParams;
use spirea_wire::{KeysHash, Part, Version};

use crate::{ClientError, Clock, Keys};

/// Reason why the client's control flow may depend on the hash of evaluation keys.
const KEYS_ARE_NAMED: &str = "queries name their evaluation keys by the hash";
/// Divisor of a key's life: the next keys are made when 1 / `LAST_SHARE` of its queries or of its
/// time is left.
const LAST_SHARE: u32 = 8;

/// Returns the hash that names keys.
pub(crate) fn name_of(keys: &ClientKeys) -> KeysHash {
    declassify(blake3::hash(keys.bytes()).into(), KEYS_ARE_NAMED)
}

/// Existing keys with the time when they were made.
#[derive(Clone)]
pub(crate) struct Known {
    pub keys: ClientKeys,
    pub blake3: KeysHash,
    pub made: Duration,
}

/// Evaluation keys with their secret, for a session whose present keys are over. Nothing is
/// encrypted under these keys before the session uses them.
#[derive(Clone, Default)]
pub struct NextKeys {
    version: Version,
    keys: Vec<(Part, Known)>,
}

impl NextKeys {
    /// Makes keys for these parts of a version.
    ///
    /// # Errors
    /// [`ClientError::NoEntropy`] if the system gives no randomness.
    pub(crate) fn make(
        version: Version,
        parts: &[(Part, ProtocolParams)],
        clock: &Clock,
    ) -> Result<Self, ClientError> {
        let mut next = Self { version, keys: Vec::new() };
        for (part, params) in parts {
            let Some(shape) = params.key_shape else { continue };
            let made: Vec<ClientKeys> = next.keys.iter().map(|(_, known)| known.keys.clone()).collect();
            let keys = ClientKeys::of_shape(shape, &made, &mut SecretRng::from_os()?);
            if made.iter().all(|known| !known.are(&keys)) {
                let blake3 = name_of(&keys);
                next.keys.push((*part, Known { keys, blake3, made: clock.now() }));
            }
        }
        Ok(next)
    }

    /// Returns the keys, to be registered at the server.
    pub fn keys(&self) -> impl Iterator<Item = Keys<'_>> {
        self.keys.iter().map(|(part, Known { keys, blake3, .. })| Keys {
            version: self.version,
            part: *part,
            bytes: keys.bytes(),
            blake3: *blake3,
        })
    }

    /// Returns true if there are keys that have not ended, were made by this process, and have more
    /// than `1 / LAST_SHARE` of their time left.
    pub(crate) fn are_usable(&self, now: Duration) -> bool {
        let is_usable = |(_, known): &(Part, Known)| !is_old(known.made, now) && !known.keys.have_ended();
        !self.keys.is_empty() && self.keys.iter().all(is_usable)
    }

    /// Takes the keys, if they are usable.
    pub(crate) fn take(&mut self, now: Duration) -> Vec<Known> {
        let next = std::mem::take(self);
        if next.are_usable(now) {
            next.keys.into_iter().map(|(_, known)| known).collect()
        } else {
            Vec::new()
        }
    }
}

/// Returns true if the last share of the keys' time has begun.
fn is_old(made: Duration, now: Duration) -> bool {
    now.saturating_sub(made) >= Keys::LONGEST_USE / LAST_SHARE * (LAST_SHARE - 1)
}

/// Returns true if keys are near their end. They have been used for `queries` queries, and allow
/// `most`. No answer affects this.
pub(crate) fn is_nearly_used_up(queries: u64, most: u64, made: Duration, now: Duration) -> bool {
    queries >= most - most / u64::from(LAST_SHARE) || is_old(made, now)
}
