//! Damaged snapshots are detected when opened or verified. Served regardless, they never give a
//! wrong value.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use spirea_backend::Share;
use spirea_math::random::SecretRng;
use spirea_protocols::ProtocolError;
use spirea_specimens::LookUps;
use spirea_specimens::snapshots::{columns, csv_options, options, try_build, write_file};
use spirea_store::{Silent, Snapshot, StoreError};

fn table(folder: &std::path::Path) -> Snapshot {
    let rows: String = (0..200).map(|i| format!("key {i},{}\n", "value".repeat(i % 9))).collect();
    let input = write_file(folder, "data.csv", format!("key,value\n{rows}"));
    try_build(&options(&input, Some("key"), &["value"])).unwrap()
}

/// Flips bits of one byte of a file; returns a closure that restores the byte.
fn flip(path: &std::path::Path, at: u64, mask: u8) -> impl FnOnce() + use<> {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ mask], at).unwrap();
    move || file.write_all_at(&byte, at).unwrap()
}

#[test]
fn a_thousand_flipped_bytes_are_all_detected() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = table(folder.path());
    let mut rng = SecretRng::deterministic_for_tests(5);
    for round in 0..1000 {
        let name = ["manifest.json", "matrix.bin", "hint.bin", "hint.rows"][round % 4];
        let path = snapshot.folder().join(name);
        let at = rng.next_u64() % path.metadata().unwrap().len();
        let restore = flip(&path, at, (rng.next_u64() % 255 + 1) as u8);
        let checked = Snapshot::open(snapshot.folder()).and_then(|snapshot| snapshot.verify(&Silent));
        match (name, checked) {
            ("manifest.json", Err(StoreError::BadManifest { .. })) => {}
            ("matrix.bin" | "hint.bin" | "hint.rows", Err(StoreError::Damaged { path, .. })) => {
                assert!(path.ends_with(name))
            }
            (_, other) => panic!("byte {at} of {name}: {other:?}"),
        }
        restore();
    }
    Snapshot::open(snapshot.folder()).unwrap().verify(&Silent).unwrap();
}

#[test]
fn other_lengths_and_missing_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = table(folder.path());
    let verified = || Snapshot::open(snapshot.folder()).unwrap().verify(&Silent);
    for path in [snapshot.matrix_path(), snapshot.hint_path()] {
        let content = std::fs::read(&path).unwrap();
        for length in [0, content.len() / 2, content.len() + 1] {
            OpenOptions::new().write(true).open(&path).unwrap().set_len(length as u64).unwrap();
            let message = verified().unwrap_err().to_string();
            assert!(message.contains(&format!("has {length} bytes")), "{message}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(verified(), Err(StoreError::Io { .. })));
        std::fs::write(&path, content).unwrap();
    }
    verified().unwrap();
}

/// Replaces a snapshot's files by others with the same lengths; returns a closure that restores
/// them.
fn swap(snapshot: &Snapshot) -> impl FnOnce() + use<> {
    let files = snapshot.manifest().files();
    let paths: Vec<_> = files.map(|entry| snapshot.folder().join(&entry.file)).collect();
    for path in paths.iter().filter(|path| !path.ends_with("hint.bin")) {
        let length = path.metadata().unwrap().len() as usize;
        std::fs::rename(path, path.with_extension("former")).unwrap();
        std::fs::write(path, vec![0x5a; length]).unwrap();
    }
    move || {
        for path in paths.iter().filter(|path| !path.ends_with("hint.bin")) {
            std::fs::rename(path.with_extension("former"), path).unwrap();
        }
    }
}

#[test]
fn files_that_take_the_places_of_verified_ones_are_not_served() {
    for protocol in ["simple", "exppack-simple", "double"] {
        let folder = tempfile::tempdir().unwrap();
        let (out, selection) = (folder.path().join("table"), columns(Some("key"), &["value"]));
        let snapshot =
            try_build(&csv_options(&out, protocol, selection, "key,value\na,first\nb,second\n")).unwrap();
        let share = Share::new(0, 2).unwrap();
        for verify in [
            (|snapshot: &Snapshot, _| snapshot.verify(&Silent)) as fn(&Snapshot, Share) -> _,
            |snapshot, share| snapshot.verify_share(share).and_then(|()| snapshot.verify_beside_matrix()),
        ] {
            let opened = Snapshot::open(snapshot.folder()).unwrap();
            verify(&opened, share).unwrap();
            let restore = swap(&opened);
            let mut found = LookUps::new(&opened.clone());
            assert_eq!(found.key(b"b").unwrap(), Some(b"second".to_vec()), "{protocol}");
            restore();
        }
    }
}

#[test]
fn without_verification_damage_gives_an_error_and_never_a_wrong_value() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot = table(folder.path());
    let mut rng = SecretRng::deterministic_for_tests(6);
    let (mut right, mut corrupted) = (0, 0);
    for round in 0..60 {
        let path = if round % 2 == 0 { snapshot.matrix_path() } else { snapshot.hint_path() };
        let length = path.metadata().unwrap().len();
        // The number of flips is chosen so that some look-ups read flipped bytes and others do not.
        let restore: Vec<_> = (0..if round % 2 == 0 { 20 } else { 3 })
            .map(|_| flip(&path, rng.next_u64() % length, (rng.next_u64() % 255 + 1) as u8))
            .collect();
        let mut lookups = LookUps::new(&snapshot);
        for i in [0, 7, 8, 55, 199] {
            match lookups.key(format!("key {i}").as_bytes()) {
                Ok(value) => {
                    assert_eq!(value, Some("value".repeat(i % 9).into_bytes()));
                    right += 1;
                }
                Err(ProtocolError::Corrupted) => corrupted += 1,
                Err(other) => panic!("{other}"),
            }
        }
        // The bytes are restored in reverse order, because two flips may have hit the same byte.
        restore.into_iter().rev().for_each(|restore| restore());
    }
    assert!(corrupted > 20 && right > 0, "{right} right, {corrupted} corrupted");
    snapshot.verify(&Silent).unwrap();
}
