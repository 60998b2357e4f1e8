//! Following another server or a bucket: its versions are copied into the repositories here, and
//! answer.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use spirea_cpu::priority::at_low_priority;
use spirea_engine::Database;
use spirea_protocols::Version;
use spirea_store::repository::{BucketPublisher, Offer, StoredRecord, Trust};
use ureq::http::HeaderValue;

use super::ending::Ending;
use super::entries::Library;
use super::followers::FollowerId;
use super::loader::Loader;
use super::source::Source;
use super::thread::spawn;
use super::version_files::VersionFiles;
use crate::apple::Opened;
use crate::follow::{Follow, FollowError, LONGEST_WAIT, Look, Origin};

/// Maximum time between looks while a version that has arrived does not answer yet.
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
    fn follow_once(self: &Arc<Self>, following: &mut Following<'_>) -> Result<Outcome, FollowError> {
        let Following { name, follow, .. } = *following;
        let (entry, repository) = self.entry(name).map_err(|error| FollowError::Load(error.to_string()))?;
        let waiting = following.arrived.as_ref().map(|arrived| arrived.record.version());
        following.has = waiting.or_else(|| Some(repository.current()?.version));
        following.tag = None;
        let publisher = following.origin(&self.ending)?;
        let trust = Trust { name, key: follow.key.as_ref(), disk: follow.disk };
        let offer = repository.offered(&publisher, trust)?;
        let tag = publisher.tag();
        let (stored, answers) = match offer {
            Offer::Nothing => return Ok(Outcome::Nothing),
            Offer::Same => {
                following.tag = tag;
                return Ok(Outcome::Same);
            }
            Offer::Newer { record, answers } => (record, answers),
        };
        self.engine.expect(name, stored.version());
        let receive = || repository.receive(&publisher, &stored, trust);
        let backends = self.loader.backends();
        let known =
            following.arrived.take().filter(|known| known.record == stored && known.backends == backends);
        let (record, opened) = match known {
            Some(known) => (receive()?, known),
            None => at_low_priority(|| {
                let record = receive()?;
                let version = VersionFiles::from(record.clone());
                let (parts, apple) = self.open_arrived(name, &version).map_err(FollowError::Load)?;
                Ok::<_, FollowError>((record, Arrived { record: stored.clone(), parts, apple, backends }))
            })?,
        };
        if !answers {
            following.has = Some(stored.version());
            following.arrived = Some(opened);
            following.tag = tag;
            return Ok(Outcome::Arrived);
        }
        let version = VersionFiles::from(record.clone());
        let _turn = entry.turn();
        let served = self.open(name, &version, |loader, snapshot| {
            let known = opened.parts.iter().find(|part| part.identity().version == snapshot.version());
            known.map_or_else(|| loader.open_interim(snapshot), |known| Ok(Arc::clone(known)))
        });
        let (served, sequence) = (served.map_err(FollowError::Load)?, record.sequence);
        repository.commit_copy(record)?;
        self.put(name, &version, served, opened.apple);
        Ok(Outcome::Adopted { sequence })
    }

    /// Opens a version whose files have arrived. It is opened before it becomes current on disk, so
    /// that a version that cannot be loaded here is not adopted, and before its publisher answers
    /// from it, so that clients do not wait for the opening.
    fn open_arrived(
        &self,
        name: &str,
        version: &VersionFiles,
    ) -> Result<(Vec<Arc<Database>>, Opened), String> {
        let protocol = &version.base.manifest().protocol;
        protocol.party(self.loader.opening()).map_err(|error| error.to_string())?;
        let served = self.open(name, version, Loader::open_interim)?;
        Ok((served.parts().cloned().collect(), self.open_apple(name, &version.base)?))
    }

    /// Clears a refusal that operators see, by publishing the newest version again.
    fn clear_refusal(&self, name: &str) {
        if let Ok(served) = self.engine.version(name, None) {
            self.engine.publish(served);
        }
    }
}

/// A database that follows another server or a bucket.
struct Following<'f> {
    name: &'f str,
    follow: &'f Follow,
    bucket: Option<&'f BucketPublisher>,
    follower: FollowerId,
    /// Newest version whose files are here, if any.
    has: Option<Version>,
    /// A version that waits for the followed server to answer from it.
    arrived: Option<Arrived>,
    /// Tag of the followed server's state at the last look; `None` if the next look comes after a
    /// pause, whether or not the state changes.
    tag: Option<HeaderValue>,
}

impl<'f> Following<'f> {
    /// Returns the followed server or bucket. Its transfers fail once the server here has ended.
    fn origin(&self, ending: &Arc<Ending>) -> Result<Origin<'f, impl Fn() -> bool + use<>>, FollowError> {
        let (look, ending) = (Look { follower: self.follower, has: self.has }, Arc::clone(ending));
        Origin::new(self.follow, self.name, self.bucket, look, move || ending.has_come())
    }

    /// Waits until the followed server has another state or, if that server does not tell, for the
    /// time `pause`.
    fn rest(&self, pause: Duration, ending: &Arc<Ending>) -> Rest {
        let began = Instant::now();
        let wait = |tag| self.origin(ending)?.wait(tag);
        // The next look reports an error.
        let told = self.tag.as_ref().is_some_and(|tag| wait(tag).unwrap_or(false));
        let past = began.elapsed();
        let rest = if told { Duration::ZERO } else { pause.saturating_sub(past) };
        match ending.wait(rest) {
            true => Rest::Ended,
            false if told && past < pause.min(LONGEST_WAIT / 2) => Rest::Told,
            false => Rest::Over,
        }
    }
}

/// End of the time between two looks.
#[derive(PartialEq, Eq)]
enum Rest {
    /// The server here has ended.
    Ended,
    /// The followed server told of a change well before the end of the pause.
    Told,
    /// The time for the next look has come.
    Over,
}

/// A version whose files are here and whose parts are open, but which does not answer yet.
struct Arrived {
    record: Box<StoredRecord>,
    parts: Vec<Arc<Database>>,
    apple: Opened,
    /// Number of backends when the parts were opened. If a device has failed since, the parts are
    /// opened again.
    backends: usize,
}

/// Result of a look at the followed server or bucket.
enum Outcome {
    /// The followed server has no version yet.
    Nothing,
    /// The followed server's current version answers here.
    Same,
    /// The followed server's current version was copied, but does not answer at that server yet.
    Arrived,
    /// The followed server's current version was copied, and answers here.
    Adopted {
        /// Number of the version.
        sequence: u64,
    },
}

/// Looks at the followed server again and again, until this server has ended.
fn run(library: &Weak<Library>, follow: &Follow, name: &str) {
    let mut failures = 0;
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
    let (mut following, mut rest) = (
        Following { name, follow, bucket: bucket.as_ref(), follower, has: None, arrived: None, tag: None },
        Rest::Over,
    );
    loop {
        let Some(strong) = library.upgrade() else { return };
        let had = following.has;
        let outcome = strong.follow_once(&mut following);
        // If the server told of a change and there was none, the next look comes after a pause.
        let news = following.has != had || matches!(outcome, Ok(Outcome::Adopted { .. }));
        if rest == Rest::Told && !news {
            following.tag = None;
        }
        let interval = match outcome {
            Ok(outcome) => {
                if failures > 0 {
                    tracing::info!(database = %name, "following works again");
                    strong.clear_refusal(name);
                }
                failures = 0;
                match outcome {
                    Outcome::Nothing | Outcome::Same => {
                        following.arrived = None;
                        follow.interval
                    }
                    // The publisher waits for this server, and clients for the publisher.
                    Outcome::Arrived => follow.interval.min(WAITING),
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
                if following.arrived.is_some() { follow.interval.min(WAITING) } else { follow.interval }
            }
        };
        let ending = Arc::clone(&strong.ending);
        drop(strong);
        rest = following.rest(pause(interval, failures), &ending);
        if rest == Rest::Ended {
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
