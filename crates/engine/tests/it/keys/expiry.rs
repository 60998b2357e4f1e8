//! Keys that expire, and keys of a client that has too many.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use spirea_engine::keys::{ClientBudget, Departures};
use spirea_engine::{KeyEvents, KeyOptions, KeyRegistry};
use spirea_specimens::keyed::{PREPARED, keys};

use super::fixture::{Fixture, both, file_of, files, in_memory, on_disk, set_bytes};

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns a clock that stands still until it is set, and a registry with this clock.
fn set_clock(options: &KeyOptions) -> (Arc<Mutex<SystemTime>>, Fixture) {
    let time = Arc::new(Mutex::new(SystemTime::UNIX_EPOCH + 20_000 * DAY));
    (Arc::clone(&time), by_clock(options, &time))
}

fn by_clock(options: &KeyOptions, time: &Arc<Mutex<SystemTime>>) -> Fixture {
    let time = Arc::clone(time);
    let clock = Arc::new(move || *time.lock());
    Fixture::over(KeyRegistry::with_clock(options, clock).unwrap())
}

#[test]
fn keys_that_nobody_uses_expire_in_memory_and_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let options = KeyOptions { expiry: 30 * DAY, ..both(folder.path()) };
    let (time, fixture) = set_clock(&options);
    let [used, unused] = [1, 2].map(|client| fixture.register(&keys(client)));
    *time.lock() += 29 * DAY;
    assert!(fixture.knows(used));
    fixture.engine.expire_keys();
    assert_eq!(fixture.usage(), [(2, 2 * PREPARED), (2, 2 * set_bytes())]);
    *time.lock() += DAY;
    // Expired keys answer no query, even before they are removed.
    assert!(!fixture.knows(unused) && fixture.knows(used));
    fixture.engine.expire_keys();
    assert_eq!((fixture.usage(), files(folder.path())), ([(1, PREPARED), (1, set_bytes())], 1));
    assert_eq!(fixture.seen.alive(), 1);
    let KeyEvents { memory, disk, .. } = fixture.engine.key_events();
    assert_eq!([memory, disk], [Departures { evicted: 0, expired: 1 }; 2]);
    // If keys are registered again, their expiry period begins again.
    assert_eq!(fixture.register(&keys(2)), unused);
    *time.lock() += 29 * DAY;
    assert!(fixture.knows(unused) && fixture.knows(used));
}

#[test]
fn keys_expire_by_their_last_use_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let options = KeyOptions { expiry: 30 * DAY, ..both(folder.path()) };
    let (time, fixture) = set_clock(&options);
    let [used, unused] = [1, 2].map(|client| fixture.register(&keys(client)));
    let written = || file_of(folder.path(), 1).unwrap().metadata().unwrap().modified().unwrap();
    let registered = *time.lock();
    assert_eq!(written(), registered);
    // A file's time is written at most once an hour.
    *time.lock() += HOUR - Duration::from_secs(1);
    assert!(fixture.knows(used) && written() == registered);
    *time.lock() += 20 * DAY;
    assert!(fixture.knows(used));
    assert_eq!(written(), registered + 20 * DAY + HOUR - Duration::from_secs(1));
    drop(fixture);

    *time.lock() += 10 * DAY;
    let fixture = by_clock(&options, &time);
    assert_eq!((fixture.usage()[1].0, files(folder.path())), (1, 1));
    assert!(!fixture.knows(unused) && fixture.knows(used));
    // After the clock is set back, no keys count as expired.
    drop(fixture);
    *time.lock() -= 1000 * DAY;
    assert!(by_clock(&options, &time).knows(used));
}

#[test]
fn a_client_displaces_its_own_keys_and_nobody_else_s() {
    let folder = tempfile::tempdir().unwrap();
    let in_memory = KeyOptions {
        client: ClientBudget { memory_bytes: Some(2 * PREPARED), ..ClientBudget::default() },
        ..KeyOptions::default()
    };
    let by_number = KeyOptions {
        client: ClientBudget { sets: Some(2), ..ClientBudget::default() },
        ..KeyOptions::default()
    };
    let on_disk = KeyOptions {
        client: ClientBudget { disk_bytes: Some(2 * set_bytes()), ..ClientBudget::default() },
        ..on_disk(folder.path(), 8)
    };
    // By default, the limit of a client is half of the total limit.
    let half = self::in_memory(4);
    for options in [in_memory, by_number, on_disk, half] {
        let fixture = Fixture::new(&options);
        let others = fixture.register_for(b"other", 0);
        let own = [1, 2, 3, 4].map(|client| fixture.register_for(b"greedy", client));
        assert!(fixture.knows(others));
        assert_eq!(own.map(|keys| fixture.knows(keys)), [false, false, true, true]);
        // The most recently used keys stay.
        assert!(fixture.knows(own[2]));
        fixture.register_for(b"greedy", 5);
        assert_eq!([own[2], own[3]].map(|keys| fixture.knows(keys)), [true, false]);
    }
}

#[test]
fn keys_that_come_back_from_disk_count_as_their_owner_s_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let client = ClientBudget { memory_bytes: Some(PREPARED), ..ClientBudget::default() };
    let fixture = Fixture::new(&KeyOptions { client, ..both(folder.path()) });
    let others = fixture.register_for(b"other", 0);
    let own = [1, 2, 3].map(|client| fixture.register_for(b"greedy", client));
    let prepared = fixture.seen.prepared();
    assert!(own.into_iter().chain(own).all(|keys| fixture.knows(keys)));
    assert_eq!(fixture.seen.prepared(), prepared + 6);
    assert!(fixture.knows(others));
    assert_eq!((fixture.seen.prepared(), fixture.usage()[0].0), (prepared + 6, 2));
}
