//! Contributors who know the public values of a table choose keys to crowd a bucket: the effect
//! lasts for a single publication.

use std::path::Path;

use spirea_protocols::keyword::{EntryPlace, KeyHash};
use spirea_protocols::registry::Choice;
use spirea_protocols::{Table, TableKind};
use spirea_specimens::LookUps;
use spirea_specimens::snapshots::{BACKEND, options, try_build, write_file};
use spirea_store::repository::{Settings, Shrinking};
use spirea_store::{Changes, Protocol, Repository, Silent, Snapshot};

/// Length of a value, in bytes. With values of this length, a few hundred keys in one bucket exceed
/// any padding of a table.
const VALUE_BYTES: usize = 1000;

/// Bucket size, in bytes, that evenly hashed keys never reach. Aimed keys in one bucket would need
/// ten times this size. Bucket sizes differ between builds, since random places favour fewer,
/// larger buckets in some of them.
const CROWDED: usize = 300 * VALUE_BYTES / 10;

fn base(folder: &Path, protocol: &str) -> Snapshot {
    let value = "v".repeat(VALUE_BYTES);
    let rows: String = (0..700).map(|i| format!("key {i},{value}\n")).collect();
    let input = write_file(folder, "data.csv", format!("key,value\n{rows}"));
    let mut options = options(&input, Some("key"), &["value"]);
    options.protocol = Protocol::Named(Choice { protocol: protocol.into(), ..Choice::default() });
    try_build(&options).unwrap()
}

fn repository(folder: &Path, base: &Snapshot, name: &str) -> Repository {
    let repository = Repository::create(folder.join(name), Settings::default()).unwrap();
    repository.add_base(base, Shrinking::Refuse, &Silent).unwrap();
    repository
}

/// Returns three hundred keys in the first of 4096 buckets of a table. They are also in the first
/// bucket if the table has fewer buckets.
fn aimed(table: &Table) -> Vec<Vec<u8>> {
    let places = table.places.unwrap();
    let first = |key: &Vec<u8>| EntryPlace::new(&places, &KeyHash::new(&table.salt, key).tag).part(4096) == 0;
    (0..).map(|i| format!("aimed {i}").into_bytes()).filter(first).take(300).collect()
}

fn even() -> Vec<Vec<u8>> {
    (0..300).map(|i| format!("even {i}").into_bytes()).collect()
}

fn puts(keys: &[Vec<u8>]) -> Changes {
    let mut changes = Changes::new();
    keys.iter().for_each(|key| changes.put(key.clone(), vec![b'x'; VALUE_BYTES]));
    changes
}

#[test]
fn keys_aimed_at_a_bucket_of_the_last_delta_lie_apart_in_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let base = base(folder.path(), "simple");
    let first = |name| {
        let repository = repository(folder.path(), &base, name);
        let delta = repository.apply(puts(&even()[..1]), &BACKEND, &Silent).unwrap().delta.unwrap();
        (repository, delta.manifest().table.clone())
    };
    let (crowded, known) = first("crowded");
    let keys = aimed(&known);
    let delta = crowded.apply(puts(&keys), &BACKEND, &Silent).unwrap().delta.unwrap();
    let table = &delta.manifest().table;
    let (control, _) = first("control");
    let evenly = control.apply(puts(&even()), &BACKEND, &Silent).unwrap().delta.unwrap();
    let [bytes, needed] = [&delta, &evenly].map(|delta| delta.manifest().matrix.bytes);
    // Sizes of deltas are slightly above powers of two. Random places may cost two doublings; keys
    // in one bucket would cost three.
    assert!(bytes < 5 * needed, "{bytes} where evenly hashed keys need {needed}");
    assert!(table.payload_bytes < CROWDED, "buckets of {}", table.payload_bytes);
    assert!(table.places != known.places && table.salt == known.salt);
    let mut lookups = LookUps::new(&delta);
    for key in keys.iter().step_by(60) {
        assert!(lookups.key(key).unwrap().is_some());
    }
    // Entries that still fit keep their places, so that clients keep most of the hint.
    let next = crowded.apply(puts(&even()[..1]), &BACKEND, &Silent).unwrap().delta.unwrap();
    assert_eq!(next.manifest().table.places, table.places);
}

#[test]
fn keys_aimed_at_a_bucket_of_the_base_lie_apart_after_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let base = base(folder.path(), "simple");
    let known = &base.manifest().table;
    let compacted = |name, keys: &[Vec<u8>]| {
        let repository = repository(folder.path(), &base, name);
        repository.apply(puts(keys), &BACKEND, &Silent).unwrap();
        repository.compact(&BACKEND, &Silent).unwrap().base
    };
    let keys = aimed(known);
    let crowded = compacted("crowded", &keys);
    let table = &crowded.manifest().table;
    let evenly = compacted("control", &even());
    for table in [table, &evenly.manifest().table] {
        assert!(table.payload_bytes < CROWDED, "buckets of {}", table.payload_bytes);
    }
    assert!(crowded.manifest().padding() < 3.0);
    assert!(table.places != known.places && table.salt == known.salt);
    assert_eq!((table.kind, table.entries), (TableKind::Keyword, 1000));
    let mut lookups = LookUps::new(&crowded);
    for key in keys.iter().step_by(60).cloned().chain([b"key 9".to_vec()]) {
        assert!(lookups.key(&key).unwrap().is_some());
    }
}

#[test]
fn the_public_matrix_or_pad_is_another_in_every_version_unless_clients_hold_a_hint() {
    for protocol in ["simple", "exppack-simple", "onion"] {
        let folder = tempfile::tempdir().unwrap();
        let base = base(folder.path(), protocol);
        let repository = repository(folder.path(), &base, "repository");
        let publish = |keys: &[Vec<u8>]| repository.apply(puts(keys), &BACKEND, &Silent).unwrap();
        let known = ["key 0", "key 1"].map(|key| key.as_bytes().to_vec());
        let deltas = [publish(&known[..1]), publish(&known[1..])].map(|record| record.delta.unwrap());
        let in_place = repository.compact(&BACKEND, &Silent).unwrap().base;
        let places = [&base, &in_place].map(|base| base.manifest().table.places);
        let proven = base.manifest().table.proofs.is_some();
        assert_eq!(
            places[0] != places[1],
            proven,
            "{protocol}: two changes are compacted in place, but for proofs"
        );
        publish(&even());
        let anew = repository.compact(&BACKEND, &Silent).unwrap().base;
        assert_ne!(anew.manifest().table.places, places[0], "three hundred are not");
        let seeds = |of: &[&Snapshot]| -> Vec<_> {
            of.iter().map(|snapshot| snapshot.manifest().protocol.seed().unwrap()).collect()
        };
        let (deltas, bases) = (seeds(&deltas.each_ref()), seeds(&[&base, &in_place, &anew]));
        if protocol == "simple" {
            assert!(deltas[0] == deltas[1] && bases[0] == bases[1] && bases[1] == bases[2]);
        } else {
            assert!(deltas[0] != deltas[1] && bases[0] != bases[1] && bases[1] != bases[2]);
        }
    }
}
