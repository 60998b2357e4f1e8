//! Followers of a database, as they report with each look.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use spirea_protocols::Version;

/// Time after which a follower that sends no request is forgotten. It is long enough for the
/// verification of a large file.
const FORGOTTEN: Duration = Duration::from_secs(5 * 60);
/// Maximum number of followers that are remembered. The server does not wait for further followers.
const MOST: usize = 1024;

/// Name of a follower, drawn at its start.
pub(crate) type FollowerId = [u8; 16];

/// The followers of a database.
#[derive(Default)]
pub(super) struct Followers {
    known: Mutex<HashMap<FollowerId, Report>>,
    told: Condvar,
}

/// Latest report of a follower.
struct Report {
    has: Version,
    /// Time of the latest request.
    seen: Instant,
}

impl Followers {
    /// Notes that a follower has a version on disk.
    pub fn report(&self, follower: FollowerId, has: Version) {
        let mut known = self.known.lock();
        let now = Instant::now();
        known.retain(|_, report| now.duration_since(report.seen) < FORGOTTEN);
        if known.len() < MOST || known.contains_key(&follower) {
            known.insert(follower, Report { has, seen: now });
        }
        self.told.notify_all();
    }

    /// Notes that a follower asks for a file. The request restarts the time after which the
    /// follower is forgotten, because a transfer may take longer than that time.
    pub fn see(&self, follower: FollowerId) {
        if let Some(report) = self.known.lock().get_mut(&follower) {
            report.seen = Instant::now();
        }
    }

    /// Waits until all followers have a version, or for the time `most`. Returns the number of
    /// followers that do not have it.
    pub fn wait_for(&self, version: &Version, most: Duration) -> usize {
        let late = |known: &HashMap<FollowerId, Report>| {
            let now = Instant::now();
            let is_late =
                |report: &&Report| report.has != *version && now.duration_since(report.seen) < FORGOTTEN;
            known.values().filter(is_late).count()
        };
        let mut known = self.known.lock();
        self.told.wait_while_for(&mut known, |known| late(known) > 0, most);
        late(&known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_waits_for_all_followers_or_for_the_time() {
        let followers = Followers::default();
        let (former, new) = ([1; 32], [2; 32]);
        let long = Duration::from_secs(60);
        assert_eq!(followers.wait_for(&Version::new(new), long), 0);
        followers.report([1; 16], Version::new(former));
        followers.report([2; 16], Version::new(new));
        assert_eq!(followers.wait_for(&Version::new(new), Duration::from_millis(1)), 1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| followers.wait_for(&Version::new(new), long));
            followers.report([1; 16], Version::new(new));
            assert_eq!(waiting.join().unwrap(), 0);
        });
    }
}
