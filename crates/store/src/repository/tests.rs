//! Interrupts every step of a repository at every file operation, then checks the reopened
//! repository.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use spirea_cpu::CpuBackend;
use spirea_protocols::Table;
use spirea_protocols::delta::{Change, index_key};
use spirea_protocols::registry::Choice;

use super::*;
use crate::error::faults;
use crate::ingest::{Format, Selection};
use crate::record_file::RecordFile;
use crate::{BuildOptions, Protocol, Silent, build};

pub(super) fn backend() -> &'static Arc<CpuBackend> {
    static BACKEND: OnceLock<Arc<CpuBackend>> = OnceLock::new();
    BACKEND.get_or_init(|| Arc::new(CpuBackend::new(1).unwrap()))
}

/// Ends fault injection even if a test fails.
struct Healed;

impl Drop for Healed {
    fn drop(&mut self) {
        faults::after(None);
    }
}

const ROWS: u64 = 40;

pub(super) fn base(folder: &Path) -> Snapshot {
    let rows: String = (0..ROWS).map(|row| format!("value {row}\n")).collect();
    let input = folder.join("rows.csv");
    fs::write(&input, format!("value\n{rows}")).unwrap();
    let selection = Selection { values: vec!["value".into()], ..Selection::default() };
    let out = folder.join("rows");
    let options =
        BuildOptions { seed: Some([3; 32]), ..BuildOptions::new(input, Format::CSV, selection, out) };
    build(&options, backend(), &Silent).unwrap()
}

/// Covers changes in place, and changes that require rebuilding the table.
#[test]
fn a_table_in_bins_has_no_deltas() {
    let folder = tempfile::tempdir().unwrap();
    let protocol = Choice { protocol: "dpf-xor".into(), bins: 4, ..Choice::default() };
    let rows = (0..ROWS).map(|row| format!("value {row}\n")).collect::<String>();
    let input = folder.path().join("binned.csv");
    fs::write(&input, format!("value\n{rows}")).unwrap();
    let selection = Selection { values: vec!["value".into()], ..Selection::default() };
    let options = BuildOptions {
        protocol: Protocol::Named(protocol),
        ..BuildOptions::new(input, Format::CSV, selection, folder.path().join("binned"))
    };
    let binned = build(&options, backend(), &Silent).unwrap();
    let repository = open(&folder.path().join("repository"));
    let mut expected = content(&repository.add_base(&binned, Shrinking::Refuse, &Silent).unwrap());
    assert_eq!(expected.len(), ROWS as usize);
    let edits = [
        changes(&[(3, Some("changed")), (5, None)]),
        // Rows that the base does not have.
        changes(&[(ROWS, Some("added")), (ROWS + 1, Some("added too"))]),
    ];
    for edit in edits {
        let record = repository.apply(edit.clone(), backend(), &Silent).unwrap();
        for (key, change) in edit.iter() {
            let row = u64::from_le_bytes(key.try_into().unwrap());
            match change {
                Change::Put(value) => drop(expected.insert(row, value.to_vec())),
                Change::Delete => drop(expected.remove(&row)),
            }
        }
        assert!(record.delta.is_none());
        assert_eq!(record.base.manifest().protocol.bins, 4);
        assert_eq!(content(&record), expected);
    }
}

#[test]
fn files_longer_than_they_may_be_are_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("repository");
    let repository = open(&place);
    repository.add_base(&base(folder.path()), Shrinking::Refuse, &Silent).unwrap();
    let record = repository.apply(changes(&[(3, Some("changed"))]), backend(), &Silent).unwrap();
    drop(repository);
    // Makes a file sparse and longer than the memory of any machine.
    let extend = |path: &Path| File::options().write(true).open(path).unwrap().set_len(1 << 42).unwrap();
    extend(&record.delta.as_ref().unwrap().changes_path());
    let error = record.changes().unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    extend(&log::record_path(&place, record.sequence));
    let error = Repository::create(&place, Settings::default()).expect_err("the record is refused");
    assert!(error.to_string().contains("longer than"), "{error}");
}

type Content = BTreeMap<u64, Vec<u8>>;

/// Reads the values of a version from its files.
fn content(record: &VersionRecord) -> Content {
    let manifest = record.base.manifest();
    let mut file = RecordFile::open(manifest.protocol.stored, &record.base.matrix_path()).unwrap();
    let mut content = Content::new();
    file.scan(|index, sealed| {
        let payload = manifest.table.unseal(index, sealed)?;
        if let Some(value) = Table::index_value(payload)? {
            content.insert(index, value.to_vec());
        }
        Ok(())
    })
    .unwrap();
    for (key, change) in record.changes().unwrap().iter() {
        let row = u64::from_le_bytes(key.try_into().unwrap());
        match change {
            Change::Put(value) => drop(content.insert(row, value.to_vec())),
            Change::Delete => drop(content.remove(&row)),
        }
    }
    content
}

pub(super) fn changes(rows: &[(u64, Option<&str>)]) -> Changes {
    let mut changes = Changes::new();
    for &(row, value) in rows {
        match value {
            Some(value) => changes.put(index_key(row), value),
            None => changes.delete(index_key(row)),
        }
    }
    changes
}

pub(super) fn open(folder: &Path) -> Repository {
    Repository::create(folder, Settings::default()).unwrap()
}

pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// Interrupts `step` at each of its operations in turn, starting from the state that `prepare`
/// makes.
pub(super) fn interrupted(
    prepare: impl Fn(&Repository),
    step: impl Fn(&Repository) -> Result<VersionRecord, StoreError>,
) {
    let (_healed, folder) = (Healed, tempfile::tempdir().unwrap());
    let prepared = folder.path().join("prepared");
    prepare(&open(&prepared));
    let before = open(&prepared).current();
    let state = |record: &VersionRecord| (content(record), record.cursor.clone());
    let before = before.as_ref().map(state);
    let done = folder.path().join("done");
    copy(&prepared, &done);
    let after = state(&step(&open(&done)).unwrap());
    let mut wholes = [0, 0];
    for operations in 0.. {
        let path = folder.path().join(operations.to_string());
        copy(&prepared, &path);
        let repository = open(&path);
        faults::after(Some(operations));
        let result = step(&repository);
        let tripped = faults::tripped();
        drop(repository);
        faults::after(None);

        let again = open(&path);
        assert_eq!(fs::read_dir(path.join(WORK)).unwrap().count(), 0, "after {operations} operations");
        let current = again.current();
        for record in again.versions() {
            record.snapshots().for_each(|snapshot| snapshot.verify(&Silent).unwrap());
        }
        let found = current.as_ref().map(state);
        let is_after = found.as_ref() == Some(&after);
        assert!(is_after || found == before, "after {operations} operations: {found:?}");
        if let Ok(accepted) = &result {
            let lost = current.as_ref().is_none_or(|current| current.version != accepted.version);
            assert!(!lost, "after {operations} operations what was accepted is lost");
        }
        wholes[usize::from(is_after)] += 1;
        // The step can be repeated.
        let record = step(&again).unwrap();
        if !is_after {
            assert_eq!(state(&record), after);
        }
        drop(again);
        fs::remove_dir_all(&path).unwrap();
        if !tripped {
            break;
        }
    }
    assert!(wholes[0] + wholes[1] > 5 && wholes[1] > 0, "{wholes:?}");
}

fn with_delta(repository: &Repository, folder: &Path) {
    repository.add_base(&Snapshot::open(folder.join("rows")).unwrap(), Shrinking::Refuse, &Silent).unwrap();
    let first = changes(&[(3, Some("changed")), (5, None)]);
    repository.apply(first, backend(), &Silent).unwrap();
}

#[test]
fn adding_a_base() {
    let folder = tempfile::tempdir().unwrap();
    let base = base(folder.path());
    interrupted(|_| (), |repository| repository.add_base(&base, Shrinking::Refuse, &Silent));
}

#[test]
fn applying_changes() {
    let folder = tempfile::tempdir().unwrap();
    base(folder.path());
    interrupted(
        |repository| with_delta(repository, folder.path()),
        |repository| {
            let mut second = changes(&[(3, None), (5, Some("back")), (ROWS, Some("added"))]);
            second.set_cursor(cursor("2"));
            repository.apply(second, backend(), &Silent)
        },
    );
}

#[test]
fn moving_the_cursor() {
    let folder = tempfile::tempdir().unwrap();
    base(folder.path());
    interrupted(
        |repository| with_delta(repository, folder.path()),
        |repository| {
            let mut nothing = Changes::new();
            nothing.set_cursor(cursor("2"));
            repository.apply(nothing, backend(), &Silent)
        },
    );
}

fn cursor(text: &str) -> Cursor {
    Cursor::try_from(text.to_owned()).unwrap()
}

#[test]
fn a_version_has_the_cursor_of_its_changes() {
    let folder = tempfile::tempdir().unwrap();
    let base = base(folder.path());
    let path = folder.path().join("repository");
    let repository = open(&path);
    repository.add_base(&base, Shrinking::Refuse, &Silent).unwrap();
    let publish = |rows: &[(u64, Option<&str>)], after: Option<&str>, to: Option<&str>| {
        let mut group = changes(rows);
        group.set_after(after.map(cursor));
        if let Some(to) = to {
            group.set_cursor(cursor(to));
        }
        repository.apply(group, backend(), &Silent)
    };
    let has = |record: &VersionRecord, text: Option<&str>| {
        assert_eq!(record.cursor, text.map(cursor));
        let stored = Repository::list(&path).unwrap().swap_remove(0);
        assert_eq!((stored.version, stored.cursor), (record.version, text.map(cursor)));
    };
    let first = publish(&[(3, Some("one"))], None, Some("1")).unwrap();
    has(&first, Some("1"));
    // The changes are those of a second producer, or of a producer that received no
    // acknowledgement.
    for after in [None, Some("0")] {
        let refused = publish(&[(3, Some("again"))], after, Some("1")).unwrap_err();
        let current = Some(cursor("1"));
        assert!(matches!(&refused, StoreError::OtherCursor { current: found, .. } if *found == current));
        has(&repository.current().unwrap(), Some("1"));
        assert_eq!(repository.current().unwrap().version, first.version);
    }
    // A group without changes moves the cursor; changes without a cursor leave the cursor as it is.
    let moved = publish(&[], Some("1"), Some("2")).unwrap();
    has(&moved, Some("2"));
    assert!(moved.version == first.version && moved.sequence > first.sequence);
    assert_eq!(publish(&[], Some("2"), Some("2")).unwrap().sequence, moved.sequence);
    let repaired = repository.apply(changes(&[(4, Some("repaired"))]), backend(), &Silent).unwrap();
    has(&repaired, Some("2"));
    has(&publish(&[(5, None)], Some("2"), Some("3")).unwrap(), Some("3"));
    // A roll-back restores the cursor of its version, and a compaction keeps the cursor.
    has(&repository.roll_back(None).unwrap(), Some("2"));
    has(&repository.compact(backend(), &Silent).unwrap(), Some("2"));
    // The producer's position is unknown for a new base.
    has(&repository.add_base(&base, Shrinking::Refuse, &Silent).unwrap(), None);
}

#[test]
fn compacting_in_place() {
    let folder = tempfile::tempdir().unwrap();
    base(folder.path());
    interrupted(
        |repository| with_delta(repository, folder.path()),
        |repository| repository.compact(backend(), &Silent),
    );
}

#[test]
fn compacting_anew() {
    let folder = tempfile::tempdir().unwrap();
    base(folder.path());
    interrupted(
        |repository| {
            with_delta(repository, folder.path());
            repository
                .apply(changes(&[(ROWS, Some("a longer value than any"))]), backend(), &Silent)
                .unwrap();
        },
        |repository| repository.compact(backend(), &Silent),
    );
}

#[test]
fn rolling_back() {
    let folder = tempfile::tempdir().unwrap();
    base(folder.path());
    interrupted(
        |repository| with_delta(repository, folder.path()),
        // A plain rollback, repeated, would go forward again.
        |repository| {
            let versions = repository.versions();
            let base = versions.iter().find(|record| record.delta.is_none()).unwrap();
            repository.roll_back(Some(base.version))
        },
    );
}

#[test]
fn changes_that_come_while_a_base_is_compacted_are_its_delta() {
    let folder = tempfile::tempdir().unwrap();
    base(folder.path());
    let repository = open(&folder.path().join("repository"));
    with_delta(&repository, folder.path());
    let later = changes(&[(3, Some("later")), (7, None), (ROWS, Some("added"))]);
    /// Applies the changes once the compaction starts to test its base.
    struct Meanwhile<'a>(&'a Repository, Mutex<Option<Changes>>);
    impl Progress for Meanwhile<'_> {
        fn update(&self, phase: crate::Phase, _: u64, _: u64) {
            if phase == crate::Phase::Test
                && let Some(changes) = self.1.lock().take()
            {
                self.0.apply(changes, backend(), &Silent).unwrap();
                let busy = self.0.compact(backend(), &Silent);
                assert!(matches!(busy, Err(StoreError::Busy { .. })));
            }
        }
    }
    let meanwhile = Meanwhile(&repository, Mutex::new(Some(later)));
    let record = repository.compact(backend(), &meanwhile).unwrap();
    let rest = record.changes().unwrap();
    assert_eq!(rest, changes(&[(3, Some("later")), (7, None), (ROWS, Some("added"))]));
    let mut expected: Content = (0..ROWS).map(|row| (row, format!("value {row}").into_bytes())).collect();
    expected.extend([(3, b"later".to_vec()), (ROWS, b"added".to_vec())]);
    expected.retain(|row, _| ![5, 7].contains(row));
    assert_eq!(content(&record), expected);
    // A compaction gives up if its version is no longer current.
    struct Back<'a>(&'a Repository);
    impl Progress for Back<'_> {
        fn update(&self, phase: crate::Phase, _: u64, total: u64) {
            if phase == crate::Phase::Test && total > 0 && self.0.current().unwrap().delta.is_some() {
                let old = self.0.versions().into_iter().find(|record| record.delta.is_none());
                if let Some(old) = old {
                    self.0.roll_back(Some(old.version)).unwrap();
                }
            }
        }
    }
    repository.compact(backend(), &Silent).unwrap();
    repository.apply(changes(&[(9, Some("nine"))]), backend(), &Silent).unwrap();
    let superseded = repository.compact(backend(), &Back(&repository));
    assert!(matches!(superseded, Err(StoreError::Busy { .. })), "{superseded:?}");
}

#[test]
fn a_repository_that_is_closed_is_free_whoever_inherited_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("repository");
    let repository = Repository::create(&path, Settings::default()).unwrap();
    assert!(matches!(Repository::open(&path, Settings::default()), Err(StoreError::Busy { .. })));
    let inherited = repository.lock.try_clone().unwrap();
    drop(repository);
    Repository::open(&path, Settings::default()).unwrap();
    drop(inherited);
}
