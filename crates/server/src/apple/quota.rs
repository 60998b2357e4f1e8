use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::access::{Exceeded, Quota, Window};

/// Maximum number of addresses whose queries are counted. Above this number, all counts restart.
const MOST_ADDRESSES: usize = 1 << 16;

/// Counts the queries of each address.
pub(crate) struct AddressQuota {
    quota: Option<Quota>,
    windows: Mutex<HashMap<Vec<u8>, Window>>,
}

/// The quota of an address or of a user is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsedUp {
    /// Owner of the quota.
    pub owner: &'static str,
    pub quota: Quota,
    /// Time until the next period; `None` if no period allows so many queries.
    pub next: Option<Duration>,
}

impl AddressQuota {
    pub fn new(quota: Option<Quota>) -> Self {
        Self { quota, windows: Mutex::default() }
    }

    /// Takes `queries` from the quota of a network, all or none.
    pub fn take(&self, network: &[u8], queries: u64, now: Instant) -> Result<(), UsedUp> {
        let Some(quota) = self.quota else { return Ok(()) };
        // No code under this lock panics.
        let mut windows = self.windows.lock();
        if windows.len() >= MOST_ADDRESSES && !windows.contains_key(network) {
            windows.clear();
        }
        let window = windows.entry(network.into()).or_default();
        window.take(quota, queries, now).map_err(|exceeded| match exceeded {
            Exceeded::Never => UsedUp { owner: "address", quota, next: None },
            Exceeded::For(time) => UsedUp { owner: "address", quota, next: Some(time) },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_quota_and_their_number_is_bounded() {
        let (quota, now) = (AddressQuota::new(Some("3/hour".parse().unwrap())), Instant::now());
        assert_eq!(quota.take(b"one", 3, now), Ok(()));
        let refused = quota.take(b"one", 1, now).unwrap_err();
        assert_eq!(refused.next, Some(Duration::from_secs(3600)));
        assert_eq!(quota.take(b"one", 4, now).unwrap_err().next, None);
        assert_eq!(quota.take(b"two", 1, now), Ok(()));
        assert_eq!(quota.take(b"one", 1, now + Duration::from_secs(3600)), Ok(()));
        for number in 0..MOST_ADDRESSES {
            quota.take(&number.to_le_bytes(), 1, now).unwrap();
        }
        assert!(quota.windows.lock().len() <= MOST_ADDRESSES);
        assert_eq!(AddressQuota::new(None).take(b"one", u64::MAX, now), Ok(()));
    }
}
