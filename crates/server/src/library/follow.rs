//! Following another server or a bucket: its versions are copied into the repositories here, and
//! answer.

use std::sync::{Arc, Weak};
use std::time::Duration;

use spirea_cpu::priority::at_low_priority;
use spirea_protocols::Version;
use spirea_store::repository::{BucketPublisher, Offer, Trust};

use super::entries::Library;
use super::followers::FollowerId;
use super::loader::Loader;
use super::source::Source;
use super::thread::spawn;
use super::version_files::VersionFiles;
use crate::follow::{Follow, FollowError, Look, Origin};

/// Maximum time between looks while a received version does not answer yet.
const WAITING: Duration = Duration::from_millis(500);
/// Longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

impl Library {
    /// Starts a thread for each repository that follows another server. The log names the databases
    /// that do not follow.
    pub(super) fn spawn_followers(self: &Arc<Self>) {
        let Some(follow) = &self.follow else { return };
        for (name, entry) in &self.entries {
            if let Source::Folder(folder) = &entry.source {
                tracing::warn!(database = %name, folder = %folder.path().display(), "the database does not follow, because its folder is that of a snapshot: name a repository or an empty folder to follow, or another server without follow.url (--follow)");
                continue;
            }
            let (library, follow, name) = (Arc::downgrade(self), follow.clone(), name.clone());
            spawn("spirea-follow", move || run(&library, &follow, &name));
        }
    }

    /// Copies the current version of the followed server if it is new, and makes it answer. When
    /// this fails, the former version continues to answer.
    ///
    /// `received` is a version whose files are here and which does not answer yet.
    fn follow_once(
        self: &Arc<Self>,
        name: &str,
        follow: &Follow,
        bucket: Option<&BucketPublisher>,
        follower: &FollowerId,
        received: Option<Version>,
    ) -> Result<Outcome, FollowError> {
        let (entry, repository) = self.entry(name).map_err(|error| FollowError::Load(error.to_string()))?;
        let ending = Arc::clone(&self.ending);
        let has = received.or_else(|| Some(repository.current()?.version));
        let look = Look { follower: *follower, has };
        let publisher = Origin::new(follow, name, bucket, look, move || ending.has_come())?;
        let trust = Trust { name, key: follow.key.as_ref(), disk: follow.disk };
        let (record, answers) = match repository.offered(&publisher, trust)? {
            Offer::Nothing => return Ok(Outcome::Nothing),
            Offer::Same => return Ok(Outcome::Same),
            Offer::Newer { record, answers } => (record, answers),
        };
        self.engine.expect(name, record.version());
        at_low_priority(|| {
            let record = repository.receive(&publisher, &record, trust)?;
            if !answers {
                return Ok(Outcome::Received(record.version));
            }
            let version = VersionFiles::from(record.clone());
            let protocol = &version.base.manifest().protocol;
            protocol.party(self.loader.opening()).map_err(|error| FollowError::Load(error.to_string()))?;
            let _turn = entry.turn();
            // The version is opened before it becomes current on disk, so that a version that
            // cannot be loaded here is not adopted.
            let served = self.open(name, &version, Loader::open_interim).map_err(FollowError::Load)?;
            let apple = self.open_apple(name, &version.base).map_err(FollowError::Load)?;
            let sequence = record.sequence;
            repository.commit_copy(record)?;
            self.put(name, &version, served, apple);
            Ok(Outcome::Adopted { sequence })
        })
    }

    /// Clears a refusal that operators see, by publishing the newest version again.
    fn clear_refusal(&self, name: &str) {
        if let Ok(served) = self.engine.version(name, None) {
            self.engine.publish(served);
        }
    }
}

/// Result of a look at the followed server or bucket.
enum Outcome {
    /// The followed server has no version yet.
    Nothing,
    /// The followed server's current version answers here.
    Same,
    /// The followed server's current version was copied, but does not answer at that server yet.
    Received(Version),
    /// The followed server's current version was copied, and answers here.
    Adopted {
        /// Number of the version.
        sequence: u64,
    },
}

/// Looks at the followed server again and again, until this server has ended.
fn run(library: &Weak<Library>, follow: &Follow, name: &str) {
    let (mut failures, mut received) = (0, None);
    let mut follower = [0; 16];
    if let Err(error) = getrandom::fill(&mut follower) {
        tracing::error!(database = %name, %error, "the system gives no randomness for the name of a follower");
        return;
    }
    let bucket = match follow.bucket(name) {
        Ok(bucket) => bucket,
        Err(error) => {
            tracing::error!(database = %name, %error, "the bucket cannot be followed");
            return;
        }
    };
    loop {
        let Some(strong) = library.upgrade() else { return };
        let interval = match strong.follow_once(name, follow, bucket.as_ref(), &follower, received) {
            Ok(outcome) => {
                if failures > 0 {
                    tracing::info!(database = %name, "following works again");
                    strong.clear_refusal(name);
                }
                (failures, received) = (0, None);
                match outcome {
                    Outcome::Nothing | Outcome::Same => follow.interval,
                    // The publisher waits for this server, and clients for the publisher.
                    Outcome::Received(version) => {
                        received = Some(version);
                        follow.interval.min(WAITING)
                    }
                    // The next look follows at once: another version may have come during the
                    // transfer, and the look reports that this version has arrived.
                    Outcome::Adopted { sequence } => {
                        tracing::info!(database = %name, sequence, "a version was copied, and answers");
                        Duration::ZERO
                    }
                }
            }
            Err(FollowError::Ended) => return,
            Err(error) => {
                tracing::warn!(database = %name, %error, "following failed; the former version goes on answering");
                strong.engine.refuse(name, error.to_string());
                failures += 1;
                if received.is_some() { follow.interval.min(WAITING) } else { follow.interval }
            }
        };
        let ending = Arc::clone(&strong.ending);
        drop(strong);
        if ending.wait(pause(interval, failures)) {
            return;
        }
    }
}

/// Returns the time until the next look: longer after failures, and random, so that followers do
/// not all ask at once.
fn pause(interval: Duration, failures: u32) -> Duration {
    let longest = interval.saturating_mul(1 << failures.min(10)).min(LONGEST_PAUSE.max(interval));
    let mut byte = [0];
    // Without randomness the pause is the longest.
    let part = getrandom::fill(&mut byte).map_or(1.0, |()| f64::from(byte[0]) / 255.0);
    longest.mul_f64(0.5 + part / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_failures_up_to_a_bound() {
        let second = Duration::from_secs(1);
        for (failures, most) in [(0, 1), (1, 2), (3, 8), (40, 300)] {
            let pause = pause(second, failures);
            assert!(pause >= second * most / 2 && pause <= second * most, "{failures}: {pause:?}");
        }
        assert!(pause(LONGEST_PAUSE * 2, 9) <= LONGEST_PAUSE * 2);
    }
}
