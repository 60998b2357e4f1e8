//! Limits each client's share of a resource, so that no client takes all of it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// A resource with a limit for each client.
pub(crate) struct Shares {
    most: u64,
    taken: Mutex<HashMap<Vec<u8>, u64>>,
}

impl Shares {
    /// Creates a resource with a limit of `most` for each client.
    pub fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default() })
    }

    /// Takes `amount` for a client; `None` if the client would exceed its limit. A client that
    /// holds nothing may take any amount, so that a request larger than the limit can be served,
    /// one at a time.
    pub fn take(self: &Arc<Self>, client: &[u8], amount: u64) -> Option<Share> {
        let mut taken = self.taken.lock();
        let has = taken.get(client).copied().unwrap_or(0);
        if has > 0 && has.saturating_add(amount) > self.most {
            return None;
        }
        taken.insert(client.into(), has.saturating_add(amount));
        Some(Share { shares: Arc::clone(self), client: client.into(), amount })
    }
}

/// Amount that a client has taken, given back when dropped.
pub(crate) struct Share {
    shares: Arc<Shares>,
    client: Vec<u8>,
    amount: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken.lock();
        let left = taken.get(&self.client).map_or(0, |has| has.saturating_sub(self.amount));
        // Only clients that hold something are kept in the map, not every client ever seen.
        if left == 0 {
            taken.remove(&self.client);
        } else {
            taken.insert(std::mem::take(&mut self.client), left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_at_most_its_share_and_others_have_theirs() {
        let shares = Shares::new(3);
        let held: Vec<_> = (0..3).map(|_| shares.take(b"one", 1).unwrap()).collect();
        assert!(shares.take(b"one", 1).is_none());
        let other = shares.take(b"other", 3).unwrap();
        drop(held);
        assert!(shares.take(b"one", 1).is_some());
        drop(other);
        assert!(shares.taken.lock().is_empty(), "nothing is kept of who has nothing");
    }

    #[test]
    fn what_is_larger_than_a_share_is_taken_alone() {
        let shares = Shares::new(3);
        let large = shares.take(b"one", u64::MAX).unwrap();
        assert!(shares.take(b"one", 1).is_none());
        drop(large);
        assert!(shares.take(b"one", 1).is_some());
    }
}
