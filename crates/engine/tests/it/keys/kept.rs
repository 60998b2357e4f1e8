//! Keys kept in memory and on disk, and their order of eviction if there is no room for all.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use spirea_engine::keys::{Amount, Departures};
use spirea_engine::{EngineError, KeyEvents, KeyOptions, KeyRegistry};
use spirea_protocols::KeysHash;
use spirea_specimens::keyed::{PREPARED, keys};

use super::fixture::{Fixture, both, file_of, files, in_memory, on_disk, register, set_bytes};

#[test]
fn the_least_recently_used_leave_memory_first() {
    let fixture = Fixture::new(&in_memory(2));
    let [a, b] = [1, 2].map(|client| fixture.register(&keys(client)));
    assert!(fixture.knows(a));
    let c = fixture.register(&keys(3));
    assert_eq!([a, b, c].map(|keys| fixture.knows(keys)), [true, false, true]);
    assert_eq!((fixture.usage()[0], fixture.seen.alive()), ((2, 2 * PREPARED), 2));
    // The client of the evicted keys uploads them again.
    assert_eq!(fixture.register(&keys(2)), b);
    assert_eq!([a, b, c].map(|keys| fixture.knows(keys)), [false, true, true]);
}

#[test]
fn keys_that_left_memory_are_prepared_again_from_disk() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(&KeyOptions { memory_bytes: PREPARED, ..both(folder.path()) });
    let [a, b] = [1, 2].map(|client| fixture.register(&keys(client)));
    assert_eq!(fixture.usage(), [(1, PREPARED), (2, 2 * set_bytes())]);
    assert_eq!((fixture.ask(a).unwrap(), fixture.seen.prepared()), (1, 3));
    assert_eq!((fixture.ask(a).unwrap(), fixture.seen.prepared()), (1, 3));
    assert_eq!((fixture.ask(b).unwrap(), fixture.seen.prepared()), (2, 4));
    assert_eq!(fixture.usage(), [(1, PREPARED), (2, 2 * set_bytes())]);
    assert!(!fixture.knows(KeysHash::new([7; 32])));
    let events = KeyEvents { from_memory: 1, from_disk: 2, unknown: 1, ..KeyEvents::default() };
    let memory = Departures { evicted: 3, expired: 0 };
    assert_eq!(fixture.engine.key_events(), KeyEvents { memory, ..events });
}

#[test]
fn the_least_recently_used_leave_the_disk_first() {
    let by_number = |folder: &Path| on_disk(folder, 2);
    let by_bytes = |folder: &Path| KeyOptions {
        disk: Amount { bytes: 3 * set_bytes() - 1, ..KeyOptions::default().disk },
        ..on_disk(folder, 0)
    };
    let options: [&dyn Fn(&Path) -> KeyOptions; 2] = [&by_number, &by_bytes];
    for options in options {
        let folder = tempfile::tempdir().unwrap();
        let fixture = Fixture::new(&options(folder.path()));
        let [a, b] = [1, 2].map(|client| fixture.register(&keys(client)));
        assert!(fixture.knows(a));
        let c = fixture.register(&keys(3));
        assert_eq!(fixture.usage()[1], (2, 2 * set_bytes()));
        assert_eq!((files(folder.path()), file_of(folder.path(), 2)), (2, None));
        assert_eq!([a, b, c].map(|keys| fixture.knows(keys)), [true, false, true]);
    }
}

#[test]
fn keys_in_use_in_memory_do_not_age_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(&KeyOptions { memory_bytes: 1 << 20, ..on_disk(folder.path(), 2) });
    let [a, _] = [1, 2].map(|client| fixture.register(&keys(client)));
    assert!(fixture.knows(a));
    fixture.register(&keys(3));
    assert!(file_of(folder.path(), 1).is_some() && file_of(folder.path(), 2).is_none());
}

#[test]
fn a_restart_keeps_keys_and_the_order_of_their_use() {
    let folder = tempfile::tempdir().unwrap();
    let hashes = {
        let fixture = Fixture::new(&both(folder.path()));
        [1, 2, 3].map(|client| fixture.register(&keys(client)))
    };
    // Sets times that are far enough apart for any file system. The second file has the latest
    // time.
    for (client, age) in [(1, 20), (2, 0), (3, 40)] {
        let file = File::options().append(true).open(file_of(folder.path(), client).unwrap()).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    }
    let fixture = Fixture::new(&both(folder.path()));
    assert_eq!(fixture.usage(), [(0, 0), (3, 3 * set_bytes())]);
    assert_eq!(fixture.ask(hashes[0]).unwrap(), 1);
    drop(fixture);

    // There is room for two sets only. The first was used again, and the third is the oldest, so
    // the third is removed.
    let fixture = Fixture::new(&on_disk(folder.path(), 2));
    assert_eq!((fixture.usage()[1].0, files(folder.path())), (2, 2));
    assert_eq!(hashes.map(|keys| fixture.knows(keys)), [true, true, false]);
    drop(fixture);
    let fixture = Fixture::new(&on_disk(folder.path(), 0));
    assert_eq!((fixture.usage()[1].0, files(folder.path())), (0, 0));
}

#[test]
fn damaged_files_are_thrown_away_and_their_keys_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let options = on_disk(folder.path(), 8);
    let hash = Fixture::new(&options).register(&keys(1));
    let path = file_of(folder.path(), 1).unwrap();
    let damages: [fn(&mut Vec<u8>); 4] =
        [|bytes| bytes[77] ^= 4, |bytes| bytes.truncate(100), |bytes| bytes.push(0), Vec::clear];
    for damage in damages {
        let mut bytes = keys(1);
        damage(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
        let fixture = Fixture::new(&options);
        assert!(!fixture.knows(hash));
        assert_eq!((fixture.usage()[1], files(folder.path())), ((0, 0), 0));
        assert_eq!(fixture.register(&keys(1)), hash);
        assert!(fixture.knows(hash));
    }
    // The file is removed without the registry's knowledge. The keys are then unknown, and are
    // stored again when they are registered again.
    let fixture = Fixture::new(&options);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(fixture.register(&keys(1)), hash);
    std::fs::remove_file(&path).unwrap();
    assert!(!fixture.knows(hash));
    assert_eq!(fixture.usage()[1], (0, 0));
}

#[test]
fn what_an_ended_process_left_is_removed_and_other_files_stay() {
    let folder = tempfile::tempdir().unwrap();
    let hash = Fixture::new(&both(folder.path())).register(&keys(1));
    let path = file_of(folder.path(), 1).unwrap();
    std::fs::write(path.with_extension("partial"), b"half").unwrap();
    for foreign in ["notes.txt", "0123.keys", "keys"] {
        std::fs::write(folder.path().join(foreign), b"not keys").unwrap();
    }
    let fixture = Fixture::new(&both(folder.path()));
    assert_eq!((fixture.usage()[1].0, files(folder.path())), (1, 4));
    assert!(fixture.knows(hash) && !path.with_extension("partial").exists());

    let error = KeyRegistry::open(&both(&folder.path().join("notes.txt"))).map(drop).unwrap_err();
    assert!(error.to_string().contains("notes.txt"), "{error}");
}

#[test]
fn budgets_below_one_set_are_told_where_nothing_is_left_to_hold_it() {
    let fixture = Fixture::new(&in_memory(0));
    assert!(matches!(register(&fixture.engine, "test", &keys(1)), Err(EngineError::NoRoomForKeys)));

    // Only the disk has room: the keys are prepared for every use.
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::new(&on_disk(folder.path(), 8));
    let hash = fixture.register(&keys(1));
    assert_eq!([fixture.ask(hash).unwrap(), fixture.ask(hash).unwrap()], [1, 1]);
    assert_eq!((fixture.seen.prepared(), fixture.seen.alive()), (3, 0));

    // Only memory has room.
    let folder = tempfile::tempdir().unwrap();
    let disk = Amount { sets: 8, bytes: set_bytes() - 1 };
    let fixture = Fixture::new(&KeyOptions { disk, ..both(folder.path()) });
    let hash = fixture.register(&keys(1));
    assert!(fixture.knows(hash));
    assert_eq!((fixture.usage(), files(folder.path())), ([(1, PREPARED), (0, 0)], 0));
}

#[test]
fn a_disk_that_fails_leaves_keys_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("keys");
    let fixture = Fixture::new(&both(&inner));
    std::fs::remove_dir(&inner).unwrap();
    let hash = fixture.register(&keys(1));
    assert!(fixture.knows(hash));
    assert_eq!(fixture.usage(), [(1, PREPARED), (0, 0)]);
}
